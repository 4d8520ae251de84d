// SPDX-License-Identifier: Apache-2.0
#include "core/planner/method/framework.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

std::vector<Framework> make_frameworks() {
  using enum ScheduleKind;
  const std::vector<Recompute> any = {Recompute::None, Recompute::Selective, Recompute::Full};
  const std::vector<Recompute> all_or_none = {Recompute::None, Recompute::Full};
  std::vector<Framework> frameworks;
  frameworks.push_back(
      {.name = "megatron",
       .release = "Megatron-LM core 0.20",
       .software = "nemo",
       .schedules = {OneFOneB, Interleaved},
       .recompute = any,
       .recomputes_modules = true,
       .zero = {0, 1},
       .zero_in_pipes = {0, 1},
       .uneven_stages = true,
       .splits_ends = true,
       .whole_experts = true,
       .context_exchanges = {ContextExchange::AllGather, ContextExchange::PointToPoint, ContextExchange::AllToAll},
       .sequences = Framework::Sequences::Either,
       .further = Framework::FurtherTokens::ByLayout});
  // It has the zero-bubble schedules of one stage per rank only from a schedule file, which can be made of the plan.
  // Its FSDP takes in the ranks of cp and ep, whatever its own degrees are.
  frameworks.push_back({.name = "torchtitan",
                        .release = "torchtitan 0.2.2",
                        .software = "torchtitan",
                        .schedules = {OneFOneB, GPipe, Interleaved, ZeroBubbleH1, ZeroBubbleH2, ZeroBubbleV, DualPipeV},
                        .recompute = any,
                        .zero = {0, 2, 3},
                        .zero_in_pipes = {0, 2, 3},
                        .uneven_stages = true,
                        .divides_kv_heads = true,
                        .tied_in_pipes = false,
                        .sequences = Framework::Sequences::Always,
                        .even_sequences = true,
                        .zero_with_experts = {2, 3}});
  frameworks.push_back({.name = "deepspeed",
                        .release = "DeepSpeed 0.19",
                        .software = "deepspeed",
                        .schedules = {OneFOneB},
                        .recompute = all_or_none,
                        .zero = {0, 1, 2, 3},
                        .zero_in_pipes = {0, 1},
                        .uneven_stages = true,
                        .contexts = false,
                        .zero_with_experts = {0, 1, 2}});
  // It splits weights over the ranks of cp, too.
  frameworks.push_back({.name = "fsdp",
                        .release = "PyTorch 2.9 under accelerate 1.x",
                        .software = "fsdp2",
                        .schedules = {OneFOneB},
                        .recompute = all_or_none,
                        .zero = {0, 2, 3},
                        .divides_kv_heads = true,
                        .pipelines = false,
                        .experts = false,
                        .zero_with_experts = {2, 3}});
  // Its rules split weights over the axes of experts and of the context, too, as FSDP does (ZeRO 3), unless a file says
  // otherwise; its ZeRO 1 takes in the axis `data` alone.
  frameworks.push_back({.name = "maxtext",
                        .release = "MaxText of 2026",
                        .software = "",
                        .schedules = {GPipe},
                        .recompute = all_or_none,
                        .zero = {0, 1, 3},
                        .zero_in_pipes = {0, 1, 3},
                        .even_microbatches = true,
                        .further = Framework::FurtherTokens::OneStage,
                        .zero_with_experts = {0, 3}});
  // Its scale units hold tp x pp devices each; optimizer state is split over the units.
  frameworks.push_back({.name = "nnscaler",
                        .release = "nnScaler 0.8",
                        .software = "",
                        .schedules = {OneFOneB},
                        .recompute = all_or_none,
                        .zero = {0, 1},
                        .zero_in_pipes = {0, 1},
                        .uneven_stages = true,
                        .divides_kv_heads = true,
                        .tensor_powers = true,
                        .max_tensor_in_pipes = 8,
                        .contexts = false,
                        .experts = false,
                        .tied_in_pipes = false});
  frameworks.push_back({.name = "alpa",
                        .release = "Alpa 0.2",
                        .software = "alpa",
                        .schedules = {OneFOneB, GPipe, EagerOneFOneB},
                        .recompute = all_or_none,
                        .zero = {},
                        .zero_in_pipes = {},
                        .own_meshes = true});
  return frameworks;
}

const std::vector<Framework>& frameworks() {
  static const std::vector<Framework> all = make_frameworks();
  return all;
}

template <class T>
bool contains(const std::vector<T>& values, const T& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

std::int64_t more_of(const ModelConfig& model, const char* key, std::int64_t otherwise) {
  const auto found = model.more.find(key);
  return found == model.more.end() ? otherwise : found->second;
}

class Rules {
 public:
  Rules(const Framework& framework, const ModelShape& shape, const Degrees& degrees)
      : framework_(framework), shape_(shape), degrees_(degrees) {}

  std::vector<std::string> broken() && {
    tensor();
    further();
    pipeline();
    context();
    expert();
    states();
    return std::move(broken_);
  }

 private:
  template <class... Args>
  void rule(bool kept, fmt::format_string<Args...> text, Args&&... args) {
    if (!kept) broken_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  void tensor() {
    const int tp = degrees_.tp;
    rule(tp == 1 || framework_.tensors, "{} splits no tensors (tp={})", framework_.name, tp);
    if (shape_.heads > 0) rule(shape_.heads % tp == 0, "tp={} does not divide the {} heads", tp, shape_.heads);
    if (framework_.tensor_powers)
      rule((tp & (tp - 1)) == 0, "tp={} is no power of two, and no other is split over", tp);
    if (const auto most = framework_.max_tensor_in_pipes)
      rule(degrees_.pp == 1 || tp <= *most, "tp={} with pp={}: a stage of several is split over at most {} devices", tp,
           degrees_.pp, *most);
    if (shape_.kv_heads <= 0) return;
    if (framework_.divides_kv_heads)
      rule(shape_.kv_heads % tp == 0, "tp={} does not divide the {} heads of keys and values", tp, shape_.kv_heads);
    else
      rule(shape_.kv_heads % tp == 0 || tp % shape_.kv_heads == 0,
           "neither of tp={} and the {} heads of keys and values divides the other", tp, shape_.kv_heads);
  }

  void further() {
    using enum Framework::FurtherTokens;
    if (shape_.further == 0) return;
    const int pp = degrees_.pp;
    rule(framework_.further != Never, "{} has no modules that predict further tokens, and the model has {}",
         framework_.name, shape_.further);
    if (framework_.further == Never || pp == 1) return;
    rule(framework_.further == ByLayout, "{} has modules that predict further tokens only without pipeline stages",
         framework_.name);
    rule(
        framework_.further != ByLayout || !degrees_.split.layout.empty(),
        "pp={} without a layout parts the blocks and the {} modules for further tokens evenly, and {} has these beside "
        "the loss; name the stages, as layout=Et*8|t*7mL",
        pp, shape_.further, framework_.name);
  }

  void pipeline() {
    const auto& [pp, chunks] = std::tie(degrees_.pp, degrees_.chunks);
    const int stages = degrees_.stages();
    const bool uneven = degrees_.split.uneven();
    rule(framework_.has(degrees_.schedule) || (pp == 1 && degrees_.schedule == ScheduleKind::OneFOneB),
         "{} has no schedule {}", framework_.name, name_of(degrees_.schedule));
    rule(!uneven || framework_.splits_ends, "{} cannot be told the blocks of single stages", framework_.name);
    if (pp == 1) {
      rule(!uneven, "blocks of single stages need pp of at least 2");
      rule(chunks == 1, "several stages on each rank need pp of at least 2");
      return;
    }
    rule(framework_.pipelines, "{} has no pipeline stages", framework_.name);
    rule(framework_.tied_in_pipes || !shape_.tied, "{} cannot tie the embedding to the last product in a pipeline",
         framework_.name);
    // A layout may have stages of the embedding or the loss alone.
    rule(shape_.blocks >= stages || !degrees_.split.layout.empty(), "the {} blocks cannot make pp={} x vpp={} stages",
         shape_.blocks, pp, chunks);
    rule(framework_.uneven_stages || shape_.blocks % stages == 0, "pp={} x vpp={} does not divide the {} blocks", pp,
         chunks, shape_.blocks);
    rule(degrees_.schedule != ScheduleKind::DualPipeV || degrees_.micro_batches >= stages,
         "dualpipe-v needs a micro-batch for each of the {} stages, and there are {}", stages, degrees_.micro_batches);
    rule(!framework_.even_microbatches || degrees_.micro_batches % pp == 0,
         "pp={} does not divide the {} micro-batches", pp, degrees_.micro_batches);
    if (uneven)
      for (const std::string& sentence : broken_split_rules(degrees_.split, shape_.blocks, pp, chunks, shape_.further))
        broken_.push_back(sentence);
    if (chunks == 1 || degrees_.schedule != ScheduleKind::Interleaved) return;
    // As cut_for_stages (layer_options.h) parts them.
    rule(uneven || shape_.blocks % stages == 0 || (framework_.uneven_stages && (shape_.blocks + 2) % stages == 0),
         "pp={} x vpp={} divides neither the {} blocks nor these with the embedding and the loss", pp, chunks,
         shape_.blocks);
    rule(degrees_.micro_batches % pp == 0, "pp={} does not divide the {} micro-batches of an interleaved schedule", pp,
         degrees_.micro_batches);
  }

  void context() {
    const auto& [cp, tp] = std::tie(degrees_.cp, degrees_.tp);
    if (framework_.even_sequences && tp > 1)
      rule(shape_.seq % (2 * cp * tp) == 0, "tp={} x 2 cp={} does not divide the sequence of {}", tp, 2 * cp,
           shape_.seq);
    if (cp == 1) return;
    rule(framework_.contexts, "{} does not split the sequence over cp={}", framework_.name, cp);
    rule(shape_.seq % (2 * cp) == 0, "2 cp={} does not divide the sequence of {}", 2 * cp, shape_.seq);
    rule(framework_.has(degrees_.context), "{} has no cp-comm={}", framework_.name, name_of(degrees_.context));
    if (degrees_.context == ContextExchange::AllToAll)
      rule(shape_.kv_heads % (cp * degrees_.tp) == 0,
           "cp-comm=a2a: cp={} x tp={} does not divide the {} heads of keys and values", cp, degrees_.tp,
           shape_.kv_heads);
  }

  void expert() {
    const auto& [ep, tp, dp] = std::tie(degrees_.ep, degrees_.tp, degrees_.dp);
    if (ep == 1) return;
    rule(framework_.experts, "{} does not split experts over ep={}", framework_.name, ep);
    rule(shape_.experts > 0 && shape_.experts % ep == 0, "ep={} does not divide the {} experts", ep, shape_.experts);
    if (degrees_.folded_experts) {
      const int ranks = degrees_.cp * (degrees_.whole_experts ? tp : 1);
      const std::string of = degrees_.whole_experts ? fmt::format("tp={} x ", tp) : "";
      if (!framework_.whole_experts)
        rule(!framework_.experts, "{} has no experts of ep={} on the ranks of {}cp={}", framework_.name, ep, of,
             degrees_.cp);
      else if (dp * ranks % ep != 0)
        rule(false, "ep={} of folded experts does not divide dp={} x {}cp={}", ep, dp, of, degrees_.cp);
      else
        rule(ep % ranks == 0, "ep={} of folded experts is no multiple of {}cp={}", ep, of, degrees_.cp);
    } else if (degrees_.whole_experts) {
      if (!framework_.whole_experts)
        rule(!framework_.experts, "{} has no whole experts beside tp={}", framework_.name, tp);
      else
        rule(ep % tp == 0 && dp % (ep / tp) == 0, "ep={} of whole experts does not divide dp={} x tp={}", ep, dp, tp);
    } else
      rule(dp % ep == 0, "ep={} does not divide dp={}", ep, dp);
  }

  void states() {
    const int zero = degrees_.zero;
    rule(contains(degrees_.pp > 1 ? framework_.zero_in_pipes : framework_.zero, zero), "{} has no ZeRO level {}{}",
         framework_.name, zero, degrees_.pp > 1 ? " with pipeline stages" : "");
    const bool in_groups = contains(framework_.zero_with_experts, zero);
    rule(degrees_.cp == 1 || in_groups, "{} has no ZeRO level {} with cp={}", framework_.name, zero, degrees_.cp);
    rule(degrees_.ep == 1 || in_groups, "{} has no ZeRO level {} with ep={}", framework_.name, zero, degrees_.ep);
    rule(framework_.has(degrees_.recompute), "{} cannot recompute {}", framework_.name, name_of(degrees_.recompute));
    rule(framework_.recomputes_modules || degrees_.recompute_modules == RecomputeModules::None,
         "{} recomputes whole blocks or none of them, and not {} alone", framework_.name,
         name_of(degrees_.recompute_modules));
    using enum Framework::Sequences;
    rule(!degrees_.sequence_parallel || framework_.sequences != Never, "{} does not split the sequence over tp={}",
         framework_.name, degrees_.tp);
    rule(degrees_.sequence_parallel || degrees_.tp == 1 || framework_.sequences != Always,
         "{} always splits the sequence over tp={}", framework_.name, degrees_.tp);
  }

  const Framework& framework_;
  const ModelShape& shape_;
  const Degrees& degrees_;
  std::vector<std::string> broken_;
};

}  // namespace

bool Framework::has(ScheduleKind schedule) const { return contains(schedules, schedule); }
bool Framework::has(Recompute recomputation) const { return contains(recompute, recomputation); }
bool Framework::has(ContextExchange exchange) const { return contains(context_exchanges, exchange); }

const char* name_of(ContextExchange exchange) {
  switch (exchange) {
    case ContextExchange::AllGather:
      return "all-gather";
    case ContextExchange::PointToPoint:
      return "p2p";
    case ContextExchange::AllToAll:
      break;
  }
  return "a2a";
}

ModelShape shape_of(const ModelConfig& model) {
  const std::int64_t kv_heads = more_of(model, "kv_heads", model.heads);
  return {model.layers,
          model.heads,
          kv_heads,
          more_of(model, "experts", 0),
          model.seq,
          more_of(model, "mtp", 0),
          more_of(model, "tied", 0) == 1};
}

void expect_further_tokens(const Framework& framework, const ModelConfig& model) {
  const std::int64_t modules = shape_of(model).further;
  require(
      modules == 0 || framework.own_meshes || framework.further != Framework::FurtherTokens::Never,
      "{} has no modules that predict further tokens, and model {} has {}; plan for megatron or maxtext, or without "
      "them (mtp=0 in a size, num_nextn_predict_layers or mtp_num_hidden_layers 0 in a config.json).",
      framework.name, model.name, modules);
}

std::string method_text(const Degrees& degrees) {
  std::string text = fmt::format("megatron:tp={},pp={}", degrees.tp, degrees.pp);
  const auto add = [&](bool wanted, const char* key, int value) {
    if (wanted) text += fmt::format(",{}={}", key, value);
  };
  add(degrees.chunks > 1, "vpp", degrees.chunks);
  add(degrees.split.first > 0, "first", degrees.split.first);
  add(degrees.split.last > 0, "last", degrees.split.last);
  if (!degrees.split.layout.empty()) text += ",layout=" + degrees.split.layout;
  add(degrees.cp > 1, "cp", degrees.cp);
  if (degrees.cp > 1 && degrees.context != ContextExchange::AllGather)
    text += fmt::format(",cp-comm={}", name_of(degrees.context));
  add(degrees.ep > 1, "ep", degrees.ep);
  add(degrees.whole_experts, "etp", 1);
  add(degrees.folded_experts, "fold", 1);
  add(degrees.sequence_parallel, "sp", 1);
  add(true, "zero", degrees.zero);
  return text + ",exact=1";
}

std::string recompute_text(const Degrees& degrees) {
  return degrees.recompute_modules == RecomputeModules::None ? name_of(degrees.recompute)
                                                             : name_of(degrees.recompute_modules);
}

std::string text_of(const Degrees& degrees) {
  return fmt::format("{}, {}, recompute {}, {} micro-batch{} of {}", method_text(degrees), name_of(degrees.schedule),
                     recompute_text(degrees), degrees.micro_batches, degrees.micro_batches == 1 ? "" : "es",
                     degrees.micro_batch);
}

const Framework& find_framework(const std::string& name) {
  for (const Framework& framework : frameworks())
    if (framework.name == name) return framework;
  throw InputError(unknown_name("framework", name, framework_names(), "These are the frameworks that are known."));
}

std::vector<std::string> framework_names() {
  std::vector<std::string> names;
  for (const Framework& framework : frameworks()) names.push_back(framework.name);
  return names;
}

std::vector<std::string> broken_rules(const Framework& framework, const ModelShape& shape, const Degrees& degrees) {
  return Rules(framework, shape, degrees).broken();
}

}  // namespace meshwright
