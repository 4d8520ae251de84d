// SPDX-License-Identifier: Apache-2.0
// Submeshes (slices of the cluster) and logical meshes (a submesh seen as a grid with a link cost per axis).
// The spaces are Alpa's (OSDI'22; section 5.2 of the paper and alpa/pipeline_parallel/stage_construction.py).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/mesh/cluster.h"

namespace meshwright {

struct Submesh {
  int hosts = 1;
  int devices_per_host = 1;
  int group = 0;  // of the cluster; all hosts of a submesh are alike
  [[nodiscard]] int devices() const { return hosts * devices_per_host; }
  auto operator<=>(const Submesh&) const = default;
};
// "1x4": hosts x devices per host; "1x4@2" of group 2. Group 0 is not named.
[[nodiscard]] std::string to_text(const Submesh& submesh);
// Whether the cluster has the group, and the group as many hosts and as many devices on each.
[[nodiscard]] bool fits(const Submesh& submesh, const Cluster& cluster);
// "1x4,2x8,1x4@1": what to_text writes, separated by commas, in the order given. Throws InputError naming the entry
// that is malformed, given twice, or larger than its group of the cluster.
[[nodiscard]] std::vector<Submesh> submeshes_from_text(const std::string& text, const Cluster& cluster);

enum class SubmeshSpace { PowerOfTwo, SmallPowerOfTwo, All };
[[nodiscard]] SubmeshSpace submesh_space_from_name(const std::string& name);  // "power_of_two", ...
// Every group of hosts gives, one group after the other:
// (1,1) (1,2) (1,4) ... (1,M), then (n,M): n = 2,4,8,...,N (power_of_two), up to 4 (small_power_of_two), every n (all).
// With M not a power of two, (1,M) is included; with N not a power of two, (N,M) (within small_power_of_two's 4 hosts).
// For N=8, M=8: 7 submeshes.
[[nodiscard]] std::vector<Submesh> enumerate_submeshes(const Cluster& cluster, SubmeshSpace space);

// One axis of a logical mesh: `inner` devices on one host, times `outer` hosts. Collectives over it are hierarchical.
struct MeshAxis {
  int inner = 1;
  int outer = 1;
  LinkCost inner_link;  // between two devices of the axis on one host
  LinkCost outer_link;  // per device, between hosts, while all devices of the submesh's host send at once
  // How many times outer_link.beta a byte takes while one device of each group sends from each host, as in a ring.
  double alone = 1.0;
  [[nodiscard]] int size() const { return inner * outer; }
};

// The mesh axes of context parallelism over which attention does not gather whole keys and values: bit a stands for
// axis a.
struct ContextAxes {
  // Keys and values travel around a ring, a block from each device to the next; a device has two blocks at a time (H.
  // Liu et al., Ring Attention with Blockwise Transformers, 2023).
  std::uint8_t rings = 0;
  // All-to-alls give each device some heads of the whole sequence and take the result back (S. A. Jacobs et al.,
  // DeepSpeed Ulysses, 2023). Of heads that other axes split each device exchanges its own.
  std::uint8_t exchanges = 0;
  bool operator==(const ContextAxes&) const = default;
};

// Devices of the submesh in row-major order over `axes` (the last axis varies fastest).
struct LogicalMesh {
  Submesh of;
  std::vector<MeshAxis> axes;
  ContextAxes contexts = {};    // of the stage on the mesh
  ExpertLoad expert_load = {};  // the cluster's
  [[nodiscard]] int rank() const { return static_cast<int>(axes.size()); }
  [[nodiscard]] int devices() const { return of.devices(); }
  [[nodiscard]] std::vector<int> shape() const;
  [[nodiscard]] std::string to_text() const;  // "2x4"
  // Coordinate of device number `device` (0..devices-1) along each axis.
  [[nodiscard]] std::vector<int> coordinates(int device) const;
  // Devices that differ from `device` only along `axis`, in order of their coordinate (`device` included).
  [[nodiscard]] std::vector<int> group(int device, int axis) const;
};

// The grid `shape` over `submesh`, with link costs derived from those of the submesh's group. REQUIRES: product of
// shape = submesh.devices(); the cluster has the group. Throws InputError when an axis's groups would have more devices
// on one host than on another.
[[nodiscard]] LogicalMesh make_logical_mesh(const Cluster& cluster, const Submesh& submesh,
                                            const std::vector<int>& shape);

enum class LogicalMeshSpace {
  SameAsPhysical,
  DataParallelOnly,
  ModelParallelOnly,
  SingleNodeModelParallel,
  All,
  ThreeDimensional
};
[[nodiscard]] LogicalMeshSpace logical_mesh_space_from_name(const std::string& name);  // "same_as_physical", ...
// Shapes (dp, mp): (hosts, devices) | (n, 1) | (1, n) | mp divides n and mp <= devices_per_host | every divisor mp; by
// mp ascending. ThreeDimensional: those of All, and every (a, b, c) of sizes from 2 on. Shapes that make_logical_mesh
// refuses are left out.
[[nodiscard]] std::vector<std::vector<int>> enumerate_logical_shapes(const Submesh& submesh, LogicalMeshSpace space);

}  // namespace meshwright
