// SPDX-License-Identifier: Apache-2.0
// meshwright clusters: the built-in clusters, each shown for N = 1.
#include <CLI/CLI.hpp>

#include "cli/terminal/output.h"
#include "cli/verbs/verbs.h"
#include "core/base/text.h"
#include "core/base/text_table.h"
#include "core/mesh/cluster.h"

namespace meshwright {

namespace {

Cluster smallest(const ClusterPreset& preset) {
  const std::size_t colon = preset.pattern.rfind(':');
  return find_cluster(preset.pattern.substr(0, colon) + ":1");
}

std::string peaks(const DeviceKind& device) {
  std::vector<std::string> parts;
  for (const auto& [dtype, rate] : device.peak) parts.push_back(fmt::format("{} {:.4g}", dtype, rate.si() / 1e12));
  return join(parts, ", ");
}

void print_clusters(bool as_json) {
  if (as_json) {
    Json clusters = Json::array();
    for (const ClusterPreset& preset : cluster_presets())
      clusters.push_back({{"pattern", preset.pattern}, {"what", preset.what}, {"for_n_1", to_json(smallest(preset))}});
    return print(Json{{"verb", "clusters"}, {"clusters", std::move(clusters)}});
  }
  TextTable table({{"cluster", ""},
                   {"hosts", "N = 1"},
                   {"devices", "per host"},
                   {"device", ""},
                   {"memory", "GiB"},
                   {"memory rate", "GB/s"},
                   {"in host", "GB/s"},
                   {"hosts apart", "GB/s"},
                   {"dense peak", "TFLOP/s"}});
  for (const ClusterPreset& preset : cluster_presets()) {
    const Cluster cluster = smallest(preset);
    const HostGroup& hosts = cluster.only();
    const auto rate = [](const LinkCost& link) { return fmt::format("{:.4g}", 1e-9 / link.beta.si()); };
    table.add_row({preset.pattern, fmt::format("{}", hosts.hosts), fmt::format("{}", hosts.devices_per_host),
                   hosts.device.name, in_gibibytes(hosts.device.memory),
                   fmt::format("{:.4g}", hosts.device.memory_bandwidth.si() / 1e9), rate(hosts.within_host),
                   rate(hosts.between_hosts), peaks(hosts.device)});
  }
  std::string text = table.to_text();
  for (const ClusterPreset& preset : cluster_presets()) text += fmt::format("# {}: {}\n", preset.pattern, preset.what);
  text += "# dgx-a100:1+p3.16xlarge:2: hosts of different kinds in one cluster\n";
  print(text + "# any other cluster can be described in a JSON file; --json shows its members\n");
}

}  // namespace

void add_clusters(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("clusters", "List the built-in clusters.");
  auto as_json = std::make_shared<bool>(false);
  verb->add_flag("--json", *as_json, "print the result as JSON");
  verb->footer("Example:\n  meshwright clusters");
  verb->callback([&context, as_json] { context.action = [as_json] { print_clusters(*as_json); }; });
}

}  // namespace meshwright
