// SPDX-License-Identifier: Apache-2.0
#include "cli/machine/other_load.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "cli/terminal/output.h"

namespace meshwright {

namespace {

Seconds seconds_of(const timeval& time) {
  return Seconds(static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec));
}

}  // namespace

OtherLoad::OtherLoad() : begin_(read()), begin_time_(now()) {}

std::optional<double> OtherLoad::cores() const {
  const auto end = read();
  if (!begin_ || !end) return std::nullopt;
  const Seconds wall = now() - begin_time_;
  if (wall <= Seconds(0.0)) return std::nullopt;
  const Seconds others = (end->all - begin_->all) - (end->own - begin_->own);
  return std::max(0.0, others / wall);
}

std::string other_load_line(std::optional<double> cores) {
  if (!cores || *cores < 0.1) return "";
  return fmt::format(
      "# other programs kept {:.1f} cores busy during the measurement: times are longer than on an idle machine\n",
      *cores);
}

std::optional<OtherLoad::Counters> OtherLoad::read() {
  // First line: cpu user nice system idle iowait irq softirq steal ..., in clock ticks summed over cores.
  std::ifstream stat("/proc/stat");
  std::string label;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupt = 0, soft_interrupt = 0, stolen = 0;
  stat >> label >> user >> nice >> system >> idle >> waiting >> interrupt >> soft_interrupt >> stolen;
  rusage own{};
  if (!stat || label != "cpu" || getrusage(RUSAGE_SELF, &own) != 0) return std::nullopt;
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  return Counters{Seconds((user + nice + system + interrupt + soft_interrupt + stolen) / ticks),
                  seconds_of(own.ru_utime) + seconds_of(own.ru_stime)};
}

}  // namespace meshwright
