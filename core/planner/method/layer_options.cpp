// SPDX-License-Identifier: Apache-2.0
#include "core/planner/method/layer_options.h"

#include <algorithm>
#include <map>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

using Cut = LayerOptions::Cut;

constexpr int kMaxBlocks = 24, kMaxLayers = 16, kMinLayersOfManyBlocks = 8;
constexpr std::string_view kFollow = "follow:";

const std::vector<std::pair<std::string, Cut>>& named_cuts() {
  static const std::vector<std::pair<std::string, Cut>> cuts = {
      {"flops", Cut::EvenFlops}, {"bytes", Cut::EvenBytes}, {"count", Cut::EvenCount},
      {"blocks", Cut::Blocks},   {"uniform", Cut::Uniform}, {"blocks-apart", Cut::BlocksApart},
  };
  return cuts;
}

std::vector<std::string> names_of_forward_ops(const Graph& graph) {
  std::vector<std::string> names;
  for (const OpId id : forward_ops(graph)) names.push_back(graph.op(id).name);
  return names;
}

std::vector<int> blocks_of(const Graph& graph) {
  std::vector<int> blocks = block_starts(graph);
  require(!blocks.empty(), "{} has no blocks to make layers of; cut it by flops, bytes or count.", graph.name);
  return blocks;
}

// What comes before the first block belongs to the first layer.
std::vector<int> uniform_starts(const Graph& graph, int count) {
  const std::vector<int> blocks = blocks_of(graph);
  const int all = static_cast<int>(blocks.size());
  require(count <= all, "{} has {} blocks and cannot be cut into {} layers of whole ones; ask for 1..{}.", graph.name,
          all, count, all);
  std::vector<int> starts = {0};
  // Multiplied before it is divided, so that two layers differ by at most one block.
  for (int layer = 1; layer < count; ++layer) starts.push_back(blocks[std::int64_t{all} * layer / count]);
  return starts;
}

std::vector<int> named_starts(const Graph& graph, const std::vector<std::string>& starts) {
  const std::vector<std::string> names = names_of_forward_ops(graph);
  std::vector<int> positions;
  for (const std::string& start : starts) {
    const auto found = std::find(names.begin(), names.end(), start);
    if (found == names.end())
      throw InputError(
          unknown_name("layer start", start, names, fmt::format("Layers start at forward ops of {}.", graph.name)));
    const int position = static_cast<int>(found - names.begin());
    require(!positions.empty() || position == 0,
            "the first layer starts at '{}', but {} begins with '{}'; put that in front.", start, graph.name,
            names.front());
    require(positions.empty() || position > positions.back(),
            "layer start '{}' does not come after '{}', which stands before it; give the starts in the order of {}'s "
            "ops.",
            start, names[positions.empty() ? 0 : positions.back()], graph.name);
    positions.push_back(position);
  }
  return positions;
}

std::vector<int> followed_starts(const Graph& graph, const std::vector<std::vector<std::string>>& followed) {
  std::map<std::string, int> layer_of;
  for (std::size_t layer = 0; layer < followed.size(); ++layer)
    for (const std::string& name : followed[layer]) layer_of[name] = static_cast<int>(layer);

  const std::vector<std::string> names = names_of_forward_ops(graph);
  std::vector<int> starts;
  int layer = -1;
  // A layer of the followed plan without an op in this model cannot be followed.
  const auto expect_none_between = [&](int next) {
    if (next <= layer + 1) return;
    const auto& ops = followed[layer + 1];
    throw InputError(
        fmt::format("layer {} of the followed plan ('{}' to '{}') has no op of {}; follow a plan of the same model.",
                    layer + 1, ops.front(), ops.back(), graph.name));
  };
  for (std::size_t p = 0; p < names.size(); ++p) {
    const auto known = layer_of.find(names[p]);
    // Ops that the followed plan does not know stay with the layer before them.
    if (known == layer_of.end() || known->second == layer) continue;
    require(known->second > layer,
            "op '{}' is in layer {} of the followed plan, but {} has it after ops of layer {}; follow a plan of the "
            "same model.",
            names[p], known->second, graph.name, layer);
    expect_none_between(known->second);
    layer = known->second;
    starts.push_back(static_cast<int>(p));
  }
  expect_none_between(static_cast<int>(followed.size()));
  if (!starts.empty()) starts.front() = 0;  // ops before the first known one have no predecessor to go with
  return starts;
}

std::vector<int> fixed_starts(const Graph& graph, const LayerOptions& options) {
  if (options.cut == Cut::Starts) return named_starts(graph, options.starts);
  if (options.cut == Cut::Follow) return followed_starts(graph, options.followed);
  std::vector<int> starts = blocks_of(graph);
  if (options.cut == Cut::BlocksApart) return block_starts_with_ends(graph);
  starts.front() = 0;
  return starts;
}

}  // namespace

LayerOptions::Cut cut_for_stages(std::int64_t blocks, std::int64_t stages) {
  return stages > 1 && blocks % stages != 0 && (blocks + 2) % stages == 0 ? LayerOptions::Cut::BlocksApart
                                                                          : LayerOptions::Cut::Blocks;
}

LayerOptions layer_cut_from_text(const std::string& text) {
  std::vector<std::string> known;
  for (const auto& [name, cut] : named_cuts()) {
    if (text == name) return {cut, {}, {}};
    known.push_back(name);
  }
  if (text.starts_with(kFollow)) {
    const std::string path = text.substr(kFollow.size());
    const Plan plan = plan_from_json(read_json_file(path), path);
    try {
      return follow_layers(plan);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", path, error.what()));
    }
  }
  known.push_back("follow:PLAN.json");
  throw InputError(unknown_name("layer cut", text, known, fmt::format("All are {}.", join(known, ", "))));
}

LayerOptions layer_starts_from_text(const std::string& text) {
  LayerOptions options{Cut::Starts, {}, {}};
  if (text.ends_with(".json")) {
    const Json names = read_json_file(text);
    require(names.is_array(), "{}: expected a list; write the first op of each layer as in [\"embed\", \"blk4.ln1\"].",
            text);
    for (const Json& name : names) {
      require(name.is_string(), "{}: {} is not the name of an op; write names as in \"blk4.ln1\".", text, brief(name));
      options.starts.push_back(name.get<std::string>());
    }
  } else {
    options.starts = split(text, ',');
  }
  const bool complete =
      std::none_of(options.starts.begin(), options.starts.end(), [](const std::string& name) { return name.empty(); });
  require(complete && !options.starts.empty(),
          "'{}' leaves a name out; give the first op of each layer, as in embed,blk4.ln1.", text);
  return options;
}

LayerOptions follow_layers(const Plan& plan) {
  const Graph graph = build_step_graph(plan.model, plan.training, plan.schedule);
  // The layers are read off the plan's own graph, so the plan has to be sound.
  const std::vector<std::string> wrong = check_plan(plan, graph);
  if (!wrong.empty()) throw InputError(wrong.front());
  LayerOptions options{Cut::Follow, {}, {}};
  for (const std::vector<OpId>& ops : assign_layers(graph, plan.layer_starts).forward) {
    options.followed.emplace_back();
    for (const OpId id : ops) options.followed.back().push_back(graph.op(id).name);
  }
  return options;
}

Json to_json(const LayerOptions& options) {
  switch (options.cut) {
    case Cut::Default:
      return nullptr;
    case Cut::Starts:
      return {{"starts", options.starts}};
    case Cut::Follow:
      return {{"followed", options.followed}};
    default:
      break;
  }
  const auto named = std::find_if(named_cuts().begin(), named_cuts().end(),
                                  [&](const auto& entry) { return entry.second == options.cut; });
  MW_CHECK(named != named_cuts().end(), "a layer cut has no name");
  return named->first;
}

int default_layer_count(const Graph& graph, const Method& method) {
  if (method.kind == Method::Kind::Manual) return method.stages.back().last_layer + 1;
  const int blocks = static_cast<int>(block_starts(graph).size());
  int layers = blocks;
  if (blocks == 0) {
    // Without blocks: two matrix products for each layer.
    int products = 0;
    for (const Op& op : graph.ops()) products += op.phase == Phase::Forward && op.kind == OpKind::Contract ? 1 : 0;
    layers = std::clamp(products / 2, 1, kMaxLayers);
  } else if (blocks > kMaxBlocks) {
    // The largest number down to kMinLayersOfManyBlocks that divides the blocks, so that all layers are equal.
    layers = kMaxLayers;
    while (layers >= kMinLayersOfManyBlocks && blocks % layers != 0) --layers;
    if (layers < kMinLayersOfManyBlocks) layers = kMaxLayers;
  }
  // Each stage gets as many layers as the others.
  return method.kind == Method::Kind::Megatron ? std::max(layers / method.pp, 1) * method.pp : layers;
}

Layers make_layers(const Graph& graph, const LayerOptions& options, std::optional<int> count, const Method& method) {
  // One stage needs no balanced cut: its layers are the model's own blocks, which are equal and solved once.
  if (options.cut == Cut::Default && !count && method.one_stage()) return layers_of_blocks(graph);
  if (options.cut == Cut::Default && !count && method.split.uneven()) {
    const std::vector<int> starts = block_starts_with_ends(graph);
    require(starts.size() == block_starts(graph).size() + 2,
            "method '{}': {} has no embedding before its blocks or no loss behind them, which the first and the last "
            "stage are to have; leave the stages even.",
            method.text, graph.name);
    return assign_layers(graph, starts);
  }
  if (options.fixes_count()) {
    Layers layers = assign_layers(graph, fixed_starts(graph, options));
    require(!count || *count == layers.count, "the cut of {} makes {} layers, not {}; leave their number out.",
            graph.name, layers.count, count.value_or(0));
    return layers;
  }
  const int layers = count ? *count : default_layer_count(graph, method);
  switch (options.cut) {
    case Cut::Uniform:
      return assign_layers(graph, uniform_starts(graph, layers));
    case Cut::EvenBytes:
      return make_layers(graph, layers, LayerWork::HeldBytes);
    case Cut::EvenCount:
      return make_layers(graph, layers, LayerWork::OpCount);
    default:
      return make_layers(graph, layers, LayerWork::ForwardFlops);
  }
}

}  // namespace meshwright
