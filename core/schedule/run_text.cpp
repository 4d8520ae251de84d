// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include "core/base/errors.h"
#include "core/schedule/schedule.h"

namespace meshwright {

namespace {

constexpr std::size_t kMaxDigits = 6;  // of a stage or a microbatch

char letter(Pass pass) {
  switch (pass) {
    case Pass::Forward:
      return 'F';
    case Pass::Backward:
      return 'B';
    case Pass::BackwardInput:
      return 'I';
    case Pass::BackwardWeight:
      return 'W';
  }
  throw InternalError("a pass without a letter");
}

}  // namespace

std::string text_of(const ScheduledRun& run) {
  return fmt::format("{}{}{}", run.stage.value, letter(run.pass), run.microbatch.value);
}

std::optional<ScheduledRun> run_from_text(const std::string& text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  // std::stoi cannot overflow with so few digits.
  const auto is_number = [&](std::string_view digits) {
    return !digits.empty() && digits.size() <= kMaxDigits && std::all_of(digits.begin(), digits.end(), is_digit);
  };
  const auto pass = std::find_if_not(text.begin(), text.end(), is_digit);
  if (pass == text.end()) return std::nullopt;
  const std::string stage(text.begin(), pass), microbatch(pass + 1, text.end());
  if (!is_number(stage) || !is_number(microbatch)) return std::nullopt;
  for (const Pass each : {Pass::Forward, Pass::Backward, Pass::BackwardInput, Pass::BackwardWeight})
    if (letter(each) == *pass)
      return ScheduledRun{each, MicrobatchId(std::stoi(microbatch)), StageId(std::stoi(stage))};
  return std::nullopt;
}

}  // namespace meshwright
