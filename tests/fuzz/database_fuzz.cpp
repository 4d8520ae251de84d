// SPDX-License-Identifier: Apache-2.0
// Any bytes at all, as a database, are either refused by an InputError or read: as a profile and as a recording.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/errors.h"
#include "costmodel/nsight_export.h"
#include "costmodel/profile_db.h"

namespace {

using namespace meshwright;

// Damage that SQLite finds late is said by its own words: of the system.
template <class Read>
void check(Read read) {
  try {
    read();
  } catch (const InputError&) {
  } catch (const SystemError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("database_fuzz_" + std::to_string(getpid()))).string();
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  check([] {
    const ProfileDb db(path, ProfileDb::Mode::ReadOnly);
    (void)db.sessions();
    (void)db.ops();
    (void)db.collectives();
    (void)db.transfers();
    (void)db.overheads();
    (void)db.kernels();
    (void)db.stage_profiles();
    (void)db.runs();
  });
  check([] { (void)read_nsight_export(path); });
  std::filesystem::remove(path);
  return 0;
}
