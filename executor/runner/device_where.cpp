// SPDX-License-Identifier: Apache-2.0
// What a device is doing, in words: for the message of a run that lost another process.
#include "core/base/errors.h"
#include "executor/runner/device_runner.h"

namespace meshwright {

// The op that the thread is at, or the transfer that it waits for.
std::string DeviceRunner::text_of(const Instruction& instruction) const {
  switch (instruction.kind) {
    case Instruction::Kind::Run: {
      const StageExecutable& executable = executable_of(instruction.executable);
      const std::string run = fmt::format("the {} of stage {} for micro-batch {}", name_of(executable.phase),
                                          executable.stage.value, instruction.microbatch.value);
      if (at_op_ < 0) return "beginning or ending " + run;
      const LocalOp& op = executable.ops[static_cast<std::size_t>(at_op_)];
      if (op.kind == LocalOp::Kind::Compute)
        return fmt::format("computing '{}' in {}", context_.graph.op(op.op).name, run);
      return fmt::format("{} '{}' in {}", op.is_collective() ? "in a collective of" : "moving",
                         context_.graph.tensor(local_of(executable, op.inputs[0]).tensor).name, run);
    }
    case Instruction::Kind::Exchange:
    case Instruction::Kind::Await: {
      if (at_transfer_ < 0) return "beginning an exchange of messages";
      const Transfer& t = transfer_of(at_transfer_);
      const bool sends = t.source == device_;
      return fmt::format("{} '{}' of micro-batch {} {} device {}", sends ? "sending" : "receiving",
                         program_.buffers[(sends ? t.source_buffer : t.destination_buffer).index()].name,
                         t.microbatch.value, sends ? "to" : "from", (sends ? t.destination : t.source).value);
    }
    case Instruction::Kind::Free:
      break;
  }
  return "freeing memory";
}

std::string DeviceRunner::where() const {
  if (at_ == nullptr) return fmt::format("device {} was {}", device_.value, other_);
  return fmt::format("device {} was {}, in step {}", device_.value, text_of(*at_),
                     context_.options.first_step + step_ + 1);
}

}  // namespace meshwright
