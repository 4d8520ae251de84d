// SPDX-License-Identifier: Apache-2.0
// Models from files that hold their ops: ONNX (.onnx), PyTorch's exported programs (.pt2, and the JSON in them),
// modules of XLA as HLO text (.hlo, .hlo.txt, .txt, and .js, a template of JavaScript around it).
//
// A reader turns the file into a module of primitive ops (core/graph/import/primitive/module.h), patterns are
// recognised in it (recognise.h), and the rest is the same for all formats: what does not lead to the loss is dropped,
// dimensions get names (axes.h), and the module becomes a Graph of any micro-batch (emit.h). The first output that the
// file names is the model's result: logits get a cross entropy against labels, everything else a squared error against
// a target.
//
// Float tensors are of the graph's dtype whatever the file has; values of weights are never kept.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/import/primitive/emit/file_sharding.h"
#include "core/graph/import/xla/xla_summary.h"
#include "core/graph/models/models.h"

namespace meshwright {

// Whether the name has the ending of one of these.
[[nodiscard]] bool is_model_file(const std::string& path);

// Throws SystemError when the file cannot be read; InputError, one sentence beginning with the path, when it is
// damaged, has ops without an equal here (all of them are named and counted), leaves dimensions open that `dims` does
// not give, or when `dims` has names that the file lacks.
[[nodiscard]] ModelConfig read_model_file(const std::string& path, const std::map<std::string, std::int64_t>& dims);

// The same for the bytes of such a file; `path` decides the format and is put in front of messages.
[[nodiscard]] ModelConfig read_model_bytes(std::string_view bytes, const std::string& path,
                                           const std::map<std::string, std::int64_t>& dims);

// What was read, for people.
struct ModelFileSummary {
  std::map<std::string, std::int64_t> file_ops;    // by the file's names
  std::map<std::string, std::int64_t> recognised;  // patterns: "attention", "layer_norm", ...
  std::vector<std::string> notes;                  // one sentence each: what differs from the file
  std::int64_t blocks = 0;
  std::optional<xla::ProgramSummary> program = {};  // of the whole file, where it is a program of XLA
};
// What a program of XLA does as it stands, also where no model can be made of it; nothing for other files. Throws as
// read_model_file does where the text cannot be read.
[[nodiscard]] std::optional<xla::ProgramSummary> program_of_file(const std::string& path,
                                                                 const std::map<std::string, std::int64_t>& dims = {});
// The layouts of the parameters that the file says, on the mesh that they share (no axes: it says none). Throws
// InputError, beginning with the path, for one that no layout of the graph's parameter says. REQUIRES: `model` has a
// file.
[[nodiscard]] primitive::KeptShardings shardings_of(const ModelConfig& model);
// REQUIRES: `model` has a file.
[[nodiscard]] const ModelFileSummary& summary_of(const ModelConfig& model);

}  // namespace meshwright
