// SPDX-License-Identifier: Apache-2.0
// Models of a config.json that is given by the members of its text.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_config.h"
#include "core/graph/models/models.h"

namespace meshwright::hf_config_text {

inline ModelConfig read(const std::string& text) { return model_from_hf_text("{" + text + "}", "m", "config.json"); }

inline Graph graph_of(const std::string& text) {
  return build_forward_graph(read(text), {.batch = 1, .dtype = DType::BF16});
}

inline std::int64_t parameters_of(const std::string& text) { return parameter_count(graph_of(text)); }

// Whether the text is refused with a sentence that has `what` in it.
inline bool refused(const std::string& text, const std::string& what) {
  try {
    (void)read(text);
  } catch (const InputError& error) {
    return std::string(error.what()).find(what) != std::string::npos;
  }
  return false;
}

}  // namespace meshwright::hf_config_text
