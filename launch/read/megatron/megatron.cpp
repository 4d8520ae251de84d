// SPDX-License-Identifier: Apache-2.0
// Megatron-LM core 0.20: its flags, which its test YAML, FlagScale and Megatron-Bridge have as keys. Defaults and
// checks are those of megatron/training/arguments.py.
#include <algorithm>
#include <numeric>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/planner/method/stage_layout.h"
#include "launch/read/megatron/megatron_abbreviations.h"
#include "launch/read/megatron/megatron_assertions.h"
#include "launch/read/megatron/megatron_keys.h"
#include "launch/read/megatron/megatron_kinds.h"
#include "launch/read/megatron/megatron_model.h"
#include "launch/read/megatron/megatron_older.h"
#include "launch/read/megatron/megatron_parts.h"
#include "launch/read/megatron/megatron_step.h"
#include "launch/read/megatron/megatron_swift.h"
#include "launch/read/megatron/mindspeed.h"
#include "launch/read/megatron/pai_megatron.h"
#include "launch/read/readers.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

// --- degrees ---

void read_zero(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  d.zero = s.flag("use-distributed-optimizer") ? 1 : 0;
  const bool fsdp = s.flag("use-megatron-fsdp") || s.flag("use-custom-fsdp");
  // Recipes of Megatron-Bridge begin with states that are split whole.
  const bool of_recipe = job.text.target == "megatron-bridge" && s.has("recipe");
  const auto given = s.text("data-parallel-sharding-strategy");
  const std::string strategy = given.value_or(of_recipe ? "optim_grads_params" : "no_shard");
  if (fsdp && of_recipe && !given) job.assume("ZeRO 3 of Megatron FSDP, which recipes have by default");
  if (fsdp) {
    job.reading.framework.zero = job.reading.framework.zero_in_pipes = {0, 1, 2, 3};
    d.zero = strategy == "optim" ? 1 : strategy == "optim_grads" ? 2 : strategy == "optim_grads_params" ? 3 : 0;
    if (job.text.environment.contains("CUDA_DEVICE_MAX_CONNECTIONS") &&
        job.text.environment.at("CUDA_DEVICE_MAX_CONNECTIONS") == "1")
      job.broken("CUDA_DEVICE_MAX_CONNECTIONS=1 with --use-megatron-fsdp, which needs it unset or above 1");
  }
  if (s.flag("use-torch-fsdp2")) {
    job.reading.framework.zero = {3};
    d.zero = 3;
  }
  if (const auto stage = s.integer("zero-stage", 0)) {  // Megatron-DeepSpeed
    d.zero = static_cast<int>(std::min<std::int64_t>(*stage, 3));
    Framework& framework = job.reading.framework;  // what DeepSpeed splits, not Megatron-LM
    framework.zero = framework.zero_with_experts = {0, 1, 2, 3};
    framework.recompute = {Recompute::None, Recompute::Full};
    job.reading.setup.dialect = "megatron-deepspeed";
    read_deepspeed_offload(job, "ds.");
    if (d.zero == 0 && s.has("bf16")) {
      d.zero = 1;
      job.assume("optimizer state split over the replicas: DeepSpeed's optimizer for bf16 does so with ZeRO 0");
    }
  }
  if (const auto instances = s.integer("num-distributed-optimizer-instances"); instances && *instances > 1) {
    const std::int64_t replicas = std::int64_t{d.dp} * d.cp;
    if (replicas % *instances != 0)
      job.broken(
          fmt::format("--num-distributed-optimizer-instances {} does not divide dp x cp = {}", *instances, replicas));
    else
      job.reading.setup.shard = static_cast<int>(replicas / *instances);
    job.assume("states split over all replicas, not within each of several optimizer instances");
  }
  if (d.dp * d.cp == 1) d.zero = 0;
}

void read_expert_degrees(ReadingJob& job) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  d.ep = degree_of(job, "expert-model-parallel-size");
  // MegaBlocks: over as many replicas as there are experts for.
  if (s.flag("moe-expert-model-parallelism"))
    d.ep = static_cast<int>(std::gcd(std::int64_t{d.dp}, shape_of(job.reading.setup.model).experts));
  const auto etp = s.integer("expert-tensor-parallel-size");
  if (d.ep == 1) return;
  const std::int64_t ranks = std::int64_t{etp.value_or(d.tp)} * d.ep * d.pp;
  if (job.devices.devices() % ranks != 0) {
    const std::string why = fmt::format("etp={} x ep={} x pp={} does not divide the {} devices", etp.value_or(d.tp),
                                        d.ep, d.pp, job.devices.devices());
    job.broken_without_plan(why, "; give --cluster or --nodes with a multiple");
  }
  d.whole_experts = etp.value_or(d.tp) == 1 && d.tp > 1;
  if (etp && *etp != 1 && *etp != d.tp)
    job.no_plan(
        fmt::format("no plan of ours splits experts over etp={} beside tp={}; only 1 and tp can be said", *etp, d.tp));
  if (d.whole_experts && d.ep % d.tp != 0) {
    d.whole_experts = false;
    job.assume(
        fmt::format("every expert split over tp={}: ep={} of whole experts do not fill the ranks of tp", d.tp, d.ep));
  }
  d.folded_experts = d.cp > 1 && d.ep % (d.cp * (d.whole_experts ? d.tp : 1)) == 0;
  if (d.cp > 1 && !d.folded_experts) job.assume("experts of a group on different replicas, not on the ranks of cp");
}

void read_context(ReadingJob& job) {
  Settings& s = job.settings();
  const std::vector<std::string> kinds = s.words("cp-comm-type");
  if (job.degrees().cp == 1) return;
  const std::string kind = kinds.empty() ? "p2p" : kinds.front();
  job.degrees().context = kind == "a2a"                                 ? ContextExchange::AllToAll
                          : kind == "all_gather" || kind == "allgather" ? ContextExchange::AllGather
                                                                        : ContextExchange::PointToPoint;
  if (kind == "a2a+p2p") job.assume("cp exchanges point to point, not a2a+p2p");
}

// --- stages ---

// The blocks of each stage, where the embedding, the loss or both count as one.
std::vector<int> blocks_with_ends(std::int64_t blocks, int stages, bool embedding, bool loss) {
  const std::int64_t units = blocks + (embedding ? 1 : 0) + (loss ? 1 : 0);
  std::vector<int> each(static_cast<std::size_t>(stages), static_cast<int>(units / stages));
  if (embedding) --each.front();
  if (loss) --each.back();
  return each;
}

// Where a recipe has a layout of its own, by a function of its program.
void as_even_as_can_be(ReadingJob& job, std::int64_t layers) {
  const int stages = job.degrees().stages();
  if (layers + 2 < stages) {
    job.broken_without_plan(
        fmt::format("{} layers with the embedding and the loss do not fill {} stages", layers + 2, stages));
    return;
  }
  const std::int64_t each = (layers + 2) / stages, more = (layers + 2) % stages;
  std::vector<int> blocks;
  for (int stage = 0; stage < stages; ++stage) {
    const bool first = stage == 0, last = stage + 1 == stages;
    const bool longer = stage < more;
    blocks.push_back(static_cast<int>(each) + (longer ? 1 : 0) - (first ? 1 : 0) - (last ? 1 : 0));
  }
  job.reading.setup.stage_blocks = std::move(blocks);
  job.assume(
      "stages as even as can be, with the embedding and the loss as layers, in the place of the recipe's layout");
}

void read_layout(ReadingJob& job, std::string layout) {
  Degrees& d = job.degrees();
  // Modules for further tokens that the model lacks are left out.
  const std::int64_t further = shape_of(job.reading.setup.model).further;
  std::string known;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    // Test YAML escapes its bars for a shell.
    if (std::string_view(", '\"\\").find(layout[i]) != std::string_view::npos) continue;
    if (layout[i] == 'm' && further == 0) {
      while (i + 1 < layout.size() && (layout[i + 1] == '*' || (layout[i + 1] >= '0' && layout[i + 1] <= '9'))) ++i;
      continue;
    }
    known += layout[i];
  }
  const std::string where = job.settings().where("pipeline-model-parallel-layout");
  std::vector<std::string> stages;
  try {
    stages = stages_of_layout(known, where);
  } catch (const InputError& error) {
    if (std::string(error.what()).find("is empty") == std::string::npos) throw;
    job.no_plan(error.what());
    return;
  }
  if (static_cast<int>(stages.size()) % d.pp != 0) {
    const std::string why = fmt::format("the layout's {} stages are not a multiple of pp={}", stages.size(), d.pp);
    job.broken_without_plan(why);
    return;
  }
  const int chunks = static_cast<int>(stages.size()) / d.pp;
  if (job.settings().has("num-virtual-stages-per-pipeline-rank") && d.chunks != chunks &&
      job.text.target == "megatron-bridge")
    job.broken(fmt::format("virtual_pipeline_model_parallel_size {} is not that of the layout's {} stages over pp={}",
                           d.chunks, stages.size(), d.pp));
  d.chunks = chunks;
  job.reading.setup.stage_blocks.clear();
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const std::string& letters = stages[stage];
    job.reading.setup.stage_blocks.push_back(static_cast<int>(std::count(letters.begin(), letters.end(), 't')));
    if (letters.find('m') != std::string::npos && stage + 1 < stages.size())
      job.reading.setup.further_stage = static_cast<int>(stage);
  }
  const auto modules = std::count_if(known.begin(), known.end(), [](char c) { return c == 'm'; });
  if (further > 0 && modules == 0)
    job.broken(fmt::format("the layout names no m, and --mtp-num-layers is {}", further));
}

void read_chunks(ReadingJob& job, std::int64_t layers) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  const auto virtual_stages = s.integer("num-virtual-stages-per-pipeline-rank");
  const auto per_stage = s.integer("num-layers-per-virtual-pipeline-stage");
  // Megatron-Core takes both, where they agree (read_layout).
  const bool layout = s.has("pipeline-model-parallel-layout") && job.text.target != "megatron-bridge";
  if ((virtual_stages ? 1 : 0) + (per_stage ? 1 : 0) + (layout ? 1 : 0) > 1)
    job.broken(
        "at most one of --num-virtual-stages-per-pipeline-rank, --num-layers-per-virtual-pipeline-stage and "
        "--pipeline-model-parallel-layout may be given");
  if (virtual_stages) d.chunks = as_degree(*virtual_stages);
  if (!per_stage) return;
  const std::int64_t of_rank = layers / d.pp;
  if (of_rank % *per_stage != 0) {
    const std::string why = fmt::format(
        "the {} layers of a pipeline rank are not a multiple of "
        "--num-layers-per-virtual-pipeline-stage {}",
        of_rank, *per_stage);
    job.broken_without_plan(why);
    return;
  }
  d.chunks = static_cast<int>(of_rank / *per_stage);
}

void read_stages(ReadingJob& job, std::int64_t layers) {
  Settings& s = job.settings();
  Degrees& d = job.degrees();
  read_chunks(job, layers + std::ssize(noop_layers(job)));
  if (read_mindspeed_stages(job, layers)) return;
  const auto first = s.integer("decoder-first-pipeline-num-layers"),
             last = s.integer("decoder-last-pipeline-num-layers");
  bool embedding = s.flag("account-for-embedding-in-pipeline-split");
  bool loss = s.flag("account-for-loss-in-pipeline-split");
  // Megatron-DeepSpeed: the embedding and the loss count as blocks do.
  const std::string partition = s.text("pp-partition-method").value_or("");
  if (partition.find("embedding") != std::string::npos) embedding = loss = true;
  const std::string layout = s.text("pipeline-model-parallel-layout").value_or("");
  if (!layout.empty() && (first || last || embedding || loss))
    job.broken("--pipeline-model-parallel-layout excludes all other flags that split the pipeline");
  if (d.pp == 1) {
    d.chunks = 1;
    return;
  }
  d.split.first = static_cast<int>(first.value_or(0));
  d.split.last = static_cast<int>(last.value_or(0));
  if (!layout.empty()) return read_layout(job, layout);
  // A recipe's own stages come out even in no other way.
  const bool of_recipe = job.text.target == "megatron-bridge" && !job.reading.setup.model_name.empty();
  if (of_recipe && !d.split.uneven() && !embedding && !loss && layers % d.stages() != 0) {
    if ((layers + 2) % d.stages() != 0) return as_even_as_can_be(job, layers);
    embedding = loss = true;
    job.assume("the embedding and the loss count as layers, as the stages come out even in no other way");
  }
  const std::int64_t units = layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
  if (d.split.uneven()) return;
  if (units % d.stages() != 0) {
    const std::string why = fmt::format("{} layers{} are not a multiple of pp={} x vpp={}", units,
                                        units > layers ? " with the embedding and the loss" : "", d.pp, d.chunks);
    job.broken_without_plan(why);
  } else if (embedding || loss) {
    job.reading.setup.stage_blocks = blocks_with_ends(layers, d.stages(), embedding, loss);
  }
}

// --- training ---

void read_optimizer(ReadingJob& job) {
  Settings& s = job.settings();
  Optimizer& optimizer = job.reading.setup.optimizer;
  const std::string kind = s.text("optimizer").value_or("adam");
  if (kind == "sgd") {
    use_sgd(optimizer, s.number("sgd-momentum").value_or(0.9), s.where("sgd-momentum"));
  } else if (kind != "adam" && !read_patch_optimizer(job, kind)) {
    job.assume(fmt::format("Adam in the place of {}", kind));
  }
  // No plan depends on it: one that the script leaves open stays as it is.
  if (!s.name_or_nothing("lr").empty()) optimizer.learning_rate = s.number("lr").value_or(optimizer.learning_rate);
  if (!(optimizer.learning_rate > 0.0)) optimizer.learning_rate = Optimizer{}.learning_rate;
  optimizer.weight_decay = std::max(0.0, s.number("weight-decay").value_or(0.01));
  optimizer.max_norm = std::max(0.0, s.number("clip-grad").value_or(1.0));
  if (s.flag("cpu-optimizer")) offload_update(job);  // Megatron-DeepSpeed
  if (s.flag("optimizer-cpu-offload")) {
    offload_update(job);
    if (const auto part = s.number("optimizer-offload-fraction"); part && *part != 1.0)
      job.assume(fmt::format("all of the optimizer state on the host, not {:g} of it", *part));
  }
  for (const char* key : {"main-params-dtype", "main-grads-dtype"})
    if (const std::string type = s.text(key).value_or("fp32"); type != "fp32")
      job.assume(fmt::format("optimizer state of 32 bits (--{} {})", key, type));
  const auto bits = [&](const char* key) {
    const std::string type = lower_case(s.text(key).value_or("fp32"));
    return type.ends_with("8") ? 8 : type.ends_with("16") ? 16 : 32;
  };
  const int first = bits("exp-avg-dtype"), second = bits("exp-avg-sq-dtype");
  job.reading.setup.software_setup.moment_bits = std::max(first, second);
  if (first != second) job.assume(fmt::format("both moments of {} bits", std::max(first, second)));
  (void)s.take("use-precision-aware-optimizer");
}

void read_batch(ReadingJob& job) {
  Settings& s = job.settings();
  const auto micro = s.integer("micro-batch-size");
  const auto global = s.integer("global-batch-size");
  if (!micro) job.assume("micro-batches of one sample");
  const Setting* schedule = s.take("step-batch-size-schedule");
  if (schedule != nullptr && global) {
    job.broken("--global-batch-size and --step-batch-size-schedule exclude each other");
    job.assume("the step of the whole global batch, not of the schedule's smaller ones");
  }
  if (s.has("rampup-batch-size")) {
    (void)s.take("rampup-batch-size");
    job.assume("the step of the whole global batch, after it was ramped up");
  }
  std::optional<std::int64_t> samples = global;
  if (schedule != nullptr && !global) {
    const std::string text = to_text(schedule->value);  // "0:768 250B:1536": the last one
    const std::size_t colon = text.rfind(':');
    if (colon != std::string::npos)
      samples = parse_integer(text.substr(colon + 1, text.find_first_of("]\"' ", colon) - colon - 1),
                              s.where("step-batch-size-schedule"), 1, 1'000'000'000);
    job.assume("the step of the batch schedule's last batch");
  }
  share_batch(job, job.answers.micro_batch ? *job.answers.micro_batch : micro.value_or(1), samples);
}

void read_overlap(ReadingJob& job) {
  Settings& s = job.settings();
  LaunchSetup& setup = job.reading.setup;
  Degrees& d = job.degrees();
  setup.overlap_gradients = s.flag("overlap-grad-reduce");
  setup.overlap_weights = s.flag("overlap-param-gather");
  setup.overlap_tensor_parallel = s.flag("tp-comm-overlap");
  const bool alone = d.dp * d.cp == 1;  // there is nothing to overlap
  d.sequence_parallel = s.flag("sequence-parallel");
  if (job.text.target == "megatron-bridge") {
    // It takes what Megatron-LM's arguments do not.
    if (setup.overlap_weights && !setup.overlap_gradients && !alone) {
      job.assume("weights gathered before they are needed, not beside computation, as gradients are not reduced so");
      setup.overlap_weights = false;
    }
    if (setup.overlap_tensor_parallel && (!d.sequence_parallel || d.tp == 1)) setup.overlap_tensor_parallel = false;
  }
  if (setup.overlap_weights && (!setup.overlap_gradients || !s.flag("use-distributed-optimizer")))
    job.broken("--overlap-param-gather needs --overlap-grad-reduce and --use-distributed-optimizer");
  if (alone) setup.overlap_gradients = setup.overlap_weights = false;
  if (d.sequence_parallel && d.tp == 1) {
    job.broken("--sequence-parallel has no effect with tp 1: Megatron drops it silently");
    d.sequence_parallel = false;
  }
  if (setup.overlap_tensor_parallel && !d.sequence_parallel) job.broken("--tp-comm-overlap needs --sequence-parallel");
  if (d.ep > 1 && d.tp > 1 && !d.sequence_parallel) job.broken("experts with tp above 1 need --sequence-parallel");
  const auto& environment = job.text.environment;
  const auto connections = environment.find("CUDA_DEVICE_MAX_CONNECTIONS");
  if ((d.tp > 1 || d.cp > 1) && !s.has("use-megatron-fsdp") &&
      (connections == environment.end() || connections->second != "1") && !job.text.program.empty() &&
      job.text.target == "megatron" && job.text.variant.empty())
    job.broken("CUDA_DEVICE_MAX_CONNECTIONS is not set to 1, which tp or cp above 1 needs before Blackwell");
}

void check_group_size(ReadingJob& job) {
  const Degrees& d = job.degrees();
  const auto group = job.settings().integer("microbatch-group-size-per-virtual-pipeline-stage");
  if (!group || d.chunks == 1) return;
  if (*group < d.pp || *group > d.micro_batches)
    job.broken(fmt::format(
        "--microbatch-group-size-per-virtual-pipeline-stage {} is not between pp={} and the {} micro-batches", *group,
        d.pp, d.micro_batches));
  if (*group != d.pp) job.assume(fmt::format("groups of pp={} micro-batches between virtual stages", d.pp));
}

}  // namespace

void read_megatron(ReadingJob& job) {
  Settings& s = job.settings();
  rename_old_flags(s);
  name_patch_as_megatron(s);
  name_mindspeed_as_megatron(job);
  if (job.text.target != "megatron-bridge") name_abbreviations(job);
  Degrees& d = job.degrees();
  const bool recipe = job.text.target == "megatron-bridge", swift = job.text.variant == "ms-swift";
  // What trains by Megatron-core under other names has its model already.
  const bool renamed = job.text.variant == "NeMo RL" || job.text.variant.starts_with("verl");
  if (swift) read_swift(job);
  if (recipe)
    name_as_megatron(s);
  else if (!renamed)
    expect_training(job);
  if (recipe) expect_whole_recipe(job);
  d.tp = degree_of(job, "tensor-model-parallel-size");
  d.pp = degree_of(job, "pipeline-model-parallel-size");
  d.cp = degree_of(job, "context-parallel-size");
  const int ulysses = degree_of(job, "ds-sequence-parallel-size");  // Megatron-DeepSpeed
  if (ulysses > 1) d.cp = ulysses;
  const bool own_meshes = s.flag("enable-hetero");
  if (own_meshes)
    read_meshes(job);
  else
    share_devices(job);
  const bool made = (swift || renamed) && (!job.reading.setup.model_name.empty() || (!swift && job.answers.model));
  if (made) {
    // Its reader has it.
  } else if (recipe && !job.answers.model && (s.has("recipe") || !s.has("num-layers"))) {
    recipe_model(job);
  } else if (!take_given_model(job, s.integer("seq-length"))) {
    if (recipe) expect_decoder_sizes(job);
    job.reading.setup.model = megatron_model(job);
  }
  const std::int64_t layers = job.reading.setup.model.layers;
  read_context(job);
  if (ulysses > 1) d.context = ContextExchange::AllToAll;
  if (!own_meshes) read_expert_degrees(job);
  read_zero(job);
  if (own_meshes)
    join_meshes(job);
  else
    read_stages(job, layers);
  const bool split_backward = s.flag("enable-zbh1-pipeline") && d.pp > 1;  // Megatron-DeepSpeed
  if (split_backward) job.reading.framework.schedules.push_back(ScheduleKind::ZeroBubbleH1);
  if (split_backward)
    d.schedule = ScheduleKind::ZeroBubbleH1;
  else if (d.schedule != ScheduleKind::DualPipeV)
    d.schedule = d.chunks > 1 ? ScheduleKind::Interleaved : ScheduleKind::OneFOneB;
  read_recompute(job, layers);
  read_precision(job);
  read_token_dispatch(job);
  read_optimizer(job);
  read_batch(job);
  read_overlap(job);
  check_group_size(job);
  check_flags_together(job);
  for (const char* key : {"cpu-offloading-num-layers", "fine-grained-activation-offloading",
                          "distribute-saved-activations", "overlap-moe-expert-parallel-comm",
                          "moe-expert-capacity-factor", "moe-capacity-factor", "moe-pad-expert-input-to-capacity"})
    if (s.has(key)) {
      (void)s.take(key);
      job.assume(fmt::format("without --{}", key));
    }
  // The steps of a benchmark that may be written from this file, which has a number of its own if none is given.
  constexpr std::int64_t kUsualSteps = 20;
  job.reading.setup.steps =
      std::max<std::int64_t>(1, whole_number(s.name_or_nothing("train-iters")).value_or(kUsualSteps));
  s.no_effect(changes_no_plan);
  if (!recipe) expect_known_experts(job);
  if (swift) s.no_effect(is_of_swift);
}

}  // namespace meshwright
