// SPDX-License-Identifier: Apache-2.0
#include "simulator/report/periods.h"

#include <algorithm>

namespace meshwright {

Periods united_periods(Periods all) {
  std::sort(all.begin(), all.end(), [](Period a, Period b) { return a.begin < b.begin; });
  Periods whole;
  for (const Period next : all) {
    if (next.begin >= next.end) continue;
    if (!whole.empty() && next.begin <= whole.back().end) {
      whole.back().end = std::max(whole.back().end, next.end);
    } else {
      whole.push_back(next);
    }
  }
  return whole;
}

std::int64_t length_of(const Periods& all) {
  std::int64_t sum = 0;
  for (const Period each : all) sum += each.end - each.begin;
  return sum;
}

std::int64_t take_out(Periods& from, const Periods& taken) {
  Periods left;
  std::int64_t sum = 0;
  std::size_t t = 0;
  for (Period rest : from) {
    while (t < taken.size() && taken[t].end <= rest.begin) ++t;
    for (std::size_t next = t; next < taken.size() && taken[next].begin < rest.end; ++next) {
      const std::int64_t begin = std::max(rest.begin, taken[next].begin), end = std::min(rest.end, taken[next].end);
      sum += end - begin;
      if (rest.begin < begin) left.push_back({rest.begin, begin});
      rest.begin = end;
    }
    if (rest.begin < rest.end) left.push_back(rest);
  }
  from = std::move(left);
  return sum;
}

}  // namespace meshwright
