// SPDX-License-Identifier: Apache-2.0
#include "report/charts/svg.h"

#include <gtest/gtest.h>

#include "report/charts/memory_svg.h"
#include "report/charts/timeline_svg.h"

namespace meshwright::svg_test {
namespace {

TimelineTracks drawn_tracks(const Timeline& timeline, int devices, const FoldedDevices* folded,
                            ShownMessages messages) {
  return timeline_tracks(tracks_of(timeline, row_devices(timeline, devices, folded), messages));
}

std::size_t count(const std::string& text, std::string_view what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(XmlText, LeavesNothingThatXmlReads) {
  EXPECT_EQ(xml_text("</style><script>\"'&"), "&lt;/style&gt;&lt;script&gt;&quot;&#39;&amp;");
}

TEST(XmlText, ReplacesWhatXmlCannotHold) {
  EXPECT_EQ(xml_text(std::string("a\0b\x1b", 4)), "a\uFFFDb\uFFFD");
  EXPECT_EQ(xml_text("\xff\xc3"), "\uFFFD\uFFFD");
  EXPECT_EQ(xml_text("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // half of a surrogate pair
  EXPECT_EQ(xml_text("Größe 模型 🧠\n"), "Größe 模型 🧠\n");
}

TEST(SvgNumber, IsShortAndNeverMinusZero) {
  EXPECT_EQ(svg_number(12.0), "12");
  EXPECT_EQ(svg_number(12.345), "12.35");
  EXPECT_EQ(svg_number(-0.001), "0");
}

TEST(RoundTicks, AreOneTwoOrFiveApart) {
  EXPECT_EQ(round_ticks(0.0, 35.9, 8), (std::vector<double>{0, 5, 10, 15, 20, 25, 30, 35}));
  EXPECT_EQ(round_ticks(-1.0, 1.0, 4), (std::vector<double>{-1, -0.5, 0, 0.5, 1}));
  EXPECT_EQ(round_ticks(7.0, 7.0, 4), std::vector<double>{7});
}

TEST(Svg, SaysWhatItIsAndFollowsTheScheme) {
  Svg svg(100, 50, "A <title>", "What it shows");
  svg.box({1, 2, 3, 4}, class_of(Hue::Forward), "a \"tip\"");
  const std::string file = svg.file();
  EXPECT_NE(file.find("role=\"img\""), std::string::npos);
  EXPECT_NE(file.find("<title>A &lt;title&gt;</title>\n<desc>What it shows</desc>"), std::string::npos);
  EXPECT_NE(file.find("@media (prefers-color-scheme:dark)"), std::string::npos);
  EXPECT_NE(
      file.find(
          "<rect x=\"1\" y=\"2\" width=\"3\" height=\"4\" class=\"c-forward\"><title>a &quot;tip&quot;</title></rect>"),
      std::string::npos);
  // A page has the styles; its security policy forbids others.
  EXPECT_EQ(svg.markup().find("style"), std::string::npos);
}

// 2 devices that differ, of `passes` passes each.
TimelineTracks tracks_with(int passes) {
  std::vector<Span> spans;
  for (int device = 0; device < 2; ++device)
    for (int i = 0; i < passes; ++i)
      spans.push_back({i % 2 == 0 ? Span::Kind::Forward : Span::Kind::Backward,
                       DeviceId(device),
                       StageId(device),
                       MicrobatchId(i),
                       {1000000LL * i},
                       {1000000LL * i + 500000}});
  return drawn_tracks(make_timeline(spans), 2, nullptr, ShownMessages::All);
}

TEST(TimelineSvg, HasABlockForEveryPassWhileTheyAreFew) {
  const Svg svg = timeline_svg(tracks_with(10), "ten passes");
  EXPECT_EQ(count(svg.markup(), "class=\"c-forward\"><title>forward"), 10u);
  EXPECT_NE(svg.markup().find("<title>backward 3 of stage 1: 0.500 us"), std::string::npos) << svg.markup();
}

TEST(TimelineSvg, HasAtMostFiveThousandMarksHoweverLongTheStep) {
  for (const int passes : {1000, 1300, 100000}) EXPECT_LE(timeline_svg(tracks_with(passes), "").marks(), kMarkLimit);
}

// Forward and backward have a quarter of the time each, also where no pass is a pixel wide.
TEST(TimelineSvg, ShowsTheSharesOfPassesThatAreNarrowerThanAPixel) {
  const std::string markup = timeline_svg(tracks_with(100000), "").markup();
  EXPECT_EQ(count(markup, "<title>forward: 25.0 % of the time</title>"), 2u);
  EXPECT_EQ(count(markup, "<title>backward: 25.0 % of the time</title>"), 2u);
}

TEST(MemorySvg, NamesTheFullestDevicesAndTheirPeak) {
  const auto track = [](int device, double standing, std::int64_t peak) {
    return MemoryTrack{{DeviceId(device)},
                       StageId(device),
                       gibibytes(standing),
                       gibibytes(8),
                       {{SimTime{0}, 0}, {SimTime{500000}, peak}, {SimTime{900000}, 0}}};
  };
  const Svg svg = memory_svg({track(0, 1, 1 << 30), track(1, 3, 1 << 29)}, SimTime{1000000}, "two stages");
  EXPECT_NE(svg.markup().find("The fullest is stage 1, device 1 with 3.50 GiB of 8.00 GiB usable."), std::string::npos);
  EXPECT_NE(svg.markup().find("peak 2.00 GiB at 0.500 us"), std::string::npos);
}

}  // namespace
}  // namespace meshwright::svg_test
