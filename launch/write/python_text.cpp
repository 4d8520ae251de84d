// SPDX-License-Identifier: Apache-2.0
#include "launch/write/python_text.h"

#include "core/base/text.h"

namespace meshwright {

std::string python_text(const std::string& text) {
  std::string made = "'";
  for (const char c : text) made += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  return made + "'";
}

std::string python_tuple(const std::vector<int>& values) {
  return fmt::format("({}{})", fmt::join(values, ", "), values.size() == 1 ? "," : "");
}

std::string partition_spec(const ShardingSpec& spec) {
  std::vector<std::string> dims;
  for (const AxisMask mask : spec.dims) {
    std::vector<std::string> axes;
    for (int axis = 0; axis < 8; ++axis)
      if ((mask >> axis & 1) != 0) axes.push_back(fmt::format("'x{}'", axis));
    dims.push_back(axes.empty() ? "None" : axes.size() == 1 ? axes.front() : "(" + join(axes, ", ") + ")");
  }
  while (!dims.empty() && dims.back() == "None") dims.pop_back();
  return "P(" + join(dims, ", ") + ")";
}

}  // namespace meshwright
