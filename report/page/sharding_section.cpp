// SPDX-License-Identifier: Apache-2.0
#include "report/page/sharding_section.h"

#include <cctype>
#include <map>

#include "core/base/text.h"
#include "report/page/assets.h"
#include "report/page/html.h"

namespace meshwright {

namespace {

// "blk#.mlp.up": what tensors of all blocks have in common.
std::string pattern_of(const std::string& name) {
  std::string pattern;
  for (const char c : name) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit)
      pattern += c;
    else if (pattern.empty() || pattern.back() != '#')
      pattern += '#';
  }
  return pattern;
}

struct Choice {
  const Alternative* chosen = nullptr;
  const Alternative* next = nullptr;  // the best of the others
};

Choice choice_of(const Explanation& one) {
  Choice choice;
  for (const Alternative& way : one.alternatives) {
    if (way.chosen)
      choice.chosen = &way;
    else if (choice.next == nullptr)
      choice.next = &way;
  }
  return choice;
}

std::string more_time(Seconds time) {
  const std::string text = milliseconds_text(time);
  return time.si() > 0.0 && text != "0" ? "+" + text : text;
}

std::string more_bytes(Bytes bytes) {
  const std::string text = fmt::format("{:+.1f}", bytes.si() / (1 << 20));
  return text == "+0.0" || text == "-0.0" ? "0" : text;
}

struct Row {
  const Explanation* first;
  int others = 0;
};

// In the order in which they are explained.
std::vector<Row> rows_of(const std::vector<Explanation>& found) {
  std::vector<Row> rows;
  std::map<std::string, std::size_t> known;
  for (const Explanation& one : found) {
    const Choice choice = choice_of(one);
    if (choice.chosen == nullptr || choice.next == nullptr) continue;
    const std::string key = fmt::format("{} {} {} {} {} {} {}", pattern_of(one.tensor), pattern_of(one.reader),
                                        choice.chosen->strategy, choice.next->strategy, one.alternatives.size(),
                                        milliseconds_text(choice.next->time - choice.chosen->time),
                                        more_bytes(choice.next->bytes - choice.chosen->bytes));
    const auto [same, is_new] = known.try_emplace(key, rows.size());
    if (is_new)
      rows.push_back({&one});
    else
      ++rows[same->second].others;
  }
  return rows;
}

Json ways_json(const Explanation& one) {
  Json ways = Json::array();
  for (const Alternative& way : one.alternatives)
    ways.push_back({way.spec.to_text(), way.strategy, (way.time - one.layer_time).si(),
                    (way.bytes - one.layer_bytes).si(), way.chosen, way.bound < way.time});
  return ways;
}

}  // namespace

std::string spec_in_words(const ShardingSpec& spec, const std::vector<Dim>& dims, const std::vector<int>& mesh_shape) {
  const auto size_of_mask = [&](AxisMask mask) {
    int size = 1;
    for (std::size_t a = 0; a < mesh_shape.size(); ++a)
      if ((mask >> a & 1U) != 0) size *= mesh_shape[a];
    return size;
  };
  std::vector<std::string> parts;
  for (std::size_t d = 0; d < spec.dims.size() && d < dims.size(); ++d)
    if (spec.dims[d] != 0) parts.push_back(fmt::format("{} over {}", dims[d].name, size_of_mask(spec.dims[d])));
  if (spec.partial != 0) parts.push_back(fmt::format("partial sums on {}", size_of_mask(spec.partial)));
  return parts.empty() ? "whole on each" : join(parts, ", ");
}

std::optional<PageSection> sharding_section(Page& page, const std::vector<Explanation>& found, const Plan& plan,
                                            const Graph& graph) {
  constexpr std::size_t kListed = 120;
  const std::vector<Row> rows = rows_of(found);
  if (rows.empty()) return std::nullopt;
  std::map<std::string, const Tensor*> tensors;
  for (const Tensor& tensor : graph.tensors()) tensors.try_emplace(tensor.name, &tensor);
  HtmlTable table("Tensors, their sharding and the next best one", {{"tensor", HtmlTable::Align::Code},
                                                                    {"stage"},
                                                                    {"chosen", HtmlTable::Align::Code},
                                                                    {"in words", HtmlTable::Align::Text},
                                                                    {"next best", HtmlTable::Align::Code},
                                                                    {"time, ms"},
                                                                    {"memory, MiB"},
                                                                    {"other ways"}});
  Json ways = Json::array();
  for (std::size_t i = 0; i < std::min(kListed, rows.size()); ++i) {
    const Explanation& one = *rows[i].first;
    const Choice choice = choice_of(one);
    const auto tensor = tensors.find(one.tensor);
    const std::vector<int>& shape = plan.stages[static_cast<std::size_t>(one.stage)].logical_shape;
    table.add_row({rows[i].others == 0 ? one.tensor : fmt::format("{} and {} alike", one.tensor, rows[i].others),
                   fmt::format("{}", one.stage), choice.chosen->spec.to_text(),
                   tensor == tensors.end() ? "" : spec_in_words(choice.chosen->spec, tensor->second->dims, shape),
                   choice.next->spec.to_text(), more_time(choice.next->time - choice.chosen->time),
                   more_bytes(choice.next->bytes - choice.chosen->bytes),
                   grouped(static_cast<std::int64_t>(one.alternatives.size()) - 1)});
    ways.push_back(ways_json(one));
  }
  page.columns.add("sharding.ways", ways.dump(-1, ' ', false, Json::error_handler_t::replace));
  const std::string left =
      rows.size() > kListed
          ? fmt::format(" {} more are left out.", grouped(static_cast<std::int64_t>(rows.size() - kListed)))
          : "";
  return PageSection{
      "sharding",
      "How the tensors are split",
      fmt::format(
          "S0 splits a dimension over mesh axis 0, R leaves it whole. Time and memory are what the next best way "
          "costs more for its layer and micro-batch, everything else in the layer chosen anew.{}",
          left),
      "<div class=\"tools\" id=\"sharding-tools\" hidden><label>Find <input id=\"sharding-find\" type=\"search\" "
      "placeholder=\"mlp.up, S0R\"></label><output id=\"sharding-count\" aria-live=\"polite\"></output></div>\n"
      "<div id=\"sharding-table\">" +
          table.html() + "</div>\n",
      {kShardingJs}};
}

}  // namespace meshwright
