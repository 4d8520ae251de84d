// SPDX-License-Identifier: Apache-2.0
// HLO text, and what it does as it stands.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "core/base/json.h"
#include "core/graph/import/model_file.h"
#include "core/graph/import/xla/hlo_text.h"
#include "core/graph/import/xla/xla_summary.h"
#include "tests/refusal.h"

namespace meshwright::xla {

namespace {

Program read(const std::string& text) { return read_hlo_text(text, "m.hlo"); }

// One computation of these lines.
std::string module_of_lines(const std::string& lines) { return "HloModule m\n\nENTRY main {\n" + lines + "}\n"; }

// `turns` products of [4,8] with a layer's [8,8], in a loop whose trip count only its condition tells.
std::string looped(const std::string& turns, const std::string& attributes = "") {
  return R"(HloModule m

body {
  t = (s32[], f32[4,8], f32[3,8,8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
  x = f32[4,8] get-tuple-element(t), index=1
  w = f32[3,8,8] get-tuple-element(t), index=2
  d = f32[1,8,8] dynamic-slice(w, i, zero, zero), dynamic_slice_sizes={1,8,8}
  r = f32[8,8] reshape(d)
  p = f32[4,8] dot(x, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT o = (s32[], f32[4,8], f32[3,8,8]) tuple(next, p, w)
}

condition {
  t = (s32[], f32[4,8], f32[3,8,8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant()" +
         turns + R"()
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY main {
  x = f32[4,8] parameter(0)
  w = f32[3,8,8] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[4,8], f32[3,8,8]) tuple(zero, x, w)
  l = (s32[], f32[4,8], f32[3,8,8]) while(t), condition=condition, body=body)" +
         attributes + R"(
  ROOT y = f32[4,8] get-tuple-element(l), index=1
}
)";
}

TEST(HloText, ReadsOperandsWithAndWithoutTheirTypes) {
  const Program program = read(
      "HloModule jit_f, entry_computation_layout={(f32[2,3]{1,0})->f32[2,3]{1,0}}\n\n"
      "ENTRY %main.1 (x.1: f32[2,3]) -> f32[2,3] {\n"
      "  %x.1 = f32[2,3]{1,0:T(8,128)} parameter(0), metadata={op_name=\"args[0]\"}\n"
      "  %y = f32[2,3]{1,0} negate(f32[2,3]{1,0} %x.1)\n"
      "  ROOT add.2 = f32[2,3] add(x.1, /*index=1*/%y), metadata={op_name=\"jit(f)/block_3/add\" source_line=4}\n"
      "}\n");
  const Computation& entry = program.computations.at(static_cast<std::size_t>(program.entry));
  ASSERT_EQ(entry.instructions.size(), 3u);
  EXPECT_EQ(program.name, "jit_f");
  EXPECT_EQ(entry.instructions[0].op_name, "args[0]");
  EXPECT_EQ(entry.instructions[2].operands, (std::vector<int>{0, 1}));
  EXPECT_EQ(entry.instructions[2].type.sizes, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(entry.instructions[2].op_name, "jit(f)/block_3/add");
  EXPECT_EQ(entry.instructions[2].line, 6);
  EXPECT_EQ(entry.root, 2);
}

TEST(HloText, ReadsTheAttributesOfProductsWindowsAndSlices) {
  const Program program = read(
      module_of_lines("  x = f32[2,6,6,4] parameter(0)\n"
                      "  w = f32[3,3,2,8] parameter(1)\n"
                      "  c = f32[2,3,3,8] convolution(x, w), window={size=3x3 stride=2x2 pad=0_1x1_0 rhs_dilate=1x1}, "
                      "dim_labels=b01f_01io->b01f, feature_group_count=2\n"
                      "  s = f32[1,6,2,4] slice(x), slice={[0:1], [0:6], [1:5:2], [0:4]}\n"
                      "  z = f32[] constant(0)\n"
                      "  p = f32[2,7,6,4] pad(x, z), padding=0_0x0_1x0_0x0_0\n"
                      "  ROOT k = f32[2,2] constant({ { 1, 2.5 }, { -inf, 4e-2 } })\n"));
  const std::vector<Instruction>& all = program.computations[0].instructions;
  const Attributes& convolution = all[2].attributes;
  EXPECT_EQ(convolution.window.stride, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(convolution.window.before, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(convolution.window.after, (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(convolution.feature_groups, 2);
  EXPECT_EQ(convolution.dim_labels, "b01f_01io->b01f");
  EXPECT_EQ(all[3].attributes.start, (std::vector<std::int64_t>{0, 0, 1, 0}));
  EXPECT_EQ(all[3].attributes.stride, (std::vector<std::int64_t>{1, 1, 2, 1}));
  EXPECT_EQ(all[5].attributes.high, (std::vector<std::int64_t>{0, 1, 0, 0}));
  ASSERT_TRUE(all[6].attributes.values);
  EXPECT_EQ((*all[6].attributes.values)[1], 2.5);
  EXPECT_EQ((*all[6].attributes.values)[3], 0.04);
}

TEST(HloText, TellsWhatIsWrittenOver) {
  const std::string lines =
      "  a = f32[4] parameter(0)\n  b = f32[2] parameter(1)\n  c = f32[4] parameter(2)\n"
      "  ROOT t = (f32[2], f32[4], f32[4]) tuple(b, a, c)\n";
  const Program aliased =
      read("HloModule m, input_output_alias={ {0}: (1, {}, may-alias), {2}: (0, {}, must-alias) }\nENTRY e {\n" +
           lines + "}\n");
  EXPECT_EQ(aliased.aliases, (std::map<std::int64_t, std::int64_t>{{0, 1}, {2, 0}}));
  // Donated without a target: the first free result of the type.
  const Program donated = read("HloModule m, buffer_donor={ (2, {}), (0, {}) }\nENTRY e {\n" + lines + "}\n");
  EXPECT_EQ(donated.aliases, (std::map<std::int64_t, std::int64_t>{{1, 0}, {2, 2}}));
}

TEST(HloText, SkipsWhatStandsAroundAModule) {
  const std::string wrapped = "const text = `\n    " + looped("3") + "\n`;\n\nexport default text;\n";
  EXPECT_TRUE(is_hlo_text(wrapped));
  EXPECT_EQ(read(wrapped).computations.size(), 3u);
  const Program tables = read(
      "HloModule m\n\nFileNames\n1 \"a.py\"\n\nStackFrames\n1 {file_location_id=1}\n\n\nENTRY e {\n  x = f32[] "
      "parameter(0)\n}\n");
  EXPECT_EQ(tables.computations.size(), 1u);
  EXPECT_FALSE(is_hlo_text("module @jit_f {}"));
}

TEST(HloText, ReadsALoopWithItsTripCount) {
  const ProgramSummary summary = summary_of(read(looped("3")));
  EXPECT_EQ(summary.trip_counts, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(summary.dot_flops, 3 * 2.0 * 4 * 8 * 8);
  const ProgramSummary given = summary_of(read(looped("3", ", backend_config={\"known_trip_count\":{\"n\":\"5\"}}")));
  EXPECT_EQ(given.trip_counts, (std::vector<std::int64_t>{5}));
}

TEST(HloText, CountsCollectivesWithTheirBytes) {
  const Program program = read(
      "HloModule m, num_partitions=4\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] "
      "add(a, b)\n}\n"
      "ENTRY e {\n  x = f32[8,16] parameter(0)\n"
      "  g = f32[32,16] all-gather(x), replica_groups=[1,4]<=[4], dimensions={0}\n"
      "  ROOT r = f32[32,16] all-reduce(g), replica_groups={{0,1,2,3}}, to_apply=add\n}\n");
  const ProgramSummary summary = summary_of(program);
  EXPECT_EQ(summary.partitions, 4);
  EXPECT_EQ(summary.collectives.at("all-gather").bytes, 4.0 * 32 * 16);
  EXPECT_EQ(summary.collectives.at("all-reduce").instructions, 1);
  EXPECT_EQ(program.computations[static_cast<std::size_t>(program.entry)].instructions[1].attributes.group_size, 4);
}

TEST(HloText, KeepsWhatIsThereOfATextThatIsCutOff) {
  const std::string whole = looped("3");
  const Program cut = read(whole.substr(0, whole.find("  l = ") + 30));
  EXPECT_TRUE(cut.cut_off);
  EXPECT_EQ(cut.computations.back().instructions.size(), 4u);
  EXPECT_FALSE(read(whole).cut_off);
}

TEST(HloText, EveryErrorBeginsWithItsLine) {
  const auto why = [](const std::string& text) { return refusal([&] { return read(text); }); };
  EXPECT_EQ(why("module @f {}"), "m.hlo: the text holds no HloModule; give the text that XLA printed.");
  EXPECT_EQ(why(module_of_lines("  x = f32[2] negate(y)\n")),
            "m.hlo:4: 'x' reads 'y', which nothing before it makes; give the text that XLA printed, unchanged.");
  EXPECT_EQ(why(module_of_lines("  x = f32[-2] parameter(0)\n")),
            "m.hlo:4: the sizes of a type are not numbers from 0 on; give the text that XLA printed, unchanged.");
  EXPECT_EQ(
      why("HloModule m\na {\n  x = f32[] call(), to_apply=b\n}\nb {\n  x = f32[] call(), to_apply=a\n}\nENTRY e {\n  x "
          "= f32[] parameter(0)\n}\n"),
      "m.hlo: computation 'a' calls itself, directly or through others; give the text that XLA printed, unchanged.");
  EXPECT_EQ(why("HloModule m\nENTRY e {\n  x = f32[] call(), to_apply=b\n}\n"),
            "m.hlo:3: 'x' calls 'b', which the module lacks; give the whole module.");
}

// A text cut behind each of its lines, and with each of some bytes changed, is read or refused.
TEST(HloText, DamagedTextIsReadOrRefused) {
  const std::filesystem::path folder = std::filesystem::path(__FILE__).parent_path() / "jax";
  for (const char* name : {"cnn_loss.hlo", "moe_loss.hlo"}) {
    const std::string whole = read_file((folder / name).string());
    int models = 0;
    const auto attempt = [&](const std::string& text) {
      try {
        (void)read_model_bytes(text, "m.hlo", {});
        ++models;
      } catch (const InputError&) {
      }
    };
    attempt(whole);
    EXPECT_EQ(models, 1);
    for (std::size_t end = whole.find('\n'); end + 2 < whole.size(); end = whole.find('\n', end + 1))
      attempt(whole.substr(0, end));
    EXPECT_EQ(models, 1) << "a part of " << name << " was taken for a model";
    for (std::size_t at = 0; at < whole.size(); at += 37)
      for (const char change : {'0', '9', '{', ' ', '\n', '-'}) {
        std::string other = whole;
        other[at] = change;
        attempt(other);
      }
  }
}

TEST(HloText, PublishedModulesHaveTheirCounts) {
  const char* data = std::getenv("MESHWRIGHT_DATA");
  if (data == nullptr) GTEST_SKIP() << "MESHWRIGHT_DATA is not set to the folder of public files";
  const auto summary = [&](const std::string& name) {
    return program_of_file(std::string(data) + "/models/" + name).value();
  };
  const ProgramSummary llama = summary("hlo/hlo_llama31_8b_bf16_1x8.hlo");
  EXPECT_EQ(llama.instructions, 31855);
  EXPECT_NEAR(llama.dot_flops, 772.2e12, 0.05e12);
  EXPECT_EQ(llama.collectives.at("all-gather").instructions + llama.collectives.at("all-reduce").instructions, 1647);
  EXPECT_EQ(llama.partitions, 8);
  const ProgramSummary large = summary("hlo/hlo_llama31_405b_bf16_64x8.hlo");
  EXPECT_NEAR(large.dot_flops, 24690e12, 10e12);
  EXPECT_EQ(large.trip_counts, (std::vector<std::int64_t>{126, 126}));
  EXPECT_EQ(large.partitions, 512);
  EXPECT_NEAR(summary("hlo/hlo_llama31_70b_bf16_16x8.hlo").dot_flops, 8528e12, 1e12);
  const ProgramSummary experts = summary("hlo/hlo_mixtral_8x7b_bf16_1x8.hlo");
  EXPECT_EQ(experts.instructions, 41881);
  EXPECT_EQ(experts.collectives.at("all-to-all").instructions, 192);
  EXPECT_EQ(summary("hlo/hlo_llama3_8b_cp_bf16_1x4.hlo").collectives.at("collective-permute").instructions, 11);
  EXPECT_NEAR(summary("hlo/nv_maxtext_1n1g_jit_train_step_before_optimization.hlo").dot_flops, 140.4e12, 0.1e12);
  const ProgramSummary images = summary("hlo/resnet50_keras_jax_f32.hlo");
  EXPECT_EQ(images.convolutions, 53);
  EXPECT_NEAR(images.convolution_flops, 7.71e9, 0.01e9);
  // Each of two devices has 25,129 of 50,257 words.
  const double one = summary("hlo_torchxla/gpt2_tp=1_n_layer=2.js").dot_flops,
               two = summary("hlo_torchxla/gpt2_tp=2_n_layer=2.js").dot_flops;
  EXPECT_NEAR(two / one, 0.5, 1e-4);
}

}  // namespace

}  // namespace meshwright::xla
