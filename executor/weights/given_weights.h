// SPDX-License-Identifier: Apache-2.0
// A model's parameters out of files, and into files. `places`: where each lies there
// (core/graph/import/hf/tensors/hf_tensors.h).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/graph/import/hf/tensors/hf_tensors.h"
#include "executor/base/given_values.h"
#include "executor/weights/stored_numbers.h"
#include "executor/weights/weight_files.h"

namespace meshwright {

class GivenWeights : public GivenStart {
 public:
  // Throws InputError naming the tensors that are missing, those that are of another shape or type, and those that the
  // model has no parameter for.
  GivenWeights(WeightFiles files, const HfTensorNames& names, const Graph& graph);

  [[nodiscard]] bool fill(const Tensor& tensor, std::span<const std::int64_t> offset,
                          std::span<const std::int64_t> shape, DType precision, void* out) const override;

 private:
  struct Source {
    TensorPiece piece;
    const char* bytes;
    ReadNumber read;
  };
  struct OfParameter {
    double shift;
    std::vector<Source> sources;
  };
  void find(const TensorPiece& piece, const HfTensorNames& names, OfParameter& of);
  void expect_nothing_else(const HfTensorNames& names) const;

  WeightFiles files_;
  std::map<std::string, OfParameter> parameters_;  // by name: graphs of one model number them differently
  std::map<std::string, bool> used_;               // by the tensors' names in the files
};

// What is written: by a parameter's name its elements.
using NamedValues = std::map<std::string, std::vector<double>>;

// Writes model.safetensors, or several files of at most `file_bytes` each with their index, into `folder`, which is
// made. Values that `values` lacks are not written. Each file is whole or not there. Throws SystemError.
void write_weights(const std::string& folder, const NamedValues& values, const Graph& graph,
                   const std::vector<ParameterPlace>& places, DType type, std::uint64_t file_bytes = 5'000'000'000);

// One file of the same.
void write_weight_file(const std::string& path, const NamedValues& values, const Graph& graph,
                       const std::vector<ParameterPlace>& places, DType type);

}  // namespace meshwright
