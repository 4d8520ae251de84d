// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/held_ops.h"

#include <utility>

namespace meshwright {

void HeldOps::hold(const CudaOperands& o) {
  const Lists& own = lists_.emplace_back(Lists{{o.inputs.begin(), o.inputs.end()},
                                               {o.outputs.begin(), o.outputs.end()},
                                               {o.input_types.begin(), o.input_types.end()},
                                               {o.output_types.begin(), o.output_types.end()}});
  // The spans of `o` point into lists that the device uses again for the next op.
  CudaOperands& held = ops_.emplace_back(o);
  held.inputs = own.inputs;
  held.outputs = own.outputs;
  held.input_types = own.input_types;
  held.output_types = own.output_types;
  held.moment.begin = {};  // what is held is computed alike wherever its shard begins
}

bool HeldOps::takes_first(const CudaOperands& o, const std::string& name) {
  for (const auto family : {cuda_products_together, cuda_residuals_together, cuda_norms_together, cuda_losses_together,
                            cuda_updates_together}) {
    const CudaTogether* together = family(o.call.kind);
    if (together == nullptr || !together->may_begin(o)) continue;
    together_ = together;
    names_ = {name};
    hold(o);
    return true;
  }
  return false;
}

bool HeldOps::takes_next(const CudaOperands& o, const std::string& name) {
  if (empty() || !together_->may_follow(ops_, o)) return false;
  names_.push_back(name);
  hold(o);
  return true;
}

bool HeldOps::lets_pass(const CudaOperands& o) const {
  return !empty() && together_->may_pass != nullptr && together_->may_pass(ops_, o);
}

std::string HeldOps::name() const { return names_[0].empty() ? "" : together_->name(ops_, names_[0]); }

std::vector<std::string> HeldOps::joined_names() const {
  if (!together_->joined || names_[0].empty()) return {};
  return {names_.begin() + 1, names_.end()};
}

void HeldOps::run() {
  const std::deque<Lists> lists = std::exchange(lists_, {});  // moved as a whole: what the spans are of stays in place
  const std::vector<CudaOperands> ops = std::exchange(ops_, {});
  together_->run(ops);
}

}  // namespace meshwright
