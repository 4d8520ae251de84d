// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/search/step_times.h"

#include <algorithm>

#include "cli/terminal/output.h"
#include "core/base/text.h"
#include "core/base/text_table.h"

namespace meshwright {

StepTimes::StepTimes() : opened_(now()) {}

void StepTimes::begin(const char* step) {
  const auto known =
      std::find_if(totals_.begin(), totals_.end(), [&](const Total& total) { return total.step == step; });
  current_ = static_cast<std::size_t>(known - totals_.begin());
  if (known == totals_.end()) totals_.push_back({step});
  begun_ = now();
}

void StepTimes::end(const std::string& result) {
  const Seconds time = now() - begun_;
  Total& total = totals_[current_];
  ++total.count;
  total.time += time;
  tell(fmt::format("{} {}  {:.3f} s", total.step, result, time.si()));
}

StepTimes::~StepTimes() {
  TextTable table({{"step", ""}, {"times", ""}, {"total", "(s)"}});
  const auto add = [&](const std::string& step, const std::string& count, Seconds time) {
    table.add_row({step, count, fmt::format("{:.3f}", time.si())});
  };
  Seconds rest = now() - opened_;
  for (const Total& total : totals_) {
    add(total.step, fmt::format("{}", total.count), total.time);
    rest -= total.time;
  }
  add("other", "-", rest);
  std::string text = table.to_text();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (const std::string& line : split(text, '\n')) tell(line);
}

}  // namespace meshwright
