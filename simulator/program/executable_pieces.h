// SPDX-License-Identifier: Apache-2.0
// What a device can do of a Run at the same time: its executable cut into computations and collectives.
//
// A computation is a stretch of the op list; it ends where a collective can begin, and a new one begins where the
// result of a collective is read. Collectives that sum gradients come together in buckets: those of an update that wait
// for nothing but what backwards have left, in the order in which the backwards leave it; those within a backward whose
// sums are only accumulated, which then is done at the end of the Run. All-gathers of parameters, and copies from the
// host, stand a number of computations before the one that reads them; a copy to the host begins when what it copies is
// made. Pieces that come one after the other (ParameterTime::Inside) have copies in their computations.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/plan/lowering/collective_op.h"
#include "core/plan/program/program.h"
#include "core/sharding/cost_model.h"
#include "simulator/program/program_costs.h"

namespace meshwright {

// What one op of an executable takes. Slices take nothing.
// REQUIRES: `mesh` is that of the executable's stage.
[[nodiscard]] TimeEstimate op_cost(const StageExecutable& executable, const LocalOp& op, const LogicalMesh& mesh,
                                   const CostModel& costs);

// The part of it in which operands that lie on the host are fetched before the op and sent back after it; neither goes
// on beside other work. REQUIRES: as op_cost.
[[nodiscard]] Seconds host_transfers(const StageExecutable& executable, const LocalOp& op, const LogicalMesh& mesh,
                                     const CostModel& costs);

// What one Run of an executable costs beyond its ops, whose times are given; negative where a software hides part of
// them. Apart: of a Run whose collectives of parameters are simulated beside it, so that the software hides none of
// them. REQUIRES: as op_cost.
enum class ParameterTime { Inside, Apart };
[[nodiscard]] Seconds run_overhead(const Program& program, const StageExecutable& executable, const LogicalMesh& mesh,
                                   const CostModel& costs, const std::vector<Seconds>& times,
                                   ParameterTime parameters = ParameterTime::Inside);

struct Piece {
  enum class Kind : std::uint8_t { Compute, Collective, HostCopy } kind = Kind::Compute;
  // For a collective of gradients that nothing in the pass waits for.
  bool of_gradients = false;
  std::vector<int> ops;  // of the executable, in the order in which they are done
  int axis = 0;          // collectives: of the mesh
  SimTime duration{0};
  std::vector<int> after;               // earlier pieces whose results it reads, or whose operands it overwrites
  std::vector<BufferId> reads, writes;  // each once
  // Gathers of parameters and copies from the host: the computation of the Run after which it may begin, counted on
  // into the Runs before it where it is negative (-1: the last one of the Run before).
  std::optional<int> not_before;
  // Bytes on the device, relative to what lay there before it.
  std::int64_t memory_at_begin = 0, memory_at_end = 0;
};

struct CutOptions {
  Bytes bucket{25e6};  // largest bucket of several collectives; PyTorch's DistributedDataParallel has 25 MiB
  int prefetch = 1;    // computations between which an all-gather of a parameter may begin and the one that reads it
  // Inside: pieces come one after the other, and what a software hides stays hidden. Apart: they run beside each other,
  // and only that hides anything.
  ParameterTime parameters = ParameterTime::Apart;
};

// [executable] -> its pieces in the order in which a device issues them. A piece comes after those it waits for. The
// computations and collectives of an executable take as long as times.executable says of it, less what buckets save
// and, with ParameterTime::Apart, what rings hide and with what its software would hide: their ends are its ops' costs,
// rounded once each. What a Run takes beyond its ops goes to its first computation; what it takes less, from all
// computations in proportion. Bytes are those of the pieces one after the other; with no gathers ahead and no buckets
// their peak is peak_extra. REQUIRES: `times` is of this program.
[[nodiscard]] std::vector<std::vector<Piece>> cut_executables(const Program& program, const ProgramTimes& times,
                                                              const CostModel& costs, const CutOptions& options);

}  // namespace meshwright
