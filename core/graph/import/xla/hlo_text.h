// SPDX-License-Identifier: Apache-2.0
// The text of HLO modules, as XLA (--xla_dump_to, `lowered.as_text("hlo")`), JAX and torch-xla print it. Operands may
// come with or without their types; text may stand before the module (a JavaScript template begins with a backtick).
//
// What lacks a meaning for models is skipped: layouts, the tables of files and stack frames, schedules.
#pragma once

#include <string>
#include <string_view>

#include "core/graph/import/xla/xla_module.h"

namespace meshwright::xla {

// Whether the text is a module: "HloModule" begins one of its first lines.
[[nodiscard]] bool is_hlo_text(std::string_view text);

// Throws InputError, one sentence beginning with "<place>:<line>", where the text is no module. A text that ends inside
// a computation is kept as far as it goes (Program::cut_off).
[[nodiscard]] Program read_hlo_text(std::string_view text, const std::string& place);

}  // namespace meshwright::xla
