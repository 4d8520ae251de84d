// SPDX-License-Identifier: Apache-2.0
// Who tells the devices what to do, and what that takes.
//
// Work is issued in the order in which the step can be done, one step after the other, without waiting for it: the
// issuer runs ahead of the devices until it fetches a result, which it has to wait for.
#pragma once

#include <optional>
#include <vector>

#include "core/plan/program/program.h"

namespace meshwright {

struct Controller {
  enum class Kind {
    Single,  // one process issues everything, to one host after the other
    Multi,   // each host issues the work of its own devices
  } kind = Kind::Single;
  // Time of the issuer. An instruction is a Run or an Exchange; if several devices of a host run the same one, it is
  // issued to them at once.
  Seconds per_call{0.0};         // each step, for each host
  Seconds per_instruction{0.0};  // for each host
  // The rate at which the batch is sent, with the Run that reads it; absent: the batch is there already.
  std::optional<BytesPerSecond> arguments;
  // Fetching the loss: each device that has it sends it after the whole step, and the issuer waits for it every
  // `fetch_every` steps. 0: never.
  Seconds fetch{0.0};
  int fetch_every = 0;
  // A host takes this long to launch an op: a Run ends no earlier than its last op was launched. With a single
  // controller the hosts do so, beside one another.
  Seconds launch{0.0};
};
[[nodiscard]] const char* name_of(Controller::Kind kind);  // "single", "multi"

// Alpa's: a call to every host in every step (AlpaServe's simulator takes 2.5 ms for it), and 5 ms for what its runtime
// adds to a result.
[[nodiscard]] Controller alpa_controller();

// What issuing one Run takes the host: its call, then the launches. The Run begins when `before` has passed, and
// `after` more passes on the issuing side: launches that go on while the Run does.
struct Issue {
  SimTime before{0}, after{0};
};
[[nodiscard]] Issue issue_of(SimTime call, SimTime launches, SimTime run);

// Bytes of the batch that a device needs for a Run: operands that no op and no buffer gives.
[[nodiscard]] Bytes batch_bytes(const StageExecutable& executable);

// [device] its host, hosts numbered from 0, where each stage has hosts of its own: as its submesh says.
[[nodiscard]] std::vector<int> hosts_of(const Program& program);

}  // namespace meshwright
