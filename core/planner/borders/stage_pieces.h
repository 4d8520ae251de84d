// SPDX-License-Identifier: Apache-2.0
// A finished plan's forward ops cut wherever one of its stages might begin, and what each piece takes.
#pragma once

#include <vector>

#include "core/planner/plan_request.h"

namespace meshwright {

// What ops take, with everything derived from them.
struct PieceTimes {
  Seconds forward{0.0}, backward{0.0};  // of a micro-batch
  Seconds weight{0.0};                  // of `backward`, what makes gradients of parameters alone
  Seconds update{0.0};                  // once per step
  [[nodiscard]] Seconds pass() const { return forward + backward; }
  PieceTimes& operator+=(const PieceTimes& more) {
    forward += more.forward;
    backward += more.backward;
    weight += more.weight;
    update += more.update;
    return *this;
  }
};

// The forward ops from `begin` to the next piece.
struct StagePiece : PieceTimes {
  int begin = 0;  // position in forward_ops()
};

struct StagePieces {
  std::vector<StagePiece> pieces;   // in the order of the forward ops, all of them
  std::vector<int> first_of_stage;  // [stage of the first copy] its first piece
};

// A stage may begin where no more bytes cross than where the plan's stages begin. Pieces that take next to nothing are
// part of the one before. The pieces of a stage together take what the plan says of it. REQUIRES: check_plan finds
// nothing; the schedule trains and is not custom.
[[nodiscard]] StagePieces cut_into_pieces(const PlanOfGraph& made, const CostModel& costs);

}  // namespace meshwright
