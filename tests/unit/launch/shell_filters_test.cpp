// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/shell_filters.h"

#include <gtest/gtest.h>

#include "launch/syntax/shell.h"

namespace meshwright::shell_filters_test {
namespace {

// What the program makes of the text; "(none)" where it is not computed.
std::string made(const std::vector<std::string>& words, const std::string& input) {
  return filtered(words, input).value_or("(none)");
}

TEST(ShellFilters, TrMapsAndDeletesCharacters) {
  EXPECT_EQ(made({"tr", "A-Z ", "a-z-"}, "Qwen3 8B"), "qwen3-8b");
  EXPECT_EQ(made({"tr", "[:upper:]", "[:lower:]"}, "LLaMA"), "llama");
  EXPECT_EQ(made({"tr", "-d", "bB"}, "70B"), "70");
  EXPECT_EQ(made({"tr", "abc", "x"}, "aabbcd"), "xxxxxd");
  EXPECT_EQ(made({"tr", "-s", "a"}, "aab"), "(none)");
  EXPECT_EQ(made({"tr", "[:punct:]", "_"}, "a.b"), "(none)");
}

TEST(ShellFilters, WcCountsAndHeadTakesTheFirstLine) {
  EXPECT_EQ(made({"wc", "-l"}, "host0\nhost1"), "2");
  EXPECT_EQ(made({"wc", "-w"}, " a b\nc "), "3");
  EXPECT_EQ(made({"wc", "-l"}, ""), "(none)");  // an empty line, or none
  EXPECT_EQ(made({"wc", "-c"}, "ab"), "(none)");
  EXPECT_EQ(made({"head", "-n1"}, "host0\nhost1"), "host0");
  EXPECT_EQ(made({"head", "-n", "1"}, "a"), "a");
  EXPECT_EQ(made({"head", "-n", "2"}, "a\nb\nc"), "(none)");
}

TEST(ShellFilters, SedSubstitutes) {
  EXPECT_EQ(made({"sed", "s/qwen3-//"}, "qwen3-8b"), "8b");
  EXPECT_EQ(made({"sed", "s/.*-//"}, "a-b-8b"), "8b");
  EXPECT_EQ(made({"sed", "s/-.*//"}, "a-b-8b"), "a");
  EXPECT_EQ(made({"sed", "s/[^0-9]*//g"}, "a8b-70"), "870");
  EXPECT_EQ(made({"sed", "-e", "s|/|_|g"}, "a/b/c"), "a_b_c");
  EXPECT_EQ(made({"sed", "s/b$//"}, "bb"), "b");
  EXPECT_EQ(made({"sed", "s/^b/x/g"}, "bb"), "xb");
  EXPECT_EQ(made({"sed", "s/8/<&>/"}, "a8b8"), "a<8>b8");
  EXPECT_EQ(made({"sed", "s/\\./p/"}, "1.5b"), "1p5b");
  EXPECT_EQ(made({"sed", "-E", "s/[0-9]+/N/"}, "a12b3"), "aNb3");
  EXPECT_EQ(made({"sed", "s/  \\+/ /g"}, "a   b c"), "a b c");  // GNU's
  EXPECT_EQ(made({"sed", "s/  \\+/ /g"}, std::string(1000, ' ') + "a"), " a");
  EXPECT_EQ(made({"sed", "s/ *a/x/"}, std::string(1000, ' ') + "b"), "(none)");  // may try each of its lengths
  // As GNU sed has it: nothing just behind a match is no match.
  EXPECT_EQ(made({"sed", "s/a*/x/g"}, "baaac"), "xbxcx");
}

TEST(ShellFilters, LeaveAloneWhatTheyDoNotKnow) {
  for (const char* script : {"s/\\(a\\)/\\1/", "s/a/b/2", "s/a\\|b/c/", "y/a/b/", "s/a/b", "p", "s/a*b*c*/x/"})
    EXPECT_EQ(made({"sed", script}, "abc"), "(none)") << script;
  EXPECT_EQ(made({"sed", "-i", "s/a/b/"}, "a"), "(none)");
  EXPECT_EQ(made({"awk", "{print $1}"}, "a b"), "(none)");
}

TEST(ShellFilters, CutTakesAField) {
  EXPECT_EQ(made({"cut", "-d", "-", "-f", "2"}, "a-b-c"), "b");
  EXPECT_EQ(made({"cut", "-d/", "-f1"}, "org/name"), "org");
  EXPECT_EQ(made({"cut", "-d-", "-f4"}, "a-b"), "");
  EXPECT_EQ(made({"cut", "-d-", "-f2"}, "ab"), "ab");  // a line without the separator, whole
  EXPECT_EQ(made({"cut", "-c1-3"}, "abcd"), "(none)");
}

// As recipes collapse their overrides into one line.
TEST(ShellFilters, LeaveWhatIsNotKnownWhereItStands) {
  const ShellResult found = read_shell(
      "LIST=\" a=$A \n  b=$([ \"$CP\" -gt 1 ] && echo $((CP * 2)) || echo 1)   c=3\"\nCP=4\n"
      "LIST=\" a=$A \n  b=$([ \"$CP\" -gt 1 ] && echo $((CP * 2)) || echo 1)   c=3\"\n"
      "run $(echo \"$LIST\" | tr '\\n' ' ' | sed 's/  \\+/ /g')\n",
      "run.sh", {});
  std::vector<std::string> words;
  for (const ShellWord& word : found.commands.back().words) words.push_back(shown(word.text));
  EXPECT_EQ(words, (std::vector<std::string>{"run", "a=${A}", "b=8", "c=3"}));
}

TEST(ShellFilters, ArePartOfWhatACommandPrints) {
  const ShellResult found = read_shell(
      "NAME='Qwen3 8B'\n"
      "SLUG=$(echo \"$NAME\" | tr 'A-Z ' 'a-z-')\n"
      "SIZE=`echo $SLUG | cut -d- -f2 | sed 's/b$//'`\n"
      "OPEN=$(echo $WHO | tr a-z A-Z)\n"
      "run $SLUG $SIZE $OPEN\n",
      "run.sh", {});
  ASSERT_EQ(found.commands.size(), 1U);
  EXPECT_EQ(found.commands[0].words[1].text, "qwen3-8b");
  EXPECT_EQ(found.commands[0].words[2].text, "8");
  // A variable that nothing sets has no known value.
  EXPECT_TRUE(shown(found.commands[0].words[3].text).starts_with("$"));
}

}  // namespace
}  // namespace meshwright::shell_filters_test
