// SPDX-License-Identifier: Apache-2.0
// The built-in models by name and by size.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/graph/autodiff.h"
#include "core/graph/graph.h"
#include "core/graph/models/parts/rotary_scaling.h"

namespace meshwright {

// What is minimised: the mean of all terms of the step's batch (tokens of a GPT, elements of an MLP's result), their
// sum, or the mean weighted by inputs (0 leaves a token out) over the whole step, however its microbatches share the
// weights.
enum class LossReduction { Mean, Sum, TokenWeighted };
[[nodiscard]] const char* name_of(LossReduction reduction);                     // "mean", "sum", "token_weighted"
[[nodiscard]] LossReduction loss_reduction_from_name(const std::string& name);  // throws InputError

// The forward ops and the loss of a model that is no family's, such as one read from a file.
class ForwardSource {
 public:
  virtual ~ForwardSource() = default;
  // REQUIRES: `graph` is empty but for its name, batch, microbatches and dtype, which have been checked.
  virtual void build(Graph& graph, LossReduction reduction) const = 0;
};

// A file with a model's ops (core/graph/import/model_file.h). Two are the same model if their bytes and sizes are.
struct ModelFile {
  std::string path;                               // as the user gave it
  std::string hash;                               // of its bytes, 16 hex digits
  std::map<std::string, std::int64_t> dims = {};  // sizes given for dimensions that the file leaves open
  std::shared_ptr<const ForwardSource> source = {};
  bool operator==(const ModelFile& other) const { return hash == other.hash && dims == other.dims; }
};

// What a graph is built from; stored in plan files so that a plan can rebuild its graph.
struct ModelConfig {
  std::string name;    // "gpt-2.6b", the family for a custom size, or from the name of the file
  std::string family;  // "gpt", "llama", ... (core/graph/models/transformer_families.cpp), "mlp"; "file"
  // mlp: layers (pairs of Dense 4x, ReLU, Dense, ReLU) and hidden alone.
  std::int64_t layers = 0, hidden = 0, heads = 0, seq = 0, vocab = 0;
  std::int64_t default_batch = 0;
  DType default_dtype = DType::F32;
  std::map<std::string, std::int64_t> more = {};  // the family's other whole numbers: "kv_heads", "experts", ...
  std::map<std::string, double> factors = {};     // its other positive numbers: "rotary_base", "epsilon", ...
  std::optional<RotaryScaling> rotary_scaling = {};
  std::optional<ModelFile> file = {};  // of family "file"; its sizes describe it and build nothing
  bool operator==(const ModelConfig&) const = default;
};

// What lies in the memory of the devices' hosts instead of their own: nothing, or all optimizer state (moments and
// master copies), which every update fetches before its work and sends back after it.
enum class Offload : std::uint8_t { None = 0, Optimizer = 1, Activations = 2, Weights = 4 };
[[nodiscard]] constexpr Offload operator|(Offload a, Offload b) {
  return static_cast<Offload>(static_cast<int>(a) | static_cast<int>(b));
}
[[nodiscard]] constexpr bool has(Offload offload, Offload part) {
  return (static_cast<int>(offload) & static_cast<int>(part)) != 0;
}
[[nodiscard]] std::string name_of(Offload offload);                // "none", "optimizer", "activations,weights"
[[nodiscard]] Offload offload_from_name(const std::string& name);  // in any order; throws InputError

struct TrainingOptions {
  std::int64_t batch = 0;         // samples per step
  std::int64_t microbatches = 1;  // must divide batch
  DType dtype = DType::F32;
  Optimizer optimizer = {};
  Recompute recompute = Recompute::None;
  LossReduction loss = LossReduction::Mean;
  std::vector<RecomputeRange> recompute_ranges = {};            // what holds for other ops than `recompute`
  RecomputeModules recompute_modules = RecomputeModules::None;  // and what of blocks is recomputed by itself
  Offload offload = Offload::None;
};
// "none", "full", "selective"; "per layer" where ranges differ; modules are named: "core_attn,layernorm".
[[nodiscard]] std::string recompute_text(const TrainingOptions& options);

[[nodiscard]] std::vector<ModelConfig> builtin_models();
// An example of a size of every family: "gpt:layers=2,hidden=64,heads=4,seq=32,vocab=128".
[[nodiscard]] std::vector<std::string> example_sizes();
// The same model with other sizes or factors: "layers=2,capacity_factor=1.25"; what was derived from them stays. Its
// name ends in them. Throws InputError.
[[nodiscard]] ModelConfig with_sizes(ModelConfig model, const std::string& sizes, const std::string& place);
// By name ("gpt-2.6b", "mlp"), by name with other sizes ("gpt-2.6b:layers=2"), or by size
// ("gpt:layers=2,hidden=64,heads=4,seq=32,vocab=128", "mlp:layers=2,hidden=2048"). Throws InputError with the nearest
// names.
[[nodiscard]] ModelConfig find_builtin_model(const std::string& name);

[[nodiscard]] Graph build_forward_graph(const ModelConfig& model, const TrainingOptions& options);
// build_forward_graph + append_training_step. Throws InputError when the batch does not divide, and for ranges that are
// none of this graph.
[[nodiscard]] Graph build_training_graph(const ModelConfig& model, const TrainingOptions& options);

// The number of experts that each token is sent to; 0: the model has no experts, or its file does not say.
[[nodiscard]] int experts_per_token(const ModelConfig& model);
// Parameters that one token meets: of the experts of a mixture, the top_k it takes.
[[nodiscard]] std::int64_t active_parameter_count(const Graph& graph);

[[nodiscard]] Json to_json(const ModelConfig& model);
// Models of families only (model_of_plan in core/graph/import/find_model.h reads all). A member that the family has a
// default for may be missing.
[[nodiscard]] ModelConfig model_from_json(const Json& json, const std::string& place);

}  // namespace meshwright
