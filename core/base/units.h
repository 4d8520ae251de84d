// SPDX-License-Identifier: Apache-2.0
// Quantities as types: a number of seconds cannot be added to a number of bytes, and nothing is a bare double.
//
// Values are SI inside; unit names appear only in constructors and si(). There is no default value: a
// quantity that is not known is a std::optional. A double counts integers exactly up to 2^53, so Bytes are exact to 9
// PB.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>

namespace meshwright {

template <class Dimension>
class Quantity {
 public:
  constexpr explicit Quantity(double si) : si_(si) {}
  [[nodiscard]] constexpr double si() const { return si_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) {
    si_ += other.si_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    si_ -= other.si_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.si_ + b.si_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.si_ - b.si_); }
  friend constexpr Quantity operator*(double k, Quantity a) { return Quantity(k * a.si_); }
  friend constexpr Quantity operator*(Quantity a, double k) { return Quantity(k * a.si_); }
  friend constexpr Quantity operator/(Quantity a, double k) { return Quantity(a.si_ / k); }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.si_ / b.si_; }

 private:
  double si_;
};

using Seconds = Quantity<struct TimeDimension>;
using Bytes = Quantity<struct DataDimension>;
using Flops = Quantity<struct WorkDimension>;
using SecondsPerByte = Quantity<struct InverseRateDimension>;
using BytesPerSecond = Quantity<struct DataRateDimension>;
using FlopsPerSecond = Quantity<struct WorkRateDimension>;

constexpr Seconds operator/(Bytes data, BytesPerSecond rate) { return Seconds(data.si() / rate.si()); }
constexpr Seconds operator/(Flops work, FlopsPerSecond rate) { return Seconds(work.si() / rate.si()); }
constexpr Seconds operator*(SecondsPerByte beta, Bytes data) { return Seconds(beta.si() * data.si()); }
constexpr SecondsPerByte inverse(BytesPerSecond rate) { return SecondsPerByte(1.0 / rate.si()); }

// GB is 10^9 and GiB is 2^30 bytes; they are spelled differently everywhere.
constexpr Bytes gibibytes(double n) { return Bytes(n * 1073741824.0); }
constexpr BytesPerSecond gigabytes_per_second(double n) { return BytesPerSecond(n * 1e9); }
constexpr FlopsPerSecond teraflops(double n) { return FlopsPerSecond(n * 1e12); }
constexpr Seconds microseconds(double n) { return Seconds(n * 1e-6); }

// The simulated clock: integer picoseconds (106 days either way), so that sums do not depend on their order.
struct SimTime {
  std::int64_t ps = 0;

  constexpr auto operator<=>(const SimTime&) const = default;
  constexpr SimTime& operator+=(SimTime other) {
    ps += other.ps;
    return *this;
  }
  friend constexpr SimTime operator+(SimTime a, SimTime b) { return {a.ps + b.ps}; }
  friend constexpr SimTime operator-(SimTime a, SimTime b) { return {a.ps - b.ps}; }
};

// The only place where seconds are rounded to the simulated clock (to the nearest picosecond).
inline SimTime to_sim_time(Seconds time) { return {std::llround(time.si() * 1e12)}; }
constexpr Seconds to_seconds(SimTime time) { return Seconds(static_cast<double>(time.ps) * 1e-12); }

}  // namespace meshwright
