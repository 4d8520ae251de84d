// SPDX-License-Identifier: Apache-2.0
// ProfileDb: measurements in one SQLite file, with where and when each was taken.
//
// STRICT tables, WAL while it is being written (a single file at rest), application_id 0x4D575250 ("MWRP"),
// user_version = kSchemaVersion; units in column names; every measured row points to the session (device, library
// versions, date, command) that took it. A file written by a newer version, by another program, or damaged, is refused
// (InputError) and left as it is. A file of an older version is read as it is, and brought to this version when it is
// opened for writing. One thread at a time; several processes may share the file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/base/units.h"
#include "core/mesh/cluster.h"
#include "core/planner/stages/stage_profile.h"
#include "core/sharding/cost_model.h"
#include "costmodel/calibration/kernel_rows.h"

namespace meshwright {

struct Measurement {
  Seconds median{0.0};
  Seconds spread{0.0};  // median absolute deviation
  int samples = 0;
};

struct ProfileSession {
  std::string device;  // "Intel Xeon Platinum 8488C"
  std::string host;
  std::string libraries;  // "oneDNN 2.6.3; g++ 12.2.0"
  std::string date_utc;   // "2026-11-20T18:03:42Z"
  std::string command;
  Cluster cluster;  // what was profiled, as a cluster of its own (stored as JSON)
};

// Kind and type: "contract f32" of "contract f32 [a=4,b=8]...".
[[nodiscard]] inline std::string_view family_of(std::string_view signature) {
  const std::size_t kind_end = signature.find(' ');
  if (kind_end == std::string_view::npos) return signature;
  return signature.substr(0, signature.find(' ', kind_end + 1));
}

struct OpProfile {
  std::string signature;  // OpWork::signature
  int concurrency;        // devices that ran it at the same time
  double flops, bytes;
  Measurement time;
};
struct CollectiveProfile {
  CollectiveKind kind;
  int ranks, hosts;
  std::int64_t size_bytes;
  Measurement time;
};
// The overhead of this name is what a message of so many bytes takes of the time in which either of its ends would
// compute.
inline constexpr const char* kMessageWork = "message work";
inline constexpr std::int64_t kMessageWorkBytes = std::int64_t{1} << 20;
struct TransferProfile {
  bool hosts_apart;
  std::int64_t size_bytes;
  Measurement time;
};
// Where published measurements come from, and what may be done with them.
struct KernelSource {
  std::string source, licence;
};
struct ProfileRun {
  std::int64_t session = 0;
  std::string plan_json;
  Seconds predicted{0.0}, measured{0.0};
  std::string details;  // JSON
};
struct SweepPoint {
  std::string key;     // canonical JSON of everything the point depends on
  std::string result;  // JSON
};

class ProfileDb {
 public:
  enum class Mode { ReadOnly, ReadWrite };  // ReadWrite creates the file when it is missing
  ProfileDb(const std::string& path, Mode mode);
  ~ProfileDb();
  ProfileDb(const ProfileDb&) = delete;
  ProfileDb& operator=(const ProfileDb&) = delete;

  static constexpr int kSchemaVersion = 4;

  // All that `write` puts is there, or, where it throws, nothing of it. REQUIRES: it calls none of the functions that
  // promise the same of their own.
  void put_together(const std::function<void()>& write);

  std::int64_t add_session(const ProfileSession& session);
  // A session whose measurements are only being taken: its date says that it is unfinished, until finish_session writes
  // the date and the cluster anew. The process may end in between.
  std::int64_t begin_session(ProfileSession session);
  void finish_session(std::int64_t id, const ProfileSession& session);
  // What unfinished sessions of this device, host and libraries have measured of ops.
  [[nodiscard]] std::vector<OpProfile> unfinished_ops(const ProfileSession& like) const;

  // A later measurement of the same thing replaces the earlier one.
  void put(std::int64_t session, const OpProfile& op);
  void put(std::int64_t session, const CollectiveProfile& collective);
  void put(std::int64_t session, const TransferProfile& transfer);
  void put_overhead(std::int64_t session, const std::string& name, const Measurement& time);  // "run"

  [[nodiscard]] std::vector<ProfileSession> sessions() const;  // oldest first
  // The devices (of the clusters) of the sessions that the ops, collectives, transfers and overheads below come from;
  // each once, by name.
  [[nodiscard]] std::vector<std::string> measured_devices() const;
  [[nodiscard]] std::vector<OpProfile> ops() const;
  [[nodiscard]] std::vector<CollectiveProfile> collectives() const;
  [[nodiscard]] std::vector<TransferProfile> transfers() const;
  [[nodiscard]] std::map<std::string, Measurement> overheads() const;

  // Sweeps: every finished point is committed before the next begins.
  [[nodiscard]] std::optional<std::string> sweep_result(const std::string& key) const;
  void put_sweep_point(const SweepPoint& point);

  // Stage tables by key. An entry that was there under its key and name is replaced, others stay; all are there or
  // none. `session`: who measured the entries; nullopt: they are modelled, or it was not recorded.
  void put_stage_profile(std::optional<std::int64_t> session, const StageProfileTable& table);
  [[nodiscard]] std::vector<StageProfileKey> stage_profile_keys() const;  // oldest first
  [[nodiscard]] std::optional<StageProfileTable> stage_profile(const StageProfileKey& key) const;
  [[nodiscard]] std::vector<StageProfileTable> stage_profiles() const;

  // Algorithms of products by product, as kernels write them down, for devices of this name and this version of the
  // library that has them. A later one of a product replaces the earlier; all are there or none.
  void put_product_algorithms(std::int64_t session, const std::string& device, const std::string& library,
                              const std::map<std::string, std::string>& algorithms);
  [[nodiscard]] std::map<std::string, std::string> product_algorithms(const std::string& device,
                                                                      const std::string& library) const;

  // Kernels that others measured (the device's name is that of a data sheet). A later measurement of the same shape on
  // the same device by the same library replaces the earlier; all are there or none. Returns how many were not there.
  int put_kernels(const KernelSource& source, const std::vector<KernelRow>& rows);
  [[nodiscard]] std::vector<KernelRow> kernels() const;

  // Runs: predicted against measured; `details` is the run's document as JSON.
  void put_run(std::int64_t session, const std::string& plan_json, Seconds predicted, Seconds measured,
               const std::string& details);
  [[nodiscard]] std::vector<ProfileRun> runs() const;  // oldest first

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace meshwright
