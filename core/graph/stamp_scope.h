// SPDX-License-Identifier: Apache-2.0
// What the ops added to a graph are stamped with while a StampScope lives.
#pragma once

#include <optional>

#include "core/graph/graph.h"

namespace meshwright {

class StampScope {
 public:
  StampScope(Graph& graph, Phase phase, std::optional<OpId> forward, int block)
      : graph_(graph), phase_(graph.current_phase), forward_(graph.current_forward), block_(graph.current_block) {
    graph.current_phase = phase;
    graph.current_forward = forward;
    graph.current_block = block;
  }
  ~StampScope() {
    graph_.current_phase = phase_;
    graph_.current_forward = forward_;
    graph_.current_block = block_;
  }
  StampScope(const StampScope&) = delete;
  StampScope& operator=(const StampScope&) = delete;

 private:
  Graph& graph_;
  Phase phase_;
  std::optional<OpId> forward_;
  int block_;
};

}  // namespace meshwright
