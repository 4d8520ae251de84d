// SPDX-License-Identifier: Apache-2.0
#include "launch/read/trainers/policies.h"

#include <algorithm>

#include "core/base/text.h"

namespace meshwright {

void name_as_flags(ReadingJob& job, const std::function<std::string(const std::string& key)>& flag_of) {
  const std::string absent = "absent:";
  job.settings().rename([&](const Setting& setting) -> std::string {
    const std::string flag = flag_of(setting.key);
    const std::string text = setting.value.is_scalar() ? lower_case(setting.value.text) : "";
    const bool none = setting.value.kind == ConfigValue::Kind::Null || text == "null" || text == "none" || text == "~";
    return flag.empty() || !none ? flag : absent + flag;
  });
  job.settings().no_effect([&](const std::string& key) { return key.starts_with(absent); });
}

void add_usual_flag(ReadingJob& job, const char* flag, const std::string& value, const std::string& place) {
  if (!job.settings().has(flag)) job.settings().add(flag, flag, ConfigValue::scalar(value, 0), place);
}

std::int64_t samples_within(ReadingJob& job, std::int64_t tokens, std::int64_t samples) {
  const std::int64_t seq = std::max<std::int64_t>(1, job.reading.setup.model.seq);
  job.assume(fmt::format("micro-batches of up to {} tokens, in samples of the whole length", tokens));
  const std::int64_t most = std::max<std::int64_t>(1, tokens / seq);
  std::int64_t parts = std::max<std::int64_t>(1, (samples + most - 1) / most);
  while (parts < samples && samples % parts != 0) ++parts;
  return std::max<std::int64_t>(1, samples / parts);
}

void say_update_alone(ReadingJob& job, const std::string& what, const std::string& rest) {
  job.assume(fmt::format("the step is {}, without {}", what, rest));
  job.assume(
      "memory without what rollouts keep on the same devices: the weights and the cache of the engine that answers");
  job.reading.why_no_advice = fmt::format("its step is {}, and {} take their share of time and memory", what, rest);
}

}  // namespace meshwright
