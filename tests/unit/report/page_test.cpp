// SPDX-License-Identifier: Apache-2.0
#include "report/page/page.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/base64.h"
#include "core/base/gzip.h"
#include "core/base/sha256.h"
#include "report/page/html.h"

namespace meshwright::page_test {
namespace {

constexpr const char* kEvil = "</script><script>alert('1')</script><img src=x onerror=\"a&b\">";

TEST(Html, LeavesNothingOfAMarkup) {
  EXPECT_EQ(escaped("a & b < c > d \" e ' f"), "a &amp; b &lt; c &gt; d &quot; e &#39; f");
  const std::string json = script_json(Json{{"name", kEvil}, {"line", "\xe2\x80\xa8"}});
  EXPECT_EQ(json.find('<'), std::string::npos);
  EXPECT_NE(json.find("\\u2028"), std::string::npos);
  EXPECT_EQ(Json::parse(json).at("name"), kEvil);
  EXPECT_EQ(Json::parse(json).at("line"), "\xe2\x80\xa8");
}

TEST(Html, SaysNumbersAsPeopleReadThem) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(420880), "420,880");
  EXPECT_EQ(grouped(-1000), "-1,000");
  EXPECT_EQ(time_text(Seconds(19.9311)), "19.931 s");
  EXPECT_EQ(time_text(Seconds(0.0125)), "12.500 ms");
  EXPECT_EQ(time_text(Seconds(0.0)), "0");
  EXPECT_EQ(milliseconds_text(Seconds(-0.0000001)), "0");
  EXPECT_EQ(milliseconds_text(Seconds(-1234.5)), "-1,234,500.000");
  EXPECT_EQ(gibibytes_text(gibibytes(73.6)), "73.60");
  EXPECT_EQ(ranges_text({0, 1, 2, 5}), "0-2, 5");
  EXPECT_EQ(ranges_json({0, 1, 2, 5}), (Json::array({{0, 2}, {5, 5}})));
  EXPECT_EQ(counted(1, "stage") + ", " + counted(2, "micro-batch"), "1 stage, 2 micro-batches");
}

TEST(Html, TablesNeedACellForEachColumn) {
  HtmlTable table("ops", {{"op", HtmlTable::Align::Code}, {"time"}});
  table.add_row({"<b>", "1"});
  EXPECT_NE(table.html().find("<th scope=\"row\" class=\"c\">&lt;b&gt;</th><td class=\"n\">1</td>"), std::string::npos);
  EXPECT_THROW(table.add_row({"one"}), InternalError);
}

TEST(Columns, BeginAtMultiplesOfTheirSize) {
  Columns columns;
  columns.add("kind", std::vector<std::uint8_t>{1, 2, 3});
  columns.add("number", std::vector<std::int32_t>{-1, 256});
  columns.add("time", std::vector<double>{1.0});
  EXPECT_EQ(columns.index().at("kind").at("offset"), 0);
  EXPECT_EQ(columns.index().at("number").at("offset"), 4);
  EXPECT_EQ(columns.index().at("time").at("offset"), 16);
  EXPECT_EQ(columns.index().at("time").at("shuffle"), 8);
  const std::string bytes =
      std::string("\1\2\3\0\xff\xff\xff\xff\0\1\0\0\0\0\0\0", 16) + std::string("\0\0\0\0\0\0\xf0\x3f", 8);  // 1.0
  EXPECT_EQ(columns.packed(), to_base64(deflated(bytes)));
}

Page evil_page() {
  Page page{.verb = "plan"};
  page.answer = kEvil;
  page.lead = kEvil;
  page.tiles = {{kEvil, kEvil, kEvil}};
  HtmlTable table(kEvil, {{kEvil}});
  table.add_row({kEvil});
  page.sections = {{kEvil, kEvil, kEvil, table.html() + details_html(kEvil, "")}};
  page.document = {{"model", kEvil}};
  return page;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(PageText, RunsItsOwnScriptAlone) {
  const std::string html = to_html(evil_page());
  EXPECT_EQ(html.find("<img"), std::string::npos);
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  EXPECT_EQ(count(html, "</script>"), 3U);  // two of data, one that runs
  const std::size_t begin = html.find("<script>") + 8, end = html.find("</script>", begin);
  const std::string hash = to_base64(sha256(html.substr(begin, end - begin)));
  EXPECT_NE(html.find("script-src 'sha256-" + hash + "'"), std::string::npos);
  const std::size_t style = html.find("<style>") + 7;
  EXPECT_NE(
      html.find("style-src 'sha256-" + to_base64(sha256(html.substr(style, html.find("</style>") - style))) + "'"),
      std::string::npos);
  EXPECT_EQ(html.find(" style="), std::string::npos);
}

TEST(PageText, HoldsTheDocument) {
  const std::string html = to_html(evil_page());
  const std::string mark = "id=\"meshwright-data\">";
  const std::size_t begin = html.find(mark) + mark.size();
  const Json data = Json::parse(html.substr(begin, html.find("</script>", begin) - begin));
  EXPECT_EQ(data.at("format"), "meshwright-report");
  EXPECT_EQ(data.at("document").at("model"), kEvil);
}

// Such as that of hundreds of unlike devices: 300 kB of text are a column, which deflates to nearly nothing.
TEST(PageText, DeflatesALargeDocument) {
  Page page = evil_page();
  const std::size_t small = to_html(page).size();
  page.document["more"] = std::string(300'000, 'a');
  const std::string html = to_html(page);
  EXPECT_LT(html.size(), small + 2'000);
  EXPECT_NE(html.find("\"document\":null"), std::string::npos);
  EXPECT_NE(html.find("\"document\":{\"type\":\"text\""), std::string::npos) << html.substr(0, 400);
}
TEST(PageText, IsTheSameEachTime) { EXPECT_EQ(to_html(evil_page()), to_html(evil_page())); }

}  // namespace
}  // namespace meshwright::page_test
