// SPDX-License-Identifier: Apache-2.0
#include "report/page/columns.h"

#include <bit>

#include "core/base/base64.h"
#include "core/base/gzip.h"

namespace meshwright {

Json& Columns::enter(const std::string& name, const char* type, std::size_t size, std::size_t length) {
  MW_CHECK(!index_.contains(name), "two columns are called {}", name);
  bytes_.resize((bytes_.size() + size - 1) / size * size, '\0');
  return index_[name] = {{"type", type}, {"offset", bytes_.size()}, {"length", length}};
}

void Columns::add(const std::string& name, const std::vector<double>& values) {
  constexpr std::size_t kSize = 8;
  enter(name, "f64", kSize, values.size())["shuffle"] = kSize;
  // Neighbours differ in their last bytes alone, so that the others deflate to nearly nothing.
  for (std::size_t byte = 0; byte < kSize; ++byte)
    for (const double value : values)
      bytes_ += static_cast<char>(std::bit_cast<std::uint64_t>(value) >> 8 * byte & 255);
}

void Columns::add(const std::string& name, const std::vector<std::int32_t>& values) {
  enter(name, "i32", 4, values.size());
  for (const std::int32_t value : values)
    for (int byte = 0; byte < 4; ++byte)
      bytes_ += static_cast<char>(static_cast<std::uint32_t>(value) >> 8 * byte & 255);
}

void Columns::add(const std::string& name, const std::vector<std::uint8_t>& values) {
  enter(name, "u8", 1, values.size());
  bytes_.append(values.begin(), values.end());
}

void Columns::add(const std::string& name, const std::string& text) {
  enter(name, "text", 1, text.size());
  bytes_ += text;
}

std::string Columns::packed() const { return to_base64(deflated(bytes_)); }

}  // namespace meshwright
