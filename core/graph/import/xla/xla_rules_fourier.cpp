// SPDX-License-Identifier: Apache-2.0
// Fourier transforms, over the last dimensions of an operand.
#include <cctype>

#include "core/base/errors.h"
#include "core/graph/import/xla/lowering.h"

namespace meshwright::xla {

namespace {

// The numbers of "{8,16}", "[8, 16]" or "array<i64: 8, 16>".
std::vector<std::int64_t> numbers_in(const std::string& text) {
  std::vector<std::int64_t> numbers;
  constexpr std::size_t kMaxDigits = 15;
  const std::size_t colon = text.find(':');
  for (std::size_t i = colon == std::string::npos ? 0 : colon; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    if (end > i && end - i <= kMaxDigits) numbers.push_back(std::stoll(text.substr(i, end - i)));
    i = end > i ? end : i + 1;
  }
  return numbers;
}

void fourier(Lowering& l, const FlatOp& op) {
  const auto& other = op.instruction->attributes.other;
  const auto type = other.find("fft_type"), length = other.find("fft_length");
  l.b.expect(type != other.end() && length != other.end(), "it lacks its fft_type or its fft_length");
  const auto is = [&](const char* kind) { return type->second.find(kind) != std::string::npos; };
  const bool to_real = is("IRFFT"), of_real = !to_real && is("RFFT"), inverse = to_real || is("IFFT");
  const std::vector<std::int64_t> lengths = numbers_in(length->second);
  int x = l.whole(l.operand(op, 0));
  const auto rank = std::ssize(l.b.shape(x)), count = std::ssize(lengths);
  l.b.expect(count >= 1 && count <= rank, "its fft_length is none of its operand's dimensions");
  const auto factor = [&](std::int64_t n) { return inverse ? 1.0 / static_cast<double>(n) : 1.0; };
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t axis = rank - count + k, n = lengths[static_cast<std::size_t>(k)];
    const bool last = k + 1 == count;
    const std::int64_t expected = last && to_real ? n / 2 + 1 : n;
    l.b.expect(n > 0 && l.b.shape(x)[static_cast<std::size_t>(axis)] == expected,
               "its fft_length is none of its operand's dimensions");
    if (last && to_real) continue;
    if (!(last && of_real)) x = l.b.fourier(x, axis, n, inverse, factor(n));
  }
  // A transform of real numbers makes half of the last dimension. The order of the dimensions does not matter.
  const std::int64_t n = lengths.back();
  if (of_real) x = l.b.fourier(x, rank - 1, n / 2 + 1, false, 1.0);
  if (to_real) x = l.b.real_fourier_inverse(x, rank - 1, n, factor(n));
  l.set(op, x, l.b.shape(x));
  l.learn(l.type(op.results[0]).sizes, l.b.shape(x));
}

}  // namespace

Rule fourier_rule(const std::string& name) { return name == "fft" ? fourier : nullptr; }

}  // namespace meshwright::xla
