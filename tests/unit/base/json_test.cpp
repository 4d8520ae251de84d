// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.h"

#include <gtest/gtest.h>

#include "core/base/gzip.h"
#include "core/base/text.h"
#include "tests/refusal.h"

namespace meshwright::json_test {
namespace {

std::string nested(std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); }

std::string refused(const std::string& text) {
  return refusal([&] { return parse_json(text, "f.json"); });
}

TEST(ParseJson, KeepsTheOrderOfMembersAndEveryKindOfValue) {
  const std::string text = R"({"b":[1,-2,3.5,true,null],"a":{"z":"x","y":[]},"c":18446744073709551615})";
  EXPECT_EQ(json_text(parse_json(text, "f.json")), text);
}

TEST(ParseJson, RefusesNestingBeyondItsLimit) {
  EXPECT_NO_THROW((void)parse_json(nested(kMaxJsonDepth), "f.json"));
  EXPECT_EQ(refused(nested(kMaxJsonDepth + 1)),
            "f.json: the JSON is nested deeper than 128 levels; no format of this program is.");
  EXPECT_NE(refused(std::string(1'000'000, '[')).find("nested deeper"), std::string::npos);
}

TEST(ParseJson, RefusesAMemberThatIsGivenTwice) {
  EXPECT_EQ(refused(R"({"a":{"b":1,"c":2,"b":3}})"),
            "f.json: the member 'b' is given twice in one object; give it once.");
  EXPECT_EQ(refused(R"({"a":{"b":1},"b":{"b":3}})"), "not refused");  // in two objects
}

TEST(ParseJson, SaysWhereATextIsWrong) {
  EXPECT_EQ(refused("{\n  1}"), "f.json:2:4: not valid JSON; check that the file is complete.");
  EXPECT_EQ(refused("[1,"), "f.json:1:3: not valid JSON (it ends too early); check that the file is complete.");
  EXPECT_EQ(refused("[1e999]"), "f.json: a number is larger than a double can hold; give a smaller one.");
}

TEST(JsonText, WritesBytesThatAreNoCharactersAsTheirNumbers) {
  Json json = {{"file", "a\xff\xfe.json"}};
  EXPECT_EQ(json_text(json), R"({"file":"a\\xff\\xfe.json"})");
  EXPECT_EQ(json_text(Json{{"file", "\u00fc"}}), "{\"file\":\"\u00fc\"}");
}

TEST(Brief, NeverQuotesAWholeValue) {
  EXPECT_EQ(brief(Json(1.5)), "1.5");
  EXPECT_EQ(brief(Json("ab")), "\"ab\"");
  EXPECT_EQ(brief(Json(std::string(1000, 'a'))).size(), 45u);  // 40, "..." and the quotes
  EXPECT_EQ(brief(Json::parse("[[1],[2],3]")), "a list of 3");
  EXPECT_EQ(brief(Json::parse(R"({"a":1,"b":2})")), "an object with the member 'a'");
  EXPECT_EQ(brief(Json::object()), "an empty object");
}

TEST(Printable, EscapesWhatSteersATerminalOrEndsALine) {
  EXPECT_EQ(printable("a\x1b[31m\n\t\x7f"), "a\\x1b[31m\\x0a\\x09\\x7f");
  EXPECT_EQ(printable("\u009b\u202e\u2028"), "\\u{9b}\\u{202e}\\u{2028}");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xed\xa0\x80\xc0\xaf"), "\\xed\\xa0\\x80\\xc0\\xaf");  // a surrogate, an overlong '/'
  EXPECT_EQ(printable("gr\u00f6\u00dfe \u2713 \U0001f600"), "gr\u00f6\u00dfe \u2713 \U0001f600");
  EXPECT_EQ(printable_lines("a\nb\x1b"), "a\nb\\x1b");
}

TEST(Shortened, CutsNoCharacterInTwo) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abcd", 3), "abc...");
  EXPECT_EQ(shortened("ab\u00fcd", 3), "ab...");
}

TEST(Unpacked, EndsAtTheLimit) {
  const std::string bytes(1000, 'a');
  EXPECT_EQ(read_all(unpacked(bytes, "f", 1000)), bytes);
  EXPECT_NE(refusal([&] { return read_all(unpacked(bytes, "f", 999)); }).find("more than 999 B"), std::string::npos);
}

}  // namespace
}  // namespace meshwright::json_test
