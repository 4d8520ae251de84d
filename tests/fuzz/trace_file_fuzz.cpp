// SPDX-License-Identifier: Apache-2.0
// Any bytes at all are either refused by an InputError, or become rows whose times add up to the trace's.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/base/errors.h"
#include "costmodel/traces/chakra_json.h"
#include "costmodel/traces/chakra_trace.h"
#include "costmodel/traces/kineto_trace.h"
#include "costmodel/traces/nccl_tests.h"

namespace {

using namespace meshwright;

template <class Read>
void check(Read read) {
  try {
    const TraceImport trace = read();
    MW_CHECK(std::isfinite(trace.total().si()) && trace.found.time <= trace.total(), "{} s of {} s",
             trace.found.time.si(), trace.total().si());
    for (const OpProfile& op : trace.ops) MW_CHECK(op.time.samples > 0 && op.bytes > 0, "'{}'", op.signature);
    for (const CollectiveProfile& one : trace.collectives)
      MW_CHECK(one.ranks > 1 && one.size_bytes > 0, "no collective");
  } catch (const InputError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check([&] { return read_kineto_trace(unpacked(bytes, "fuzz.json"), "fuzz.json", 8); });
  check([&] { return read_chakra_trace(bytes, "fuzz.et", 8); });
  check([&] { return read_chakra_trace(chakra_from_json(bytes, "fuzz.json"), "fuzz.json", 8); });
  check([&] { return read_nccl_tests(bytes, "fuzz.log"); });
  return 0;
}
