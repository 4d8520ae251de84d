// SPDX-License-Identifier: Apache-2.0
// Any text at all is either refused by an InputError or becomes what the option is for. The first byte chooses which.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/models/models.h"
#include "core/mesh/cluster.h"
#include "core/planner/layers/layer_recompute.h"
#include "core/planner/method/method.h"
#include "core/schedule/schedule.h"
#include "core/sharding/sharding_spec.h"
#include "tests/fuzz/input_kinds.h"

namespace {

using namespace meshwright;

void read_as(char kind, const std::string& text) {
  switch (kind) {
    case 'm':  // methods that name files read them
      if (!text.starts_with("manual:") && !text.starts_with("specs:")) (void)method_from_text(text);
      return;
    case 's': {
      const ShardingSpec spec = spec_from_text(text, "fuzz");
      MW_CHECK(spec_from_text(spec.to_text(), "again") == spec, "'{}' becomes '{}'", text, spec.to_text());
      return;
    }
    case 'c':
      if (text.find('/') == std::string::npos && !text.ends_with(".json")) (void)find_cluster(text);
      return;
    case 'b':
      return (void)find_builtin_model(text);
    case 'r':
      return (void)layer_recompute_from_text(text);
    case 'f':
      return (void)run_from_text(text);
    default:
      MW_CHECK(is_utf8(printable(text)) && printable(printable(text)) == printable(text), "it is escaped twice");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return read_by_kind(data, size, read_as);
}
