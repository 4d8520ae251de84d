// SPDX-License-Identifier: Apache-2.0
// Any text at all is either refused by an InputError or becomes a sound program of XLA's operations; and that a model
// whose forward graph can be built, or a refusal.
#include <cstddef>
#include <cstdint>

#include "core/base/errors.h"
#include "core/graph/import/mlir/mlir_text.h"
#include "tests/fuzz/model_bytes.h"

namespace {

using namespace meshwright;

void expect_sound(const xla::Program& program) {
  for (std::size_t k = 0; k < program.computations.size(); ++k) {
    const xla::Computation& computation = program.computations[k];
    const auto count = static_cast<int>(computation.instructions.size());
    MW_CHECK(computation.root >= 0 && computation.root < count, "a computation without a root");
    for (int i = 0; i < count; ++i) {
      const xla::Instruction& instruction = computation.instructions[static_cast<std::size_t>(i)];
      for (const int operand : instruction.operands) MW_CHECK(operand >= 0 && operand < i, "an operand behind its use");
      for (const int call : instruction.calls)
        MW_CHECK(call >= 0 && call < static_cast<int>(k), "a computation behind its call");
      for (const std::int64_t size : instruction.type.sizes) MW_CHECK(size >= 0, "a size is open");
    }
  }
  MW_CHECK(program.entry >= 0 && program.entry < static_cast<int>(program.computations.size()), "no entry");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    expect_sound(mlir::read_mlir(text, {}, "fuzz.mlir"));
    expect_model_or_refusal(text, "fuzz.mlir");
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}
