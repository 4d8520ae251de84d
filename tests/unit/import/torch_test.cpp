// SPDX-License-Identifier: Apache-2.0
// PyTorch's exported programs, and the archives they lie in.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/json.h"
#include "core/base/zip.h"
#include "core/graph/import/find_model.h"
#include "core/graph/import/model_file.h"
#include "tests/refusal.h"
#include "tests/unit/import/torch_program.h"
#include "tests/zip_archive.h"

namespace meshwright {

namespace {

// relu(x w + b) of a batch of 4, or of any.
Json program(bool open) {
  const Json batch =
      open ? Json{{"as_expr", {{"expr_str", "Symbol('s7', positive=True, integer=True)"}, {"hint", {{"as_int", 4}}}}}}
           : Json{{"as_int", 4}};
  const auto sized = [](const Json& sizes) { return Json{{"dtype", 7}, {"sizes", sizes}}; };
  const auto of = [](std::int64_t size) { return Json{{"as_int", size}}; };
  const Json graph = {
      {"nodes",
       Json::array({call("linear",
                         {{"input", tensor_named("x")}, {"weight", tensor_named("p_w")}, {"bias", tensor_named("p_b")}},
                         "linear"),
                    call("relu", {{"self", tensor_named("linear")}}, "relu"),
                    call("mystery", {{"self", tensor_named("relu")}}, "unused")})},
      {"tensor_values",
       {{"x", sized(Json::array({batch, of(6)}))},
        {"p_w", sized(Json::array({of(5), of(6)}))},
        {"p_b", sized(Json::array({of(5)}))}}}};
  const auto parameter = [](const std::string& name, const std::string& called) {
    return Json{{"parameter", {{"arg", {{"name", name}}}, {"parameter_name", called}}}};
  };
  const Json signature = {{"input_specs", Json::array({parameter("p_w", "fc.weight"),
                                                       parameter("p_b", "fc.bias"),
                                                       {{"user_input", {{"arg", tensor_named("x")}}}}})},
                          {"output_specs", Json::array({{{"user_output", {{"arg", tensor_named("relu")}}}}})}};
  return {{"graph_module", {{"graph", graph}, {"signature", signature}}},
          {"schema_version", {{"major", 8}, {"minor", 20}}}};
}

ModelConfig read(const Json& json, const std::map<std::string, std::int64_t>& dims = {}) {
  return read_model_bytes(archive_of({{"m/models/model.json", json.dump()}}), "m.pt2", dims);
}

TEST(TorchModel, AStaticAndAnOpenBatchAreOneGraph) {
  const ModelConfig fixed = read(program(false)), open = read(program(true));
  EXPECT_EQ(fixed.default_batch, 4);
  EXPECT_EQ(open.default_batch, 4);
  EXPECT_EQ(read(program(true), {{"s7", 9}}).default_batch, 9);
  for (const ModelConfig& model : {fixed, open}) {
    const Graph graph = build_forward_graph(model, {.batch = 6});
    EXPECT_EQ(parameter_count(graph), 35);
    EXPECT_EQ(graph_flops(graph).si(), 2.0 * 6 * 6 * 5);
  }
}

// Attention of x w (4, 2, 6, 3) to itself with a mask (4, 1, 1, 6) of this type: 7 float, 12 bool.
Json masked_program(int type) {
  const auto sized = [](int dtype, const std::vector<int>& sizes) {
    Json dims = Json::array();
    for (const int size : sizes) dims.push_back({{"as_int", size}});
    return Json{{"dtype", dtype}, {"sizes", dims}};
  };
  const Json q = tensor_named("q");
  const Json graph = {
      {"nodes",
       Json::array({call("linear", {{"input", tensor_named("x")}, {"weight", tensor_named("p_w")}}, "q"),
                    call("scaled_dot_product_attention",
                         {{"query", q}, {"key", q}, {"value", q}, {"attn_mask", tensor_named("mask")}}, "y")})},
      {"tensor_values",
       {{"x", sized(7, {4, 2, 6, 3})}, {"p_w", sized(7, {3, 3})}, {"mask", sized(type, {4, 1, 1, 6})}}}};
  const auto user = [](const std::string& name) { return Json{{"user_input", {{"arg", tensor_named(name)}}}}; };
  const Json weight = {{"parameter", {{"arg", {{"name", "p_w"}}}, {"parameter_name", "w"}}}};
  const Json signature = {{"input_specs", Json::array({weight, user("x"), user("mask")})},
                          {"output_specs", Json::array({{{"user_output", {{"arg", tensor_named("y")}}}}})}};
  return {{"graph_module", {{"graph", graph}, {"signature", signature}}},
          {"schema_version", {{"major", 8}, {"minor", 20}}}};
}

// A mask of truth values hides the keys where it is false, one of numbers is added.
TEST(TorchModel, MasksOfAttentionAreOperands) {
  for (const int type : {7, 12}) {
    const Graph graph = build_forward_graph(read(masked_program(type)), {.batch = 6});
    int attentions = 0;
    for (const Op& op : graph.ops())
      if (op.kind == OpKind::GroupedAttention) {
        ++attentions;
        ASSERT_EQ(op.inputs.size(), 4u) << type;
        EXPECT_EQ(op.attributes.extra, Attributes::Extra::Mask);
        EXPECT_EQ(graph.tensor(op.inputs[3]).dims, (std::vector<Dim>{{"batch", 6}, {"kv_seq", 6}}));
      }
    EXPECT_EQ(attentions, 1) << type;
  }
}

// Keys are hidden that come after the query, told by positions that are picked for each sample: e[s, row] and e[s,
// column] of e (4, 6), the same 0 to 5 for every sample, and where no new sequence begins between the two.
TEST(TorchModel, MasksPickedByListsOfPositionsAreCausal) {
  const auto sized = [](int dtype, const std::vector<int>& sizes) {
    Json dims = Json::array();
    for (const int size : sizes) dims.push_back({{"as_int", size}});
    return Json{{"dtype", dtype}, {"sizes", dims}};
  };
  const auto whole = [](std::int64_t number) { return Json{{"as_int", number}}; };
  const auto counted = [&](std::int64_t end, const std::string& name) {
    return call("arange", {{"end", whole(end)}}, name);
  };
  const auto widened = [&](const std::string& from, std::int64_t dim, const std::string& name) {
    return call("unsqueeze", {{"self", tensor_named(from)}, {"dim", whole(dim)}}, name);
  };
  const auto picked = [&](const std::string& from, const std::string& positions, const std::string& name) {
    const Json lists = Json::array({{{"name", "samples"}}, {{"name", positions}}});
    return call("index", {{"self", tensor_named(from)}, {"indices", {{"as_tensors", lists}}}}, name);
  };
  const auto both = [&](const std::string& op, const std::string& x, const std::string& y, const std::string& name) {
    return call(op, {{"self", tensor_named(x)}, {"other", tensor_named(y)}}, name);
  };
  const Json q = tensor_named("q");
  const Json graph = {
      {"nodes",
       Json::array(
           {counted(6, "a"),
            widened("a", 0, "one"),
            call("expand", {{"self", tensor_named("one")}, {"size", {{"as_ints", {4, -1}}}}}, "e"),
            counted(4, "s"),
            widened("s", 1, "s1"),
            widened("s1", 2, "samples"),
            widened("one", 2, "rows"),
            widened("one", 1, "columns"),
            picked("e", "rows", "query"),
            picked("e", "columns", "key"),
            both("le", "key", "query", "earlier"),
            call("slice", {{"self", tensor_named("e")}, {"dim", whole(1)}, {"start", whole(0)}, {"end", whole(1)}},
                 "first"),
            call("diff", {{"self", tensor_named("e")}, {"dim", whole(1)}, {"prepend", tensor_named("first")}}, "steps"),
            call("gt", {{"self", tensor_named("steps")}, {"other", whole(1)}}, "begins"),
            call("cumsum", {{"self", tensor_named("begins")}, {"dim", whole(1)}}, "sequence"),
            picked("sequence", "rows", "of_query"),
            picked("sequence", "columns", "of_key"),
            both("eq", "of_key", "of_query", "together"),
            both("__and__", "earlier", "together", "seen"),
            widened("seen", 1, "mask"),
            call("linear", {{"input", tensor_named("x")}, {"weight", tensor_named("p_w")}}, "q"),
            call("scaled_dot_product_attention",
                 {{"query", q}, {"key", q}, {"value", q}, {"attn_mask", tensor_named("mask")}}, "y")})},
      {"tensor_values", {{"x", sized(7, {4, 2, 6, 3})}, {"p_w", sized(7, {3, 3})}}}};
  const Json weight = {{"parameter", {{"arg", {{"name", "p_w"}}}, {"parameter_name", "w"}}}};
  const Json signature = {{"input_specs", Json::array({weight, {{"user_input", {{"arg", tensor_named("x")}}}}})},
                          {"output_specs", Json::array({{{"user_output", {{"arg", tensor_named("y")}}}}})}};
  const Graph built = build_forward_graph(read({{"graph_module", {{"graph", graph}, {"signature", signature}}},
                                                {"schema_version", {{"major", 8}, {"minor", 20}}}}),
                                          {.batch = 6});
  int causal = 0;
  for (const Op& op : built.ops())
    if (op.kind == OpKind::GroupedAttention) causal += op.attributes.causal && op.inputs.size() == 3 ? 1 : 0;
  EXPECT_EQ(causal, 1);
}

TEST(TorchModel, WhatCannotBeReadIsSaidInOneSentence) {
  Json other = program(false);
  other["schema_version"]["major"] = 7;
  EXPECT_NE(refusal([&] { return read(other); }).find("schema 7 are not supported"), std::string::npos);
  other = program(false);
  other["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"] = tensor_named("unused");
  EXPECT_NE(refusal([&] {
              return read(other);
            }).find("operators that have no equal here (with their number): torch.ops.aten.mystery.default (1)"),
            std::string::npos);
  other = program(false);
  other["graph_module"]["graph"]["nodes"][0]["inputs"][1]["arg"] = tensor_named("nowhere");
  EXPECT_NE(refusal([&] { return read(other); }).find("reads 'nowhere', which nothing makes"), std::string::npos);
  EXPECT_NE(refusal([&] {
              return read(program(true), {{"s8", 9}});
            }).find("no open dimension 's8'"),
            std::string::npos);
  other = program(false);
  other["graph_module"]["graph"]["tensor_values"]["p_b"]["sizes"][0]["as_int"] = 4;
  EXPECT_EQ(refusal([&] { return read(other); }),
            "m.pt2: linear op 'linear': shapes [batch, 5] and [4] do not broadcast; see docs/models.md.");
  EXPECT_NE(refusal([&] { return read_model_bytes("PK", "m.pt2", {}); }).find("m.pt2: the archive is damaged"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              return read_model_bytes(archive_of({{"a", "b"}}), "m.pt2", {});
            }).find("holds no exported program"),
            std::string::npos);
}

TEST(TorchModel, DamagedArchivesAreReadOrRefused) {
  const std::string bytes = archive_of({{"m/models/model.json", program(true).dump()}});
  for (std::size_t at = 0; at < bytes.size(); ++at)
    for (const unsigned change : {0x01u, 0x20u, 0xffu}) {
      std::string other = bytes;
      other[at] = static_cast<char>(static_cast<unsigned char>(other[at]) ^ change);
      for (const std::string& damaged : {other, bytes.substr(0, at)}) {
        try {
          (void)read_model_bytes(damaged, "m.pt2", {});
        } catch (const InputError&) {
          continue;
        }
      }
    }
}

// Counts of the data folder's README: parameters, and the products' work.
TEST(TorchModel, ExportedLlamasHaveTheirCounts) {
  const char* data = std::getenv("MESHWRIGHT_DATA");
  if (data == nullptr) GTEST_SKIP() << "MESHWRIGHT_DATA is not set: the published files are not there.";
  struct Row {
    const char* file;
    std::int64_t parameters;
    double linear, attention;  // forward, of one sample
  };
  const Row rows[] = {
      {"llama_tiny_fwd.pt2", 22'688, 1'310'720.0 / 2, 2 * 4.0 * 16 * 16 * 32},
      {"llama_tiny_joint.pt2", 22'688, 1'310'720.0 / 2, 2 * 4.0 * 16 * 16 * 32},
      {"llama31_8b_fwd.json.gz", 8'030'261'248, 122'956'323'749'888.0, 32 * 4.0 * 8192 * 8192 * 4096},
      {"llama31_8b_2layers_joint.json.gz", 1'486'901'248, 47'261'820'125'184.0 / 3, 2'199'023'255'552.0},
  };
  for (const Row& row : rows) {
    const ModelConfig model = find_model(std::string(data) + "/models/torch_export/" + row.file);
    const Graph graph = build_forward_graph(model, {.batch = 1});
    EXPECT_EQ(parameter_count(graph), row.parameters) << row.file;
    EXPECT_EQ(graph_flops(graph).si(), row.linear + row.attention) << row.file;
    EXPECT_EQ(summary_of(model).recognised.at("attention"), model.layers) << row.file;
  }
}

}  // namespace

}  // namespace meshwright
