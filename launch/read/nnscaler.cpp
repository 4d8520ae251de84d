// SPDX-License-Identifier: Apache-2.0
// The YAML of nnScaler's trainer. Its scale units (plan_ngpus) are tp x pp devices, and the units are the replicas.
//
// What its autodist policy chooses by itself is no part of the file: without stages and constraints a unit is read as
// one stage whose operators are split over all its devices, and that is said.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/readers.h"
#include "launch/read/text_reader.h"
#include "launch/rules/launch_rules.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/yaml.h"

namespace meshwright {

namespace {

const std::string kCompute = "compute_config.", kPolicy = kCompute + "pas_config.";

// The constraints of a partition file, one setting each: "ColumnLinear torch.nn.functional.linear" = [1,0].
void add_constraints(Settings& settings, const ConfigValue& root, const std::string& file) {
  require(root.is_list(), "{}:1: expected a list of partition constraints, and this is {}.", file, to_text(root));
  for (const ConfigValue& one : root.items) {
    const ConfigValue *name = one.find("name"), *module = one.find("parent_module"),
                      *dims = one.find("allowed_partition_dims");
    require(name != nullptr && name->is_scalar() && dims != nullptr,
            "{}:{}: a partition constraint needs name and allowed_partition_dims, and this is {}.", file, one.line,
            to_text(one));
    const std::string shown = (module != nullptr && module->is_scalar() ? module->text + " " : "") + name->text;
    settings.add("(constraint) " + shown, shown, *dims, fmt::format("{}:{}", file, one.line));
  }
}

}  // namespace

void TextReader::nnscaler(const ConfigValue& root, const std::string& place) {
  set_target("nnscaler");
  text_.settings.add_all(root, "", place);
  const ConfigValue* compute = root.find("compute_config");
  require(compute != nullptr && compute->is_map(),
          "{}: compute_config is missing or no map; nnScaler's trainer needs it, with plan_ngpus.", place);
  if (const ConfigValue* all = compute->find("runtime_ngpus"); all != nullptr)
    if (const auto devices = whole_number(all->text); devices && *devices >= 1) text_.devices = devices;
  const ConfigValue* policy = compute->find("pas_config");
  const ConfigValue* path = policy == nullptr ? nullptr : policy->find("partition_constraints_path");
  if (path == nullptr || !path->is_scalar() || path->text.empty()) return;
  if (const auto found = file_named(path->text))
    add_constraints(text_.settings, value_from_yaml(*found, file_name(path->text)), file_name(path->text));
  else
    text_.notes.push_back(
        fmt::format("{}:{}: {} is not there; give it as a further file", place, path->line, path->text));
}

namespace {

// tp of a unit, from the stages and the most devices that an operator is split over.
void read_unit(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const std::string policy = s.text("pas_policy").value_or("autodist");
  const int unit = degree_of(job, kCompute + "plan_ngpus");
  require(s.has(kCompute + "plan_ngpus"), "{}: '{}plan_ngpus' is missing, and no plan can be made without it.",
          job.text.program, kCompute);
  const std::string stages = s.text(kPolicy + "pipeline_nstages").value_or("auto");
  const bool pivots = !s.text(kPolicy + "pipeline_pivots").value_or("").empty();
  if (stages == "auto") {
    if (pivots) job.assume("one pipeline stage, where autodist chooses their number (pipeline_nstages auto)");
    d.pp = policy == "pp" || policy == "hybrid" ? unit : 1;
  } else {
    d.pp = degree_of(job, kPolicy + "pipeline_nstages");
  }
  if (d.pp > 1 && policy == "autodist" && !pivots)
    job.broken_without_plan(fmt::format("pipeline_nstages {} needs pipeline_pivots", d.pp));
  if (d.pp == 1 && stages != "auto" && pivots) job.broken("pipeline_pivots are given, and pipeline_nstages is 1");
  if (unit % d.pp != 0)
    job.broken_without_plan(
        fmt::format("pipeline_nstages {} does not divide plan_ngpus {}{}", d.pp, unit, nearest_multiples(unit, d.pp)));
  d.tp = std::max(1, unit / d.pp);
  if (s.has(kPolicy + "max_partition_degree")) {
    const int most = degree_of(job, kPolicy + "max_partition_degree");
    if (unit % most != 0)
      job.broken_without_plan(fmt::format("max_partition_degree {} does not divide plan_ngpus {}{}", most, unit,
                                          nearest_multiples(unit, most)));
    if (most != d.tp)
      job.assume(fmt::format("stages of {} devices each, of up to {} that autodist may take", d.tp, most));
  } else if (d.pp > 1) {
    job.assume(fmt::format("stages of {} devices each, where autodist chooses (max_partition_degree)", d.tp));
  }
  if (policy == "dp" && unit != 1) job.broken("the policy dp needs plan_ngpus 1");
  for (const char* known : {"autodist", "dp", "tp", "pp", "hybrid", "data"})
    if (policy == known) return;
  job.assume(fmt::format("splits as of tensor parallelism, where the function {} decides", policy));
}

// What of a unit's operators is split, where the file says it; all constraints that are not of products are left to be
// listed.
void read_units_constraints(ReadingJob& job) {
  Settings& s = job.settings();
  bool columns = false, rows = false;
  std::vector<std::string> taken;
  for (const Setting& setting : s.all()) {
    if (!setting.key.starts_with("(constraint) ")) continue;
    const std::string dims = to_text(setting.value);
    const bool out = dims == "[1,0]" || dims == "[\"1,0\"]", in = dims == "[1,1]" || dims == "[\"1,1\"]";
    columns = columns || out;
    rows = rows || in;
    if (out || in) taken.push_back(setting.key);
  }
  for (const std::string& key : taken) (void)s.take(key);
  (void)s.take(kPolicy + "partition_constraints_path");
  if (job.degrees().tp > 1 && !(columns && rows))
    job.assume("heads, the feed-forward's width and the words split over tp, where autodist chooses");
}

void read_stage_starts(ReadingJob& job) {
  const Setting* starts = job.settings().take("model.args.stage_starts");
  if (starts == nullptr || job.reading.setup.model.layers <= 0) return;
  require(starts->value.is_list(), "{}: {} is no list of blocks.", starts->place, starts->shown);
  std::vector<int> blocks;
  std::int64_t before = 0;
  const std::int64_t layers = job.reading.setup.model.layers;
  for (const ConfigValue& one : starts->value.items) {
    const auto block = whole_number(one.text);
    require(block && *block > before && *block < layers,
            "{}: {}: '{}' is no block behind {} of the model's {}; give the blocks in their order.", starts->place,
            starts->shown, one.text, before, layers);
    blocks.push_back(static_cast<int>(*block - before));
    before = *block;
  }
  blocks.push_back(static_cast<int>(layers - before));
  if (static_cast<int>(blocks.size()) != job.degrees().pp)
    return job.broken_without_plan(
        fmt::format("stage_starts makes {} stages, and pipeline_nstages is {}", blocks.size(), job.degrees().pp));
  if (blocks.size() > 1) job.reading.setup.stage_blocks = blocks;
}

void read_units_training(ReadingJob& job) {
  Settings& s = job.settings();
  LaunchSetup& setup = job.reading.setup;
  if (!s.has("precision")) job.assume("weights and activations of fp32, the trainer's default (precision)");
  const std::string precision = s.text("precision").value_or("fp32");
  require(precision == "bf16" || precision == "fp16" || precision == "fp32" || precision == "none",
          "{}: '{}' is no precision of nnScaler; give bf16, fp16 or fp32.", s.where("precision"), precision);
  setup.dtype = precision == "bf16" ? DType::BF16 : precision == "fp16" ? DType::F16 : DType::F32;
  Optimizer& o = setup.optimizer;
  const std::string made = lower_case(s.text("optimizer.type").value_or("adamw"));
  const double momentum = s.number("optimizer.args.momentum").value_or(0.0);
  if (made.ends_with("sgd")) {
    use_sgd(o, momentum, s.where("optimizer.args.momentum"));
  } else if (made.find("adam") == std::string::npos) {
    job.assume(fmt::format("Adam in the place of {}", made));
  }
  o.learning_rate = std::max(0.0, s.number("optimizer.args.lr").value_or(o.learning_rate));
  o.weight_decay = std::max(0.0, s.number("optimizer.args.weight_decay").value_or(0.0));
  o.max_norm = std::max(0.0, s.number("optimizer.clip_gnorm").value_or(0.0));
  if (!s.text(kPolicy + "recompute_modules").value_or("").empty()) job.degrees().recompute = Recompute::Full;
}

void read_units_zero(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  if (!s.has(kCompute + "use_zero") && d.dp > 1)
    job.assume("optimizer state whole on every scale unit, the trainer's default (use_zero)");
  const bool zero = s.boolean(kCompute + "use_zero").value_or(false);
  const int groups = degree_of(job, kCompute + "zero_ngroups");
  d.zero = zero && d.dp > 1 ? 1 : 0;
  if (!zero || groups == 1) return;
  if (d.dp % groups != 0)
    return job.broken_without_plan(fmt::format("zero_ngroups {} does not divide the {} scale units{}", groups, d.dp,
                                               nearest_multiples(d.dp, groups)));
  if (groups < d.dp)
    job.reading.setup.shard = d.dp / groups;
  else
    d.zero = 0;
}

void read_units_batch(ReadingJob& job) {
  Settings& s = job.settings();
  const Degrees& d = job.degrees();
  const std::int64_t own = s.integer("micro_batch_size").value_or(1);
  const std::int64_t micro = job.answers.micro_batch.value_or(own);
  const auto steps = s.integer("grad_accumulation_steps"), global = s.integer("global_batch_size");
  if (!steps && !global)
    job.assume("one micro-batch of every scale unit, the trainer's default (grad_accumulation_steps)");
  if (!s.has("micro_batch_size") && !job.answers.micro_batch)
    job.assume("micro-batches of 1 sample, the trainer's default (micro_batch_size)");
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  require(micro <= kMost && steps.value_or(1) <= (1 << 20) && global.value_or(1) <= kMost,
          "{}: its batch is larger than any.", job.text.program);
  if (steps && global && micro == own && *global != micro * *steps * d.dp)
    job.broken_without_plan(
        fmt::format("global_batch_size {} is not micro_batch_size {} x grad_accumulation_steps {} x "
                    "{} scale units = {}",
                    *global, micro, *steps, d.dp, micro * *steps * d.dp));
  share_batch(job, micro, global ? *global : micro * steps.value_or(1) * d.dp);
}

}  // namespace

void read_nnscaler(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  read_unit(job);
  const auto devices = s.integer(kCompute + "runtime_ngpus");
  if (devices && *devices % (std::int64_t{d.tp} * d.pp) != 0)
    job.broken_without_plan(fmt::format("runtime_ngpus {} is not a multiple of plan_ngpus {}{}", *devices, d.tp * d.pp,
                                        nearest_multiples(*devices, d.tp * d.pp)));
  share_devices(job);
  require(take_given_model(job, std::nullopt),
          "{}: its model is the class '{}' of the user's own; give --model with a built-in model, sizes or a "
          "config.json.",
          job.text.program, s.text_or_nothing("model.type"));
  (void)s.take("model.type");
  read_units_constraints(job);
  read_stage_starts(job);
  read_units_training(job);
  read_units_zero(job);
  read_units_batch(job);
  job.reading.setup.steps = s.integer("max_train_steps").value_or(20);
  if (const std::string schedule = s.text(kPolicy + "pipeline_scheduler").value_or("1f1b"); schedule != "1f1b")
    job.broken_without_plan(fmt::format("autodist has the schedule 1f1b alone, and the file {}", schedule));
  s.no_effect([](const std::string& key) {
    for (const char* group : {"dataset", "dataloader", "checkpoint", "hook", "log", "lr_scheduler", "vars", "debug"})
      if (key == group || key.starts_with(std::string(group) + ".")) return true;
    for (const char* name : {"seed",
                             "gen_savedir",
                             "gen_reuse",
                             "run_mode",
                             "init_env_fn",
                             "instance_name",
                             "broadcast_strategy",
                             "enable_progress_bar",
                             "max_epochs",
                             "max_val_steps",
                             "val_every_n_train_steps",
                             "val_every_n_epochs",
                             "log_progress_every_n_train_steps",
                             "compute_config.use_end2end",
                             "compute_config.constant_folding",
                             "compute_config.trace_strategy",
                             "compute_config.pas_config.max_pipeline_bubble_ratio",
                             "compute_config.pas_config.max_pipeline_unbalance_ratio",
                             "compute_config.pas_config.use_bf16",
                             "compute_config.pas_config.use_fp16",
                             "compute_config.pas_config.verbose",
                             "compute_config.pas_config.re_profile"})
      if (key == name) return true;
    return false;
  });
}

}  // namespace meshwright
