// SPDX-License-Identifier: Apache-2.0
#include "executor/weights/given_weights.h"

#include <filesystem>

#include "core/base/errors.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "executor/base/element_type.h"

namespace meshwright {

namespace {

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(fmt::format("{}", size));
  return "[" + join(sizes, ", ") + "]";
}

// Calls use(element of the tile, element of the piece) for all elements of a tile that the piece holds.
template <class Use>
void for_each_element(const TensorPiece& piece, const Tensor& tensor, std::span<const std::int64_t> offset,
                      std::span<const std::int64_t> shape, Use use) {
  const std::size_t rank = shape.size();
  std::vector<std::vector<std::int64_t>> steps(rank);  // [dim][index in the tile]: where it lies in the piece
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    elements *= shape[d];
    for (std::int64_t i = 0; i < shape[d]; ++i) steps[d].push_back(piece.at(d, offset[d] + i, tensor.dims[d].size));
  }
  if (elements == 0) return;
  if (rank == 0) return use(0, piece.first);
  const std::int64_t inner = shape[rank - 1];
  std::vector<std::int64_t> index(rank, 0);
  for (std::int64_t done = 0; done < elements; done += inner) {
    std::int64_t base = piece.first;
    for (std::size_t d = 0; d + 1 < rank; ++d) base += steps[d][static_cast<std::size_t>(index[d])];
    const auto d = piece.dim_of_index;
    const bool other = d && *d + 1 < rank && offset[*d] + index[*d] != piece.index;
    for (std::int64_t i = 0; i < inner && !other; ++i)
      if (!d || *d + 1 < rank || offset[*d] + i == piece.index)
        use(done + i, base + steps[rank - 1][static_cast<std::size_t>(i)]);
    for (std::size_t d2 = rank - 1; d2-- > 0;) {
      if (++index[d2] < shape[d2]) break;
      index[d2] = 0;
    }
  }
}

}  // namespace

GivenWeights::GivenWeights(WeightFiles files, const HfTensorNames& names, const Graph& graph)
    : files_(std::move(files)) {
  for (const auto& [name, found] : files_.tensors()) used_[name] = false;
  for (const ParameterPlace& place : names.places(graph)) {
    OfParameter& of = parameters_[graph.tensor(place.parameter).name];
    of.shift = place.shift;
    for (const TensorPiece& piece : place.pieces) find(piece, names, of);
  }
  expect_nothing_else(names);
}

void GivenWeights::find(const TensorPiece& piece, const HfTensorNames& names, OfParameter& of) {
  std::string name = piece.name;
  // Files of the model without its head lack the prefix.
  if (!files_.tensors().contains(name) && name.starts_with(names.prefix())) name.erase(0, names.prefix().size());
  const auto found = files_.tensors().find(name);
  require(found != files_.tensors().end(), "{}: the tensor '{}' {} is missing; the folder has {} others.",
          files_.folder(), piece.name, text_of(piece.shape), files_.tensors().size());
  const StoredTensor& tensor = *found->second.tensor;
  require(tensor.shape == piece.shape, "{}: the tensor '{}' is {}, but the model's is {}.", *found->second.path, name,
          text_of(tensor.shape), text_of(piece.shape));
  const bool whole = piece.whole_numbers && (tensor.type == "I64" || tensor.type == "I32");
  const ReadNumber read = number_reader(!whole ? std::string_view(tensor.type) : tensor.type == "I64" ? "i8" : "i4");
  require(read != nullptr, "{}: the tensor '{}' is of the type {}; F64, F32, BF16 and F16 are read.",
          *found->second.path, name, tensor.type);
  used_[name] = true;
  of.sources.push_back({piece, found->second.bytes.data(), read});
}

void GivenWeights::expect_nothing_else(const HfTensorNames& names) const {
  std::vector<std::string> others;
  for (const auto& [name, is_used] : used_)
    if (!is_used && !names.may_be_left_out(name) && !names.may_be_left_out(names.prefix() + name))
      others.push_back(name);
  require(others.empty(), "{}: the model has no parameter for {} of the tensors, the first '{}'.", files_.folder(),
          others.size(), others.empty() ? "" : others.front());
}

bool GivenWeights::fill(const Tensor& tensor, std::span<const std::int64_t> offset, std::span<const std::int64_t> shape,
                        DType precision, void* out) const {
  const auto found = parameters_.find(tensor.name);
  if (found == parameters_.end()) return false;
  const OfParameter& of = found->second;
  with_element_type(precision, [&](auto zero) {
    using T = decltype(zero);
    for (const Source& source : of.sources)
      for_each_element(source.piece, tensor, offset, shape, [&](std::int64_t to, std::int64_t from) {
        static_cast<T*>(out)[to] = static_cast<T>(source.read(source.bytes, from) + of.shift);
      });
  });
  return true;
}

namespace {

// A tensor of the files, with all that makes it up.
struct MadeTensor {
  StoredTensor stored;
  struct Part {
    const Tensor* parameter;
    const TensorPiece* piece;
    const std::vector<double>* values;
    double shift;
  };
  std::vector<Part> parts;
};

std::vector<MadeTensor> tensors_to_write(const NamedValues& values, const Graph& graph,
                                         const std::vector<ParameterPlace>& places, DType type) {
  std::vector<MadeTensor> made;
  std::map<std::string, std::size_t> known;
  for (const ParameterPlace& place : places) {
    const Tensor& parameter = graph.tensor(place.parameter);
    const auto found = values.find(parameter.name);
    if (found == values.end()) continue;
    for (const TensorPiece& piece : place.pieces) {
      const auto [at, is_new] = known.emplace(piece.name, made.size());
      if (is_new) made.push_back({{piece.name, stored_type_of(type), piece.shape}, {}});
      made[at->second].parts.push_back({&parameter, &piece, &found->second, place.shift});
    }
  }
  return made;
}

void append_elements(std::string& bytes, const MadeTensor& tensor, DType type) {
  std::int64_t elements = 1;
  for (const std::int64_t size : tensor.stored.shape) elements *= size;
  std::vector<double> whole(static_cast<std::size_t>(elements), 0.0);
  for (const MadeTensor::Part& part : tensor.parts) {
    std::vector<std::int64_t> shape;
    for (const Dim& dim : part.parameter->dims) shape.push_back(dim.size);
    const std::vector<std::int64_t> origin(shape.size(), 0);
    for_each_element(*part.piece, *part.parameter, origin, shape, [&](std::int64_t from, std::int64_t to) {
      whole[static_cast<std::size_t>(to)] = (*part.values)[static_cast<std::size_t>(from)] - part.shift;
    });
  }
  for (const double number : whole) append_number(bytes, number, type);
}

std::uint64_t bytes_of(const MadeTensor& tensor, DType type) {
  std::uint64_t bytes = static_cast<std::uint64_t>(size_of(type));
  for (const std::int64_t size : tensor.stored.shape) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

void make_folder_of_weights(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw SystemError(fmt::format("{}: the folder cannot be made ({}).", folder, error.message()));
}

// The other form's file, of an earlier model, would be read instead.
void remove_file(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

void write_tensors(const std::string& path, std::span<const MadeTensor> tensors, DType type) {
  std::vector<StoredTensor> stored;
  for (const MadeTensor& tensor : tensors) stored.push_back(tensor.stored);
  std::string bytes = safetensors_header(stored, {{"format", "pt"}});
  for (const MadeTensor& tensor : tensors) append_elements(bytes, tensor, type);
  write_file(path, bytes);
}

}  // namespace

void write_weight_file(const std::string& path, const NamedValues& values, const Graph& graph,
                       const std::vector<ParameterPlace>& places, DType type) {
  write_tensors(path, tensors_to_write(values, graph, places, type), type);
}

void write_weights(const std::string& folder, const NamedValues& values, const Graph& graph,
                   const std::vector<ParameterPlace>& places, DType type, std::uint64_t file_bytes) {
  make_folder_of_weights(folder);
  const std::vector<MadeTensor> made = tensors_to_write(values, graph, places, type);
  std::vector<std::size_t> ends;  // of the files, among the tensors
  std::uint64_t total = 0, in_file = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const std::uint64_t bytes = bytes_of(made[i], type);
    if (in_file > 0 && in_file + bytes > file_bytes) {
      ends.push_back(i);
      in_file = 0;
    }
    in_file += bytes;
    total += bytes;
  }
  ends.push_back(made.size());
  const std::string single = folder + "/model.safetensors", index_path = single + ".index.json";
  if (ends.size() == 1) {
    write_tensors(single, made, type);
    return remove_file(index_path);
  }
  Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", Json::object()}};
  std::size_t begin = 0;
  for (std::size_t f = 0; f < ends.size(); ++f) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", f + 1, ends.size());
    write_tensors(folder + "/" + name, std::span(made).subspan(begin, ends[f] - begin), type);
    for (std::size_t i = begin; i < ends[f]; ++i) index["weight_map"][made[i].stored.name] = name;
    begin = ends[f];
  }
  write_file(index_path, json_text(index, 1) + "\n");
  remove_file(single);
}

}  // namespace meshwright
