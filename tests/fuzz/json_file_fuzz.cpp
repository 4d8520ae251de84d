// SPDX-License-Identifier: Apache-2.0
// Any bytes at all are either refused by an InputError, or become what the file is for and can be written and read
// again. The first byte chooses the kind of file.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_config.h"
#include "core/graph/import/model_file.h"
#include "core/mesh/cluster.h"
#include "core/plan/plan.h"
#include "tests/fuzz/input_kinds.h"

namespace {

using namespace meshwright;

void read_as(char kind, const std::string& text) {
  switch (kind) {
    case 'p': {
      const Plan plan = plan_from_json(parse_json(text, "fuzz"), "fuzz");
      const std::string again = json_text(to_json(plan));
      MW_CHECK(json_text(to_json(plan_from_json(parse_json(again, "again"), "again"))) == again, "another plan");
      return;
    }
    case 'c': {
      const std::string again = json_text(to_json(cluster_from_json(parse_json(text, "fuzz"), "fuzz")));
      MW_CHECK(json_text(to_json(cluster_from_json(parse_json(again, "again"), "again"))) == again, "another cluster");
      return;
    }
    case 'h':
      return (void)model_from_hf_text(text, "fuzz", "fuzz");
    case 't':
      return (void)read_model_bytes(text, "fuzz.pt2.json", {});
    default:
      return (void)json_text(parse_json(text, "fuzz"));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return read_by_kind(data, size, read_as);
}
