// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/products/product_timing.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "kernels/cuda/measure/cold_timer.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kRounds = 5, kMinRounds = 3;
constexpr double kLong = 0.25;   // seconds of all rounds, from which on kMinRounds are enough
constexpr double kNoise = 0.99;  // of a time: what is not below is no faster
constexpr const char* kDigits = "0123456789abcdef";

int value_of(char digit) {
  const char* const end = kDigits + 16;
  const char* const found = std::find(kDigits, end, digit);
  return found == end ? -1 : static_cast<int>(found - kDigits);
}

}  // namespace

std::string product_key(const Product& p, const std::string& type, std::uint32_t a_alignment, std::uint32_t b_alignment,
                        std::uint32_t c_alignment) {
  std::ostringstream key;
  key << type << ' ' << (p.transpose_a ? 't' : 'n') << (p.transpose_b ? 't' : 'n') << ' ' << p.m << 'x' << p.n << 'x'
      << p.k << " ld " << p.lda << ' ' << p.ldb << ' ' << p.ldc;
  if (p.batch > 1) key << " batch " << p.batch << " apart " << p.stride_a << ' ' << p.stride_b << ' ' << p.stride_c;
  key << " at " << a_alignment << ' ' << b_alignment << ' ' << c_alignment;
  return key.str();
}

std::vector<double> median_seconds(std::size_t candidates,
                                   const std::function<double(std::size_t candidate)>& seconds) {
  std::vector<std::vector<double>> times(candidates);
  double total = 0.0;
  // Round -1 is not counted: what runs first may wait for code to be loaded and for clocks to rise.
  for (int round = -1; round < kRounds && (round < kMinRounds || total < kLong); ++round)
    for (std::size_t i = 0; i < candidates; ++i) {
      // A candidate that does not run is not tried again.
      if (!times[i].empty() && std::isinf(times[i].front())) continue;
      const double took = seconds(i);
      if (std::isinf(took)) {
        times[i].assign(1, took);
      } else if (round >= 0) {
        times[i].push_back(took);
        total += took;
      }
    }
  std::vector<double> medians;
  for (std::vector<double>& of_one : times) {
    const auto middle = of_one.begin() + static_cast<std::ptrdiff_t>(of_one.size() / 2);
    std::nth_element(of_one.begin(), middle, of_one.end());
    medians.push_back(*middle);
  }
  return medians;
}

std::size_t fastest(const std::vector<double>& medians) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < medians.size(); ++i)
    // Candidates within the noise of each other keep the library's order, so that runs agree more often.
    if (medians[i] < kNoise * medians[best]) best = i;
  return best;
}

std::vector<double> with_timer(const ProductTuning& tuning,
                               const std::function<std::vector<double>(const ProductTimer&)>& measure) {
  if (tuning.timer) return measure(tuning.timer);
  ColdTimer cold(tuning.l2);
  return measure(
      [&](Stream stream, const std::function<void()>& start) { return cold.seconds_of(stream, start, 1)[0]; });
}

std::string to_hex(const void* data, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    const unsigned byte = static_cast<const unsigned char*>(data)[i];
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

bool from_hex(const std::string& text, void* data, std::size_t size) {
  if (text.size() != 2 * size) return false;
  for (std::size_t i = 0; i < size; ++i) {
    const int high = value_of(text[2 * i]), low = value_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    static_cast<unsigned char*>(data)[i] = static_cast<unsigned char>(16 * high + low);
  }
  return true;
}

}  // namespace meshwright::kernels::cuda
