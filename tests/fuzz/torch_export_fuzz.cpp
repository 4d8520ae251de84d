// SPDX-License-Identifier: Apache-2.0
// Any bytes at all, as an exported program of PyTorch, are either refused by an InputError or become a model whose
// forward graph can be built. Bytes that begin as a zip archive does are one, those that begin as gzip are the packed
// JSON; all others are the parts of an archive, a byte 0x1e between them: the program, what is told of its constants,
// and the bytes of one constant, "t".
#include <cstddef>
#include <cstdint>

#include "core/base/errors.h"
#include "tests/fuzz/model_bytes.h"
#include "tests/zip_archive.h"

namespace {

using namespace meshwright;

std::string archive_of_parts(std::string_view bytes) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (const char* name : {"m/models/model.json", "m/data/constants/model_constants_config.json"}) {
    const std::size_t end = bytes.find('\x1e');
    entries.emplace_back(name, bytes.substr(0, end));
    if (end == std::string_view::npos) return archive_of(entries);
    bytes.remove_prefix(end + 1);
  }
  entries.emplace_back("m/data/constants/t", bytes);
  return archive_of(entries);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    if (bytes.starts_with("PK"))
      expect_model_or_refusal(bytes, "fuzz.pt2");
    else if (bytes.starts_with("\x1f\x8b"))
      expect_model_or_refusal(bytes, "fuzz.json.gz");
    else
      expect_model_or_refusal(archive_of_parts(bytes), "fuzz.pt2");
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}
