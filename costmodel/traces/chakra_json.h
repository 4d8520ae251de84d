// SPDX-License-Identifier: Apache-2.0
// Chakra's execution traces as JSON: what its jsonizer writes, the same messages one JSON object after the other.
//
//   { "attr": [ {"name": "schema", "stringVal": "1.0.2"} ] }
//   { "id": "4", "name": "aten::mm", "type": "COMP_NODE", "ctrlDeps": ["3"], "durationMicros": "40",
//     "inputs": {"values": "[...]", "shapes": "[...]", "types": "[...]"}, "attr": [ {"name": "is_cpu_op", "boolVal":
//     true} ] }
#pragma once

#include <string>
#include <string_view>

namespace meshwright {

// Whether the beginning of a text is one of such a trace.
[[nodiscard]] bool is_chakra_json(std::string_view text);

// The trace as protocol buffers (chakra_trace.h reads them), with the members that are read. Throws InputError naming
// the object that is not JSON or has a member of another type.
[[nodiscard]] std::string chakra_from_json(std::string_view text, const std::string& place);

}  // namespace meshwright
