// SPDX-License-Identifier: Apache-2.0
#include "cli/machine/provenance.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>

#include "core/base/errors.h"
#include "executor/measure/profiler.h"

namespace meshwright {

namespace {

constexpr const char* kMeasuringCommands[] = {"meshwright profile", "meshwright import"};

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  if (gmtime_r(&now, &parts) == nullptr) throw SystemError("the clock of this machine cannot be read.");
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) throw SystemError("the name of this machine cannot be read.");
  return name.data();
}

}  // namespace

Bytes memory_of_this_machine() {
  return Bytes(static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)));
}

ProfileSession make_session(const Cluster& cluster, const std::string& command_line) {
  ProfileSession session;
  session.device = describe_device();
  session.host = host_name();
  session.libraries = describe_libraries();
  session.date_utc = utc_now();
  session.command = command_line;
  session.cluster = cluster;
  return session;
}

ProfileSession profiled_session(const ProfileDb& db, const std::string& path, const std::string& dtype) {
  std::optional<ProfileSession> latest, with_dtype;
  for (const ProfileSession& session : db.sessions()) {
    if (std::none_of(std::begin(kMeasuringCommands), std::end(kMeasuringCommands),
                     [&](const char* command) { return session.command.starts_with(command); }))
      continue;
    latest = session;
    const auto& groups = session.cluster.groups;
    if (std::all_of(groups.begin(), groups.end(), [&](const auto& group) { return group.device.peak.contains(dtype); }))
      with_dtype = session;
  }
  require(latest.has_value(),
          "{}: this database holds no measurements; run `meshwright profile --backend cpu --db {}` first.", path, path);
  return with_dtype ? *with_dtype : *latest;
}

std::string provenance_line(const ProfileSession& session) {
  return fmt::format("# measured {} on {} ({}), {}, with: {}\n", session.date_utc, session.host, session.device,
                     session.libraries, session.command);
}

Json provenance_json(const ProfileSession& session) {
  return {{"date_utc", session.date_utc},   {"host", session.host},       {"device", session.device},
          {"libraries", session.libraries}, {"command", session.command}, {"cluster", session.cluster.name}};
}

}  // namespace meshwright
