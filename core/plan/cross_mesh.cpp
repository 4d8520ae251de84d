// SPDX-License-Identifier: Apache-2.0
#include "core/plan/cross_mesh.h"

#include "core/base/text.h"

namespace meshwright {

const char* name_of(CrossMesh form) {
  switch (form) {
    case CrossMesh::Send:
      return "send";
    case CrossMesh::Gather:
      return "gather";
    case CrossMesh::Broadcast:
      break;
  }
  return "broadcast";
}

CrossMesh cross_mesh_from_name(const std::string& name) {
  for (const CrossMesh form : kCrossMeshForms)
    if (name == name_of(form)) return form;
  throw InputError(fmt::format("unknown form '{}'; expected send, gather or broadcast.", name));
}

}  // namespace meshwright
