// SPDX-License-Identifier: Apache-2.0
#include "cli/options/keep_shardings.h"

#include "core/base/errors.h"
#include "core/graph/import/model_file.h"

namespace meshwright {

void keep_shardings(PlanRequest& request) {
  SearchOptions& search = request.search;
  require(request.model.file.has_value(), "--keep-shardings: model '{}' is of no file; leave the option out.",
          request.model.name);
  require(search.method.one_stage(),
          "--keep-shardings: method '{}' makes several stages, but the file's shardings are "
          "those of one mesh of all devices; leave --method out, or give shard.",
          search.method.text);
  const primitive::KeptShardings kept = shardings_of(request.model);
  require(!kept.mesh.empty(), "--keep-shardings: {} splits none of its parameters; leave the option out.",
          request.model.file->path);
  std::int64_t devices = 1;
  std::vector<int> shape;
  for (const std::int64_t size : kept.mesh) {
    shape.push_back(static_cast<int>(size));
    devices *= size;
  }
  require(devices == request.cluster.devices(),
          "--keep-shardings: the shardings in {} are for {} devices, but {} has {}; give a cluster of {} devices.",
          request.model.file->path, devices, request.cluster.name, request.cluster.devices(), devices);
  require(!search.logical_mesh || *search.logical_mesh == shape,
          "--logical-mesh: the file's shardings have the mesh {}; give this one, or leave the option out.",
          fmt::join(shape, "x"));
  search.logical_mesh = shape;
  for (const auto& [tensor, dims] : kept.tensors) {
    ShardingSpec spec = replicated(dims.size());
    for (std::size_t d = 0; d < dims.size(); ++d)
      for (const int axis : dims[d]) spec.dims[d] |= static_cast<AxisMask>(1U << axis);
    search.forced.emplace(tensor, spec);
  }
}

}  // namespace meshwright
