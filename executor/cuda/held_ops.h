// SPDX-License-Identifier: Apache-2.0
// Ops that a device was asked for and has not begun: CudaTogether says which, and until when. Internal to
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
  // Whether the op is held from now on, as the first or with those that are held; else it is to be done, after them.
  // Only its call has to stay where it is. `name`: of the work; empty: it has none.
  [[nodiscard]] bool takes_first(const CudaOperands& o, const std::string& name);  // REQUIRES: empty()
  [[nodiscard]] bool takes_next(const CudaOperands& o, const std::string& name);
  // Of all of it; empty: it has none.
  [[nodiscard]] std::string name() const;
  // Of those that are done in the kernel of the first.
  [[nodiscard]] std::vector<std::string> joined_names() const;
  // Holds none of them afterwards, whether they succeed or not.
  void run();

 private:
  struct Lists {
    std::vector<void*> inputs, outputs;
    std::vector<DType> input_types, output_types;
  };
  void hold(const CudaOperands& o);

  const CudaTogether* together_ = nullptr;
  std::vector<std::string> names_;  // [op]
  std::deque<Lists> lists_;         // what the spans of ops_ are of
  std::vector<CudaOperands> ops_;
};

}  // namespace meshwright
