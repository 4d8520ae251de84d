// SPDX-License-Identifier: Apache-2.0
// A report as one HTML file: sections of static HTML, the data that scripts draw, and the scripts. It needs no network
// and opens from disk. What is words or a table is there without scripts.
//
// Nothing in a page can run or load but its own scripts and styles: their hashes are its content security policy. It
// also makes style attributes and handlers in HTML do nothing, so that sections use classes and SVG attributes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "report/page/columns.h"

namespace meshwright {

struct PageSection {
  std::string id;     // of its heading: "timeline"
  std::string title;  // "Timeline"
  std::string lead;   // its first sentences, as text: what the section tells
  std::string html;
  // Scripts that the section needs beyond the frame (report/page/assets.h); each is put in once.
  std::vector<std::string_view> scripts = {};
};

// A number that is read first.
struct PageTile {
  std::string name, value, note;
};

struct Page {
  std::string verb;
  std::string answer = {};  // one sentence, the heading
  std::string lead = {};    // and what it rests on
  std::vector<PageTile> tiles = {};
  std::vector<PageSection> sections = {};  // those without anything to say are left out by whoever makes them
  Json document = {};                      // what --json prints
  Json members = Json::object();           // more of the data, beside "document"
  Columns columns = {};
  std::string styles = {};  // rules beyond assets/page.css, for charts (report/page/chart_html.h)
};

// The file. The same page gives the same bytes.
[[nodiscard]] std::string to_html(const Page& page);

}  // namespace meshwright
