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

// Eight V100 on a hybrid cube mesh: the rate depends on which devices form the ring, 23 GB/s for a pair with one link,
// 87 for four, 135 for all eight. One number has to stand for all groups: 60 GB/s, near their geometric mean.
Cluster make_p3(int hosts) {
  Cluster c;
  c.hosts = hosts;
  c.devices_per_host = 8;
  c.device.name = "V100-SXM2-16GB";
  c.device.peak = {{"f64", teraflops(7.8)}, {"f32", teraflops(15.7)}, {"f16", teraflops(125)}};
  c.device.memory_bandwidth = gigabytes_per_second(900);
  c.device.memory = gibibytes(16);
  c.device.matmul_efficiency = 0.55;
  c.within_host = link(microseconds(8), gigabytes_per_second(60));
  c.between_hosts = link(microseconds(30), gigabytes_per_second(25.0 / 8));  // 25 Gb/s for the whole host
  return c;
}

// HDR and NDR adapters deliver about 0.9 of their signalling rate to a collective.
constexpr double kInfiniBandEfficiency = 0.9;

Cluster make_dgx_a100(int hosts) {
  Cluster c;
  c.hosts = hosts;
  c.devices_per_host = 8;
  c.device.name = "A100-SXM4-80GB";
  c.device.peak = {
      {"f64", teraflops(19.5)}, {"f32", teraflops(19.5)}, {"bf16", teraflops(312)}, {"f16", teraflops(312)}};
  c.device.memory_bandwidth = gigabytes_per_second(2039);
  c.device.memory = gibibytes(80);
  c.device.matmul_efficiency = 0.62;
  c.within_host = link(microseconds(6), gigabytes_per_second(220));
  c.between_hosts = link(microseconds(15), gigabytes_per_second(8 * 25 * kInfiniBandEfficiency));  // 8 x 200 Gb/s
  return c;
}

Cluster make_dgx_h100(int hosts) {
  Cluster c;
  c.hosts = hosts;
  c.devices_per_host = 8;
  c.device.name = "H100-SXM5-80GB";
  c.device.peak = {{"f64", teraflops(67)}, {"f32", teraflops(67)}, {"bf16", teraflops(989)}, {"f16", teraflops(989)}};
  c.device.memory_bandwidth = gigabytes_per_second(3350);
  c.device.memory = gibibytes(80);
  c.device.matmul_efficiency = 0.60;
  // Rings over eight devices; the switch's own reduction (all-reduce over a whole host only) reaches about 470.
  c.within_host = link(microseconds(3), gigabytes_per_second(370));
  c.between_hosts = link(microseconds(12), gigabytes_per_second(8 * 50 * kInfiniBandEfficiency));  // 8 x 400 Gb/s
  return c;
}

Cluster make_dgx_h200(int hosts) {
  Cluster c = make_dgx_h100(hosts);
  c.device.name = "H200-SXM5-141GB";
  c.device.memory_bandwidth = gigabytes_per_second(4800);
  c.device.memory = Bytes(141e9);
  return c;
}

// Placeholders: this layer does not look at the machine it runs on, so these are figures of no processor in particular.
// They order plans sensibly; `meshwright profile` replaces them with measured ones.
Cluster make_cpu(int threads) {
  Cluster c;
  c.hosts = 1;
  c.devices_per_host = threads;
  c.device.name = "cpu-thread";
  c.device.peak = {{"f64", FlopsPerSecond(30e9)}, {"f32", FlopsPerSecond(60e9)}};
  c.device.memory_bandwidth = gigabytes_per_second(5);
  c.device.memory = gibibytes(16.0 / threads);
  c.device.matmul_efficiency = 0.8;
  c.device.launch = microseconds(1);
  c.within_host = link(microseconds(2), gigabytes_per_second(3));
  c.between_hosts = c.within_host;  // there is one host; a copy keeps the cluster valid
  return c;
}

struct Preset {
  const char* family;
  int limit;  // of N
  Cluster (*make)(int);
  const char* what;
};

constexpr int kMaxHosts = 4096;
constexpr Preset kPresets[] = {
    {"p3.16xlarge", kMaxHosts, make_p3, "N hosts of 8 V100-SXM2-16GB, NVLink within a host, 25 Gb/s between hosts"},
    {"dgx-a100", kMaxHosts, make_dgx_a100, "N hosts of 8 A100-SXM4-80GB, NVSwitch, 8 x 200 Gb/s between hosts"},
    {"dgx-h100", kMaxHosts, make_dgx_h100, "N hosts of 8 H100-SXM5-80GB, NVSwitch, 8 x 400 Gb/s between hosts"},
    {"dgx-h200", kMaxHosts, make_dgx_h200, "N hosts of 8 H200-SXM5-141GB, NVSwitch, 8 x 400 Gb/s between hosts"},
    {"cpu", 64, make_cpu, "N threads of this machine as N devices of one host (placeholder figures; profile it)"},
};

std::string pattern_of(const Preset& preset) { return fmt::format("{}:N", preset.family); }

Cluster find_preset(const std::string& name) {
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
  Cluster cluster = preset->make(static_cast<int>(n));
  cluster.name = fmt::format("{}:{}", preset->family, n);
  return cluster;
}

}  // namespace

Cluster find_cluster(const std::string& name) {
  if (name.find('/') != std::string::npos || name.ends_with(".json"))
    return cluster_from_json(read_json_file(name), name);
  return find_preset(name);
}

std::vector<ClusterPreset> cluster_presets() {
  std::vector<ClusterPreset> presets;
  for (const Preset& p : kPresets) presets.push_back({pattern_of(p), p.what});
  return presets;
}

Cluster take_part(Cluster cluster, int nodes, int devices_per_node) {
  require(nodes >= 0 && nodes <= cluster.hosts,
          "cluster '{}' has {} hosts, {} were asked for; give 1 to {} (0 takes all).", cluster.name, cluster.hosts,
          nodes, cluster.hosts);
  require(devices_per_node >= 0 && devices_per_node <= cluster.devices_per_host,
          "cluster '{}' has {} devices per host, {} were asked for; give 1 to {} (0 takes all).", cluster.name,
          cluster.devices_per_host, devices_per_node, cluster.devices_per_host);
  const int hosts = nodes == 0 ? cluster.hosts : nodes;
  const int devices = devices_per_node == 0 ? cluster.devices_per_host : devices_per_node;
  if (hosts == cluster.hosts && devices == cluster.devices_per_host) return cluster;
  cluster.name = fmt::format("{}[{}x{}]", cluster.name, hosts, devices);
  cluster.hosts = hosts;
  cluster.devices_per_host = devices;
  return cluster;
}

}  // namespace meshwright
