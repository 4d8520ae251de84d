// SPDX-License-Identifier: Apache-2.0
#include "core/plan/program/timeline.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "core/base/errors.h"
#include "core/base/json.h"

namespace meshwright {

const char* name_of(Span::Kind kind) {
  switch (kind) {
    case Span::Kind::Forward:
      return "forward";
    case Span::Kind::Backward:
      return "backward";
    case Span::Kind::BackwardInput:
      return "backward-input";
    case Span::Kind::BackwardWeight:
      return "backward-weight";
    case Span::Kind::Update:
      return "update";
    case Span::Kind::Send:
      return "send";
    case Span::Kind::Collective:
      return "collective";
    case Span::Kind::Dispatch:
      return "dispatch";
    case Span::Kind::Wait:
      return "wait";
  }
  throw InternalError("a kind of span without a name");
}

bool is_compute(Span::Kind kind) { return kind <= Span::Kind::Update; }

namespace {

// A type and not a function: std::sort calls it inline, which halves the time of a simulation's last step.
struct Before {
  bool operator()(const Span& a, const Span& b) const {
    if (a.begin != b.begin) return a.begin < b.begin;
    if (a.device != b.device) return a.device < b.device;
    if (a.end != b.end) return a.end < b.end;
    return std::tie(a.kind, a.stage, a.microbatch, a.part_of) < std::tie(b.kind, b.stage, b.microbatch, b.part_of);
  }
};

}  // namespace

Timeline make_timeline(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(), Before());
  SimTime end{0};
  for (const Span& span : spans) end = std::max(end, span.end);
  return {std::move(spans), end};
}

namespace {

std::int64_t count_of(const std::vector<int>& counts, DeviceId device) {
  return counts.empty() ? 1 : counts[device.index()];
}

}  // namespace

void for_each_work(const Timeline& timeline, const std::function<void(const WorkTime&)>& visit) {
  std::vector<SimTime> until;  // [device] counted so far
  for (const Span& span : timeline.spans) {
    if (!is_compute(span.kind) && span.kind != Span::Kind::Collective) continue;
    MW_CHECK(is_compute(span.kind) || span.part_of, "a collective of device {} is part of no computation",
             span.device.value);
    if (until.size() <= span.device.index()) until.resize(span.device.index() + 1);
    SimTime& counted = until[span.device.index()];
    const SimTime begin = std::max(counted, span.begin);
    counted = std::max(counted, span.end);
    visit({span.part_of.value_or(span.kind), span.device, span.stage, std::min(begin, counted), counted});
  }
}

TimelineSummary summarize(const Timeline& timeline, int devices, const std::vector<int>& counts) {
  std::vector<SimTime> compute(static_cast<std::size_t>(devices));
  SimTime all{0};
  for_each_work(timeline, [&](const WorkTime& work) {
    MW_CHECK(work.device.value < devices, "a span of device {} in a timeline of {}", work.device.value, devices);
    compute[work.device.index()] += work.end - work.begin;
    all.ps += count_of(counts, work.device) * (work.end - work.begin).ps;
  });
  TimelineSummary summary;
  summary.step = to_seconds(timeline.end);
  for (const SimTime time : compute) summary.compute.push_back(to_seconds(time));
  if (timeline.end.ps > 0)
    summary.waiting =
        1.0 - static_cast<double>(all.ps) / (static_cast<double>(devices) * static_cast<double>(timeline.end.ps));
  return summary;
}

StageWaits stage_waits(const Timeline& timeline, const std::vector<int>& counts) {
  struct Device {
    SimTime begin, end, compute;
  };
  struct Rank {
    std::map<DeviceId, Device> devices;
  };
  std::map<StageId, Rank> ranks;  // by the stage that its devices run first
  std::map<DeviceId, StageId> first_stage;
  for_each_work(timeline, [&](const WorkTime& work) {
    if (work.kind == Span::Kind::Update) return;
    const StageId first = first_stage.try_emplace(work.device, work.stage).first->second;
    const auto [it, is_new] = ranks[first].devices.try_emplace(work.device, Device{work.begin, work.end, {0}});
    Device& device = it->second;
    device.begin = std::min(device.begin, work.begin);
    device.end = std::max(device.end, work.end);
    device.compute += work.end - work.begin;
  });
  StageWaits shares;
  double all_computing = 0.0, all_available = 0.0;
  for (const auto& [id, rank] : ranks) {
    SimTime begin = rank.devices.begin()->second.begin;
    SimTime end = rank.devices.begin()->second.end;
    std::int64_t compute = 0, devices = 0;
    for (const auto& [device_id, device] : rank.devices) {
      begin = std::min(begin, device.begin);
      end = std::max(end, device.end);
      compute += count_of(counts, device_id) * device.compute.ps;
      devices += count_of(counts, device_id);
    }
    const double available = static_cast<double>(devices) * static_cast<double>((end - begin).ps);
    if (available > 0.0) shares.longest = std::max(shares.longest, 1.0 - static_cast<double>(compute) / available);
    all_computing += static_cast<double>(compute);
    all_available += available;
  }
  if (all_available > 0.0) shares.mean = 1.0 - all_computing / all_available;
  return shares;
}

std::string in_microseconds(SimTime time) { return fmt::format("{}.{:06}", time.ps / 1000000, time.ps % 1000000); }

namespace {

bool runs_beside(Span::Kind kind) {
  return kind == Span::Kind::Send || kind == Span::Kind::Collective || kind == Span::Kind::Dispatch;
}

std::string label(const Span& span) {
  if (span.kind == Span::Kind::Update) return name_of(span.kind);
  return fmt::format("{} {}", name_of(span.kind), span.microbatch.value);
}

}  // namespace

// Runs and waits of a device follow each other: complete events on its one track. Messages, collectives on a stream of
// their own and dispatches overlap runs and each other, which complete events of one track may not: they are
// asynchronous events of the device.
std::string to_chrome_trace(const Timeline& timeline, const std::string& title) {
  std::map<DeviceId, std::set<int>> devices;  // their stages
  for (const Span& span : timeline.spans) devices[span.device].insert(span.stage.value);

  std::string events;
  const auto out = std::back_inserter(events);
  const auto separate = [&] { events += events.empty() ? "\n" : ",\n"; };
  for (const auto& [device, stages] : devices) {
    for (const char* what : {"process_name", "thread_name"}) {
      separate();
      fmt::format_to(out,
                     R"json({{"ph":"M","pid":{0},"tid":0,"name":"{1}","args":{{"name":"device {0} ({2} {3})"}}}})json",
                     device.value, what, stages.size() == 1 ? "stage" : "stages", fmt::join(stages, ", "));
    }
  }
  int beside = 0;
  for (const Span& span : timeline.spans) {
    separate();
    const std::string args =
        fmt::format(R"("args":{{"stage":{},"microbatch":{}}})", span.stage.value, span.microbatch.value);
    if (!runs_beside(span.kind)) {
      fmt::format_to(out, R"({{"ph":"X","pid":{},"tid":0,"cat":"{}","name":"{}","ts":{},"dur":{},{}}})",
                     span.device.value, name_of(span.kind), label(span), in_microseconds(span.begin),
                     in_microseconds(span.end - span.begin), args);
      continue;
    }
    const std::string same = fmt::format(R"("pid":{},"tid":0,"cat":"{}","id":{},"name":"{}")", span.device.value,
                                         name_of(span.kind), beside++, label(span));
    fmt::format_to(out, R"({{"ph":"b",{},"ts":{},{}}})", same, in_microseconds(span.begin), args);
    separate();
    fmt::format_to(out, R"({{"ph":"e",{},"ts":{}}})", same, in_microseconds(span.end));
  }
  return fmt::format("{{\"otherData\":{{\"title\":{}}},\"displayTimeUnit\":\"ms\",\"traceEvents\":[{}\n]}}\n",
                     json_text(title), events);
}

}  // namespace meshwright
