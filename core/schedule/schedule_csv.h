// SPDX-License-Identifier: Apache-2.0
// Schedules as PyTorch reads and writes them: the compute-only CSV of torch.distributed.pipelining, which torchtitan
// takes as `pipeline_parallel_schedule_csv`.
//
// One row per rank, one cell per tick, no header. A cell is stage, pass, microbatch: "0F0" a forward, "1B3" a backward,
// "2I1" and "2W1" its two halves; an empty cell is idle. Stages are a line.
#pragma once

#include <string>
#include <string_view>

#include "core/schedule/schedule.h"

namespace meshwright {

// Ticks as unit_ticks has them, so that runtimes that step through the columns together find what they wait for.
// `copies`: of its traits; where there are several no runtime reads the file, nor does schedule_from_csv.
[[nodiscard]] std::string schedule_to_csv(const Schedule& schedule, int copies = 1);

// `place` names the text in errors, usually its file. Idle cells are dropped: the order is the schedule. Throws
// InputError, naming row and column (from 1), for a cell that is not a run, a stage on two ranks, a run that is
// repeated or missing, a backward before its forward, a W before its I, a B beside I or W of the same stage and
// microbatch, and a deadlock, with its cycle.
[[nodiscard]] Schedule schedule_from_csv(std::string_view text, const std::string& place);

}  // namespace meshwright
