// SPDX-License-Identifier: Apache-2.0
// The three walks of check_program: references (every index points at something, every transfer has two ends), buffers
// (each device alone, whose instructions run in order) and meetings (the devices together).
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "core/plan/program/check_program.h"

namespace meshwright {

// One mistake in a lowering repeats on every device and microbatch: the first sentences say it all.
class Findings {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> sentence, Args&&... args) {
    if (++count_ <= kReported) sentences_.push_back(fmt::format(sentence, std::forward<Args>(args)...));
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::vector<std::string> take() {
    if (count_ > kReported) sentences_.push_back(fmt::format("and {} more violations", count_ - kReported));
    return std::move(sentences_);
  }

 private:
  static constexpr std::size_t kReported = 20;
  std::size_t count_ = 0;
  std::vector<std::string> sentences_;
};

// "transfer 4 ('act' of microbatch 1, device 0 to 1)"
[[nodiscard]] std::string describe_transfer(const Program& program, int transfer);

// The other walks index without asking again: they may run only when this returns true.
[[nodiscard]] bool check_references(const Program& program, Findings& findings);

// Lifetimes of buffers; returns the peak of live bytes, [device]. REQUIRES: check_references.
[[nodiscard]] std::vector<Bytes> check_buffers(const Program& program, Findings& findings);

// Sends with receives, and the devices of a stage in collectives; returns the order in which instructions complete.
// REQUIRES: check_references.
[[nodiscard]] std::vector<InstructionRef> check_meetings(const Program& program, Findings& findings);

}  // namespace meshwright
