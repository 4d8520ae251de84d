// SPDX-License-Identifier: Apache-2.0
// A thread for each device of this process. The first one that fails ends all others, those of other processes too, and
// its error is the run's. Internal to the executor.
#pragma once

#include <functional>
#include <vector>

#include "core/base/ids.h"
#include "executor/base/abort.h"
#include "executor/peers/peers.h"

namespace meshwright {

// Calls work(device) on a thread for each device, and waits for all. Where one fails, here or in another process,
// on_failure() is called once all threads have ended; then the first error is thrown: an InputError as it is, others
// with the device's or process's number. `peers`: null where there are no other processes. `where`: what the devices
// were doing, for the sentence about a process that was lost.
void run_on_threads(const std::vector<DeviceId>& devices, const std::function<void(DeviceId)>& work, Abort& abort,
                    Peers* peers, const std::function<void()>& on_failure, const std::function<std::string()>& where);

// Throws PeerLost for a process that was lost. REQUIRES: another process has failed.
[[noreturn]] void throw_failure_of_peer(const Peers& peers, const std::string& where = "");

}  // namespace meshwright
