// SPDX-License-Identifier: Apache-2.0
#include "validation/run_log.h"

#include <algorithm>
#include <cstdlib>

#include "core/base/errors.h"

namespace meshwright {

namespace {

constexpr std::size_t kWarmUp = 3;  // steps that compile, allocate and connect

// The numbers that follow `mark`, "5,762" being 5762. Logs colour their text: escape sequences are passed over.
std::vector<double> numbers_after(const std::string& text, std::string_view mark) {
  std::vector<double> numbers;
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    std::string digits;
    for (std::size_t i = at + mark.size(); i < text.size(); ++i) {
      const char c = text[i];
      if (c == '\x1b' && digits.empty()) {
        i = std::min(text.find('m', i), text.size() - 1);
        continue;
      }
      if (c == ',' || (c == ' ' && digits.empty())) continue;
      const bool of_number = (c >= '0' && c <= '9') || c == '.' || (!digits.empty() && (c == 'e' || c == 'E')) ||
                             (!digits.empty() && c == '+');
      if (!of_number) break;
      digits += c;
    }
    const double number = digits.empty() ? 0.0 : std::strtod(digits.c_str(), nullptr);
    if (number > 0) numbers.push_back(number);
  }
  return numbers;
}

// A log of few steps is read from its middle on.
double median_after_warm_up(const std::vector<double>& numbers) {
  const std::size_t skipped = std::min(kWarmUp, numbers.size() / 2);
  std::vector<double> rest(numbers.begin() + static_cast<std::ptrdiff_t>(skipped), numbers.end());
  std::sort(rest.begin(), rest.end());
  const std::size_t middle = rest.size() / 2;
  return rest.size() % 2 == 1 ? rest[middle] : 0.5 * (rest[middle - 1] + rest[middle]);
}

double samples_of_step(const PublishedRun& run, const std::string& place) {
  if (run.global_batch) return static_cast<double>(*run.global_batch);
  require(run.micro_batch && run.micro_batches && run.dp,
          "{}: the log counts tokens, but row '{}' does not state its batch; fill in global_batch.", place, run.id);
  return static_cast<double>(*run.micro_batch * *run.micro_batches * *run.dp);
}

}  // namespace

Seconds step_of_log(const std::string& text, const PublishedRun& run, const std::string& place) {
  const std::vector<double> milliseconds = numbers_after(text, "elapsed time per iteration (ms):");
  if (!milliseconds.empty()) return Seconds(1e-3 * median_after_warm_up(milliseconds));
  const std::vector<double> rates = numbers_after(text, "tps:");
  require(!rates.empty(),
          "{}: no line has 'elapsed time per iteration (ms):' or 'tps:'; give a log of Megatron-LM or torchtitan, or "
          "write the step time into the column iteration_s.",
          place);
  require(run.seq && run.devices, "{}: row '{}' states neither its sequence nor its devices.", place, run.id);
  const double tokens = samples_of_step(run, place) * static_cast<double>(*run.seq);
  return Seconds(tokens / (median_after_warm_up(rates) * static_cast<double>(*run.devices)));
}

}  // namespace meshwright
