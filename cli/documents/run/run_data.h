// SPDX-License-Identifier: Apache-2.0
// What a run is given from outside and what it hands out: weights, samples, logits, losses, gradients.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/import/hf/tensors/hf_tensors.h"
#include "core/graph/models/models.h"
#include "executor/base/run_options.h"
#include "executor/base/run_result.h"

namespace CLI {
class App;
}

namespace meshwright {

struct RunDataOptions {
  std::string weights, save_weights;                       // folders; "": none
  std::vector<std::string> inputs;                         // "FILE" or "INPUT=FILE"
  std::vector<std::pair<std::string, std::string>> dumps;  // what, file
};
void add_run_data_options(CLI::App& verb, RunDataOptions& options);

class RunData {
 public:
  // Puts what is given into `run`, and what is to be kept. Throws InputError for files that do not fit the model.
  RunData(const RunDataOptions& options, const ModelConfig& model, const Graph& graph, RunOptions& run);

  // After the run; returns a line "# ... written to FILE" for each file.
  [[nodiscard]] std::string write(const RunResult& result, DType precision) const;
  // Before it: a line "# ..." for what is read.
  [[nodiscard]] const std::string& read() const { return read_; }

 private:
  void open_weights(const ModelConfig& model, RunOptions& run);
  void open_samples(const ModelConfig& model, RunOptions& run);

  const RunDataOptions& options_;
  const Graph& graph_;
  std::string model_type_, read_;
};

}  // namespace meshwright
