// SPDX-License-Identifier: Apache-2.0
// How Megatron-LM parts a model's blocks among pipeline stages that are not alike: fewer blocks on the first and the
// last rank, beside the embedding and the loss, or a layout that names the layers of every stage.
//
// The rules are those of --decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers and
// --pipeline-model-parallel-layout of Megatron-LM core 0.20; a layout also says what --account-for-embedding- and
// --account-for-loss-in-pipeline-split make.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace meshwright {

struct StageSplit {
  int first = 0, last = 0;  // blocks of the first and the last pipeline rank; 0: as many as the other ranks
  std::string layout = {};  // "Et*3|t*4|...|t*3mL", stage v*pp + p on rank p; "": none

  [[nodiscard]] bool uneven() const { return first > 0 || last > 0 || !layout.empty(); }
  auto operator<=>(const StageSplit&) const = default;
};

// [stage] the letters of a layout, without repetitions: {"Ettt", "tttt", ..., "tttL"}. An m is a module that predicts
// a further token. Throws InputError, with `place` in front, unless it has E once and first, L once and last, between
// them nothing but t and, in one stage and behind all t, m, and no stage without a letter.
[[nodiscard]] std::vector<std::string> stages_of_layout(const std::string& layout, const std::string& place);

// How many modules that predict further tokens the layout names. REQUIRES: the layout, if any, is one.
[[nodiscard]] int further_modules_of(const StageSplit& split);

// What Megatron-LM asserts of the split of so many blocks, and as many modules behind them that predict further tokens,
// and it breaks: "pp=4: the 10 blocks between first=3 ...". Such modules have their place in a layout alone.
// Empty: it launches it. REQUIRES: the layout, if any, is one (stages_of_layout).
[[nodiscard]] std::vector<std::string> broken_split_rules(const StageSplit& split, std::int64_t blocks, int pp,
                                                          int chunks, std::int64_t further = 0);

// [stage] how many layers it has where every block and module is one, and the embedding and the loss are one each.
// REQUIRES: an uneven split that breaks no rule.
[[nodiscard]] std::vector<int> layers_of_stages(const StageSplit& split, std::int64_t blocks, int pp, int chunks);

// [stage] its first layer, and behind the last one the number of layers. Two stages of an even split differ by at most
// one; in an uneven one the embedding and the loss are layers of their own. REQUIRES: as layers_of_stages.
[[nodiscard]] std::vector<int> first_layers_of_stages(const StageSplit& split, int layers, int pp, int chunks);

// The splits in which every stage of the first, or of the last rank, or of both, has one or two blocks fewer than those
// of the ranks between them; of the last rank also one more for each module for further tokens that it has.
[[nodiscard]] std::vector<StageSplit> lighter_ends(std::int64_t blocks, int pp, int chunks, std::int64_t further = 0);

}  // namespace meshwright
