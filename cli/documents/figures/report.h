// SPDX-License-Identifier: Apache-2.0
// What plan, simulate, replay, sweep and run have to say about a plan: figures, the lines of the document and the
// members of its JSON form.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/plan/plan.h"
#include "core/plan/program/check_program.h"
#include "simulator/what_if/prediction.h"

namespace meshwright {

struct Throughput {
  double samples_per_s = 0.0;
  std::optional<double> tokens_per_s;  // models with a sequence
  // Work of the model itself (recomputed ops are not counted) per device.
  double tflops_per_device = 0.0;
  // Work beside what all devices of the cluster could do at their peaks for the plan's type: of the model, and with
  // what is computed again. nullopt where a device has no peak for the type, or does more than that: `why_none`.
  std::optional<double> mfu = {}, hfu = {};
  std::string why_none = {};
};
// The throughput of `replicas` copies of the plan, each on its own devices. `peak`: of one device, where it is known
// better than the plan's cluster knows it.
[[nodiscard]] Throughput throughput(const Plan& plan, Seconds step, int replicas = 1,
                                    std::optional<FlopsPerSecond> peak = {});
[[nodiscard]] std::string to_text(
    const Throughput& rate);  // "12.5 samples/s, 12800 tokens/s, 38.1 TFLOPS per device, MFU 30.5 %, HFU 40.6 %"

[[nodiscard]] Seconds median(std::vector<Seconds> times);  // REQUIRES: at least one

// (step - lower bound) / step; 0 when nothing can be faster.
[[nodiscard]] double relative_gap(Seconds step, Seconds lower_bound);

// Largest peak among the devices of a stage.
[[nodiscard]] Bytes stage_peak(const ProgramStage& stage, const std::vector<Bytes>& peak_of_device);

// The memory of the devices of one host group that the plan uses.
struct MemoryUse {
  std::string device;  // its name
  Bytes peak, usable;  // the largest peak among them; what each has
  [[nodiscard]] bool fits() const { return peak <= usable; }
};
[[nodiscard]] std::vector<MemoryUse> memory_use(const Plan& plan, const Program& program, const ProgramCheck& check);
// `software`: what runs the plan, and decides whether it fits, in the place of this program's own executor.
[[nodiscard]] std::string memory_line(const std::vector<MemoryUse>& uses, const std::string& software = {});
// "waiting 21.5 % (messages 0.3, bubble 16.2, idle 5.0)"; the same as the members of "waiting".
[[nodiscard]] std::string to_text(const WaitShares& shares);
void add_waiting(Json& json, const WaitShares& shares);
// "stages wait 9.0 % between their first and last pass, the longest 13.3 %"; the same as mean_stage_wait_share and
// longest_stage_wait_share.
[[nodiscard]] std::string to_text(const StageWaits& shares);
void add_stage_waits(Json& json, const StageWaits& shares);
// peak_memory_bytes and usable_memory_bytes: of the kind of device that has least to spare in proportion; `memory`: of
// each kind, where there are several.
void add_memory(Json& json, const std::vector<MemoryUse>& uses);

// "# from stage to stage: gather 0>1": how tensors get to several devices, where they are not sent whole; else "".
[[nodiscard]] std::string cross_mesh_line(const Plan& plan);
void add_cross_mesh(Json& json, const Plan& plan);
// The first lines of every document about a plan: version, model, cluster, what is trained how, and the line above.
[[nodiscard]] std::string header_lines(const std::string& verb, const Plan& plan);
[[nodiscard]] std::string cost_line(const std::string& source, const ProgramCosts& costs);

// Members every JSON form about a plan begins with, and the shares of the cost basis.
[[nodiscard]] Json header_json(const std::string& verb, const Plan& plan);
[[nodiscard]] Json bytes_json(Bytes bytes);  // an integer where it is one
[[nodiscard]] Json basis_json(const ProgramCosts& costs);
void add_throughput(Json& json, const Throughput& rate);

[[nodiscard]] std::string layers_text(const StagePlan& stage);   // "0..3"
[[nodiscard]] std::string submesh_text(const StagePlan& stage);  // "1x4", "1x4@1" of group 1
[[nodiscard]] Json submesh_json(const StagePlan& stage);         // [1, 4], [1, 4, 1]
[[nodiscard]] std::string logical_text(const StagePlan& stage);  // "2x2"

}  // namespace meshwright
