// SPDX-License-Identifier: Apache-2.0
// Weights and samples out of files.
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "core/base/json.h"
#include "core/base/npy.h"
#include "core/graph/import/find_model.h"
#include "executor/weights/given_data.h"
#include "executor/weights/given_weights.h"
#include "tests/refusal.h"

namespace meshwright::given_values_test {
namespace {

namespace fs = std::filesystem;

// A folder that lives as long as the test.
class Folder {
 public:
  explicit Folder(const std::string& name) : path_(fs::path(testing::TempDir()) / ("given_values_" + name)) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string path(const std::string& file = "") const {
    return file.empty() ? path_.string() : (path_ / file).string();
  }

 private:
  fs::path path_;
};

Graph graph_of(const std::string& model) {
  return build_forward_graph(find_model(model), {.batch = 2, .microbatches = 1, .dtype = DType::F32});
}

// Other numbers for every element of every parameter.
NamedValues numbered(const Graph& graph) {
  NamedValues values;
  double next = 1.0;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.kind != TensorKind::Parameter) continue;
    std::vector<double>& of = values[tensor.name];
    for (std::int64_t i = 0; i < tensor.elements(); ++i) of.push_back(next++);
  }
  return values;
}

std::vector<double> read_whole(const GivenWeights& weights, const Tensor& tensor) {
  std::vector<std::int64_t> shape;
  for (const Dim& dim : tensor.dims) shape.push_back(dim.size);
  std::vector<double> read(static_cast<std::size_t>(tensor.elements()));
  EXPECT_TRUE(weights.fill(tensor, std::vector<std::int64_t>(shape.size(), 0), shape, DType::F64, read.data()));
  return read;
}

TEST(GivenWeights, WhatIsWrittenIsReadOfEveryFamily) {
  const Folder folder("families");
  for (const auto& [type, model] : std::map<std::string, std::string>{
           {"", "mlp:layers=1,hidden=4"},
           {"gpt2", "gpt2:layers=1,hidden=8,heads=2,seq=4,vocab=16"},
           {"bloom", "bloom:layers=1,hidden=8,heads=2,seq=4,vocab=16"},
           {"qwen3_moe",
            "mixtral:layers=1,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,experts=4,top_k=2,qk_norm=1"},
           {"gemma", "decoder:layers=1,hidden=8,heads=2,intermediate=16,seq=4,vocab=16,tied=1"}}) {
    const Graph graph = graph_of(model);
    const HfTensorNames names(type, "f");
    const NamedValues values = numbered(graph);
    write_weights(folder.path(), values, graph, names.places(graph), DType::F64);
    const GivenWeights read(WeightFiles(folder.path()), names, graph);
    for (const Tensor& tensor : graph.tensors())
      if (tensor.kind == TensorKind::Parameter) {
        EXPECT_EQ(read_whole(read, tensor), values.at(tensor.name)) << type << " " << tensor.name;
      }
  }
}

// A tile of rows 1 to 2 and columns 2 to 3 of (4, 16) numbers.
TEST(GivenWeights, ATileIsThePartOfTheWhole) {
  const Folder folder("tile");
  const Graph graph = graph_of("mlp:layers=1,hidden=4");
  const HfTensorNames names("", "f");
  const NamedValues values = numbered(graph);
  write_weights(folder.path(), values, graph, names.places(graph), DType::F64);
  const GivenWeights read(WeightFiles(folder.path()), names, graph);
  const Tensor* matrix = nullptr;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter && tensor.dims.size() == 2 && matrix == nullptr) matrix = &tensor;
  ASSERT_NE(matrix, nullptr);
  std::vector<float> tile(4);
  EXPECT_TRUE(
      read.fill(*matrix, std::vector<std::int64_t>{1, 2}, std::vector<std::int64_t>{2, 2}, DType::F32, tile.data()));
  const std::vector<double>& whole = values.at(matrix->name);
  const std::int64_t columns = matrix->dims[1].size;
  const auto number = [&](std::int64_t row, std::int64_t column) {
    return static_cast<float>(whole[static_cast<std::size_t>(row * columns + column)]);
  };
  EXPECT_EQ(tile, (std::vector<float>{number(1, 2), number(1, 3), number(2, 2), number(2, 3)}));
}

TEST(GivenWeights, SeveralFilesHoldTheSameAsOne) {
  const Folder folder("shards");
  const Graph graph = graph_of("gpt2:layers=2,hidden=8,heads=2,seq=4,vocab=16");
  const HfTensorNames names("gpt2", "f");
  const NamedValues values = numbered(graph);
  write_weights(folder.path(), values, graph, names.places(graph), DType::F64);
  EXPECT_TRUE(fs::exists(folder.path("model.safetensors")));
  write_weights(folder.path(), values, graph, names.places(graph), DType::F64, 4000);
  EXPECT_FALSE(fs::exists(folder.path("model.safetensors")));  // which would hold another model one day
  EXPECT_TRUE(fs::exists(folder.path("model.safetensors.index.json")));
  const WeightFiles files(folder.path());
  const GivenWeights read(WeightFiles(folder.path()), names, graph);
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter) {
      EXPECT_EQ(read_whole(read, tensor), values.at(tensor.name)) << tensor.name;
    }
}

TEST(GivenWeights, OfTheBareModelLackThePrefix) {
  const Folder folder("bare");
  const Graph graph = graph_of("gpt2:layers=1,hidden=8,heads=2,seq=4,vocab=16");
  const HfTensorNames names("gpt2", "f");
  std::vector<ParameterPlace> places = names.places(graph);
  for (ParameterPlace& place : places)
    for (TensorPiece& piece : place.pieces) piece.name.erase(0, names.prefix().size());
  const NamedValues values = numbered(graph);
  write_weights(folder.path(), values, graph, places, DType::F32);
  const GivenWeights read(WeightFiles(folder.path()), names, graph);
  for (const Tensor& tensor : graph.tensors())
    if (tensor.name == "wte") {
      EXPECT_EQ(read_whole(read, tensor), values.at("wte"));
    }
}

template <class T>
void write_array(const std::string& path, const char* type, const std::vector<std::int64_t>& shape,
                 std::vector<T> numbers) {
  std::string bytes = npy_header(type, shape);
  bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
  write_file(path, bytes);
}

const Tensor& input(const Graph& graph, const std::string& name) {
  for (const Tensor& tensor : graph.tensors())
    if (tensor.name == name) return tensor;
  throw InternalError(name);
}

std::vector<std::int32_t> samples(const GivenData& data, const Tensor& tensor, std::int64_t first, std::int64_t count) {
  const std::vector<std::int64_t> offset = {first, 0}, shape = {count, tensor.dims[1].size};
  std::vector<std::int32_t> read(static_cast<std::size_t>(count * shape[1]), -1);
  EXPECT_TRUE(data.fill(tensor, first, offset, shape, DType::F32, read.data()));
  return read;
}

// 13 tokens: three samples of 4, each with the token behind its last.
TEST(GivenData, ALongRowIsCutIntoSamples) {
  const Folder folder("row");
  const Graph graph = graph_of("gpt2:layers=1,hidden=8,heads=2,seq=4,vocab=16");
  std::vector<std::uint16_t> tokens(13);
  std::iota(tokens.begin(), tokens.end(), 0);
  write_file(folder.path("t.bin"), std::string(reinterpret_cast<const char*>(tokens.data()), 26));
  const GivenData data({{"", folder.path("t.bin")}}, graph, 16, 2);
  EXPECT_EQ(data.samples(), 3);
  EXPECT_EQ(samples(data, input(graph, "tokens"), 1, 2), (std::vector<std::int32_t>{4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(samples(data, input(graph, "labels"), 1, 2), (std::vector<std::int32_t>{5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(samples(data, input(graph, "tokens"), 3, 1),
            (std::vector<std::int32_t>{0, 1, 2, 3}));  // from the beginning
}

TEST(GivenData, RowsOfAnArrayAreSamples) {
  const Folder folder("rows");
  const Graph graph = graph_of("gpt2:layers=1,hidden=8,heads=2,seq=4,vocab=16");
  write_array<std::int64_t>(folder.path("t.npy"), "i8", {2, 5}, {1, 2, 3, 4, 5, 11, 12, 13, 14, 15});
  const GivenData data({{"", folder.path("t.npy")}}, graph, 16, 2);
  EXPECT_EQ(samples(data, input(graph, "tokens"), 1, 1), (std::vector<std::int32_t>{11, 12, 13, 14}));
  EXPECT_EQ(samples(data, input(graph, "labels"), 1, 1), (std::vector<std::int32_t>{12, 13, 14, 15}));
}

TEST(GivenData, OtherFilesAreTokensByTheirBytes) {
  const Folder folder("text");
  const Graph graph = graph_of("gpt2:layers=1,hidden=8,heads=2,seq=4,vocab=256");
  write_file(folder.path("t.txt"), "AABCDEFGHI");
  const GivenData data({{"", folder.path("t.txt")}}, graph, 256, 2);
  EXPECT_EQ(samples(data, input(graph, "tokens"), 1, 1), (std::vector<std::int32_t>{'D', 'E', 'F', 'G'}));
}

TEST(GivenData, ImagesMayHaveTheirChannelsFirst) {
  const Folder folder("images");
  const Graph graph = graph_of("vit:layers=1,hidden=8,heads=2,image=4,patch=2,classes=5");
  std::vector<float> numbers(2 * 3 * 16);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  write_array<float>(folder.path("i.npy"), "f4", {2, 3, 4, 4}, numbers);
  const InputFile images{"images", folder.path("i.npy")};
  EXPECT_NE(refusal([&] { return GivenData({images}, graph, 0, 2); }).find("the model also reads 'labels'"),
            std::string::npos);
  write_array<std::uint8_t>(folder.path("l.npy"), "u1", {2}, {3, 4});
  const GivenData data({images, {"labels", folder.path("l.npy")}}, graph, 0, 2);
  const std::vector<std::int64_t> offset = {1, 2, 3, 0}, shape = {1, 1, 1, 3};
  std::vector<float> pixel(3);
  EXPECT_TRUE(data.fill(input(graph, "images"), 1, offset, shape, DType::F32, pixel.data()));
  EXPECT_EQ(pixel, (std::vector<float>{48 + 2 * 4 + 3, 48 + 16 + 11, 48 + 32 + 11}));
  const std::vector<std::int64_t> labels_at = {0}, two = {2};
  std::vector<std::int32_t> labels(2);
  EXPECT_TRUE(data.fill(input(graph, "labels"), 0, labels_at, two, DType::F32, labels.data()));
  EXPECT_EQ(labels, (std::vector<std::int32_t>{3, 4}));
}

TEST(GivenData, FilesThatDoNotFitAreRefused) {
  const Folder folder("refused");
  const Graph graph = graph_of("gpt2:layers=1,hidden=8,heads=2,seq=4,vocab=16");
  const auto refused = [&](const InputFile& file) { return refusal([&] { return GivenData({file}, graph, 16, 2); }); };
  write_array<float>(folder.path("floats.npy"), "f4", {20}, std::vector<float>(20));
  EXPECT_NE(refused({"", folder.path("floats.npy")}).find("tokens are whole numbers"), std::string::npos);
  write_array<std::int32_t>(folder.path("narrow.npy"), "i4", {5, 4}, std::vector<std::int32_t>(20));
  EXPECT_NE(refused({"", folder.path("narrow.npy")}).find("its rows have 4 tokens, but a sample takes 5"),
            std::string::npos);
  EXPECT_NE(
      refused({"tokens", folder.path("floats.npy")}).find("a sample of the array is (), but one of 'tokens' is (4)"),
      std::string::npos);
  write_file(folder.path("odd.bin"), "abc");
  EXPECT_NE(refused({"", folder.path("odd.bin")}).find("3 bytes, which are no row of tokens of 2 bytes"),
            std::string::npos);
  const Graph bert = graph_of("bert:layers=1,hidden=8,heads=2,seq=4,vocab=16");
  EXPECT_NE(refusal([&] {
              return GivenData({{"", folder.path("odd.bin")}}, bert, 16, 2);
            }).find("give each a file by its name"),
            std::string::npos);
}

}  // namespace
}  // namespace meshwright::given_values_test
