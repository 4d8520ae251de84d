// SPDX-License-Identifier: Apache-2.0
// YAML, TOML and Python configurations as values with their lines.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "launch/syntax/interpolation.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/python/python_config.h"
#include "launch/syntax/shell.h"
#include "launch/syntax/toml.h"
#include "launch/syntax/yaml.h"
#include "tests/refusal.h"

namespace meshwright::config_files_test {
namespace {

std::string yaml(const std::string& text) { return to_text(value_from_yaml(text, "f.yaml")); }
std::string toml(const std::string& text) { return to_text(value_from_toml(text, "f.toml")); }

TEST(Yaml, BlocksNestByIndentation) {
  EXPECT_EQ(yaml("a:\n  b: 1  # one\n  c:\n  - x\n  - y: 2\n    z: 3\nd: 'q: r'\n"),
            "{a: {b: 1, c: [x, {y: 2, z: 3}]}, d: q: r}");
}
TEST(Yaml, AScalarMayStandOnTheLineAfterItsKey) {
  EXPECT_EQ(yaml("--flag:\n  true\n  # note\n--next: a b\n  c\n"), "{--flag: true, --next: a b c}");
}
TEST(Yaml, ColonsAndBarsWithinWordsAreText) {
  EXPECT_EQ(yaml("w: :4096:8\nl: Et*2|(tt|)*5t|tmL\nv: ${a.b}\n"), "{w: :4096:8, l: Et*2|(tt|)*5t|tmL, v: ${a.b}}");
}
TEST(Yaml, FlowMapsMayEndInACommaAndHoldComments) {
  EXPECT_EQ(yaml("{\n # c\n \"a\": True,\n \"b\": {\"x\": 1.0e-8,},\n \"l\": [1,\n 2],\n}\n"),
            "{a: True, b: {x: 1.0e-8}, l: [1, 2]}");
}
TEST(Yaml, AnchorsAndMergedKeys) {
  EXPECT_EQ(yaml("base: &b\n  x: 1\n  y: 2\nof:\n  <<: *b\n  y: 3\n"), "{base: {x: 1, y: 2}, of: {x: 1, y: 3}}");
}
TEST(Yaml, BlockScalarsKeepTheirLines) {
  EXPECT_EQ(value_from_yaml("a: |\n  x\n   y\nb: 1\n", "f").find("a")->text, "x\n y");
}
TEST(Yaml, MistakesAreNamedWithTheirLine) {
  EXPECT_TRUE(refusal([] { return yaml("a: 1\nb\nc: 2\n"); }).starts_with("f.yaml:"));
  EXPECT_TRUE(refusal([] { return yaml("a:\n  - 1\n  b: 2\n"); }).starts_with("f.yaml:3: "));
  EXPECT_TRUE(refusal([] { return yaml("a: [1, 2\nb: 3\n"); }).starts_with("f.yaml:"));
  EXPECT_TRUE(refusal([] { return yaml("a: \"x\n"); }).starts_with("f.yaml:1: "));
  EXPECT_NE(refusal([] { return yaml(std::string(5000, '[')); }).find("nested too deeply"), std::string::npos);
}
TEST(Yaml, AliasesCannotMakeAFileOfAnySize) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += (j > 0 ? ", *a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  EXPECT_NE(refusal([&] { return yaml(bomb); }).find("too many values"), std::string::npos);
}

TEST(Yaml, VariablesOfTheEnvironmentAreGivenOrHaveDefaults) {
  ConfigValue root = value_from_yaml(
      "a: ${oc.decode:${oc.env:TP,4}}\nb: ${oc.env:PP}\nc: [\"${oc.env:MB,${oc.env:OTHER,2}}\"]\nd: x${oc.env:TP,1}y\n",
      "f.yaml");
  resolve_environment(root, {{"TP", "8"}});
  EXPECT_EQ(root.find("a")->text, "8");
  EXPECT_EQ(shown(root.find("b")->text), "${PP}");
  EXPECT_EQ(root.find("c")->items[0].text, "2");
  EXPECT_EQ(root.find("d")->text, "x8y");
}

std::string interpolated(const std::string& text) {
  ConfigValue root = value_from_yaml(text, "f.yaml");
  resolve_interpolations(root);
  return to_text(root);
}
TEST(Yaml, InterpolationsAreOtherValuesOfTheFile) {
  EXPECT_EQ(interpolated("m:\n  s: 8\n  d:\n    l: ${m.s}\n    k: ${..s}\n    j: ${.l}\nn: m${m.d.j}-${m.s}\n"),
            "{m: {s: 8, d: {l: 8, k: 8, j: 8}}, n: m8-8}");
  EXPECT_EQ(interpolated("a: ${b}\nb: null\n"), "{a: null, b: null}");
}
TEST(Yaml, InterpolationsComputeWithWholeNumbers) {
  EXPECT_EQ(interpolated("h: 256\nf: ${multiply:4, ${.h}}\ng: ${floor_div:${multiply:${h},3},100}\n"
                         "c: ${ceil_div:${h},100}\ns: ${sum:${h},-1}\nm: ${max:${h},2,300}\n"),
            "{h: 256, f: 1024, g: 7, c: 3, s: 255, m: 300}");
  EXPECT_EQ(interpolated("a: 2\nb: ${if:${eq:${a},2},4,8}\nc: ${neq:${a},2}\nd: ${div:7,2}\ne: ${floor_div:7,0}\n"),
            "{a: 2, b: 4, c: false, d: ${div:7,2}, e: ${floor_div:7,0}}");
  // What one variable leaves open is that variable.
  ConfigValue root = value_from_yaml("a: ${multiply:2,${oc.decode:${oc.env:MINIBS}}}\n", "f.yaml");
  resolve_environment(root, {});
  resolve_interpolations(root);
  EXPECT_EQ(shown(root.find("a")->text), "${MINIBS}");
}
TEST(Yaml, InterpolationsOfOtherThingsStay) {
  const std::string text = "{a: ${oc.env:HOME}, b: ${m}, c: ${....x}, d: ${, m: {x: 1}}";
  EXPECT_EQ(interpolated("a: ${oc.env:HOME}\nb: ${m}\nc: ${....x}\nd: ${\nm:\n  x: 1\n"), text);
}
TEST(Yaml, InterpolationsInACircleStay) {
  EXPECT_EQ(interpolated("a: ${b}\nb: ${a}\n"), "{a: ${b}, b: ${a}}");
  std::string bomb = "a0: xxxxxxxxxxxxxxxx\n";
  for (int i = 1; i < 40; ++i) bomb += fmt::format("a{0}: ${{a{1}}}${{a{1}}}\n", i, i - 1);
  EXPECT_LT(interpolated(bomb).size(), 1000u);
}

TEST(Toml, TablesKeysAndArrays) {
  EXPECT_EQ(toml("a = 2_000 # c\n[b.c]\nx='q'\ny=[1,\n [\"u\", \"v\"],\n]\nk.m = true\n[[d]]\ne = 8e-5\n"),
            "{a: 2_000, b: {c: {x: q, y: [1, [u, v]], k: {m: true}}}, d: [{e: 8e-5}]}");
}
TEST(Toml, MistakesAreNamedWithTheirLine) {
  EXPECT_TRUE(refusal([] { return toml("[a]\nx = llama\n"); }).starts_with("f.toml:2: 'llama' is no value"));
  EXPECT_TRUE(refusal([] { return toml("x = 1\nx = 2\n"); }).starts_with("f.toml:2: the key 'x' is given twice"));
  EXPECT_TRUE(refusal([] { return toml("[a]\n\n[a]\n"); }).starts_with("f.toml:3: the table [a] is given twice"));
  EXPECT_EQ(refusal([] { return toml("[[a]]\n[a.b]\n[[a]]\n[a.b]\n"); }), "not refused");
  EXPECT_TRUE(refusal([] { return toml("a = \"x\n"); }).starts_with("f.toml:1: "));
}

TEST(PythonConfig, AssignmentsPartsAndTuples) {
  const PythonConfig config = config_from_python(
      "from x import y\ndef other():\n    c.a.b = 1\n\ndef plan():\n    c = llama3_70b()\n    c.training.seq = 2 * "
      "8192  # t\n"
      "    p = c.parallelism\n    p.tp, p.pp = 8, 4\n    c.activation_checkpoint = FullAC.Config()\n    for x in y: "
      "z()\n    return c\n",
      "", "f.py");
  EXPECT_EQ(config.function, "plan");
  EXPECT_EQ(config.base, "llama3_70b");
  EXPECT_EQ(to_text(config.values),
            "{training: {seq: 16384}, parallelism: {tp: 8, pp: 4}, activation_checkpoint: FullAC.Config()}");
  ASSERT_EQ(config.ignored.size(), 1u);
  EXPECT_TRUE(config.ignored[0].starts_with("f.py:11: for x"));
}
TEST(PythonConfig, ConstructorsWithNamedArguments) {
  const PythonConfig config = config_from_python(
      "def a():\n  return Config(\n    parallelism=Parallelism(tp=8, names=[\"x\", \"y\"]),\n    steps=10,\n  )\n", "a",
      "f.py");
  EXPECT_EQ(to_text(*config.values.find("parallelism")), "Parallelism(tp: 8, names: [x, y])");
  EXPECT_EQ(to_text(*config.values.find("steps")), "10");
}
TEST(PythonConfig, NamesStandForTheirValuesAndOtherFormsStayText) {
  const PythonConfig config = config_from_python(
      "def a():\n  compiled = Compile(enable=True)\n  spec = registry(\"70B\")\n  return T.Config(\n    spec=spec, "
      "compile=compiled,\n"
      "    data=D[\"c4\"], loss=f(x if y else z))\n",
      "", "f.py");
  EXPECT_EQ(to_text(config.values),
            "{spec: registry(#0: 70B), compile: Compile(enable: True), data: D[\"c4\"], loss: f(#0: x if y else z)}");
  EXPECT_TRUE(config.ignored.empty());
}
TEST(PythonConfig, AFunctionOfTheSameFileIsReadFirst) {
  const PythonConfig config = config_from_python(
      "def a():\n  return C(p=P(x=1, y=2), s=3)\n\ndef b():\n  c = a()\n  c.p.y = 5\n  return c\n", "", "f.py");
  EXPECT_EQ(to_text(config.values), "{p: P(x: 1, y: 5), s: 3}");
  EXPECT_EQ(config.base, "");
  EXPECT_EQ(config.name_of_model, "a");
}
// tp is given by the call, pp by the parameter, and cp by neither.
TEST(PythonConfig, AFunctionThatIsCalledHasTheArgumentsOfTheCall) {
  const PythonConfig config = config_from_python(
      "HOSTS: int = 4\ndef mesh(tp: int, pp: int = 2, names: dict[str, int] = None, cp=1) -> T:\n"
      "  strategy = S(tp=tp, pp=pp, names=names)\n  return M(hosts=HOSTS, strategy=strategy, cp=cp)\n"
      "def plan(steps=10):\n  return C(mesh=mesh(8, cp=unknown()), steps=steps)\n",
      "plan", "f.py");
  EXPECT_EQ(to_text(config.values),
            "{mesh: M(hosts: 4, strategy: S(tp: 8, pp: 2, names: null), cp: unknown()), steps: 10}");
  EXPECT_TRUE(config.ignored.empty());
}
TEST(PythonConfig, AFunctionThatCallsItselfIsLeftAsItIs) {
  const PythonConfig config = config_from_python(
      "def a(x=1):\n  return C(x=x, inner=b(x=2))\ndef b(x):\n  return C(x=x, inner=a(x=x))\n", "a", "f.py");
  EXPECT_EQ(to_text(*config.values.find("x")), "1");
  EXPECT_EQ(to_text(*config.values.find("inner")->find("inner")->find("x")), "2");
}
TEST(PythonConfig, BranchesWhoseConditionIsKnownAreTakenOrLeftOut) {
  const PythonConfig config = config_from_python(
      "def a(fast=False, size=None, name=\"x\", rest):\n  c = C()\n"
      "  if fast:\n    c.fast = 1\n  elif size is None:\n    c.size = 2\n  else:\n    c.both = 3\n"
      "  if not fast:\n    c.slow = 4\n    if name:\n      c.named = 5\n  else:\n    c.other = 6\n"
      "  if rest > 1:\n    c.open = 7\n  return c\n",
      "a", "f.py");
  EXPECT_EQ(to_text(config.values), "{size: 2, slow: 4, named: 5, open: 7 if rest > 1}");
  ASSERT_EQ(config.ignored.size(), 1u);
  EXPECT_EQ(config.ignored[0], "f.py:15: if rest > 1:");
}
// Each name stands for the one before twice: 2^40 values.
TEST(PythonConfig, NamesThatStandForTooManyValuesAreRefused) {
  std::string text = "def a():\n  x0 = [1, 2]\n";
  for (int i = 0; i < 40; ++i) text += fmt::format("  x{} = [x{}, x{}]\n", i + 1, i, i);
  EXPECT_TRUE(refusal([&] {
                return config_from_python(text + "  return C(x=x40)\n", "", "f.py");
              }).ends_with("names and calls stand for more than 400000 values; no configuration has so many."));
}
// A part of the configuration has another name; a value that is there already is copied.
TEST(PythonConfig, AMemberStandsForItsValueAndAPartForItself) {
  const PythonConfig config = config_from_python(
      "def a():\n  c = C()\n  c.model.seq = 8\n  p = c.model\n  c.data.seq = c.model.seq\n  c.data.more = p.seq\n"
      "  c.model.seq = 16\n  c.data.late = c.model.none\n  return c\n",
      "", "f.py");
  EXPECT_EQ(to_text(config.values), "{model: {seq: 16}, data: {seq: 8, more: 8, late: c.model.none}}");
}
TEST(PythonConfig, WhatIsAskedOfTheResultOfACallHasTheCallInIt) {
  const PythonConfig config = config_from_python(
      "def a():\n  return C(model=Hub.load(\"x/y\").config(seq=8), env={**B, \"k\": 1})\n", "", "f.py");
  EXPECT_EQ(to_text(config.values), "{model: config(seq: 8, (of): Hub.load(#0: x/y)), env: {#0: B, k: 1}}");
}

TEST(PythonConfig, AMissingFunctionIsRefusedWithThoseThereAre) {
  EXPECT_EQ(refusal([] { return config_from_python("def a():\n  pass\n", "b", "f.py"); }),
            "f.py:1: has no function 'b'; it has a.");
}

TEST(LaunchNumbers, AreReadAsPythonReadsThem) {
  EXPECT_EQ(whole_number("10_000"), 10'000);
  EXPECT_EQ(whole_number("2e8"), 200'000'000);
  EXPECT_EQ(whole_number("1.0"), 1);
  EXPECT_EQ(whole_number("1.5"), std::nullopt);
  EXPECT_EQ(whole_number("8x"), std::nullopt);
  EXPECT_EQ(real_number("1.e-05"), 1e-5);
  EXPECT_EQ(real_number(".01"), 0.01);
  EXPECT_EQ(real_number("nan"), std::nullopt);
  EXPECT_EQ(truth_value("True"), std::optional(true));
  EXPECT_EQ(truth_value("no"), std::optional(false));
  EXPECT_EQ(truth_value("2"), std::nullopt);
}

}  // namespace
}  // namespace meshwright::config_files_test
