// SPDX-License-Identifier: Apache-2.0
// --keep-shardings: the layouts that a model's file has for its parameters, as forced ones.
#pragma once

#include "core/planner/plan_request.h"

namespace meshwright {

// Forces the file's shardings, beside those given one by one, on the mesh that they share. Throws InputError where the
// model is of no file, the file has none, or they do not suit the request's method, mesh or cluster. REQUIRES: model,
// cluster, method and logical mesh of the request are set.
void keep_shardings(PlanRequest& request);

}  // namespace meshwright
