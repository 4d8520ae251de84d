// SPDX-License-Identifier: Apache-2.0
// Data sheets of accelerators, by name: what the vendor says, and nothing fitted. Compiled in from devices.json.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "costmodel/terms/products.h"

namespace meshwright {

struct DataSheet {
  std::string name;                  // "A100-SXM4-80GB", as DeviceKind::name
  std::vector<std::string> aliases;  // other names for it in published measurements
  std::string generation;            // "ampere"
  int multiprocessors = 1;
  Bytes memory{0.0};
  BytesPerSecond memory_bandwidth{0.0};
  BytesPerSecond link{0.0};                    // of a ring over the devices of a host, or of one NVLink domain
  BytesPerSecond network{0.0};                 // of the host's network for each of its devices, as usually sold
  int domain = 1;                              // devices that one switch joins, where these are more than a host's
  std::map<std::string, FlopsPerSecond> peak;  // dense, by dtype: f64, f32, tf32, f16, bf16, f8

  std::map<std::string, double> sustained = {};  // by dtype, where it is not its generation's (sustained_factor)
  // Where links join some devices of a host and not others (the cube mesh of V100s): bus bandwidth of nccl-tests by
  // number of devices; of the collectives that go round a ring, and of an all-to-all, which also needs missing links.
  std::map<int, BytesPerSecond> rings = {}, all_to_all = {};

  // Throws InputError where the device has no peak for this type.
  [[nodiscard]] ProductUnit unit(const std::string& dtype) const;
};

[[nodiscard]] const std::vector<DataSheet>& data_sheets();
// nullptr: no sheet has this name or alias.
[[nodiscard]] const DataSheet* find_data_sheet(std::string_view name);

}  // namespace meshwright
