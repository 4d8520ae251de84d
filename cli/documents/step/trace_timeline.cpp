// SPDX-License-Identifier: Apache-2.0
#include "cli/documents/step/trace_timeline.h"

#include <cmath>
#include <map>
#include <tuple>

#include "core/base/errors.h"
#include "simulator/engine/task_graph.h"

namespace meshwright {

namespace {

constexpr double kPicosecondsPerMicrosecond = 1e6;
constexpr double kMaxMicroseconds = 4e12;    // so that a begin and a duration fit into 64 bits of picoseconds
constexpr int kMaxTraceDevices = 1'000'000;  // more are a wrong number

std::optional<Span::Kind> kind_named(const std::string& name) {
  for (int k = 0; k <= static_cast<int>(Span::Kind::Dispatch); ++k)
    if (name == name_of(static_cast<Span::Kind>(k))) return static_cast<Span::Kind>(k);
  if (name == name_of(TaskKind::Message)) return Span::Kind::Send;
  if (name == name_of(TaskKind::HostCopy)) return Span::Kind::Collective;
  return std::nullopt;
}

SimTime time_in(const Json& event, const char* key, const std::string& place) {
  const double microseconds = get<double>(event, key, place);
  require(microseconds >= 0.0 && microseconds <= kMaxMicroseconds,
          "{}: '{}' is {}; microseconds from 0 to {:.0f} were expected.", place, key, microseconds, kMaxMicroseconds);
  return {std::llround(microseconds * kPicosecondsPerMicrosecond)};
}

int device_in(const Json& event, const std::string& place) {
  const int device = get<int>(event, "pid", place);
  require(device >= 0 && device < kMaxTraceDevices, "{}: 'pid' is {}; the number of a device was expected.", place,
          device);
  return device;
}

}  // namespace

TraceTimeline timeline_of_trace(const Json& json, const std::string& place) {
  const Json& events = member(json, "traceEvents", place);
  require(events.is_array(), "{}: 'traceEvents' must be a list.", place);
  TraceTimeline found;
  std::vector<Span> spans;
  // Spans that may overlap others of their device have a begin and an end, which share kind and number.
  std::map<std::tuple<int, std::string, int>, std::size_t> open;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Json& event = events[i];
    const std::string where = fmt::format("{}: traceEvents[{}]", place, i);
    const auto phase = get<std::string>(event, "ph", where);
    if (phase != "X" && phase != "b" && phase != "e") continue;
    const auto name = get<std::string>(event, "cat", where);
    const std::optional<Span::Kind> kind = kind_named(name);
    if (!kind) continue;
    const int device = device_in(event, where);
    const SimTime time = time_in(event, "ts", where);
    found.devices = std::max(found.devices, device + 1);
    if (phase == "e") {
      const auto begun = open.find({device, name, get<int>(event, "id", where)});
      require(begun != open.end(), "{}: ends what never began; was the file cut short?", where);
      spans[begun->second].end = time;
      open.erase(begun);
      continue;
    }
    const Json& args = member(event, "args", where);
    const int stage = get<int>(args, "stage", where);
    require(stage >= 0, "{}: stage {} is the number of none.", where, stage);
    spans.push_back({*kind, DeviceId(device), StageId(stage), MicrobatchId(get<int>(args, "microbatch", where)), time,
                     phase == "X" ? time + time_in(event, "dur", where) : time});
    if (phase == "b") open[{device, name, get<int>(event, "id", where)}] = spans.size() - 1;
  }
  require(open.empty(), "{}: {} of its events never end; was the file cut short?", place, open.size());
  found.timeline = make_timeline(std::move(spans));
  if (json.contains("otherData") && json["otherData"].is_object() && json["otherData"].contains("title"))
    found.title = get<std::string>(json["otherData"], "title", fmt::format("{}: otherData", place));
  return found;
}

}  // namespace meshwright
