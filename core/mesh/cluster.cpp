// SPDX-License-Identifier: Apache-2.0
#include "core/mesh/cluster.h"

#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

// Per-message latency and bytes per second of a link that moves `rate`.
LinkCost link(Seconds alpha, BytesPerSecond rate) { return {alpha, inverse(rate)}; }

// Rates of the dense matrix units without structured sparsity, from the vendors' data sheets; f32 is plain f32 (no
// TF32).
//
// `matmul_efficiency` is the share of that peak which the large matrix products of a training step sustain. It is below
// what a lone square product reaches (clocks are power-limited over a whole step, and real shapes leave tiles and waves
// half empty), and it is a rough constant per generation: V100 0.55 (narrow products of fp16 tensor cores), A100 0.62,
// H100 and H200 0.60 (a larger peak on the same memory rate per flop). A profile replaces it.
//
// Links within a host are the ring fit t = 2(n-1) alpha + 2(n-1)/n beta B of published all-reduce times (nccl-tests
// tables of VIA-Research/vTrain for V100 and A100, stas00/ml-engineering for H200), so alpha is one ring step.

// `host_bandwidth` is what pinned copies reach of the data sheet's rate in one direction, with all devices of a host
// copying at once. PCI Express: 0.8 of sixteen lanes (published nvbandwidth runs: 24.8 GB/s on A100, NVIDIA's forum,
// and 55.6 on H100, nvbandwidth's README). NVLink-C2C: 0.66 (297 of 450 GB/s from device to host on GH200, the slower
// direction; G. Schieffer et al., 2024). `host_memory` is the sheet's memory of the host, a device's share of it.
constexpr double kPciExpress3 = 12.6;  // GB/s: 0.8 of 15.75
constexpr double kChipToChipEfficiency = 0.66;

// Sixteen lanes of a generation, each of twice the rate of the one before, for as many devices as share them behind a
// switch.
BytesPerSecond pci_express(int generation, int devices = 1) {
  return gigabytes_per_second(kPciExpress3 * (1 << (generation - 3)) / devices);
}

// Eight V100 on a hybrid cube mesh: the rate depends on which devices form the ring, 23 GB/s for a pair with one link,
// 87 for four, 135 for all eight. One number has to stand for all groups: 60 GB/s, near their geometric mean.
HostGroup make_p3(int hosts) {
  HostGroup group;
  group.hosts = hosts;
  group.devices_per_host = 8;
  group.device.name = "V100-SXM2-16GB";
  group.device.peak = {{"f64", teraflops(7.8)}, {"f32", teraflops(15.7)}, {"f16", teraflops(125)}};
  group.device.memory_bandwidth = gigabytes_per_second(900);
  group.device.memory = gibibytes(16);
  group.device.matmul_efficiency = 0.55;
  group.device.host_memory = gibibytes(488.0 / 8);
  group.device.host_bandwidth = pci_express(3, 2);  // pairs behind a switch
  group.within_host = link(microseconds(8), gigabytes_per_second(60));
  group.between_hosts = link(microseconds(30), gigabytes_per_second(25.0 / 8));  // 25 Gb/s for the whole host
  group.adapters = 1;
  return group;
}

// HDR and NDR adapters deliver about 0.9 of their signalling rate to a collective.
constexpr double kInfiniBandEfficiency = 0.9;

HostGroup make_dgx_a100(int hosts) {
  HostGroup group;
  group.hosts = hosts;
  group.devices_per_host = 8;
  group.device.name = "A100-SXM4-80GB";
  group.device.peak = {
      {"f64", teraflops(19.5)}, {"f32", teraflops(19.5)}, {"bf16", teraflops(312)}, {"f16", teraflops(312)}};
  group.device.memory_bandwidth = gigabytes_per_second(2039);
  group.device.memory = gibibytes(80);
  group.device.matmul_efficiency = 0.62;
  group.device.host_memory = Bytes(2e12 / 8);
  group.device.host_bandwidth = pci_express(4, 2);  // pairs behind a switch
  group.within_host = link(microseconds(6), gigabytes_per_second(220));
  group.between_hosts = link(microseconds(15), gigabytes_per_second(8 * 25 * kInfiniBandEfficiency));  // 8 x 200 Gb/s
  return group;
}

HostGroup make_dgx_h100(int hosts) {
  HostGroup group;
  group.hosts = hosts;
  group.devices_per_host = 8;
  group.device.name = "H100-SXM5-80GB";
  group.device.peak = {
      {"f64", teraflops(67)}, {"f32", teraflops(67)}, {"bf16", teraflops(989)}, {"f16", teraflops(989)}};
  group.device.memory_bandwidth = gigabytes_per_second(3350);
  group.device.memory = gibibytes(80);
  group.device.matmul_efficiency = 0.60;
  group.device.host_memory = Bytes(2e12 / 8);
  group.device.host_bandwidth = pci_express(5);  // a switch for each device
  // Rings over eight devices; the switch's own reduction (all-reduce over a whole host only) reaches about 470.
  group.within_host = link(microseconds(3), gigabytes_per_second(370));
  group.between_hosts = link(microseconds(12), gigabytes_per_second(8 * 50 * kInfiniBandEfficiency));  // 8 x 400 Gb/s
  return group;
}

HostGroup make_dgx_h200(int hosts) {
  HostGroup group = make_dgx_h100(hosts);
  group.device.name = "H200-SXM5-141GB";
  group.device.memory_bandwidth = gigabytes_per_second(4800);
  group.device.memory = Bytes(141e9);
  return group;
}

// EC2 p4d.24xlarge: A100 of 40 GB, EFA of four adapters of 100 Gb/s.
HostGroup make_p4d(int hosts) {
  HostGroup group = make_dgx_a100(hosts);
  group.device.name = "A100-SXM4-40GB";
  group.device.memory_bandwidth = gigabytes_per_second(1555);
  group.device.memory = gibibytes(40);
  group.device.host_memory = gibibytes(1152.0 / 8);
  group.between_hosts = link(microseconds(25), gigabytes_per_second(50 * kInfiniBandEfficiency));
  group.adapters = 4;
  return group;
}

// EC2 p5.48xlarge: H100, EFA of 3200 Gb/s.
HostGroup make_p5(int hosts) {
  HostGroup group = make_dgx_h100(hosts);
  group.between_hosts = link(microseconds(25), gigabytes_per_second(400 * kInfiniBandEfficiency));
  group.device.host_memory = gibibytes(2048.0 / 8);
  return group;
}

// EC2 p4de.24xlarge: A100 of 80 GB with the adapters of p4d.
HostGroup make_p4de(int hosts) {
  HostGroup group = make_dgx_a100(hosts);
  group.between_hosts = make_p4d(1).between_hosts;
  group.adapters = 4;
  group.device.host_memory = gibibytes(1152.0 / 8);
  return group;
}

// EC2 p5en.48xlarge: H200, EFA of 3200 Gb/s.
HostGroup make_p5en(int hosts) {
  HostGroup group = make_dgx_h200(hosts);
  group.between_hosts = make_p5(1).between_hosts;
  group.device.host_memory = gibibytes(2048.0 / 8);
  return group;
}

// EC2 g6e.48xlarge: L40S on PCI Express of the fourth generation, 400 Gb/s for the whole host.
HostGroup make_g6e(int hosts) {
  HostGroup group;
  group.hosts = hosts;
  group.devices_per_host = 8;
  group.device.name = "L40S";
  group.device.peak = {{"f32", teraflops(91.6)}, {"bf16", teraflops(362)}, {"f16", teraflops(362)}};
  group.device.memory_bandwidth = gigabytes_per_second(864);
  group.device.memory = Bytes(48e9);
  group.device.matmul_efficiency = 0.6;
  group.device.host_memory = gibibytes(1536.0 / 8);
  group.device.host_bandwidth = pci_express(4);
  group.within_host = link(microseconds(8), gigabytes_per_second(20));
  group.between_hosts = make_p4d(1).between_hosts;
  group.adapters = 4;
  return group;
}

HostGroup make_dgx_b200(int hosts) {
  HostGroup group = make_dgx_h100(hosts);
  group.device.name = "B200-SXM";
  group.device.peak = {
      {"f64", teraflops(37)}, {"f32", teraflops(75)}, {"bf16", teraflops(2250)}, {"f16", teraflops(2250)}};
  group.device.memory_bandwidth = gigabytes_per_second(8000);
  group.device.memory = Bytes(180e9);
  group.within_host = link(microseconds(3), gigabytes_per_second(700));
  return group;
}

// EC2 p6-b200.48xlarge: B200, EFA of 3200 Gb/s.
HostGroup make_p6_b200(int hosts) {
  HostGroup group = make_dgx_b200(hosts);
  group.between_hosts = make_p5(1).between_hosts;
  group.device.host_memory = gibibytes(2048.0 / 8);
  return group;
}

HostGroup make_dgx_b300(int hosts) {
  HostGroup group = make_dgx_b200(hosts);
  group.device.name = "B300-SXM";
  group.device.peak.insert_or_assign("f64", teraflops(1.2));
  group.device.memory = Bytes(270e9);
  group.between_hosts = link(microseconds(12), gigabytes_per_second(8 * 100 * kInfiniBandEfficiency));  // 8 x 800 Gb/s
  return group;
}

// One NVLink domain counts as a host: its switches join all 72 devices. Outside each device has 400 Gb/s.
HostGroup make_nvl72(int domains) {
  HostGroup group = make_dgx_b200(domains);
  group.devices_per_host = 72;
  group.device.name = "GB200";
  group.device.peak = {
      {"f64", teraflops(40)}, {"f32", teraflops(80)}, {"bf16", teraflops(2500)}, {"f16", teraflops(2500)}};
  group.device.memory = Bytes(186e9);
  group.device.host_memory = Bytes(480e9 / 2);  // a Grace for two devices, as is its link of 450 GB/s
  group.device.host_bandwidth = gigabytes_per_second(450.0 / 2 * kChipToChipEfficiency);
  group.between_hosts = link(microseconds(12), gigabytes_per_second(72 * 50 * kInfiniBandEfficiency));
  return group;
}

HostGroup make_gb300(int domains) {
  HostGroup group = make_nvl72(domains);
  group.device.name = "GB300";
  group.device.peak.insert_or_assign("f64", teraflops(1.3));
  group.device.memory = Bytes(279e9);
  group.between_hosts = link(microseconds(12), gigabytes_per_second(72 * 100 * kInfiniBandEfficiency));
  return group;
}

// The A100 partition of Jean Zay: four Omni-Path adapters of 100 Gb/s for eight devices.
HostGroup make_jean_zay(int hosts) {
  HostGroup group = make_dgx_a100(hosts);
  group.between_hosts = link(microseconds(15), gigabytes_per_second(4 * 12.5 * kInfiniBandEfficiency));
  group.device.host_memory = Bytes(512e9 / 8);
  group.adapters = 4;
  return group;
}

// Placeholders: this layer does not look at the machine it runs on, so these are figures of no processor in particular.
// They order plans sensibly; `meshwright profile` replaces them with measured ones.
HostGroup make_cpu(int threads) {
  HostGroup group;
  group.hosts = 1;
  group.devices_per_host = threads;
  group.device.name = kAnyProcessor;
  group.device.peak = {{"f64", FlopsPerSecond(30e9)}, {"f32", FlopsPerSecond(60e9)}};
  group.device.memory_bandwidth = gigabytes_per_second(5);
  group.device.memory = gibibytes(16.0 / threads);
  group.device.matmul_efficiency = 0.8;
  group.device.launch = microseconds(1);
  group.within_host = link(microseconds(2), gigabytes_per_second(3));
  group.between_hosts = group.within_host;  // there is one host; a copy keeps the cluster valid
  return group;
}

struct Preset {
  const char* family;
  int limit;  // of N
  HostGroup (*make)(int);
  const char* what;
};

constexpr Preset kPresets[] = {
    {"p3.16xlarge", kMaxHosts, make_p3, "N hosts of 8 V100-SXM2-16GB, NVLink within a host, 25 Gb/s between hosts"},
    {"p4d.24xlarge", kMaxHosts, make_p4d, "N hosts of 8 A100-SXM4-40GB, NVSwitch, 400 Gb/s between hosts"},
    {"p4de.24xlarge", kMaxHosts, make_p4de, "N hosts of 8 A100-SXM4-80GB, NVSwitch, 400 Gb/s between hosts"},
    {"p5.48xlarge", kMaxHosts, make_p5, "N hosts of 8 H100-SXM5-80GB, NVSwitch, 3200 Gb/s between hosts"},
    {"p5en.48xlarge", kMaxHosts, make_p5en, "N hosts of 8 H200-SXM5-141GB, NVSwitch, 3200 Gb/s between hosts"},
    {"p6-b200.48xlarge", kMaxHosts, make_p6_b200, "N hosts of 8 B200-SXM, NVSwitch, 3200 Gb/s between hosts"},
    {"g6e.48xlarge", kMaxHosts, make_g6e, "N hosts of 8 L40S, PCI Express, 400 Gb/s between hosts"},
    {"dgx-a100", kMaxHosts, make_dgx_a100, "N hosts of 8 A100-SXM4-80GB, NVSwitch, 8 x 200 Gb/s between hosts"},
    {"dgx-h100", kMaxHosts, make_dgx_h100, "N hosts of 8 H100-SXM5-80GB, NVSwitch, 8 x 400 Gb/s between hosts"},
    {"dgx-h200", kMaxHosts, make_dgx_h200, "N hosts of 8 H200-SXM5-141GB, NVSwitch, 8 x 400 Gb/s between hosts"},
    {"dgx-b200", kMaxHosts, make_dgx_b200, "N hosts of 8 B200-SXM, NVSwitch, 8 x 400 Gb/s between hosts"},
    {"dgx-b300", kMaxHosts, make_dgx_b300, "N hosts of 8 B300-SXM, NVSwitch, 8 x 800 Gb/s between hosts"},
    {"gb200-nvl72", 1024, make_nvl72, "N NVLink domains of 72 GB200, 400 Gb/s per device between domains"},
    {"gb300-nvl72", 1024, make_gb300, "N NVLink domains of 72 GB300, 800 Gb/s per device between domains"},
    {"jean-zay-a100", kMaxHosts, make_jean_zay, "N hosts of 8 A100-SXM4-80GB, NVSwitch, 4 x 100 Gb/s between hosts"},
    {"selene", 560, make_dgx_a100, "N of the hosts of NVIDIA's Selene, which are those of dgx-a100"},
    {"eos", 576, make_dgx_h100, "N of the hosts of NVIDIA's Eos, which are those of dgx-h100"},
    {"cpu", 64, make_cpu, "N threads of this machine as N devices of one host (placeholder figures; profile it)"},
};

std::string pattern_of(const Preset& preset) { return fmt::format("{}:N", preset.family); }

// One part of a name: "dgx-a100:2".
struct NamedGroup {
  const Preset* preset;
  HostGroup group;
  [[nodiscard]] bool is_this_machine() const { return preset->make == make_cpu; }
  [[nodiscard]] std::string name() const {
    return fmt::format("{}:{}", preset->family, is_this_machine() ? group.devices_per_host : group.hosts);
  }
};

NamedGroup find_preset(const std::string& name) {
  const std::size_t colon = name.find(':');
  const std::string family = name.substr(0, colon);
  const auto* preset =
      std::find_if(std::begin(kPresets), std::end(kPresets), [&](const Preset& p) { return p.family == family; });
  if (preset == std::end(kPresets)) {
    std::vector<std::string> known;
    for (const Preset& p : kPresets) known.push_back(pattern_of(p));
    throw InputError(unknown_name("cluster", name, known, "`meshwright clusters` lists all."));
  }
  const long n = colon == std::string::npos
                     ? 1
                     : parse_integer(name.substr(colon + 1), fmt::format("cluster '{}'", name), 1, preset->limit);
  return {preset, preset->make(static_cast<int>(n))};
}

// "dgx-a100:1+p3.16xlarge:2": hosts of one preset are one group, wherever in the name they stand.
Cluster join_presets(const std::string& name) {
  std::vector<NamedGroup> parts;
  for (const std::string& text : split(name, '+')) {
    require(!text.empty(), "cluster '{}': one of its parts is empty; join presets such as dgx-a100:1+p3.16xlarge:2.",
            name);
    const NamedGroup part = [&] {
      try {
        return find_preset(text);
      } catch (const InputError& error) {
        throw InputError(fmt::format("cluster '{}': {}", name, error.what()));
      }
    }();
    require(!part.is_this_machine(),
            "cluster '{}': '{}' is this machine and cannot be joined with others; leave it or the others out.", name,
            text);
    const auto same = std::find_if(parts.begin(), parts.end(), [&](const auto& p) { return p.preset == part.preset; });
    if (same == parts.end())
      parts.push_back(part);
    else
      same->group.hosts += part.group.hosts;
  }
  Cluster cluster{"", {}};
  for (const NamedGroup& part : parts) {
    cluster.name += (cluster.name.empty() ? "" : "+") + part.name();
    cluster.groups.push_back(part.group);
  }
  require(cluster.hosts() <= kMaxHosts, "cluster '{}' has {} hosts; at most {} are supported.", name, cluster.hosts(),
          kMaxHosts);
  return cluster;
}

}  // namespace

Cluster find_cluster(const std::string& name) {
  if (name.find('/') != std::string::npos || name.ends_with(".json"))
    return cluster_from_json(read_json_file(name), name);
  if (name.find('+') != std::string::npos) return join_presets(name);
  const NamedGroup found = find_preset(name);
  return {found.name(), {found.group}};
}

std::vector<ClusterPreset> cluster_presets() {
  std::vector<ClusterPreset> presets;
  for (const Preset& p : kPresets) presets.push_back({pattern_of(p), p.what});
  return presets;
}

Cluster take_part(Cluster cluster, int nodes, int devices_per_node) {
  const int most_hosts = cluster.groups.front().hosts;
  require(nodes == 0 || cluster.uniform(),
          "cluster '{}' has {} host groups, so it is unclear which {} hosts to take; give the hosts by group, such as "
          "dgx-a100:1+p3.16xlarge:2.",
          cluster.name, cluster.groups.size(), nodes);
  require(nodes >= 0 && (nodes == 0 || nodes <= most_hosts),
          "cluster '{}' has {} hosts, but {} were requested; give 1 to {}.", cluster.name, most_hosts, nodes,
          most_hosts);
  int most_devices = cluster.groups.front().devices_per_host;  // that every host has
  for (const HostGroup& group : cluster.groups) most_devices = std::min(most_devices, group.devices_per_host);
  require(devices_per_node >= 0 && (devices_per_node == 0 || devices_per_node <= most_devices),
          "cluster '{}' has {} devices per host{}, but {} were requested; give 1 to {}.", cluster.name, most_devices,
          cluster.uniform() ? "" : " in one of its groups", devices_per_node, most_devices);
  bool all = true;
  std::string sizes;
  for (HostGroup& group : cluster.groups) {
    const int hosts = nodes == 0 ? group.hosts : nodes;
    const int devices = devices_per_node == 0 ? group.devices_per_host : devices_per_node;
    all = all && hosts == group.hosts && devices == group.devices_per_host;
    sizes += fmt::format("{}{}x{}", sizes.empty() ? "" : "+", hosts, devices);
    group.hosts = hosts;
    group.devices_per_host = devices;
  }
  if (!all) cluster.name = fmt::format("{}[{}]", cluster.name, sizes);
  return cluster;
}

const HostGroup& Cluster::only() const {
  MW_CHECK(uniform(), "cluster {} has {} groups of hosts where one was expected", name, groups.size());
  return groups.front();
}
HostGroup& Cluster::only() {
  MW_CHECK(uniform(), "cluster {} has {} groups of hosts where one was expected", name, groups.size());
  return groups.front();
}

int Cluster::hosts() const { return first_host(static_cast<int>(groups.size())); }
int Cluster::devices() const { return first_device(static_cast<int>(groups.size())); }

int Cluster::first_host(int group) const {
  int hosts = 0;
  for (int g = 0; g < group; ++g) hosts += this->group(g).hosts;
  return hosts;
}
int Cluster::first_device(int group) const {
  int devices = 0;
  for (int g = 0; g < group; ++g) devices += this->group(g).devices();
  return devices;
}

int Cluster::group_of_host(int host) const {
  MW_CHECK(host >= 0 && host < hosts(), "host {} of a cluster of {}", host, hosts());
  int g = 0;
  for (; host >= group(g).hosts; ++g) host -= group(g).hosts;
  return g;
}
int Cluster::group_of_device(int device) const {
  MW_CHECK(device >= 0 && device < devices(), "device {} of a cluster of {}", device, devices());
  int g = 0;
  for (; device >= group(g).devices(); ++g) device -= group(g).devices();
  return g;
}
int Cluster::host_of_device(int device) const {
  const int g = group_of_device(device);
  return first_host(g) + (device - first_device(g)) / group(g).devices_per_host;
}
int Cluster::adapters_of(int g) const {
  if (!network) return group(g).adapters.value_or(group(g).devices_per_host);
  if (network->groups.empty()) return 1;
  const std::optional<NetworkAdapters>& nics = network->groups[static_cast<std::size_t>(g)].nics;
  return nics ? nics->count : 1;
}
Bytes Cluster::usable_memory_of(int device) const { return group(group_of_device(device)).usable_memory(); }

}  // namespace meshwright
