// SPDX-License-Identifier: Apache-2.0
// The contest's file format: what a file becomes, and that each way to be wrong is refused by one sentence naming it.
#include "core/solver/problem/problem_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/errors.h"
#include "tests/refusal.h"

namespace meshwright::problem_file_test {
namespace {

using Costs = std::vector<std::optional<Seconds>>;

// Node costs are units, edge costs hundreds, usages thousands.
constexpr const char* kTwoNodes =
    R"({"problem": {"name": "two",
        "edges": {"nodes": [[0, 1]], "costs": [[100, 200, 300, 1000000000000000000, 500, 600]]},
        "nodes": {"intervals": [[0, 2], [1, 4]], "costs": [[1, 2], [3, 4, 5]], "usages": [[1000, 2000], [3000, 0, 5000]]},
        "usage_limit": 6000}})";

// {"problem": ...} with one node of cost 7 and usage 3, no edges, no limit.
const std::string kGzip = std::string(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\x2a\x28\xca\x4f\xca\x49\xcd\x55\xb2\xaa\x56\xca"
    "\x4b\xcc\x4d\x55\xb2\x52\x2a\x51\xd2\x51\xca\xcb\x4f\x49\x2d\x06\x89\x65\xe6\x95\xa4\x16\x95\x25"
    "\xe6\x00\x39\xd1\xd1\x06\x3a\x86\xb1\xb1\x3a\x4a\xc9\xf9\xc5\x25\x60\xbe\x39\x88\x57\x5a\x9c\x98"
    "\x9e\x0a\xe6\x1a\xc7\xc6\xd6\xea\x28\xa5\xa6\xa4\x43\xb4\x42\xcd\x88\x46\xd2\x11\x5b\x5b\x5b\x0b"
    "\x00\x59\xda\xa9\xc3\x73\x00\x00\x00",
    105);

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

ProblemFile parse(const std::string& bytes) { return parse_problem_file(bytes, "p.json"); }

std::string file_refusal(const std::string& bytes) {
  return refusal([&] { (void)parse(bytes); });
}

std::string refusal_with(const std::string& what, const std::string& by) {
  return file_refusal(replaced(kTwoNodes, what, by));
}

TEST(ProblemFile, BecomesTheProblemAsItStands) {
  const ProblemFile file = parse(kTwoNodes);
  EXPECT_EQ(file.name, "two");
  const auto& [nodes, edges, limit] = file.problem;
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[1].cost, (Costs{Seconds(3), Seconds(4), Seconds(5)}));
  EXPECT_EQ(nodes[1].memory, (std::vector{Bytes(3000), Bytes(0), Bytes(5000)}));
  EXPECT_EQ(nodes[1].live_begin, 1);
  EXPECT_EQ(nodes[1].live_end, 4);
  ASSERT_EQ(edges.size(), 1U);
  EXPECT_EQ(edges[0].from, 0);
  EXPECT_EQ(edges[0].to, 1);
  EXPECT_EQ(edges[0].cost,
            (Costs{Seconds(100), Seconds(200), Seconds(300), std::nullopt /* 10^18 */, Seconds(500), Seconds(600)}));
  EXPECT_EQ(limit, Bytes(6000));

  const Evaluation evaluation = evaluate(file.problem, {{1, 2}});
  EXPECT_EQ(evaluation.total(), Seconds(607));     // 2 + 5 + 600
  EXPECT_EQ(evaluation.peak_memory, Bytes(7000));  // step 1: 2000 + 5000
  EXPECT_EQ(evaluation.violations.size(), 1U);
  EXPECT_TRUE(evaluate(file.problem, {{0, 2}}).violations.empty());  // 1000 + 5000
}

TEST(ProblemFile, NeedsNoLimitAndNoOrderOfMembers) {
  const ProblemFile file = parse(
      R"({"problem": {"nodes": {"usages": [[0]], "costs": [[-7]], "intervals": [[3, 3]]}, "name": "",
          "edges": {"costs": [], "nodes": []}}})");
  EXPECT_EQ(file.problem.memory_limit, std::nullopt);
  EXPECT_EQ(file.problem.nodes[0].cost, Costs{Seconds(-7)});
  EXPECT_EQ(file.problem.nodes[0].live_begin, file.problem.nodes[0].live_end);
}

TEST(ProblemFile, KeepsNumbersExactlyAndForbidsFromTenToTheEighteen) {
  const auto cost = [](const std::string& text) {
    return parse(replaced(kTwoNodes, "[1, 2]", "[1, " + text + "]")).problem.nodes[0].cost[1];
  };
  EXPECT_EQ(cost("9007199254740992"), Seconds(9007199254740992.0));  // 2^53
  EXPECT_EQ(cost("-9007199254740992"), Seconds(-9007199254740992.0));
  EXPECT_EQ(cost("1000000000000000000"), std::nullopt);
  EXPECT_EQ(cost("9223372036854775807"), std::nullopt);
  EXPECT_EQ(refusal_with("[1, 2]", "[1, 9007199254740993]"),
            "p.json: problem.nodes.costs[0][1] is 9007199254740993; give a whole number of "
            "-9007199254740992..9007199254740992.");
}

TEST(ProblemFile, EdgesOfTheSameNodesStayApartAndLoopsBecomeNodeCosts) {
  std::string text = replaced(kTwoNodes, "[[0, 1]]", "[[1, 0], [0, 0], [0, 1]]");
  text = replaced(text, "\"costs\": [[100", "\"costs\": [[0, 0, 0, 0, 0, 9], [70, 1, 1, 1000000000000000000], [100");
  const ShardingProblem problem = parse(text).problem;
  ASSERT_EQ(problem.edges.size(), 2U);
  EXPECT_EQ(problem.edges[0].from, 1);
  EXPECT_EQ(problem.nodes[0].cost, (Costs{Seconds(71) /* 1 + 70 */, std::nullopt}));
  EXPECT_EQ(evaluate(problem, {{0, 2}}).total(), Seconds(376));  // 71 + 5 + 300, nothing on (1, 0)
}

TEST(ProblemFile, IsUnpackedWhenItBeginsLikeGzip) {
  const ProblemFile file = parse(kGzip);
  EXPECT_EQ(file.name, "t");
  EXPECT_EQ(file.problem.nodes[0].cost, Costs{Seconds(7)});
  EXPECT_EQ(file.problem.nodes[0].memory, std::vector{Bytes(3)});
}

TEST(ProblemFile, IsReadFromDiskInEitherForm) {
  const auto path = testing::TempDir() + "problem_file_test_" + std::to_string(getpid()) + ".bin";
  for (const std::string& bytes : {std::string(kTwoNodes), kGzip}) {
    std::ofstream(path, std::ios::binary) << bytes;
    EXPECT_EQ(read_problem_file(path).problem.nodes.size(), parse(bytes).problem.nodes.size());
  }
  std::filesystem::remove(path);
  EXPECT_THROW((void)read_problem_file(path), SystemError);
}

TEST(ProblemFile, InstancesOfTheContestCostWhatPlainCountingSays) {
  const char* data = std::getenv("MESHWRIGHT_DATA");
  if (data == nullptr) GTEST_SKIP() << "MESHWRIGHT_DATA is not set";
  struct Instance {
    const char* letter;
    std::size_t edges;
    double cost, peak;  // of strategy 0 everywhere, forbidden costs left out; counted by a script without this reader
  };
  for (const Instance& instance : {Instance{"B", 1096, 657849255, 44346928}, {"G", 1023, 2307013723, 80075852}}) {
    const std::string path = fmt::format("{}/iopddl/asplos-2025-iopddl-{}.json.gz", data, instance.letter);
    if (!std::ifstream(path)) GTEST_SKIP() << path << " is not there";
    const ProblemFile file = read_problem_file(path);
    ASSERT_EQ(file.problem.nodes.size(), 816U);
    EXPECT_EQ(file.problem.edges.size(), instance.edges);
    const Evaluation evaluation = evaluate(file.problem, {std::vector<int>(816, 0)});
    EXPECT_EQ(evaluation.total(), Seconds(instance.cost));
    EXPECT_EQ(evaluation.peak_memory, Bytes(instance.peak));
  }
}

TEST(ProblemFile, EveryCutIsRefused) {
  const std::string text = kTwoNodes;
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_NE(file_refusal(text.substr(0, size)), "not refused") << size;
  for (std::size_t size = 2; size < kGzip.size(); ++size)
    EXPECT_EQ(file_refusal(kGzip.substr(0, size)),
              "p.json: the gzip data ends too early; check that the file is complete.")
        << size;
}

TEST(ProblemFile, EveryInvertedByteOfGzipDataIsRefused) {
  // Behind the header's ten bytes; the checksum sees what the format does not.
  for (std::size_t i = 10; i < kGzip.size(); ++i) {
    std::string damaged = kGzip;
    damaged[i] = static_cast<char>(~damaged[i]);
    EXPECT_NE(file_refusal(damaged), "not refused") << "byte " << i;
  }
}

TEST(ProblemFile, BytesBehindTheProblemAreRefused) {
  EXPECT_EQ(file_refusal(std::string(kTwoNodes) + "\n"), "not refused");
  EXPECT_EQ(file_refusal(std::string(kTwoNodes) + "[]"),
            "p.json: byte 278: not valid JSON; check that the file is complete.");
  EXPECT_EQ(file_refusal(kGzip + "xyz").rfind("p.json: not valid gzip", 0), 0U) << file_refusal(kGzip + "xyz");
  EXPECT_NE(file_refusal(kGzip + kGzip), "not refused");  // two members: two problems in a row
}

TEST(ProblemFile, OtherJsonIsRefused) {
  EXPECT_EQ(file_refusal("[]"), "p.json: the file is a list; an object with the member 'problem' was expected.");
  EXPECT_EQ(file_refusal("7"), "p.json: the file is 7; an object with the member 'problem' was expected.");
  EXPECT_EQ(file_refusal("null"), "p.json: the file is null; an object with the member 'problem' was expected.");
  EXPECT_EQ(file_refusal("{}"), "p.json: 'problem' is missing; the file must hold a problem of the contest's format.");
  EXPECT_EQ(file_refusal(R"({"problem": [[1]]})"), "p.json: problem is a list; an object was expected.");
  EXPECT_NE(file_refusal("{\"problem\": \xff}"), "not refused");
  EXPECT_NE(file_refusal(std::string(1 << 20, '[')), "not refused");  // a million levels
  EXPECT_NE(file_refusal(replaced(kTwoNodes, "[0, 1]", std::string(1 << 20, '['))), "not refused");
}

TEST(ProblemFile, MissingMembersAreNamed) {
  const std::pair<const char*, const char*> members[] = {
      {"\"name\": \"two\",", "problem.name"},
      {", \"costs\": [[1, 2], [3, 4, 5]]", "problem.nodes.costs"},
      {", \"usages\": [[1000, 2000], [3000, 0, 5000]]", "problem.nodes.usages"},
      {"\"intervals\": [[0, 2], [1, 4]], ", "problem.nodes.intervals"},
      {"\"nodes\": [[0, 1]], ", "problem.edges.nodes"},
      {", \"costs\": [[100, 200, 300, 1000000000000000000, 500, 600]]", "problem.edges.costs"}};
  for (const auto& [text, name] : members)
    EXPECT_EQ(refusal_with(text, ""),
              fmt::format("p.json: '{}' is missing; the file must hold a problem of the contest's format.", name));
}

TEST(ProblemFile, UnknownAndRepeatedMembersAreNamed) {
  EXPECT_EQ(
      refusal_with("\"usage_limit\"", "\"usage_limits\"").rfind("p.json: unknown member 'problem.usage_limits'", 0), 0U)
      << refusal_with("\"usage_limit\"", "\"usage_limits\"");
  EXPECT_NE(refusal_with("\"name\": \"two\",", "\"name\": \"two\", \"version\": 2,"), "not refused");
  EXPECT_NE(refusal_with("{\"problem\"", "{\"solution\": [], \"problem\""), "not refused");
  EXPECT_EQ(refusal_with("\"usage_limit\": 6000", "\"usage_limit\": 6000, \"usage_limit\": 7000"),
            "p.json: 'problem.usage_limit' is given twice; give it once.");
}

TEST(ProblemFile, CountsThatDifferAreNamed) {
  EXPECT_EQ(refusal_with("[0, 2], [1, 4]", "[0, 2]"),
            "p.json: problem.nodes has 1 intervals, 2 costs and 2 usages; give each node one of each.");
  EXPECT_EQ(refusal_with("[3, 4, 5]", "[3, 4]"),
            "p.json: node 1 has 2 costs but 3 usages; give each strategy one of each.");
  EXPECT_EQ(refusal_with("[1000, 2000]", "[1000]"),
            "p.json: node 0 has 2 costs but 1 usages; give each strategy one of each.");
  EXPECT_EQ(refusal_with("[[0, 1]]", "[]"),
            "p.json: problem.edges has 0 nodes and 1 costs; give each edge one of each.");
  EXPECT_EQ(
      refusal_with("500, 600", "500"),
      "p.json: problem.edges.costs[0] has 5 costs, but its nodes 0 and 1 have 2 x 3 strategies; give one per pair.");
  EXPECT_EQ(refusal_with("[1, 2], [3", "[], [3"),
            "p.json: problem.nodes.costs[0] is empty; give node 0 at least one strategy.");
  EXPECT_EQ(file_refusal(R"({"problem": {"name": "", "nodes": {"intervals": [], "costs": [], "usages": []},
                        "edges": {"nodes": [], "costs": []}}})"),
            "p.json: problem.nodes.intervals is empty; give at least one node.");
}

TEST(ProblemFile, IntervalsAndEdgesThatCannotBeAreNamed) {
  EXPECT_EQ(refusal_with("[1, 4]", "[4, 1]"),
            "p.json: problem.nodes.intervals[1] is [4, 1], which ends before it begins; swap the two.");
  EXPECT_EQ(refusal_with("[1, 4]", "[-1, 4]"),
            "p.json: problem.nodes.intervals[1][0] is -1; give a whole number of 0..2147483647.");
  EXPECT_EQ(refusal_with("[1, 4]", "[1, 2147483648]"),
            "p.json: problem.nodes.intervals[1][1] is 2147483648; give a whole number of 0..2147483647.");
  EXPECT_EQ(refusal_with("[1, 4]", "[1, 4, 5]"),
            "p.json: problem.nodes.intervals[1] has 3 numbers; give [begin, end].");
  EXPECT_EQ(refusal_with("[0, 1]", "[0]"), "p.json: problem.edges.nodes[0] has 1 numbers; give [node, node].");
  EXPECT_EQ(refusal_with("[0, 1]", "[0, 2]"),
            "p.json: problem.edges.nodes[0] names node 2, but nodes are 0..1; give one of these.");
  EXPECT_NE(refusal_with("[0, 1]", "[-1, 0]"), "not refused");
}

TEST(ProblemFile, ValuesThatAreNoWholeNumbersAreNamed) {
  EXPECT_EQ(refusal_with("[1, 2]", "[1, 0.5]"),
            "p.json: problem.nodes.costs[0][1] is 0.5; a whole number of at most 64 bits was expected.");
  for (const char* value : {"\"2\"", "null", "true", "1e3", "99999999999999999999", "[2]", "{\"a\": 2}"})
    EXPECT_EQ(refusal_with("[1, 2]", fmt::format("[1, {}]", value)).rfind("p.json: problem.nodes.costs[0][1] is ", 0),
              0U)
        << refusal_with("[1, 2]", fmt::format("[1, {}]", value));
  for (const char* value : {"NaN", "Infinity", "-", "0x10", "01", "1e999"})
    EXPECT_EQ(refusal_with("[1, 2]", fmt::format("[1, {}]", value)).rfind("p.json: byte ", 0), 0U)
        << refusal_with("[1, 2]", fmt::format("[1, {}]", value));
  EXPECT_EQ(refusal_with("[1, 2]", "7"), "p.json: problem.nodes.costs[0] is 7; a list of whole numbers was expected.");
  EXPECT_EQ(refusal_with("[[0, 2], [1, 4]]", "{}"),
            "p.json: problem.nodes.intervals is an object; a list of lists of whole numbers was expected.");
  EXPECT_EQ(refusal_with("1000, 2000", "1000, -2000"),
            "p.json: problem.nodes.usages[0][1] is -2000; give a whole number of 0..9007199254740992.");
  EXPECT_EQ(refusal_with("6000", "-6000"),
            "p.json: problem.usage_limit is -6000; give a whole number of 0..9007199254740992.");
  EXPECT_EQ(refusal_with("6000", "null"), "p.json: problem.usage_limit is null; a whole number of bytes was expected.");
  EXPECT_EQ(refusal_with("\"two\"", "2"), "p.json: problem.name is 2; a text was expected.");
}

TEST(SolutionFile, ReadsBackWhatWasWritten) {
  const auto path = testing::TempDir() + "solution_file_test_" + std::to_string(getpid()) + ".json";
  const ShardingChoice choice{{0, 3, 1}};
  EXPECT_EQ(solution_line(choice), "[0, 3, 1]");
  std::ofstream(path) << solution_line(choice) << "\n";
  EXPECT_EQ(read_solution_file(path), choice);
  for (const char* wrong : {"[0, 3.5]", "[0, \"1\"]", "[0, 99999999999]", "[[0]]", "{}", "[0", ""}) {
    std::ofstream(path) << wrong;
    EXPECT_THROW((void)read_solution_file(path), InputError) << wrong;
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace meshwright::problem_file_test
