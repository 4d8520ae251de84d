// SPDX-License-Identifier: Apache-2.0
// How a model is cut into layers: by a balanced clustering, along its blocks, or where the caller says. Layers are runs
// of forward ops; stages are made of whole layers.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/plan/plan.h"
#include "core/planner/layers/cluster_layers.h"
#include "core/planner/method/method.h"

namespace meshwright {

struct LayerOptions {
  enum class Cut {
    Default,      // one-stage methods without a number of layers: Blocks, or one layer without blocks; else EvenFlops
    EvenFlops,    // cluster_layers with LayerWork::ForwardFlops
    EvenBytes,    // cluster_layers with LayerWork::HeldBytes
    EvenCount,    // cluster_layers with LayerWork::OpCount
    Blocks,       // one layer per block of the model
    BlocksApart,  // the same, and one for what comes before the first block and one for what comes after the last
    Uniform,      // whole blocks, the same number in every layer; where they do not divide, later layers have one more
    Starts,       // at the ops of `starts`
    Follow,       // ops of one layer of `followed` stay together; an op that is not in it goes with its predecessor
  } cut = Cut::Default;
  std::vector<std::string> starts;                 // Starts: name of each layer's first forward op
  std::vector<std::vector<std::string>> followed;  // Follow: [layer] names of its forward ops, one or more

  // The cut itself says how many layers there are.
  [[nodiscard]] bool fixes_count() const {
    return cut == Cut::Blocks || cut == Cut::BlocksApart || cut == Cut::Starts || cut == Cut::Follow;
  }
  bool operator==(const LayerOptions&) const = default;
};

// Along the blocks, so that stages get equal numbers of layers: where the blocks do not divide, the embedding and the
// loss count as one each if they do then, as frameworks part them.
[[nodiscard]] LayerOptions::Cut cut_for_stages(std::int64_t blocks, std::int64_t stages);

// "flops", "bytes", "count", "blocks", "blocks-apart", "uniform" or "follow:PLAN.json". Throws InputError.
[[nodiscard]] LayerOptions layer_cut_from_text(const std::string& text);
// "embed,blk4.ln1,..." or the name of a JSON file that holds the list; the names are looked up when the model is
// cut. Throws InputError for an empty list or an empty place in it.
[[nodiscard]] LayerOptions layer_starts_from_text(const std::string& text);
// The layers of a plan. Throws InputError with the first of check_plan's sentences.
[[nodiscard]] LayerOptions follow_layers(const Plan& plan);
[[nodiscard]] Json to_json(const LayerOptions& options);  // everything the cut depends on

// The number of layers where none is given. With blocks, so that a layer can be whole ones: their number when at most
// 24, else its largest divisor in 8..16, else 16. Without: one per two products (Contract), in 1..16. Then what the
// method needs: for megatron a multiple of pp, at least pp; for manual what its stages hold.
[[nodiscard]] int default_layer_count(const Graph& graph, const Method& method);

// Cuts the forward ops of `graph` into `count` layers; nullopt: as many as `options.cut` fixes, or, by default and with
// a method of uneven stages, BlocksApart; else default_layer_count.
// Throws InputError when the cut fixes another number, when there are fewer ops (Uniform: blocks) than layers, for
// names that are no forward op or stand out of order, and for a followed layer without an op of this model.
[[nodiscard]] Layers make_layers(const Graph& graph, const LayerOptions& options, std::optional<int> count,
                                 const Method& method);

}  // namespace meshwright
