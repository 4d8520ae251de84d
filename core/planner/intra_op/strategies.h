// SPDX-License-Identifier: Apache-2.0
// Strategies from iteration spaces: every assignment of mesh axes to an op's axes, and the specs of operands and
// results that follow from one.
#pragma once

#include <vector>

#include "core/planner/intra_op/layer_model.h"
#include "core/sharding/split_by_name.h"

namespace meshwright {

// All assignments of each mesh axis (of size > 1) to one splittable iteration axis that it divides, or to none; times
// the ways to resolve partial results: all-reduce, or reduce-scatter along one dimension. Mesh axes that an op which is
// linear in its operands leaves free may also carry partial sums through it; `Results::MayStayPartial` adds results
// that are kept as the partial sums they are made as. Left out because something else is never worse: keeping partial
// sums that no reader takes as they are (each reader would sum them again), scattering into an axis that does not
// divide, and axes of one device.
enum class Results { Whole, MayStayPartial };
[[nodiscard]] std::vector<OpStrategy> enumerate_strategies(const Op& op, const IterationSpace& space,
                                                           const std::vector<Dim>& result_dims, const LogicalMesh& mesh,
                                                           const IntraOpRules& rules, Results results = Results::Whole);

// (weight, state, eager) triples. `has_state`: something is kept in the sharding of the state, if only sums of
// gradients. The state is split at least as the weight; further axes cut the first dimension they divide (any other
// dimension costs and stores the same). With IntraOpRules::padding, axes that no dimension divides by cut the one that
// is then padded least, the first of several, if that makes the tile smaller; what leaves a device more bytes than
// another such cut is left out.
[[nodiscard]] std::vector<ParameterSharding> enumerate_parameter_shardings(const Tensor& parameter, bool has_state,
                                                                           const LogicalMesh& mesh,
                                                                           const IntraOpRules& rules);

}  // namespace meshwright
