// SPDX-License-Identifier: Apache-2.0
// What a model file that is read leads to.
#pragma once

#include <string_view>

#include "core/base/errors.h"
#include "core/graph/import/model_file.h"

namespace meshwright {

// Throws InputError where the bytes are refused. What was read is never refused later.
inline void expect_model_or_refusal(std::string_view bytes, const char* path) {
  const ModelConfig model = read_model_bytes(bytes, path, {});
  try {
    (void)build_forward_graph(model, {.batch = 6, .microbatches = 2});
  } catch (const InputError& error) {
    MW_CHECK(false, "what was read is refused later: {}", error.what());
  }
}

}  // namespace meshwright
