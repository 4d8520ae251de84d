// SPDX-License-Identifier: Apache-2.0
// Devices that do the same at the same time, so that one of them stands for all.
//
// The partition is equitable: devices of a class have the same instruction lists up to the names of their peers,
// receive messages of the same classes in the same places, and meet in collectives with devices of the same classes. By
// induction over a step they are alike to the picosecond, as long as messages and Runs take fixed times.
//
// Links that flows share fairly (LinkDiscipline::Fluid) are part of the partition: links of a class have the same rate
// and carry flows of the same classes, and a flow's class knows the classes of its links. Max-min fair rates are
// unique, so that flows of a class are equally fast. No link carries two flows of one class: where that would be, their
// order tells them apart. One flow of each class on one link of each class then is the sharing of all. Devices of
// different speed may not be folded, nor flows that queue (LinkDiscipline::Fifo) or that others go along with
// (Broadcast::Chain).
#pragma once

#include "core/plan/program/folded_devices.h"
#include "core/plan/program/program.h"
#include "simulator/program/program_costs.h"
#include "simulator/program/program_graph.h"

namespace meshwright {

// Colour refinement with 64-bit hashes, in O(rounds * (instructions + transfers)).
// REQUIRES: the program is sound; `times` is of this program.
[[nodiscard]] FoldedDevices fold_devices(const Program& program, const ProgramTimes& times);

// The same with the links that flows share.
struct FoldedFlows {
  FoldedDevices devices;
  std::vector<LinkId> link;  // [link of ProgramFlows::links] the first of its class
};
// REQUIRES: as above; `flows` is of this program, without messages that go along with others.
[[nodiscard]] FoldedFlows fold_devices(const Program& program, const ProgramTimes& times, const ProgramFlows& flows);
// The flows with each link replaced by the first of its class. `like` [transfer of what is simulated] the transfer of
// the folded program that it is.
[[nodiscard]] ProgramFlows on_folded_links(const ProgramFlows& flows, const std::vector<LinkId>& link,
                                           const std::vector<int>& like);

}  // namespace meshwright
