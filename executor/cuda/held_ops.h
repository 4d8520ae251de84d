// SPDX-License-Identifier: Apache-2.0
// The ops that a device has accepted and not begun, to run them together with later ones (CudaTogether). Internal to
// executor/cuda.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "executor/cuda/cuda_kernel_table.h"

namespace meshwright {

class HeldOps {
 public:
  [[nodiscard]] bool empty() const { return ops_.empty(); }
  [[nodiscard]] std::size_t size() const { return ops_.size(); }
  // Holds the op, as the first or with the held ones, and returns true; or returns false, and the caller must run the
  // held ops and then this one. The op's call must outlive the hold; all other arguments are copied. `name`: of the
  // work; may be empty.
  [[nodiscard]] bool takes_first(const CudaOperands& o, const std::string& name);  // REQUIRES: empty()
  [[nodiscard]] bool takes_next(const CudaOperands& o, const std::string& name);
  // Whether an op that was not taken may run now, before the held ones.
  [[nodiscard]] bool lets_pass(const CudaOperands& o) const;
  // The name of the whole work; empty if the first op has none.
  [[nodiscard]] std::string name() const;
  // The names of the ops that the first one's kernel computes.
  [[nodiscard]] std::vector<std::string> joined_names() const;
  // Runs the held ops, and then holds none, also if it throws.
  void run();

 private:
  struct Lists {
    std::vector<void*> inputs, outputs;
    std::vector<DType> input_types, output_types;
  };
  void hold(const CudaOperands& o);

  const CudaTogether* together_ = nullptr;
  std::vector<std::string> names_;  // [op]
  std::deque<Lists> lists_;         // the arrays behind the spans of ops_
  std::vector<CudaOperands> ops_;
};

}  // namespace meshwright
