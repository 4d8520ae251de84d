// SPDX-License-Identifier: Apache-2.0
// The parts of a transformer's graph, one file each: attention.cpp, feed_forward.cpp, mixture.cpp, and transformer.cpp
// for what is around the blocks.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/graph/models/model_writer.h"
#include "core/graph/models/transformer.h"

namespace meshwright {

struct TransformerBuilder : ModelWriter {
  TransformerBuilder(Graph& into, const ModelConfig& model, const Transformer& what);

  // What differs from one use of attention to the next.
  struct AttentionUse {
    bool causal;
    std::int64_t window = 0;
    bool rotary = false;
    std::optional<TensorId> relative_bias = {};
  };
  struct Projections {
    TensorId q, k, v;  // keys and values with seq, not yet kv_seq
  };

  // All (batch, seq, embed) -> (batch, seq, embed). Keys and values come from `memory`.
  [[nodiscard]] TensorId attention(const std::string& name, TensorId x, TensorId memory, const AttentionUse& use);
  [[nodiscard]] TensorId feed_forward(const std::string& name, TensorId x, std::int64_t width);
  [[nodiscard]] TensorId mixture(const std::string& name, TensorId x);
  [[nodiscard]] TensorId norm(const std::string& name, TensorId x, const Dim& last);
  [[nodiscard]] TensorId activate(const std::string& name, TensorId x);

  // The first two up to their last product, (batch, seq, kv_heads, group, ...) and (batch, seq, mlp); and that product
  // without its bias.
  [[nodiscard]] TensorId attention_core(const std::string& name, TensorId x, TensorId memory, const AttentionUse& use);
  [[nodiscard]] TensorId attention_out(const std::string& name, TensorId core);
  [[nodiscard]] TensorId feed_forward_inner(const std::string& name, TensorId x, std::int64_t width);
  [[nodiscard]] TensorId feed_forward_out(const std::string& name, TensorId inner);

  // Self attention (and cross attention where there is a `memory`), then the feed-forward layer.
  struct BlockUse {
    AttentionUse attention;
    bool mixture;
    std::optional<TensorId> memory = {};
  };
  [[nodiscard]] TensorId block(const std::string& name, TensorId x, const BlockUse& use);
  [[nodiscard]] TensorId parallel_block(const std::string& name, TensorId x, const BlockUse& use);
  // A whole stack with its last norm. Its result is (batch, seq, embed).
  [[nodiscard]] TensorId stack(const std::string& prefix, TensorId x, const std::vector<LayerPart>& layers, bool causal,
                               std::optional<TensorId> memory);

  [[nodiscard]] TensorId stacks(TensorId tokens);  // the encoder's and the decoder's, or the only one
  [[nodiscard]] TensorId embed_tokens(const std::string& name, TensorId tokens);
  [[nodiscard]] TensorId logits(TensorId x);

  const Transformer& transformer;
  const Dim kv_heads, group, head_dim;
  const Dim word;                 // the word table's second dimension
  std::optional<TensorId> words;  // the word table (vocab, word), if there is a vocabulary
  int next_block = 0;

 private:
  [[nodiscard]] Projections plain_projections(const std::string& name, TensorId x, TensorId memory, bool rotary);
  [[nodiscard]] Projections latent_projections(const std::string& name, TensorId x);
  [[nodiscard]] TensorId rotate(const std::string& name, TensorId x);
  // Over all dimensions behind batch and seq, which are joined as `all`.
  [[nodiscard]] TensorId wide_norm(const std::string& name, TensorId x, const Dim& all);
  [[nodiscard]] TensorId scaled(const std::string& name, TensorId x, double factor);
  [[nodiscard]] TensorId as_keys(const std::string& name, TensorId x);
  // activation(gate) * up, or activation(up); `widen` projects to the inner width and is told which: ".gate" or ".up".
  using Widen = std::function<TensorId(const std::string& which)>;
  [[nodiscard]] TensorId inner_layer(const std::string& name, const Widen& widen);
  [[nodiscard]] TensorId expert_layer(const std::string& name, TensorId x);
  struct Routing {
    TensorId slots, weights;
    std::int64_t capacity;
  };
  [[nodiscard]] Routing route(const std::string& name, TensorId x);
};

}  // namespace meshwright
