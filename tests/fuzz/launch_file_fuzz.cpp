// SPDX-License-Identifier: Apache-2.0
// Any bytes at all are either refused by an InputError or become a job. The first byte chooses the kind of file.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/errors.h"
#include "launch/read/launch_reading.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace meshwright;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const char* name = data[0] == 'y' ? "f.yaml" : data[0] == 't' ? "f.toml" : data[0] == 'p' ? "f.py" : "f.sh";
  static const ModelConfig model = find_builtin_model("gpt-125m");
  try {
    const LaunchText of = read_launch_text({.files = {{name, text}}});
    LaunchAnswers answers{.batch = 64};
    if (size % 2 == 0) answers.model = model;
    const LaunchReading reading = read_launch(of, devices_of(of).value_or(LaunchDevices{2, 8}), answers);
    MW_CHECK(reading.setup.degrees.dp >= 1, "dp is {}", reading.setup.degrees.dp);
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}
