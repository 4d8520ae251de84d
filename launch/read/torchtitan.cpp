// SPDX-License-Identifier: Apache-2.0
// torchtitan: the job files of v0.2.2 (TOML), and the Python configurations of 2026, which say the batch in tokens.
// Defaults and checks are those of torchtitan/config/job_config.py and torchtitan/distributed/parallel_dims.py.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/schedule/schedule_csv.h"
#include "launch/read/model_facts.h"
#include "launch/read/readers.h"
#include "launch/setup/torchtitan_stages.h"

namespace meshwright {

namespace {

// [training] of 2024 had the degrees, and [experimental] those of the pipeline and of contexts.
const std::map<std::string, std::string>& older_names() {
  static const std::map<std::string, std::string> kNames = {
      {"training.batch_size", "training.local_batch_size"},
      {"training.compile", "compile.enable"},
      {"training.data_parallel_degree", "parallelism.data_parallel_shard_degree"},
      {"training.data_parallel_shard_degree", "parallelism.data_parallel_shard_degree"},
      {"training.data_parallel_replicate_degree", "parallelism.data_parallel_replicate_degree"},
      {"training.tensor_parallel_degree", "parallelism.tensor_parallel_degree"},
      {"training.enable_loss_parallel", "experimental.enable_loss_parallel"},
      {"training.warmup_steps", "lr_scheduler.warmup_steps"},
      {"training.enable_float8_linear", "float8.enable_float8_linear"},
      {"training.fp8_linear", "float8.enable_float8_linear"},
      {"model.norm_type", "experimental.norm_type"},
      {"experimental.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree"},
      {"experimental.pipeline_parallel_schedule", "parallelism.pipeline_parallel_schedule"},
      {"experimental.pipeline_parallel_schedule_csv", "parallelism.pipeline_parallel_schedule_csv"},
      {"experimental.pipeline_parallel_microbatches", "parallelism.pipeline_parallel_microbatches"},
      {"experimental.pipeline_parallel_split_points", "parallelism.pipeline_parallel_split_points"},
      {"experimental.context_parallel_degree", "parallelism.context_parallel_degree"},
      {"experimental.enable_async_tensor_parallel", "parallelism.enable_async_tensor_parallel"}};
  return kNames;
}

class TorchtitanReader {
 public:
  explicit TorchtitanReader(ReadingJob& job) : job_(job), s_(job.settings()), d_(job.degrees()) {}

  void read() {
    expect_all_of_it();
    read_degrees();
    const std::int64_t seq = sequence();
    read_model(seq);
    read_experts();
    read_schedule();
    read_batch(seq);
    read_schedule_file();
    read_recompute();
    read_rest();
    s_.no_effect([](const std::string& key) {
      for (const char* group : {"job.", "profiling.", "profiler.", "metrics.", "lr_scheduler.", "checkpoint.",
                                "validation.", "comm.", "debug.", "fault_tolerance.", "experimental.", "dataloader.",
                                "tokenizer.", "memory_estimation.", "hf_assets", "validator.", "loss.", "override."})
        if (key.starts_with(group)) return true;
      return key.ends_with("()") || key.starts_with("model_spec") || key.starts_with("quantize.") ||
             key.starts_with("training.dataset") || key.starts_with("compile.") || key.starts_with("optimizer.") ||
             key.starts_with("model.hf_") || key == "module" || key == "config" || key == "training.deterministic" ||
             key == "training.seed" || key == "training.gc_freq" || key == "(base)" ||
             key == "model.print_after_conversion" || key == "training.disable_cuda_graphs" || key == "dump_folder" ||
             key == "training.gc_debug" || key == "model.tokenizer_path" || key.starts_with("float8.");
    });
  }

 private:
  // Its settings are all in the file, and it trains on given samples.
  void expect_all_of_it() {
    for (const Setting& setting : s_.all()) {
      require(!setting.key.starts_with("async_loop.") && !setting.key.starts_with("rollouter."),
              "{}: {}: learns by reinforcement, from samples that it makes itself, and only trainings of one model on "
              "given samples are predicted.",
              setting.place, setting.shown);
      require(!setting.key.starts_with("#"),
              "{}: begins with {}, which another file makes, so that its batch and degrees are not known; give "
              "--function with one that sets them, or the other file.",
              setting.place, printable(to_text(setting.value)));
    }
  }

  int degree(const char* name, std::int64_t otherwise) {
    const std::string key = std::string("parallelism.") + name;
    const std::int64_t value = s_.integer(key, -1).value_or(otherwise);
    require(value <= kMaxDegree && value != 0, "{}: {} is no degree; give 1 or more, or -1 for what is left.",
            s_.where(key), value);
    return static_cast<int>(value);
  }

  void read_degrees() {
    d_.tp = std::max(1, degree("tensor_parallel_degree", 1));
    d_.pp = std::max(1, degree("pipeline_parallel_degree", 1));
    d_.cp = std::max(1, degree("context_parallel_degree", 1));
    const int replicate = std::max(1, degree("data_parallel_replicate_degree", 1));
    const int shard = degree("data_parallel_shard_degree", -1);
    share_devices(job_);
    if (shard > 0 && std::int64_t{replicate} * shard != d_.dp) {
      const std::string why =
          fmt::format("replicate {} x shard {} x cp {} x tp {} x pp {} is not the number of devices, {}", replicate,
                      shard, d_.cp, d_.tp, d_.pp, job_.devices.devices());
      job_.broken_without_plan(why, "; give --cluster or --nodes with as many");
    } else if (shard < 0 && d_.dp % replicate != 0) {
      const std::string why =
          fmt::format("data_parallel_replicate_degree {} does not divide the {} replicas", replicate, d_.dp);
      job_.broken_without_plan(why);
    }
    const int groups = shard > 0 ? shard : d_.dp / replicate;
    if (replicate > 1 && groups > 1) {
      job_.reading.setup.shard = groups;
      if (d_.tp * d_.pp * d_.cp > 1)
        job_.assume(fmt::format("weights split over all {} replicas, not over groups of {}", d_.dp, groups));
    }
    const std::string reshard = s_.text("parallelism.fsdp_reshard_after_forward").value_or("default");
    const bool keeps = reshard == "never" || (reshard == "default" && d_.pp > 1);
    d_.zero = groups * d_.cp > 1 ? keeps ? 2 : 3 : 0;
    d_.sequence_parallel = d_.tp > 1 && s_.boolean("parallelism.enable_sequence_parallel").value_or(true);
    job_.reading.setup.overlap_tensor_parallel =
        s_.flag("parallelism.enable_async_tensor_parallel") || s_.flag("compile.enable_async_tensor_parallel");
    if (s_.has("parallelism.context_parallel_load_balancer"))
      (void)s_.take("parallelism.context_parallel_load_balancer");
    if (s_.has("parallelism.disable_loss_parallel") && s_.flag("parallelism.disable_loss_parallel"))
      job_.assume("the loss split over tp, though disable_loss_parallel is set");
  }

  std::int64_t sequence() {
    std::optional<std::int64_t> seq = s_.integer("training.seq_len");
    if (!seq) seq = s_.integer("training.max_context_length");
    if (job_.answers.seq) seq = job_.answers.seq;
    return seq.value_or(2048);
  }

  // Models of its tables for its tests, which no checkpoint is of; "": another.
  static std::string debug_model(std::string name) {
    std::replace(name.begin(), name.end(), '_', ' ');
    if (name.ends_with(" flex attn")) name.resize(name.size() - 10);
    if (name == "llama3 debugmodel")
      return "llama:layers=6,hidden=256,heads=16,intermediate=768,seq=2048,vocab=2048,rotary_base=500000";
    const std::string qwen3 =
        "layers=8,hidden=256,heads=16,kv_heads=8,head_dim=128,intermediate=3072,seq=4096,"
        "vocab=2048,qk_norm=1,rotary_base=1000000,epsilon=1e-06";
    if (name == "qwen3 debugmodel") return "llama:" + qwen3 + ",tied=1";
    if (name == "qwen3 debugmodel moe") return "mixtral:" + qwen3 + ",experts=64,top_k=8,expert_intermediate=768";
    const std::string llama4 =
        "mixtral:layers=6,hidden=256,heads=16,intermediate=768,seq=2048,vocab=2048,experts=8,top_k=1,"
        "expert_intermediate=512,shared_intermediate=512,mixture_every=2,sigmoid=1,normalized=0,weigh_inputs=1,"
        "rotary_base=500000";
    if (name == "llama4 debugmodel") return llama4;
    if (name == "llama4 debugmodel irope") return llama4 + ",no_rotary_every=4,attention_chunk=256";
    if (name == "deepseek v3 debugmodel")
      return "deepseek_v3:layers=6,hidden=256,heads=16,intermediate=1024,seq=2048,vocab=2048,experts=8,top_k=3,"
             "expert_intermediate=256,shared_intermediate=512,dense_layers=1,normalized=0,kv_rank=512,nope_dim=128,"
             "rope_dim=64,value_dim=128,sigmoid=0,selection_bias=0,epsilon=1e-05";
    return "";
  }

  void read_model(std::int64_t seq) {
    const std::string name = s_.text("model.name").value_or(""), flavor = s_.text("model.flavor").value_or("");
    std::string of = name + " " + flavor;
    if (name.empty()) of = s_.name_or_nothing("config");
    if (of.empty() || !s_.has("config")) {
      if (const std::string base = s_.name_or_nothing("(base)"); name.empty() && !base.empty()) of = base;
    }
    if (of.empty() || of == " ") of = s_.name_or_nothing("module");
    job_.reading.setup.model_name = of;
    if (take_given_model(job_, seq)) return;
    require(of.find_first_not_of(' ') != std::string::npos,
            "{}: names no model: neither [model] with name and flavor, nor --module and --config; give the file that "
            "torchtitan is started with, or --model.",
            job_.text.program);
    const std::string small = debug_model(of);
    ModelConfig& model = job_.reading.setup.model =
        small.empty() ? model_by_name(of, job_.text.program) : model_of_text(small, job_.text.program);
    model.seq = seq;
    job_.assume(
        fmt::format("the sizes of {} for '{}'", small.empty() ? model.name : "torchtitan 0.2.2's own tables", of));
  }

  void read_experts() {
    d_.ep = std::max(1, degree("expert_parallel_degree", 1));
    const int etp = std::max(1, degree("expert_tensor_parallel_degree", 1));
    if (d_.ep == 1) return;
    d_.whole_experts = etp == 1 && d_.tp > 1 && d_.ep % d_.tp == 0;
    if (d_.whole_experts) job_.reading.framework.whole_experts = true;
    const std::int64_t ranks = std::int64_t{d_.dp} * d_.cp * d_.tp;
    if (ranks % d_.ep != 0)
      job_.broken(fmt::format("expert_parallel_degree {} does not divide dp x cp x tp = {}", d_.ep, ranks));
  }

  void read_schedule() {
    const std::string name = lower_case(s_.text("parallelism.pipeline_parallel_schedule").value_or("1F1B"));
    const auto per_stage = s_.integer("parallelism.pipeline_parallel_layers_per_stage");
    const std::int64_t less_first = s_.integer("parallelism.pipeline_parallel_first_stage_less_layers", 0).value_or(1);
    const std::int64_t less_last = s_.integer("parallelism.pipeline_parallel_last_stage_less_layers", 0).value_or(1);
    const Setting* names = s_.take("parallelism.module_fqns_per_model_part");
    const Setting* csv = s_.take("parallelism.pipeline_parallel_schedule_csv");
    if (d_.pp == 1) return;
    using enum ScheduleKind;
    const std::vector<std::pair<std::string, ScheduleKind>> known = {{"1f1b", OneFOneB},
                                                                     {"gpipe", GPipe},
                                                                     {"interleaved1f1b", Interleaved},
                                                                     {"loopedbfs", Interleaved},
                                                                     {"interleavedzerobubble", Interleaved},
                                                                     {"zbvzerobubble", ZeroBubbleV},
                                                                     {"dualpipev", DualPipeV},
                                                                     {"pipelineschedulesingle", OneFOneB},
                                                                     {"pipelineschedulemulti", Interleaved}};
    const auto found = std::find_if(known.begin(), known.end(), [&](const auto& entry) { return entry.first == name; });
    require(found != known.end(),
            "{}: unknown schedule '{}'; expected 1F1B, GPipe, Interleaved1F1B, LoopedBFS, "
            "InterleavedZeroBubble, ZBVZeroBubble or DualPipeV.",
            s_.where("parallelism.pipeline_parallel_schedule"), name);
    d_.schedule = found->second;
    if (name == "loopedbfs" || name == "interleavedzerobubble")
      job_.assume(fmt::format("interleaved 1f1b in the place of {}", name));
    if (csv != nullptr && csv->value.is_scalar()) csv_ = csv->value.text;
    set_stages(per_stage, less_first, less_last, names);
  }

  void set_stages(std::optional<std::int64_t> per_stage, std::int64_t less_first, std::int64_t less_last,
                  const Setting* names) {
    const std::int64_t layers = job_.reading.setup.model.layers;
    const bool several = d_.schedule != ScheduleKind::OneFOneB && d_.schedule != ScheduleKind::GPipe;
    d_.chunks = several ? 2 : 1;
    if (names != nullptr && names->value.is_list()) return named_stages(*names);
    if (s_.has("parallelism.pipeline_parallel_split_points")) return split_stages(layers);
    const std::int64_t units = layers + less_first + less_last;
    if (per_stage) {
      const std::int64_t stages = (units + *per_stage - 1) / *per_stage;
      if (stages % d_.pp != 0) {
        const std::string why = fmt::format("{} layers in stages of {} make {} stages, not a multiple of pp={}", units,
                                            *per_stage, stages, d_.pp);
        return job_.broken_without_plan(why);
      }
      d_.chunks = static_cast<int>(stages / d_.pp);
      if (several != (d_.chunks > 1))
        job_.broken(fmt::format("the schedule wants {} on each rank, and pipeline_parallel_layers_per_stage makes {}",
                                several ? "several stages" : "one stage", d_.chunks));
    }
    const std::int64_t stages = d_.stages();
    if (layers < stages) return;
    std::vector<int> blocks = torchtitan_stages(layers, stages, less_first, less_last);
    if (blocks.empty()) return job_.broken("the first or the last stage has fewer layers than none");
    job_.reading.setup.stage_blocks = std::move(blocks);
  }

  // The schedule of a file is one of ours where its runs have the same order.
  void read_schedule_file() {
    const Setting* text = s_.take("(schedule)");
    if (d_.pp == 1 || csv_.empty()) return;
    if (text == nullptr)
      return job_.no_plan(fmt::format("its schedule is in {}, which is not there; give it as a further file", csv_));
    const Schedule given = schedule_from_csv(text->value.text, text->place);
    std::size_t runs = 0;
    for (const auto& rank : given) runs += rank.size();
    const std::int64_t most = 3 * d_.stages() * d_.micro_batches;
    if (std::ssize(given) == d_.pp && static_cast<std::int64_t>(runs) <= most)
      for (const ScheduleKind kind : job_.reading.framework.schedules) {
        const auto chunks = traits_of(kind).chunks;
        const bool allowed = (chunks ? d_.chunks == *chunks : d_.chunks >= 2) &&
                             (kind != ScheduleKind::DualPipeV || d_.micro_batches >= d_.stages());
        if (!allowed ||
            make_schedule(kind, line_of(d_.stages()), static_cast<int>(d_.micro_batches), d_.chunks) != given)
          continue;
        d_.schedule = kind;
        return;
      }
    job_.no_plan(
        fmt::format("its schedule, {}, is none of ours for {} stages and {} micro-batches; predict it with meshwright "
                    "simulate --schedule-csv",
                    csv_, d_.stages(), d_.micro_batches));
  }

  // [["tok_embeddings", "layers.0"], ..., ["layers.7", "norm", "output"]]
  void named_stages(const Setting& names) {
    std::vector<int> blocks;
    for (const ConfigValue& stage : names.value.items) {
      blocks.push_back(0);
      for (const ConfigValue& module : stage.items)
        if (module.text.starts_with("layers.")) ++blocks.back();
    }
    if (blocks.empty() || static_cast<int>(blocks.size()) % d_.pp != 0) {
      const std::string why =
          fmt::format("module_fqns_per_model_part names {} stages, not a multiple of pp={}", blocks.size(), d_.pp);
      return job_.broken_without_plan(why);
    }
    d_.chunks = static_cast<int>(blocks.size()) / d_.pp;
    job_.reading.setup.stage_blocks = blocks;
  }

  // Before 0.2: the modules with which every stage but the first begins, ["layers.4", "layers.8"].
  void split_stages(std::int64_t layers) {
    const char* key = "parallelism.pipeline_parallel_split_points";
    std::vector<int> blocks;
    std::int64_t from = 0;
    for (const std::string& module : s_.words(key)) {
      const std::int64_t at =
          module.starts_with("layers.") ? parse_integer(module.substr(7), s_.where(key), from, layers) : layers;
      blocks.push_back(static_cast<int>(at - from));
      from = at;
    }
    blocks.push_back(static_cast<int>(layers - from));
    if (static_cast<int>(blocks.size()) % d_.pp != 0) {
      const std::string why =
          fmt::format("pipeline_parallel_split_points make {} stages, not a multiple of pp={}", blocks.size(), d_.pp);
      return job_.broken_without_plan(why);
    }
    d_.chunks = static_cast<int>(blocks.size()) / d_.pp;
    job_.reading.setup.stage_blocks = blocks;
  }

  // The local batch in as many micro-batches as stages, where nothing else was said before 0.2.
  void cut_older_batch(std::int64_t local, std::optional<std::int64_t>& micro) {
    auto count = s_.integer("parallelism.pipeline_parallel_microbatches", -1);
    const bool older = s_.where("training.local_batch_size").ends_with("training.batch_size");
    if ((!count || *count < 1) && older) count = d_.pp;
    if (!count || *count < 1 || d_.pp == 1 || micro) return;
    if (local % *count != 0)
      job_.broken(fmt::format("{} micro-batches do not divide the batch of {} samples", *count, local));
    else
      micro = local / *count;
  }

  void read_batch(std::int64_t seq) {
    auto local = s_.integer("training.local_batch_size");
    auto micro = s_.integer("parallelism.pipeline_parallel_microbatch_size");
    auto global = s_.integer("training.global_batch_size", -1);
    if (global && *global < 1) global.reset();
    std::int64_t at_a_time = 1;  // local batches in one pipeline
    if (const auto tokens = s_.integer("training.num_tokens_per_microbatch_per_dp_rank"); tokens && !local) {
      local = std::max<std::int64_t>(1, *tokens / seq);
      micro = local;
      if (const auto of_step = s_.integer("training.num_tokens_per_train_step", -1); of_step && *of_step > 0)
        global = *of_step / seq;
      const auto count = s_.integer("parallelism.num_pp_microbatches");
      at_a_time = count.value_or(1);
      if (!global) global = *local * count.value_or(1) * d_.dp;
    }
    if (!local) {
      local = 8;
      job_.assume("training.local_batch_size 8, torchtitan's own");
    }
    // A key of forks, as flame: so many local batches make a step.
    if (const auto steps = s_.integer("training.gradient_accumulation_steps"); steps && *steps > 1 && !global)
      global = *local * d_.dp * *steps;
    cut_older_batch(*local, micro);
    const std::int64_t of_pipe = micro.value_or(1);
    if (d_.pp > 1 && *local % of_pipe != 0) {
      job_.broken(
          fmt::format("pipeline_parallel_microbatch_size {} does not divide local_batch_size {}", of_pipe, *local));
    }
    // With a pipeline the local batch is cut into micro-batches; without, it is one.
    const std::int64_t samples = job_.answers.micro_batch ? *job_.answers.micro_batch : d_.pp > 1 ? of_pipe : *local;
    share_batch(job_, samples, global ? global : std::optional(*local * d_.dp));
    const std::int64_t at_once = *local * at_a_time * d_.dp;
    if (const std::int64_t batch = *job_.reading.setup.batch; d_.pp > 1 && batch > at_once)
      job_.no_plan(fmt::format(
          "its step is {} pipelines of {} samples one after another (gradient accumulation), and a plan's step is one; "
          "give --batch {} for one of them",
          batch / std::max<std::int64_t>(1, at_once), at_once, at_once));
    if (d_.pp > 1 && d_.micro_batches < d_.stages())
      job_.broken(
          fmt::format("{} micro-batches for {} stages: the pipeline is never full", d_.micro_batches, d_.stages()));
  }

  void read_recompute() {
    std::string mode = lower_case(s_.text("activation_checkpoint.mode").value_or(""));
    const std::string option = s_.text("activation_checkpoint.selective_ac_option").value_or("op");
    const char* whole = s_.has("activation_checkpoint()") ? "activation_checkpoint()" : "activation_checkpoint";
    // Python's None is a value, which a missing one is not.
    if (const Setting* made = s_.take(whole); made != nullptr) {
      const std::string kind = lower_case(made->value.text);
      mode = kind.starts_with("full")        ? "full"
             : kind.starts_with("selective") ? "selective"
             : kind.starts_with("memory")    ? "memory_budget"
                                             : "none";
    }
    if (mode.empty()) mode = "selective";
    if (mode == "full") d_.recompute = Recompute::Full;
    if (mode == "selective") {
      d_.recompute = Recompute::Selective;
      if (const auto every =
              option == "op" ? 0L
                             : parse_integer(option, s_.where("activation_checkpoint.selective_ac_option"), 1, 10'000);
          every > 0) {
        d_.recompute = every == 1 ? Recompute::Full : Recompute::None;
        for (int layer = 0; every > 1 && layer < job_.reading.setup.model.layers; layer += static_cast<int>(every))
          job_.reading.setup.recompute_layers.push_back({layer, layer, Recompute::Full});
      }
    }
    if (mode == "memory_budget") {
      d_.recompute = Recompute::Selective;
      job_.assume("norms and activations recomputed in the place of a memory budget");
    }
    for (const char* key :
         {"early_stop", "preserve_rng_state", "determinism_check", "debug",
          "per_op_sac_force_recompute_mm_shapes_by_fqns", "memory_budget", "visualize_memory_budget_pareto"})
      (void)s_.take(std::string("activation_checkpoint.") + key);
  }

  void read_rest() {
    LaunchSetup& setup = job_.reading.setup;
    setup.dtype = DType::BF16;
    const std::string precision = s_.text("training.mixed_precision_param").value_or("bfloat16");
    (void)s_.take("training.mixed_precision_reduce");
    if (s_.text("training.dtype").value_or("float32") != "float32") setup.software_setup.narrow_states = true;
    if (precision == "float32") setup.dtype = DType::F32;
    for (const std::string& converter : s_.words("model.converters"))
      if (converter.find("float8") != std::string::npos || converter.find("mx") != std::string::npos)
        setup.matmul_dtype = "fp8";
    const std::string float8 = lower_case(s_.text("float8.enable_float8_linear").value_or("false"));
    if (!float8.empty() && float8 != "false") setup.matmul_dtype = "fp8";
    if (s_.text_or_nothing("loss()").find("Chunked") != std::string::npos)
      setup.software_setup.loss_chunks =
          as_degree(std::max<std::int64_t>(1, s_.integer("loss.num_chunks").value_or(8)));
    Optimizer& optimizer = setup.optimizer;
    const std::string kind = s_.text("optimizer.name").value_or("AdamW");
    if (kind != "AdamW" && kind != "Adam") job_.assume(fmt::format("Adam in the place of {}", kind));
    optimizer.learning_rate = s_.number("optimizer.lr").value_or(8e-4);
    if (!(optimizer.learning_rate > 0.0)) optimizer.learning_rate = 8e-4;
    optimizer.weight_decay = std::max(0.0, s_.number("optimizer.weight_decay").value_or(0.1));
    optimizer.max_norm = std::max(0.0, s_.number("training.max_norm").value_or(1.0));
    if (s_.flag("training.enable_cpu_offload")) {
      offload_shards(job_);
    }
    setup.steps = std::max<std::int64_t>(1, s_.integer("training.steps", 0).value_or(20));
    const std::vector<std::string> compiled = s_.words("compile.components");
    const bool model_compiled =
        s_.flag("compile.enable") &&
        (compiled.empty() || std::find(compiled.begin(), compiled.end(), "model") != compiled.end());
    if (!model_compiled && job_.text.variant.empty()) {
      job_.reading.software = "torchtitan-eager";
      job_.assume("blocks that are not compiled (the profile torchtitan-eager)");
    }
    setup.overlap_gradients = setup.overlap_weights = d_.zero > 0;
  }

  ReadingJob& job_;
  Settings& s_;
  Degrees& d_;
  std::string csv_ = {};  // the file that has the schedule
};

}  // namespace

void name_as_torchtitan_now(Settings& settings) { settings.rename(older_names()); }

void read_torchtitan(ReadingJob& job) { TorchtitanReader(job).read(); }

}  // namespace meshwright
