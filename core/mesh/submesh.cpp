// SPDX-License-Identifier: Apache-2.0
#include "core/mesh/submesh.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

template <class Enum, std::size_t N>
Enum from_name(const char* what, const std::string& name, const std::pair<const char*, Enum> (&table)[N]) {
  std::vector<std::string> known;
  for (const auto& [text, value] : table) {
    if (text == name) return value;
    known.emplace_back(text);
  }
  throw InputError(unknown_name(what, name, known, fmt::format("All are {}.", join(known, ", "))));
}

// Powers of two below `n`, then `n` itself.
std::vector<int> powers_of_two_and(int n) {
  std::vector<int> sizes;
  for (int size = 1; size < n; size *= 2) sizes.push_back(size);
  sizes.push_back(n);
  return sizes;
}

// Whether every group of an axis of `size` devices, `stride` apart in row-major order, has as many devices on each host
// it touches.
bool lies_evenly(int stride, int size, int devices_per_host) {
  const int span = stride * size;
  if (stride % devices_per_host == 0) return true;                        // every device on another host
  return devices_per_host % stride == 0 &&                                // whole rows of the group on a host
         (devices_per_host % span == 0 || span % devices_per_host == 0);  // and no group cut short
}

MeshAxis make_axis(const HostGroup& group, int adapters, const Submesh& submesh, int stride, int size) {
  MeshAxis axis;
  axis.inner = std::min(size, std::max(1, submesh.devices_per_host / stride));
  axis.outer = size / axis.inner;
  axis.inner_link = group.within_host;
  axis.outer_link.alpha = group.between_hosts.alpha;
  // All devices of the host send at once and share its network.
  axis.outer_link.beta = submesh.devices_per_host * group.between_hosts.beta;
  // A device has its adapter, and shares it with those of other groups that send at the same time.
  const int sending = submesh.devices_per_host / axis.inner;
  axis.alone = static_cast<double>(std::max(sending, std::min(adapters, submesh.devices_per_host))) /
               static_cast<double>(submesh.devices_per_host);
  return axis;
}

std::string shape_text(const std::vector<int>& shape) { return fmt::format("{}", fmt::join(shape, "x")); }

}  // namespace

SubmeshSpace submesh_space_from_name(const std::string& name) {
  static constexpr std::pair<const char*, SubmeshSpace> kNames[] = {
      {"power_of_two", SubmeshSpace::PowerOfTwo},
      {"small_power_of_two", SubmeshSpace::SmallPowerOfTwo},
      {"all", SubmeshSpace::All}};
  return from_name("submesh space", name, kNames);
}

std::vector<Submesh> enumerate_submeshes(const Cluster& cluster, SubmeshSpace space) {
  constexpr int kSmallHosts = 4;
  std::vector<Submesh> submeshes;
  for (int g = 0; g < static_cast<int>(cluster.groups.size()); ++g) {
    const HostGroup& group = cluster.group(g);
    for (const int devices : powers_of_two_and(group.devices_per_host)) submeshes.push_back({1, devices, g});
    std::vector<int> host_counts(static_cast<std::size_t>(group.hosts));
    if (space == SubmeshSpace::All)
      std::iota(host_counts.begin(), host_counts.end(), 1);
    else
      host_counts = powers_of_two_and(group.hosts);
    for (const int hosts : host_counts)
      if (hosts > 1 && (space != SubmeshSpace::SmallPowerOfTwo || hosts <= kSmallHosts))
        submeshes.push_back({hosts, group.devices_per_host, g});
  }
  return submeshes;
}

std::string to_text(const Submesh& submesh) {
  const std::string size = fmt::format("{}x{}", submesh.hosts, submesh.devices_per_host);
  return submesh.group == 0 ? size : fmt::format("{}@{}", size, submesh.group);
}

bool fits(const Submesh& submesh, const Cluster& cluster) {
  if (submesh.group < 0 || submesh.group >= static_cast<int>(cluster.groups.size())) return false;
  const HostGroup& group = cluster.group(submesh.group);
  return submesh.hosts >= 1 && submesh.hosts <= group.hosts && submesh.devices_per_host >= 1 &&
         submesh.devices_per_host <= group.devices_per_host;
}

std::vector<Submesh> submeshes_from_text(const std::string& text, const Cluster& cluster) {
  std::vector<Submesh> submeshes;
  for (const std::string& entry : split(text, ',')) {
    const std::string place = fmt::format("submesh '{}'", entry);
    const std::vector<std::string> parts = split(entry, '@');
    const std::vector<std::string> sizes = split(parts.front(), 'x');
    require(parts.size() <= 2 && sizes.size() == 2,
            "{}: expected HOSTSxDEVICES such as 2x8, or 2x8@1 for hosts of group 1.", place);
    const int groups = static_cast<int>(cluster.groups.size());
    const long group = parts.size() == 1 ? 0 : parse_integer(parts[1], "group of " + place, 0, groups - 1);
    const HostGroup& of = cluster.group(static_cast<int>(group));
    const Submesh submesh{
        static_cast<int>(parse_integer(sizes[0], "hosts of " + place, 1, of.hosts)),
        static_cast<int>(parse_integer(sizes[1], "devices per host of " + place, 1, of.devices_per_host)),
        static_cast<int>(group)};
    require(std::find(submeshes.begin(), submeshes.end(), submesh) == submeshes.end(),
            "{}: it is given twice; give it once.", place);
    submeshes.push_back(submesh);
  }
  return submeshes;
}

std::vector<int> LogicalMesh::shape() const {
  std::vector<int> sizes;
  for (const MeshAxis& axis : axes) sizes.push_back(axis.size());
  return sizes;
}

std::string LogicalMesh::to_text() const { return shape_text(shape()); }

std::vector<int> LogicalMesh::coordinates(int device) const {
  MW_CHECK(device >= 0 && device < devices(), "device {} of a mesh of {}", device, devices());
  std::vector<int> place(axes.size());
  for (std::size_t i = axes.size(); i-- > 0; device /= axes[i].size()) place[i] = device % axes[i].size();
  return place;
}

std::vector<int> LogicalMesh::group(int device, int axis) const {
  MW_CHECK(axis >= 0 && axis < rank(), "axis {} of a mesh of rank {}", axis, rank());
  const auto position = static_cast<std::size_t>(axis);
  int stride = 1;
  for (std::size_t i = position + 1; i < axes.size(); ++i) stride *= axes[i].size();
  const int first = device - stride * coordinates(device)[position];
  std::vector<int> members;
  for (int i = 0; i < axes[position].size(); ++i) members.push_back(first + i * stride);
  return members;
}

LogicalMesh make_logical_mesh(const Cluster& cluster, const Submesh& submesh, const std::vector<int>& shape) {
  MW_CHECK(!shape.empty() && std::all_of(shape.begin(), shape.end(), [](int size) { return size >= 1; }),
           "a logical mesh of shape [{}]", shape_text(shape));
  const int product = std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>());
  MW_CHECK(product == submesh.devices(), "shape {} over {} devices", shape_text(shape), submesh.devices());
  MW_CHECK(submesh.group >= 0 && submesh.group < static_cast<int>(cluster.groups.size()),
           "submesh {} of a cluster of {} groups", to_text(submesh), cluster.groups.size());
  LogicalMesh mesh;
  mesh.of = submesh;
  mesh.expert_load = cluster.expert_load;
  int stride = 1;
  for (std::size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
    require(shape[i] == 1 || lies_evenly(stride, shape[i], submesh.devices_per_host),
            "logical mesh {}: axis {} does not divide evenly over {} hosts of {} devices; choose sizes that divide a "
            "host's devices or are a multiple of them.",
            shape_text(shape), i, submesh.hosts, submesh.devices_per_host);
    mesh.axes.insert(mesh.axes.begin(), make_axis(cluster.group(submesh.group), cluster.adapters_of(submesh.group),
                                                  submesh, stride, shape[i]));
  }
  return mesh;
}

LogicalMeshSpace logical_mesh_space_from_name(const std::string& name) {
  static constexpr std::pair<const char*, LogicalMeshSpace> kNames[] = {
      {"same_as_physical", LogicalMeshSpace::SameAsPhysical},
      {"data_parallel_only", LogicalMeshSpace::DataParallelOnly},
      {"model_parallel_only", LogicalMeshSpace::ModelParallelOnly},
      {"single_node_model_parallel", LogicalMeshSpace::SingleNodeModelParallel},
      {"all", LogicalMeshSpace::All},
      {"three_dimensional", LogicalMeshSpace::ThreeDimensional}};
  return from_name("logical mesh space", name, kNames);
}

std::vector<std::vector<int>> enumerate_logical_shapes(const Submesh& submesh, LogicalMeshSpace space) {
  const int n = submesh.devices();
  const int m = submesh.devices_per_host;
  switch (space) {
    case LogicalMeshSpace::SameAsPhysical:
      return {{submesh.hosts, m}};
    case LogicalMeshSpace::DataParallelOnly:
      return {{n, 1}};
    case LogicalMeshSpace::ModelParallelOnly:
      return {{1, n}};
    case LogicalMeshSpace::SingleNodeModelParallel:
    case LogicalMeshSpace::All:
    case LogicalMeshSpace::ThreeDimensional:
      break;
  }
  const int limit = space == LogicalMeshSpace::SingleNodeModelParallel ? m : n;
  std::vector<std::vector<int>> shapes;
  for (int mp = 1; mp <= limit; ++mp)
    if (n % mp == 0 && lies_evenly(1, mp, m)) shapes.push_back({n / mp, mp});
  if (space != LogicalMeshSpace::ThreeDimensional) return shapes;
  for (int c = 2; c <= n; ++c)
    for (int b = 2; n % c == 0 && b * c < n; ++b)
      if (n % (b * c) == 0 && lies_evenly(1, c, m) && lies_evenly(c, b, m) && lies_evenly(b * c, n / (b * c), m))
        shapes.push_back({n / (b * c), b, c});
  return shapes;
}

}  // namespace meshwright
