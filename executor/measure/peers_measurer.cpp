// SPDX-License-Identifier: Apache-2.0
#include "executor/measure/peers_measurer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "core/base/errors.h"
#include "executor/measure/measuring.h"
#include "executor/peers/peer_tags.h"

namespace meshwright {

namespace {

constexpr int kEnd = 0;  // in the place of a number of repetitions
const Seconds kComputing(0.1);

template <class T>
std::vector<std::byte> bytes_of(const T& value) {
  std::vector<std::byte> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}
template <class T>
T value_of(const std::vector<std::byte>& bytes) {
  T value{};
  MW_CHECK(bytes.size() == sizeof(T), "{} bytes where {} are awaited", bytes.size(), sizeof(T));
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

std::uint64_t tag() { return peer_tag(PeerTag::Measure, 0); }

// A thread that computes without an end on numbers in its own cache, and counts.
class Computing {
 public:
  Computing() : thread_([this] { compute(); }) {}
  ~Computing() {
    ends_.store(true);
    thread_.join();
  }
  Computing(const Computing&) = delete;
  Computing& operator=(const Computing&) = delete;
  [[nodiscard]] std::int64_t rounds() const { return rounds_.load(std::memory_order_relaxed); }

 private:
  void compute() {
    constexpr std::size_t kNumbers = 4096;
    std::vector<float> numbers(kNumbers, 1.0f);
    while (!ends_.load(std::memory_order_relaxed)) {
      for (float& number : numbers) number = number * 0.999f + 0.001f;
      rounds_.fetch_add(1, std::memory_order_relaxed);
    }
    last_ = numbers.front();
  }
  std::atomic<bool> ends_{false};
  std::atomic<std::int64_t> rounds_{0};
  std::atomic<float> last_{0.0f};  // so that the numbers are needed
  std::thread thread_;
};

}  // namespace

PeersMeasurer::PeersMeasurer(Peers& peers, const MeasureOptions& options, Seconds longest)
    : peers_(peers),
      options_(options),
      longest_(longest),
      backend_(local_, peers, peers.size()),
      watched_(std::make_unique<PeerWatch>(peers, abort_)),
      device_(backend_.make_device(DeviceId(peers.rank()))) {}

bool PeersMeasurer::is_here(const std::vector<int>& members) const {
  return std::find(members.begin(), members.end(), peers_.rank()) != members.end();
}

PeersMeasurer::GroupId PeersMeasurer::add_group(std::vector<int> members) {
  MW_CHECK(!members.empty() && members.front() == 0, "a group without process 0");
  std::vector<DeviceId> devices;
  for (const int member : members) devices.emplace_back(member);
  std::shared_ptr<Group> group = backend_.make_group(devices, abort_);
  groups_.push_back({std::move(members), std::move(group), std::nullopt});
  return static_cast<GroupId>(groups_.size()) - 1;
}

void PeersMeasurer::tell(const std::vector<int>& members, int repetitions) {
  for (const int member : members)
    if (member != peers_.rank()) peers_.send(member, tag(), bytes_of(repetitions));
}

// The time of one repetition on the slowest. What comes first is not counted: it brings all to the same moment.
template <class Body>
double PeersMeasurer::sample(const std::vector<int>& members, int repetitions, Body body) {
  tell(members, repetitions);
  double slowest = body(repetitions);
  for (const int member : members)
    if (member != peers_.rank()) slowest = std::max(slowest, value_of<double>(peers_.receive(member, tag(), abort_)));
  return slowest;
}

template <class Body>
void PeersMeasurer::follow(Body body) {
  for (;;) {
    const int repetitions = value_of<int>(peers_.receive(0, tag(), abort_));
    if (repetitions == kEnd) return;
    peers_.send(0, tag(), bytes_of(body(repetitions)));
  }
}

template <class Body>
std::optional<MeasuredTime> PeersMeasurer::timed(const std::vector<int>& members, bool skip, Body body,
                                                 bool* too_long) {
  if (!is_here(members)) return std::nullopt;
  if (peers_.rank() != 0) {
    follow(body);
    return std::nullopt;
  }
  std::vector<double> samples;
  if (!skip) {
    for (int i = 0; i < std::max(1, options_.warmup); ++i) samples = {sample(members, 1, body)};
    const bool once = samples.front() > longest_.si();
    if (too_long != nullptr) *too_long = once;
    const auto repetitions =
        static_cast<int>(std::clamp(std::ceil(options_.min_sample.si() / std::max(samples.front(), 1e-9)), 1.0, 1e5));
    if (!once) samples.clear();
    for (int i = 0; !once && i < std::max(1, options_.samples); ++i)
      samples.push_back(sample(members, repetitions, body));
  }
  tell(members, kEnd);
  if (samples.empty()) return std::nullopt;
  return summarize(samples);
}

std::optional<MeasuredTime> PeersMeasurer::collective(GroupId number, CollectiveKind kind, std::int64_t size_bytes) {
  MeasuredGroup& measured = groups_[static_cast<std::size_t>(number)];
  const auto ranks = static_cast<std::int64_t>(measured.members.size());
  const std::int64_t part = std::max<std::int64_t>(size_bytes / static_cast<std::int64_t>(sizeof(float)) / ranks, 1);
  const std::int64_t whole = part * ranks;
  arrays_.resize(whole, options_.step);
  const std::vector<std::int64_t> shape = {part, ranks};
  const auto member = static_cast<int>(std::find(measured.members.begin(), measured.members.end(), peers_.rank()) -
                                       measured.members.begin());
  const auto once = [&] {
    arrays_.next();
    const CollectiveCall call{member, *device_, DType::F32, arrays_.in(), arrays_.out()};
    switch (kind) {
      case CollectiveKind::AllReduce:
        return measured.group->all_reduce(call, whole, kernels::Reduction::Sum);
      case CollectiveKind::ReduceScatter:
        return measured.group->reduce_scatter(call, 1, part, kernels::Reduction::Sum);
      case CollectiveKind::AllGather:
        return measured.group->all_gather(call, 1, part);
      case CollectiveKind::AllToAll:
        return measured.group->all_to_all(call, shape, 0, 1);
    }
  };
  bool too_long = false;
  const std::optional<MeasuredTime> time = timed(
      measured.members, measured.too_long == kind,
      [&](int repetitions) {
        once();
        return seconds_per_run(once, repetitions);
      },
      &too_long);
  if (too_long) measured.too_long = kind;
  return time;
}

namespace {

// Messages to and fro between process 0 and another.
class PingPong {
 public:
  PingPong(PeersBackend& backend, Device& device, ColdArrays& arrays, int other, int channel, std::int64_t size_bytes,
           Bytes step, Abort& abort)
      : device_(device),
        arrays_(arrays),
        first_(backend.runs_here(DeviceId(0))),
        channel_(channel),
        there_(backend.make_messages(DeviceId(0), DeviceId(other), abort)),
        back_(backend.make_messages(DeviceId(other), DeviceId(0), abort)),
        shape_{std::max<std::int64_t>(size_bytes / static_cast<std::int64_t>(sizeof(float)), 1)} {
    arrays_.resize(shape_[0], step);
  }

  void operator()() {
    const BoxView whole{shape_, origin_, shape_};
    arrays_.next();
    if (first_) there_->send(device_, channel_, DType::F32, arrays_.in(), whole);
    (first_ ? back_ : there_)->receive(device_, channel_, DType::F32, arrays_.out(), whole, false);
    if (!first_) back_->send(device_, channel_, DType::F32, arrays_.in(), whole);
  }

 private:
  Device& device_;
  ColdArrays& arrays_;
  const bool first_;
  const int channel_;  // tells these messages from those of other measurements
  const std::unique_ptr<Messages> there_, back_;
  const std::vector<std::int64_t> shape_, origin_ = {0};
};

}  // namespace

std::optional<MeasuredTime> PeersMeasurer::message(int to, std::int64_t size_bytes) {
  const std::vector<int> ends = {0, to};
  const int channel = channels_++;
  if (!is_here(ends)) return std::nullopt;
  PingPong once(backend_, *device_, arrays_, to, channel, size_bytes, options_.step, abort_);
  bool too_long = false;
  const auto both_ways = timed(
      ends, too_long_to_ == to,
      [&](int repetitions) {
        once();
        return seconds_per_run(once, repetitions);
      },
      &too_long);
  if (too_long) too_long_to_ = to;
  if (!both_ways) return std::nullopt;
  return MeasuredTime{both_ways->median / 2, both_ways->spread / 2, both_ways->samples};
}

std::optional<MeasuredTime> PeersMeasurer::message_work(int to, std::int64_t size_bytes, Seconds one) {
  const std::vector<int> ends = {0, to};
  const int channel = channels_++;
  if (!is_here(ends)) return std::nullopt;
  PingPong once(backend_, *device_, arrays_, to, channel, size_bytes, options_.step, abort_);
  const auto body = [&](int rounds) {
    once();  // both begin together
    const Computing computing;
    const auto rate = [&](const std::function<void()>& beside) {
      const std::int64_t before = computing.rounds();
      const Clock::time_point begin = Clock::now();
      beside();
      const double time = seconds_since(begin);
      return std::pair(static_cast<double>(computing.rounds() - before) / time, time);
    };
    const auto alone = rate([] { std::this_thread::sleep_for(std::chrono::duration<double>(kComputing.si())); });
    const auto together = rate([&] {
      for (int i = 0; i < rounds; ++i) once();
    });
    // Of each message an end sends another one comes back.
    return std::max(0.0, (1.0 - together.first / alone.first) * together.second / (2.0 * rounds));
  };
  if (peers_.rank() != 0) {
    follow(body);
    return std::nullopt;
  }
  const auto rounds = static_cast<int>(std::clamp(kComputing.si() / one.si(), 1.0, 1e4));
  std::vector<double> samples;
  for (int i = 0; i < std::max(1, options_.samples); ++i) samples.push_back(sample(ends, rounds, body));
  tell(ends, kEnd);
  return summarize(samples);
}

}  // namespace meshwright
