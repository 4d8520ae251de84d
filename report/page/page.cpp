// SPDX-License-Identifier: Apache-2.0
#include "report/page/page.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "core/base/base64.h"
#include "core/base/sha256.h"
#include "report/charts/palette.h"
#include "report/page/assets.h"
#include "report/page/html.h"

namespace meshwright {

namespace {

struct NamedHue {
  Hue hue;
  const char* name;
};
constexpr std::array<NamedHue, kHues> kNames = {{{Hue::Forward, "forward"},
                                                 {Hue::Backward, "backward"},
                                                 {Hue::WeightGradient, "weight-gradient"},
                                                 {Hue::Update, "update"},
                                                 {Hue::Message, "message"},
                                                 {Hue::Collective, "collective"},
                                                 {Hue::Recompute, "recompute"},
                                                 {Hue::Idle, "idle"}}};

// The hues as custom properties: "--forward:#1c5089;".
std::string properties(std::string_view Shade::*form) {
  std::string text;
  for (const NamedHue& named : kNames) text += fmt::format("--{}:{};", named.name, shade_of(named.hue).*form);
  return text;
}

// A chosen theme goes before that of the system.
std::string style(const std::string& more) {
  const std::string light = properties(&Shade::light), dark = properties(&Shade::dark);
  return fmt::format(
             ":root{{{0}}}\n@media (prefers-color-scheme:dark){{:root{{{1}}}}}\n:root[data-theme=light]{{{0}}}\n"
             ":root[data-theme=dark]{{{1}}}\n",
             light, dark) +
         std::string(kPageCss) + more;
}

std::string script_of(const Page& page) {
  std::vector<std::string_view> parts = {kFrameJs};
  for (const PageSection& section : page.sections)
    for (const std::string_view script : section.scripts)
      if (std::find(parts.begin(), parts.end(), script) == parts.end()) parts.push_back(script);
  std::string text;
  for (const std::string_view part : parts) text += part;
  return text;
}

std::string hash_of(const std::string& text) { return "'sha256-" + to_base64(sha256(text)) + "'"; }

std::string head(const Page& page, const std::string& style_text, const std::string& script) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {}; style-src {}; img-src "
      "data: blob:; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" content=\"meshwright\">\n"
      "<title>{} - Meshwright</title>\n<style>{}</style></head>\n",
      hash_of(script), hash_of(style_text), escaped(page.answer), style_text);
}

// "what-if" is "What if" in the bar, which has no room for titles.
std::string short_name(std::string id) {
  std::replace(id.begin(), id.end(), '-', ' ');
  if (!id.empty()) id.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(id.front())));
  return id;
}

std::string bar(const Page& page) {
  std::string links;
  for (const PageSection& section : page.sections)
    links += fmt::format("<a href=\"#{}\">{}</a>", escaped(section.id), escaped(short_name(section.id)));
  return fmt::format(
      "<a class=\"skip\" href=\"#answer\">Skip to the answer</a>\n<header><b>meshwright</b> <span>{}</span><nav "
      "aria-label=\"Sections\">{}</nav><button id=\"theme\" type=\"button\" hidden>Auto</button></header>\n",
      escaped(page.verb), links);
}

std::string tiles(const Page& page) {
  if (page.tiles.empty()) return "";
  std::string text = "<dl class=\"tiles\">\n";
  for (const PageTile& tile : page.tiles)
    text += fmt::format("<div><dt>{}</dt><dd><b>{}</b><span>{}</span></dd></div>\n", escaped(tile.name),
                        escaped(tile.value), escaped(tile.note));
  return text + "</dl>\n";
}

std::string body(const Page& page) {
  std::string text = fmt::format("<main>\n<h1 id=\"answer\">{}</h1>\n<p class=\"lead\">{}</p>\n{}",
                                 escaped(page.answer), escaped(page.lead), tiles(page));
  text +=
      "<p id=\"old-browser\" class=\"note\" hidden>This browser cannot unpack the drawings' data; the words and "
      "tables are complete.</p>\n";
  for (const PageSection& section : page.sections)
    text += fmt::format("<section aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n<p>{2}</p>\n{3}</section>\n",
                        escaped(section.id), escaped(section.title), escaped(section.lead), section.html);
  return text + "</main>\n";
}

// A document that would be much of the page, as those of many unlike devices, is a deflated column.
constexpr std::size_t kPlainDocument = 200'000;

Columns columns_of(const Page& page) {
  Columns columns = page.columns;
  const std::string document = page.document.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (document.size() > kPlainDocument) columns.add("document", document);
  return columns;
}

Json data_of(const Page& page, const Columns& columns) {
  const bool apart = columns.index().contains("document");
  Json data = {{"format", "meshwright-report"},
               {"version", 1},
               {"verb", page.verb},
               {"document", apart ? Json(nullptr) : page.document}};
  for (const auto& [key, value] : page.members.items()) data[key] = value;
  data["columns"] = columns.index();
  return data;
}

}  // namespace

std::string to_html(const Page& page) {
  const std::string style_text = style(page.styles), script = script_of(page);
  const Columns columns = columns_of(page);
  return head(page, style_text, script) + "<body>\n" + bar(page) + body(page) +
         fmt::format("<script type=\"application/json\" id=\"meshwright-data\">{}</script>\n",
                     script_json(data_of(page, columns))) +
         fmt::format("<script type=\"text/plain\" id=\"meshwright-columns\">{}</script>\n", columns.packed()) +
         fmt::format("<script>{}</script>\n</body></html>\n", script);
}

}  // namespace meshwright
