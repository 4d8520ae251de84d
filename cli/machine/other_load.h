// SPDX-License-Identifier: Apache-2.0
// The share of this machine's cores that other programs used during a measurement: times measured beside them mean
// little.
#pragma once

#include <optional>
#include <string>

#include "core/base/units.h"

namespace meshwright {

class OtherLoad {
 public:
  OtherLoad();  // begins to watch
  // Cores that others (other programs, and other machines on the same host) kept busy since then, on average: 0.5 =
  // half a core. nullopt if the system does not report it (/proc/stat).
  [[nodiscard]] std::optional<double> cores() const;

 private:
  struct Counters {
    Seconds all{0.0}, own{0.0};
  };
  [[nodiscard]] static std::optional<Counters> read();

  std::optional<Counters> begin_;
  Seconds begin_time_{0.0};
};

// A "# ..." line when others took more than a tenth of a core, else nothing.
[[nodiscard]] std::string other_load_line(std::optional<double> cores);

}  // namespace meshwright
