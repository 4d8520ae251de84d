// SPDX-License-Identifier: Apache-2.0
// Python configurations of several files: what they import, and what their helpers make of what they are given.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "core/base/text.h"
#include "launch/read/launch_reading.h"
#include "launch/syntax/python/python_config.h"
#include "tests/refusal.h"

namespace meshwright::python_modules_test {
namespace {

using Files = std::map<std::string, std::string>;  // by path: "p/q/r.py"

PythonSurroundings around(const Files& files, const std::string& path) {
  PythonSurroundings found;
  found.path = path;
  found.module = [&files](const std::string& importer, int dots,
                          const std::string& module) -> std::optional<PythonFile> {
    std::vector<std::string> parts;
    if (dots > 0) parts = split(importer, '/');
    for (int i = 0; i < dots && !parts.empty(); ++i) parts.pop_back();
    for (const std::string& name : split(module, '.'))
      if (!name.empty()) parts.push_back(name);
    for (const std::string& name : {join(parts, "/") + ".py", join(parts, "/") + "/__init__.py"})
      if (const auto file = files.find(name); file != files.end())
        return PythonFile{name, name.substr(name.rfind('/') + 1), file->second};
    return std::nullopt;
  };
  return found;
}

// Of p/main.py; its last function.
PythonConfig config(const Files& files, const std::string& function = "") {
  return config_from_python(files.at("p/main.py"), function, "main.py", around(files, "p/main.py"));
}
std::string values(const Files& files) { return to_text(config(files).values); }
std::string alone(const std::string& body) {
  return values({{"p/main.py", "def f():\n  c = base()\n" + body + "  return c\n"}});
}

// --- imports ---

TEST(PythonModules, AHelperOfAnotherFileSetsMembersOfItsArgument) {
  const PythonConfig read =
      config({{"p/main.py",
               "from .common import base, _shared\n"
               "def recipe():\n  cfg = base()\n  _shared(cfg, pp=4)\n  cfg.model.ep = 8\n  return cfg\n"},
              {"p/common.py",
               "def base():\n  return C(model=M(tp=2), train=T(steps=5))\n"
               "def _shared(cfg, *, pp: int = 1) -> None:\n"
               "  cfg.model.pp = pp\n  cfg.data.seq = cfg.train.steps\n"}});
  EXPECT_EQ(to_text(read.values), "{model: M(tp: 2, pp: 4, ep: 8), train: T(steps: 5), data: {seq: 5}}");
  EXPECT_EQ(read.base, "");
  EXPECT_EQ(read.name_of_model, "base");
  EXPECT_EQ(read.modules, std::vector<std::string>{"common.py"});
  EXPECT_TRUE(read.ignored.empty());
}

// The value of pp is written in line 3 of the other file.
TEST(PythonModules, AValueStandsWhereItIsSet) {
  const PythonConfig read = config(
      {{"p/main.py",
        "from p.common import shared\ndef recipe():\n  cfg = base()\n  cfg.tp = 2\n  shared(cfg)\n  return cfg\n"},
       {"p/common.py", "# one\ndef shared(cfg):\n  cfg.pp = 4\n"}});
  EXPECT_EQ(read.values.find("tp")->file, "");
  EXPECT_EQ(read.values.find("tp")->line, 4);
  EXPECT_EQ(read.values.find("pp")->file, "common.py");
  EXPECT_EQ(read.values.find("pp")->line, 3);
}

TEST(PythonModules, NamesMayBeGivenAgainOnTheWay) {
  const Files files = {
      {"p/main.py",
       "import p.sizes as s\nimport p.q.deep\nfrom . import tools\nfrom .q import deep as d, four as size\n"
       "from .tools import *\n"
       "def recipe():\n  return C(a=s.ONE, b=tools.two(), c=d.THREE, d=size, e=two(), f=p.q.deep.THREE)\n"},
      {"p/__init__.py", ""},
      {"p/sizes.py", "ONE: int = 1\n"},
      {"p/tools.py", "def two():\n  return 2\n"},
      {"p/q/__init__.py", "from p.q.deep import FOUR as four\n"},
      {"p/q/deep.py", "THREE = 3\nFOUR = THREE + 1\n"}};
  EXPECT_EQ(values(files), "{a: 1, b: 2, c: 3, d: 4, e: 2, f: 3}");
}

TEST(PythonModules, AFileOfOtherNamesHasTheirFunctions) {
  const Files files = {
      {"p/main.py", "from .h100 import big_64gpu_config as big_config\nfrom .h100 import small_config\n"},
      {"p/h100.py", "def big_64gpu_config():\n  return C(tp=8)\ndef small_config():\n  return C(tp=1)\n"}};
  EXPECT_EQ(functions_of_python(files.at("p/main.py"), "main.py"),
            (std::vector<std::string>{"big_config", "small_config"}));
  const PythonConfig read = config(files, "big_config");
  EXPECT_EQ(read.function, "big_64gpu_config");
  EXPECT_EQ(to_text(read.values), "{tp: 8}");
  EXPECT_EQ(read.values.find("tp")->file, "h100.py");
}

TEST(PythonModules, WhatIsNotThereIsNamedWithItsModule) {
  const PythonConfig read =
      config({{"p/main.py",
               "from far.away import llama_base, tune\nimport torch\n"
               "def recipe():\n  cfg = llama_base()\n  tune(cfg)\n  cfg.dtype = torch.bfloat16\n  return cfg\n"}});
  EXPECT_EQ(read.base, "llama_base");
  EXPECT_EQ(read.missing, std::vector<std::string>{"far.away (llama_base, tune)"});
  EXPECT_EQ(to_text(read.values), "{dtype: torch.bfloat16}");
  ASSERT_EQ(read.ignored.size(), 1u);
  EXPECT_EQ(read.ignored[0], "main.py:5: tune(cfg)");
}

TEST(PythonModules, NamesThatStandForOneAnotherInACircleAreSaid) {
  const PythonConfig read = config({{"p/main.py", "from .a import size\ndef recipe():\n  return C(tp=size, pp=2)\n"},
                                    {"p/a.py", "from .b import size\n"},
                                    {"p/b.py", "from .a import size\n"}});
  EXPECT_EQ(to_text(read.values), "{tp: size, pp: 2}");
  ASSERT_EQ(read.ignored.size(), 1u);
  EXPECT_TRUE(read.ignored[0].ends_with("imports 'size' in a circle")) << read.ignored[0];
}

TEST(PythonModules, AModuleThatIsNoTextIsRefused) {
  EXPECT_EQ(refusal([] {
              return config({{"p/main.py", "from .a import size\ndef recipe():\n  return C(tp=size)\n"},
                             {"p/a.py", "size = '\xff\xfe'\n"}});
            }),
            "a.py:1: is imported by main.py and is no UTF-8 text; save it as UTF-8.");
}

// Each module imports the next.
TEST(PythonModules, MoreFilesThanAnyConfigurationHasAreRefused) {
  Files files = {{"p/main.py", "from .m0 import x\ndef recipe():\n  return C(x=x)\n"}};
  const auto chain = [&](int count) {
    for (int i = 0; i < count; ++i) {
      files[fmt::format("p/m{}.py", i)] = fmt::format("from .m{} import y{}\nx = 1\n", i + 1, i + 1);
      files["p/main.py"] += fmt::format("from .m{} import x as x{}\n", i, i);
    }
    std::string call = "def recipe():\n  return C(";
    for (int i = 0; i < count; ++i) call += fmt::format("x{}=x{}, ", i, i);
    files["p/main.py"] += call + ")\n";
  };
  chain(150);
  EXPECT_EQ(refusal([&] { return config(files); }), "not refused");
  chain(250);
  EXPECT_TRUE(refusal([&] { return config(files); }).starts_with("main.py:1: imports more than 200 files"));
}

// --- conditions ---

TEST(PythonConditions, OnTextsAndMembersAreDecided) {
  EXPECT_EQ(
      alone("  gpu = \"h100\"\n  if gpu == \"b200\":\n    c.a = 1\n  elif gpu in (\"h100\", \"h200\"):\n    c.a = 2\n"
            "  else:\n    c.a = 3\n  if not gpu.startswith(\"h\") or gpu is None: c.b = 4\n"
            "  c.x = None\n  if c.x is None and c.a > 1: c.b = 5\n  c.d = 6 if c.b != 5 else 7\n"
            "  if isinstance(gpu, str): c.e = len(gpu)\n"),
      "{a: 2, x: null, b: 5, d: 7, e: 4}");
}

// Both values of what depends on a condition that nobody knows are said, and the condition is.
TEST(PythonConditions, ThatAreNotKnownAreNamedAndNeverGuessed) {
  const PythonConfig read =
      config({{"p/main.py",
               "def f():\n  c = base()\n  c.tp = 2\n  if probe() > 1:\n    c.tp = 4\n    c.pp = 1\n"
               "  else:\n    c.cp = 8\n  c.ep = 16\n  return c\n"}});
  EXPECT_EQ(to_text(read.values),
            "{tp: 4 if probe() > 1 else 2, pp: 1 if probe() > 1, cp: 8 if not (probe() > 1), "
            "ep: 16}");
  EXPECT_EQ(read.ignored, std::vector<std::string>{"main.py:4: if probe() > 1:"});
}

TEST(PythonConditions, ThatDecideNothingChangeNothing) {
  const PythonConfig read = config(
      {{"p/main.py", "def f():\n  c = base()\n  c.tp = 2\n  if probe():\n    c.tp = 2\n    print(c)\n  return c\n"}});
  EXPECT_EQ(to_text(read.values), "{tp: 2}");
  EXPECT_TRUE(read.ignored.empty());
}

// What stands behind a return that may have been reached may not be.
TEST(PythonConditions, OfAReturnHoldForAllThatFollows) {
  EXPECT_EQ(alone("  def tune(of):\n    if True:\n      if probe():\n        return\n    of.tp = 4\n"
                  "  tune(c)\n  c.pp = 2\n"),
            "{tp: 4 if not (probe()), pp: 2}");
}

// A configuration that raises is none.
TEST(PythonConditions, UnderWhichItRaisesAreTakenNotToHold) {
  EXPECT_EQ(alone("  if probe():\n    raise ValueError(\"no\")\n  c.tp = 4\n"), "{tp: 4}");
  EXPECT_EQ(refusal([] { return alone("  c.tp = 3\n  if c.tp == 3:\n    raise ValueError(f\"tp {c.tp}\")\n"); }),
            "main.py:5: the configuration stops here: raise ValueError(f\"tp {c.tp}\")");
  EXPECT_EQ(refusal([] { return alone("  assert 1 == 2, \"never\"\n"); }),
            "main.py:3: the configuration stops here: assert 1 == 2, \"never\"");
}

TEST(PythonConditions, OfAnExpectedErrorLeadToItsHandler) {
  EXPECT_EQ(alone("  def layout(pp):\n    if pp not in {1: 2}:\n      raise KeyError(pp)\n    return \"ok\"\n"
                  "  try:\n    c.a = layout(1)\n    c.b = layout(2)\n    c.c = 3\n  except ValueError:\n    c.d = 4\n"
                  "  except KeyError:\n    c.e = 5\n  finally:\n    c.f = 6\n"),
            "{a: ok, e: 5, f: 6}");
}

// --- values ---

TEST(PythonValues, APresetIsLookedUpAndReplaced) {
  const Files files = {{"p/main.py",
                        "from dataclasses import replace\nfrom .presets import PRESETS\n"
                        "def build(name=\"llama3\", gpu=\"h100\", *, steps=10):\n"
                        "  preset = PRESETS[f\"{name}_{gpu}\"]\n  wide = replace(preset, tp=4)\n"
                        "  more = PRESETS.get((\"none\", 1), preset)\n"
                        "  return C(tp=wide.tp, pp=wide.pp, cp=preset.cp, own=preset.tp, more=more.tp, steps=steps)\n"
                        "def recipe():\n  return build(gpu=\"b200\", **{\"steps\": 20})\n"},
                       {"p/presets.py",
                        "from dataclasses import dataclass, field\n@dataclass\nclass Base:\n  cp: int = 1\n"
                        "@dataclass\nclass Preset(Base):\n  tp: int\n  pp: int = field(default=2)\n"
                        "PRESETS = {\"llama3_h100\": Preset(tp=1), \"llama3_b200\": Preset(tp=2, pp=8)}\n"}};
  EXPECT_EQ(values(files), "{tp: 4, pp: 8, cp: 1, own: 2, more: 2, steps: 20}");
}

TEST(PythonValues, AMemberThatIsNotGivenHasItsClassDefault) {
  EXPECT_EQ(values({{"p/main.py",
                     "from dataclasses import dataclass, field\n@dataclass\nclass Inner:\n  size: int = 3\n"
                     "@dataclass\nclass Config:\n  inner: Inner = field(default_factory=Inner)\n  peft: object = None\n"
                     "def recipe():\n  c = Config(tp=1)\n  if c.peft is None:\n    c.pp = c.inner.size\n"
                     "  c.inner.size = 4\n  c.cp = c.inner.size\n  return c\n"}}),
            "{tp: 1, inner: Inner(size: 4), pp: 3, cp: 4}");
}

TEST(PythonValues, AListOfStagesIsMadeByLoopsAndProducts) {
  EXPECT_EQ(alone("  last = [\"mtp\"] * 2 + [\"loss\"]\n  layout = [[\"e\"] + [\"d\"] * 2]\n"
                  "  for i in range(2):\n    layout.append([\"d\"] * (i + 1))\n  layout[-1] = layout[-1] + last\n"
                  "  c.layout = layout\n  c.sizes = [len(s) for s in layout if s]\n"
                  "  c.by = {k: v * 2 for k, v in {\"a\": 1}.items()}\n"),
            "{layout: [[e, d, d], [d], [d, d, mtp, mtp, loss]], sizes: [3, 1, 5], by: {a: 2}}");
}

TEST(PythonValues, NumbersAreThoseOfPython) {
  EXPECT_EQ(alone("  c.a = 7 // 2\n  c.b = -7 // 2\n  c.c = -7 % 3\n  c.d = 2 ** 10\n  c.e = 3 / 2\n  c.f = 1_000 * 2\n"
                  "  c.g = int(\"8\") + int(2.9)\n  c.h, rest = divmod(17, 5)\n  c.i = max(2, rest, 1)\n  c.i += 1\n"),
            "{a: 3, b: -4, c: 2, d: 1024, e: 1.5, f: 2000, g: 10, h: 3, i: 3}");
}

TEST(PythonValues, AFunctionThatIsDecoratedIsWhatItsDecoratorReturns) {
  EXPECT_EQ(values({{"p/main.py",
                     "KNOWN = {}\ndef register(of):\n  KNOWN[of.__name__] = of\n  return of\n"
                     "@register\ndef small():\n  return C(tp=1)\n@cache(10)\n@register\ndef big():\n  return C(tp=8)\n"
                     "def recipe():\n  name = \"big\"\n  if name not in KNOWN:\n    raise ValueError(name)\n  return "
                     "KNOWN[name]()\n"}}),
            "{tp: 8}");
}

// --- what no configuration is ---

TEST(PythonLimits, AHelperThatMutatesWhatNobodyKnowsIsListed) {
  const PythonConfig read =
      config({{"p/main.py",
               "def tune(of):\n  of.tp = 4\ndef recipe():\n  c = base()\n  tune(nobody)\n  c.pp = 2\n  return c\n"}});
  EXPECT_EQ(to_text(read.values), "{pp: 2}");
  EXPECT_EQ(read.ignored, std::vector<std::string>{"main.py:2: of.tp = 4"});
}

// Thirty helpers that call one another; 24 are followed.
TEST(PythonLimits, CallsAreFollowedToADepth) {
  const auto depth = [](int calls) {
    std::string text = "def f0(c):\n  c.x = 1\n";
    for (int i = 1; i <= calls; ++i) text += fmt::format("def f{}(c):\n  f{}(c)\n", i, i - 1);
    text += fmt::format("def recipe():\n  c = base()\n  f{}(c)\n  return c\n", calls);
    return config({{"p/main.py", text}});
  };
  EXPECT_EQ(to_text(depth(20).values), "{x: 1}");
  const PythonConfig deep = depth(30);
  EXPECT_EQ(to_text(deep.values), "{}");
  ASSERT_EQ(deep.ignored.size(), 2u);
  EXPECT_TRUE(deep.ignored[0].ends_with("is called too deep")) << deep.ignored[0];
}

TEST(PythonLimits, WhatDoesNotEndIsRefused) {
  EXPECT_TRUE(
      refusal([] { return alone("  i = 0\n  while True:\n    i += 1\n"); }).ends_with("no configuration has so many."));
  EXPECT_TRUE(
      refusal([] { return alone("  on = 1\n  while on:\n    pass\n"); }).ends_with("no configuration needs so many."));
  EXPECT_EQ(alone("  c.a = [0] * 1000000000\n  c.b = \"x\" * 1000000000\n  c.c = 9 ** 9 ** 9\n"),
            "{a: [0] * 1000000000, b: \"x\" * 1000000000, c: 9 ** 9 ** 9}");
}

TEST(PythonLimits, DeepNestingStaysText) {
  const std::string deep = std::string(2000, '(') + "1" + std::string(2000, ')');
  const PythonConfig read =
      config({{"p/main.py", "def f():\n  c = base()\n  c.a = " + deep + "\n  c.b = 2\n  return c\n"}});
  EXPECT_EQ(read.values.find("a")->text.substr(0, 3), "(((");
  EXPECT_EQ(read.values.find("b")->text, "2");
  std::string blocks;
  for (int i = 1; i < 300; ++i) blocks += std::string(static_cast<std::size_t>(i), ' ') + "if True:\n";
  EXPECT_EQ(refusal([&] {
              return config({{"p/main.py", "def f():\n" + blocks + std::string(300, ' ') + "c = 1\n return c\n"}});
            }),
            "not refused");
}

// --- recipes ---

const Files kRecipe = {
    {"p/main.py",
     "from megatron.bridge import AutoBridge\nfrom .common import _pretrain_common, set_layout, precision\n"
     "def llama3_8b_pretrain_32gpu_h100_config():\n  cfg = _pretrain_common()\n"
     "  cfg.model = AutoBridge.from_hf_pretrained(\"meta-llama/Meta-Llama-3-8B\").to_megatron_provider()\n"
     "  cfg.model.pipeline_model_parallel_size = 4\n  cfg.model.seq_length = 4096\n"
     "  cfg.dataset.seq_length = cfg.model.seq_length\n  cfg.mixed_precision = precision(\"fp8\")\n"
     "  set_layout(cfg.model)\n  if cfg.model.num_moe_experts is not None:\n    cfg.model.expert_model_parallel_size = "
     "8\n"
     "  return cfg\n"},
    {"p/common.py",
     "def _pretrain_common():\n  return ConfigContainer(model=None, train=TrainingConfig(global_batch_size=32, "
     "micro_batch_size=2),\n    dataset=GPTDatasetConfig(seq_length=2048), "
     "comm_overlap=CommOverlapConfig(tp_comm_overlap=False))\n"
     "def set_layout(model):\n  pp = model.pipeline_model_parallel_size\n  layouts = {(2, 1): None, (4, 1): "
     "[[\"embedding\"] + "
     "[\"decoder\"] * 9] + [[\"decoder\"] * 8] * 2 + [[\"decoder\"] * 7 + [\"loss\"]]}\n"
     "  model.pipeline_model_parallel_layout = layouts[(pp, model.virtual_pipeline_model_parallel_size or 1)]\n"
     "def precision(kind):\n  if kind == \"bf16\":\n    cfg = bf16_mixed()\n  elif kind == \"fp8\":\n"
     "    cfg = bf16_with_fp8_current_scaling_mixed()\n  cfg.grad_reduce_in_fp32 = False\n  return cfg\n"}};

LaunchText read_recipe(const Files& files) {
  LaunchInput input;
  input.files = {{"p/main.py", files.at("p/main.py")}, {"p/common.py", files.at("p/common.py")}};
  return read_launch_text(input);
}

// 9 + 8 + 8 + 7 of the 32 layers; the other file is given beside the first.
TEST(PythonRecipesOfSeveralFiles, HaveWhatTheirHelpersSet) {
  const LaunchReading reading = read_launch(read_recipe(kRecipe), {4, 8}, LaunchAnswers{});
  EXPECT_EQ(reading.setup.degrees.pp, 4);
  EXPECT_EQ(reading.setup.stage_blocks, (std::vector<int>{9, 8, 8, 7}));
  EXPECT_EQ(reading.setup.degrees.micro_batch, 2);
  EXPECT_EQ(reading.setup.batch, 32);
  EXPECT_EQ(reading.setup.model.seq, 4096);
  EXPECT_EQ(reading.setup.matmul_dtype, "fp8");
  EXPECT_EQ(reading.setup.degrees.ep, 1);  // llama has no experts
  EXPECT_TRUE(reading.setup.overlap_gradients);
  EXPECT_TRUE(reading.setup.overlap_weights);
}

TEST(PythonRecipesOfSeveralFiles, TakeTheModelsLengthWhereTheDataSayAnother) {
  Files files = kRecipe;
  std::string& text = files["p/main.py"];
  text.replace(text.find("cfg.dataset.seq_length = cfg.model.seq_length"), 45, "pass");
  const LaunchText read = read_recipe(files);
  EXPECT_EQ(read_launch(read, {4, 8}, LaunchAnswers{}).setup.model.seq, 4096);
  EXPECT_TRUE(std::any_of(read.notes.begin(), read.notes.end(), [](const std::string& note) {
    return note.find("dataset.seq_length is 2048 and model.seq_length 4096") != std::string::npos;
  }));
}

// The command's batch and granularity are in the place of the recipe's: full recomputation by null is none.
TEST(PythonRecipesOfSeveralFiles, AreReadForTheCommandThatNamesThem) {
  Files files = kRecipe;
  std::string& text = files["p/main.py"];
  const std::string seq = "  cfg.model.seq_length = 4096\n";
  text.replace(text.find(seq), seq.size(), seq + "  cfg.model.recompute_granularity = \"full\"\n");
  const auto of = [&](const std::string& command) {
    return read_launch(read_launch_text({.files = {{"run.sh", command + "\n"},
                                                   {"p/main.py", files.at("p/main.py")},
                                                   {"p/common.py", files.at("p/common.py")}}}),
                       {4, 8}, LaunchAnswers{});
  };
  const LaunchReading plain =
      of("torchrun --nproc_per_node 8 --nnodes 4 run_recipe.py --recipe llama3_8b_pretrain_32gpu_h100_config");
  EXPECT_EQ(plain.setup.batch, 32);
  EXPECT_EQ(plain.setup.degrees.pp, 4);
  const LaunchReading changed =
      of("torchrun --nproc_per_node 8 --nnodes 4 run_recipe.py --recipe llama3_8b_pretrain_32gpu_h100_config "
         "train.global_batch_size=64 model.seq_length=1024 model.recompute_granularity=null");
  EXPECT_EQ(changed.setup.batch, 64);
  EXPECT_EQ(changed.setup.degrees.micro_batch, 2);
  EXPECT_EQ(changed.setup.model.seq, 1024);
  EXPECT_EQ(changed.setup.degrees.recompute, Recompute::None);
  const std::string performance =
      "python run_script.py --model_family_name llama --model_recipe_name llama3_8b --gpu h100 --num_gpus 32 "
      "--gpus_per_node 8 ";
  std::string& name = files["p/main.py"];
  name.replace(name.find("32gpu_h100_config"), 17, "32gpu_h100_fp8cs_config");
  EXPECT_EQ(of(performance + "--compute_dtype fp8_cs").setup.degrees.pp, 4);
  EXPECT_EQ(of(performance + "--compute_dtype fp8_cs --global_batch_size 128").setup.batch, 128);
}

}  // namespace
}  // namespace meshwright::python_modules_test
