// SPDX-License-Identifier: Apache-2.0
#include "executor/weights/given_data.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/npy.h"
#include "core/base/text.h"
#include "executor/base/element_type.h"

namespace meshwright {

namespace {

std::vector<const Tensor*> inputs_of(const Graph& graph) {
  std::vector<const Tensor*> inputs;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Input && !tensor.dims.empty() && !graph.constants.contains(tensor.id))
      inputs.push_back(&tensor);
  return inputs;
}

std::string names_of(const std::vector<const Tensor*>& inputs) {
  std::vector<std::string> names;
  for (const Tensor* input : inputs) names.push_back(input->name);
  return join(names, ", ");
}

std::string shown(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(fmt::format("{}", size));
  return "(" + join(sizes, ", ") + ")";
}

std::vector<std::int64_t> rest_of(const Tensor& input) {
  std::vector<std::int64_t> sizes;
  for (std::size_t d = 1; d < input.dims.size(); ++d) sizes.push_back(input.dims[d].size);
  return sizes;
}

std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

// How many tokens behind its own an input's first one is: "tokens" 0, "labels" 1, "labels_2" 2; -1: another input.
std::int64_t shift_of(const std::string& name) {
  constexpr std::string_view kFurther = "labels_";
  if (name == "tokens") return 0;
  if (name == "labels") return 1;
  return name.starts_with(kFurther) ? parse_integer(name.substr(kFurther.size()), name, 1, 1000) : -1;
}

// A file of tokens as a row or as rows.
struct TokenRows {
  ReadNumber read;
  std::size_t begin, bytes;  // of the first token; of each
  std::int64_t tokens;
  std::int64_t row = 0;  // tokens of each row; 0: one long row
};

TokenRows token_rows(const MappedFile& file, std::int64_t vocab) {
  const auto size = static_cast<std::int64_t>(file.bytes().size());
  if (file.path().ends_with(".npy")) {
    const NpyHeader header = read_npy_header(file.bytes(), file.path());
    require(header.is_integer() && (header.shape.size() == 1 || header.shape.size() == 2),
            "{}: tokens are whole numbers in one row or in one row for each sample; the array is {} of '{}'.",
            file.path(), shown(header.shape), header.type);
    return {number_reader(header.type), header.begin, header.element_bytes(), header.elements(),
            header.shape.size() == 2 ? header.shape[1] : 0};
  }
  if (!file.path().ends_with(".bin")) return {number_reader("u1"), 0, 1, size};
  const std::int64_t bytes = vocab > 65536 ? 4 : 2;
  require(size % bytes == 0, "{}: the file has {} bytes, which are no row of tokens of {} bytes each.", file.path(),
          size, bytes);
  return {number_reader(bytes == 4 ? "u4" : "u2"), 0, static_cast<std::size_t>(bytes), size / bytes};
}

}  // namespace

GivenData::GivenData(const std::vector<InputFile>& files, const Graph& graph, std::int64_t vocab, std::int64_t samples)
    : samples_(samples) {
  for (const InputFile& file : files) file.input.empty() ? add_tokens(file.path, graph, vocab) : add_array(file, graph);
  for (const Tensor* input : inputs_of(graph)) {
    if (graph.loss_weights && input->id == graph.loss_weights->weights) continue;
    require(find(*input) != nullptr,
            "--inputs: the model also reads '{}', which would not belong to what is given; give --inputs {}=FILE.npy.",
            input->name, input->name);
  }
  for (const Source& source : sources_)
    require(source.samples >= graph.batch,
            "{}: the file has {} samples for '{}', but a step takes {}; give more, or plan for a smaller --batch.",
            source.file->path(), source.samples, source.input, graph.batch);
}

void GivenData::add_array(const InputFile& file, const Graph& graph) {
  const std::vector<const Tensor*> inputs = inputs_of(graph);
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const Tensor* t) { return t->name == file.input; });
  require(found != inputs.end(), "{}: the model has no input '{}'; it has {}.", file.path, file.input,
          names_of(inputs));
  const Tensor& input = **found;
  require(find(input) == nullptr, "{}: the input '{}' is given twice.", file.path, file.input);
  auto mapped = std::make_shared<const MappedFile>(file.path);
  const NpyHeader header = read_npy_header(mapped->bytes(), file.path);
  const std::vector<std::int64_t> sizes = rest_of(input);
  require(!header.shape.empty(), "{}: the array has no samples.", file.path);
  const std::vector<std::int64_t> row(header.shape.begin() + 1, header.shape.end());
  std::vector<std::int64_t> strides = row_major(sizes);
  const bool channels_first = sizes.size() == 3 && row == std::vector<std::int64_t>{sizes[2], sizes[0], sizes[1]};
  if (channels_first && row != sizes) strides = {sizes[1], 1, sizes[0] * sizes[1]};
  require(row == sizes || channels_first, "{}: a sample of the array is {}, but one of '{}' is {}.", file.path,
          shown(row), input.name, shown(sizes));
  require(header.is_integer() || input.dtype != DType::I32, "{}: '{}' are whole numbers, but the array has '{}'.",
          file.path, input.name, header.type);
  std::int64_t elements = 1;
  for (const std::int64_t size : sizes) elements *= size;
  sources_.push_back({input.name, mapped, mapped->bytes().data() + header.begin, number_reader(header.type),
                      header.shape[0], elements, strides});
}

void GivenData::add_tokens(const std::string& path, const Graph& graph, std::int64_t vocab) {
  std::int64_t further = 0, seq = 0;
  const std::vector<const Tensor*> inputs = inputs_of(graph);
  for (const Tensor* input : inputs) {
    if (graph.loss_weights && input->id == graph.loss_weights->weights) continue;
    const std::int64_t shift = input->dtype == DType::I32 && input->dims.size() == 2 ? shift_of(input->name) : -1;
    require(shift >= 0, "{}: the model reads {}; give each a file by its name, as in --inputs {}=FILE.npy.", path,
            names_of(inputs), input->name);
    further = std::max(further, shift);
    seq = input->dims[1].size;
  }
  require(seq > 0, "{}: the model reads no tokens.", path);
  auto mapped = std::make_shared<const MappedFile>(path);
  const TokenRows rows = token_rows(*mapped, vocab);
  require(rows.row == 0 || rows.row >= seq + further,
          "{}: its rows have {} tokens, but a sample takes {}: {} and the label of the last.", path, rows.row,
          seq + further, seq);
  const std::int64_t samples =
      rows.row > 0 ? rows.tokens / rows.row : std::max<std::int64_t>(0, rows.tokens - further) / seq;
  for (const Tensor* input : inputs) {
    if (graph.loss_weights && input->id == graph.loss_weights->weights) continue;
    require(find(*input) == nullptr, "{}: the input '{}' is given twice.", path, input->name);
    const auto shift = static_cast<std::size_t>(shift_of(input->name));
    sources_.push_back({input->name,
                        mapped,
                        mapped->bytes().data() + rows.begin + shift * rows.bytes,
                        rows.read,
                        samples,
                        rows.row > 0 ? rows.row : seq,
                        {1}});
  }
}

const GivenData::Source* GivenData::find(const Tensor& input) const {
  for (const Source& source : sources_)
    if (source.input == input.name) return &source;
  return nullptr;
}

std::int64_t GivenData::samples() const {
  std::int64_t fewest = sources_.front().samples;
  for (const Source& source : sources_) fewest = std::min(fewest, source.samples);
  return fewest;
}

namespace {

// Calls use(element of the tile, element of the sample) for every element of one sample of a tile.
template <class Use>
void for_each_of_sample(std::span<const std::int64_t> offset, std::span<const std::int64_t> shape,
                        const std::vector<std::int64_t>& strides, Use use) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  std::vector<std::int64_t> index(shape.size(), 0);
  for (std::int64_t i = 0; i < elements; ++i) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) at += (offset[d] + index[d]) * strides[d];
    use(i, at);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace

bool GivenData::fill(const Tensor& input, std::int64_t first, std::span<const std::int64_t> offset,
                     std::span<const std::int64_t> shape, DType precision, void* out) const {
  const Source* source = find(input);
  if (source == nullptr) return false;
  std::int64_t elements = 1;
  for (const std::int64_t size : shape.subspan(1)) elements *= size;
  for (std::int64_t s = 0; s < shape[0]; ++s) {
    const std::int64_t base = (first + s) % source->samples * source->sample_stride;
    with_element_type(computed_type(input.dtype, precision), [&](auto zero) {
      using T = decltype(zero);
      T* values = static_cast<T*>(out) + s * elements;
      for_each_of_sample(offset.subspan(1), shape.subspan(1), source->strides, [&](std::int64_t to, std::int64_t at) {
        values[to] = static_cast<T>(source->read(source->bytes, base + at));
      });
    });
  }
  return true;
}

void GivenData::check_bound(const Tensor& input, std::int64_t bound) const {
  const Source* source = find(input);
  if (source == nullptr) return;
  const std::vector<std::int64_t> sizes = rest_of(input), origin(sizes.size(), 0);
  for (std::int64_t s = 0; s < std::min(samples_, source->samples); ++s)
    for_each_of_sample(origin, sizes, source->strides, [&](std::int64_t, std::int64_t at) {
      const double value = source->read(source->bytes, s * source->sample_stride + at);
      require(0 <= value && value < static_cast<double>(bound),
              "{}: sample {} of '{}' has the number {}, but the model knows 0 to {}.", source->file->path(), s,
              input.name, value, bound - 1);
    });
}

}  // namespace meshwright
