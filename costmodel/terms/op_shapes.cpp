// SPDX-License-Identifier: Apache-2.0
#include "costmodel/terms/op_shapes.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace meshwright {

namespace {

// Reads a signature from left to right; `good` turns false at the first character that does not fit.
class SignatureReader {
 public:
  explicit SignatureReader(std::string_view text) : left_(text) {}

  std::optional<OpSignature> read() {
    OpSignature signature;
    signature.kind = word();
    signature.dtype = word();
    while (good_ && left_.starts_with('[')) signature.inputs.push_back(operand(signature));
    expect("->");
    while (good_ && left_.starts_with('[')) signature.outputs.push_back(operand(signature));
    signature.rest = left_;
    if (!good_ || signature.outputs.empty() || (!left_.empty() && left_.front() != ' ')) return std::nullopt;
    return signature;
  }

 private:
  void expect(std::string_view what) {
    good_ = good_ && left_.starts_with(what);
    if (good_) left_.remove_prefix(what.size());
  }
  // Up to and without the space behind it.
  std::string word() {
    const std::size_t end = left_.find(' ');
    good_ = good_ && end != std::string_view::npos && end > 0;
    if (!good_) return "";
    std::string text(left_.substr(0, end));
    left_.remove_prefix(end + 1);
    return text;
  }
  // "[a=2,b]:f32"; the size of an axis stands where it appears first.
  OpSignature::Operand operand(OpSignature& signature) {
    OpSignature::Operand read{"", signature.dtype};
    expect("[");
    while (good_ && !left_.starts_with(']')) {
      if (!read.axes.empty()) expect(",");
      axis(signature, read);
    }
    expect("]");
    if (good_ && left_.starts_with(':')) {
      const std::size_t end = std::min(left_.find_first_of("[- ", 1), left_.size());
      read.dtype = left_.substr(1, end - 1);
      left_.remove_prefix(end);
    }
    return read;
  }
  void axis(OpSignature& signature, OpSignature::Operand& operand) {
    good_ = good_ && !left_.empty() && left_.front() >= 'a' && left_.front() <= 'z';
    if (!good_) return;
    const char letter = left_.front();
    left_.remove_prefix(1);
    operand.axes += letter;
    if (!left_.starts_with('=')) {
      good_ = signature.sizes.count(letter) != 0;
      return;
    }
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(left_.data() + 1, left_.data() + left_.size(), size);
    good_ = error == std::errc() && size > 0;
    if (!good_) return;
    left_.remove_prefix(static_cast<std::size_t>(end - left_.data()));
    signature.sizes[letter] = size;
  }

  std::string_view left_;
  bool good_ = true;
};

bool has(const OpSignature::Operand& operand, char axis) { return operand.axes.find(axis) != std::string::npos; }

std::optional<std::int64_t> window_of(const OpSignature& signature) {
  constexpr std::string_view kWindow = " window ";
  const std::size_t at = signature.rest.find(kWindow);
  if (at == std::string::npos) return std::nullopt;
  std::int64_t keys = 0;
  const char* begin = signature.rest.data() + at + kWindow.size();
  std::from_chars(begin, signature.rest.data() + signature.rest.size(), keys);
  return keys;
}

}  // namespace

std::int64_t OpSignature::elements(const Operand& operand) const {
  std::int64_t product = 1;
  for (const char axis : operand.axes) product *= sizes.at(axis);
  return product;
}

std::optional<OpSignature> parse_signature(std::string_view text) { return SignatureReader(text).read(); }

double element_size(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, double>, 6> kSizes = {
      {{"f64", 8}, {"f32", 4}, {"bf16", 2}, {"f16", 2}, {"f8", 1}, {"i32", 4}}};
  const auto* found =
      std::find_if(kSizes.begin(), kSizes.end(), [&](const auto& known) { return known.first == dtype; });
  return found == kSizes.end() ? 4 : found->second;
}

std::optional<ProductShape> product_of(const OpSignature& signature) {
  if (signature.kind != "contract" || signature.inputs.size() != 2 || signature.outputs.size() != 1)
    return std::nullopt;
  const OpSignature::Operand &left = signature.inputs[0], &right = signature.inputs[1], &result = signature.outputs[0];
  ProductShape shape;
  shape.operand_element = Bytes(element_size(left.dtype));
  shape.result_element = Bytes(element_size(result.dtype));
  for (const auto& [axis, size] : signature.sizes) {
    const bool in_left = has(left, axis), in_right = has(right, axis), in_result = has(result, axis);
    if (in_left && in_right)
      (in_result ? shape.batch : shape.k) *= size;
    else if (in_result)
      (in_left ? shape.m : shape.n) *= size;
    else
      return std::nullopt;
  }
  return shape;
}

std::optional<AttentionShape> attention_of(const OpSignature& signature) {
  const bool packed = signature.kind.starts_with("attention"),
             grouped = signature.kind.starts_with("grouped_attention");
  if (!packed && !grouped) return std::nullopt;
  AttentionShape shape;
  shape.backward = signature.kind.ends_with("_backward");
  shape.element = Bytes(element_size(signature.dtype));
  const std::string& q = signature.inputs.front().axes;
  const auto size = [&](char axis) { return signature.sizes.at(axis); };
  if (q.size() != 5) return std::nullopt;
  shape.batch = size(q[0]);
  shape.queries = size(q[1]);
  if (packed) {  // (batch, seq, qkv, heads, head_dim)
    shape.keys = shape.queries;
    shape.heads = shape.kv_heads = size(q[3]);
    shape.key_width = shape.value_width = size(q[4]);
    return shape;
  }
  // q (batch, seq, kv_heads, group, d), k (batch, kv_seq, kv_heads, d), v (batch, kv_seq, kv_heads, e)
  if (signature.inputs.size() < 3 || signature.inputs[1].axes.size() != 4 || signature.inputs[2].axes.size() != 4)
    return std::nullopt;
  shape.keys = size(signature.inputs[1].axes[1]);
  shape.kv_heads = size(q[2]);
  shape.heads = shape.kv_heads * size(q[3]);
  shape.key_width = size(q[4]);
  shape.value_width = size(signature.inputs[2].axes[3]);
  shape.causal = signature.rest.find(" causal") != std::string::npos;
  if (const auto window = window_of(signature); window && *window < shape.keys) {
    // Every query meets the keys of its window, on one side or on both: a dense rectangle of that width.
    shape.keys = std::min(shape.keys, shape.causal ? *window : 2 * *window - 1);
    shape.causal = false;
  }
  return shape;
}

}  // namespace meshwright
