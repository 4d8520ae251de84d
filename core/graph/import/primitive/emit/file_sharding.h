// SPDX-License-Identifier: Apache-2.0
// How a model's file says that its parameters lie on devices: HLO's shardings, put on one logical mesh.
//
// HLO numbers the devices of each sharding by itself: "{devices=[4,1]<=[4]}" and "{devices=[2,2]<=[4]}" are two views
// of four devices. The mesh that all of a file's shardings share has an axis for each factor that one of them splits
// by.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/import/primitive/emit/axes.h"

namespace meshwright::primitive {

// The sharding of a tensor of `rank` dimensions.
[[nodiscard]] FileSharding file_sharding(const std::string& text, std::size_t rank);
// One element's part of the sharding of a tuple of so many tensors, "{{devices=[2,1]<=[2]}, {replicated}}"; the whole
// text where it holds for all of them, or is of a single tensor.
[[nodiscard]] std::string element_sharding(const std::string& text, std::size_t elements, std::size_t element);
// That of one piece of the tensor along `axis`, as a layer's own weight is one of a stack.
[[nodiscard]] FileSharding without_dim(FileSharding sharding, std::size_t axis);

// What a parameter of the graph has: the mesh axes that split each dimension, ascending.
struct KeptShardings {
  std::vector<std::int64_t> mesh = {};
  std::map<std::string, std::vector<std::vector<int>>> tensors = {};
};

// The shardings of `module` for the parameters of its graph. Throws InputError, one sentence that names the parameter,
// for what no layout of the graph's tensor says. Parameters whose sharding the file leaves out have none.
[[nodiscard]] KeptShardings kept_shardings(const Module& module, const Axes& axes, const Graph& graph);

}  // namespace meshwright::primitive
