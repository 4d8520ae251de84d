// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/simgrid_pipeline.h"

#include <xbt/log.h>
#include <simgrid/s4u.hpp>

#include <ctime>
#include <map>

#include "core/base/errors.h"

namespace meshwright::peers {

namespace {

namespace s4u = simgrid::s4u;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

class Simulation {
 public:
  Simulation(const Schedule& schedule, const PipelineStep& step, bool shared_nics, double message, double ring_step,
             double rate, double latency, Passes passes)
      : schedule_(schedule),
        times_(step.times),
        shared_nics_(shared_nics),
        message_(message),
        ring_step_(ring_step),
        rate_(rate),
        latency_(latency),
        passes_(passes),
        ranks_(static_cast<int>(schedule.size())) {}

  void build() {
    zone_ = s4u::create_full_zone("cluster");
    for (int device = 0; device < devices(); ++device)
      hosts_.push_back(zone_->create_host("device-" + std::to_string(device), kFlops)->seal());
    if (shared_nics_)
      for (int device = 0; device < devices(); ++device) {
        out_.push_back(link("out-" + std::to_string(device), latency_));
        in_.push_back(link("in-" + std::to_string(device), 0.0));
      }
    for (int replica = 0; replica < times_.replicas; ++replica)
      for (int rank = 0; rank < ranks_; ++rank) {
        if (rank + 1 < ranks_) connect(device(replica, rank), device(replica, rank + 1));
        if (rank > 0) connect(device(replica, rank), device(replica, rank - 1));
        if (times_.replicas > 1) connect(device(replica, rank), device(replica + 1, rank));
      }
    zone_->seal();
    for (int replica = 0; replica < times_.replicas; ++replica)
      for (int rank = 0; rank < ranks_; ++rank) {
        const int number = device(replica, rank);
        const auto actor = s4u::Actor::create("actor-" + std::to_string(number), hosts_[index(number)],
                                              [this, replica, rank] { run(replica, rank); });
        // A message to a mailbox with a receiver starts as soon as it is sent.
        for (auto& [route, mailbox] : mailboxes_)
          if (route.second == number) mailbox->set_receiver(actor);
      }
  }

 private:
  // Any: durations of work are given in seconds.
  static constexpr double kFlops = 1e12;

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] int devices() const { return ranks_ * times_.replicas; }
  [[nodiscard]] int device(int replica, int rank) const {
    return (replica + times_.replicas) % times_.replicas * ranks_ + rank;
  }

  s4u::Link* link(const std::string& name, double latency) {
    s4u::Link* made = zone_->create_link(name, rate_);
    made->set_latency(latency)->seal();
    return made;
  }

  void connect(int from, int to) {
    const std::string name = std::to_string(from) + "-" + std::to_string(to);
    if (!mailboxes_.emplace(std::pair(from, to), s4u::Mailbox::by_name(name)).second) return;
    std::vector<s4u::LinkInRoute> links;
    if (shared_nics_) {
      links = {s4u::LinkInRoute(out_[index(from)]), s4u::LinkInRoute(in_[index(to)])};
    } else {
      links = {s4u::LinkInRoute(link("link-" + name, latency_))};
    }
    zone_->add_route(hosts_[index(from)]->get_netpoint(), hosts_[index(to)]->get_netpoint(), nullptr, nullptr, links,
                     false);
  }

  [[nodiscard]] s4u::Mailbox* mailbox(int from, int to) const { return mailboxes_.at({from, to}); }

  void work(SimTime time) const {
    const double seconds = to_seconds(time).si();
    if (passes_ == Passes::OnTimers) {
      s4u::this_actor::sleep_for(seconds);
    } else {
      s4u::this_actor::execute(seconds * kFlops);
    }
  }

  void run(int replica, int rank) {
    const int own = device(replica, rank);
    s4u::Mailbox *from_before = nullptr, *to_before = nullptr, *from_after = nullptr, *to_after = nullptr;
    if (rank > 0) {
      from_before = mailbox(device(replica, rank - 1), own);
      to_before = mailbox(own, device(replica, rank - 1));
    }
    if (rank + 1 < ranks_) {
      from_after = mailbox(device(replica, rank + 1), own);
      to_after = mailbox(own, device(replica, rank + 1));
    }
    const auto bytes = static_cast<std::uint64_t>(message_);
    for (const ScheduledRun& run : schedule_[index(rank)]) {
      const bool forward = run.pass == Pass::Forward;
      if (s4u::Mailbox* source = forward ? from_before : from_after) source->get<int>();
      work((forward ? times_.forward : times_.backward)[index(rank)]);
      if (s4u::Mailbox* destination = forward ? to_after : to_before) destination->put_init(&token_, bytes)->detach();
    }
    if (times_.replicas == 1) return;
    s4u::Mailbox* to_next = mailbox(own, device(replica + 1, rank));
    s4u::Mailbox* from_previous = mailbox(device(replica - 1, rank), own);
    for (int k = 0; k < 2 * (times_.replicas - 1); ++k) {
      const s4u::CommPtr sent = to_next->put_async(&token_, static_cast<std::uint64_t>(ring_step_));
      from_previous->get<int>();
      sent->wait();
    }
  }

  const Schedule& schedule_;
  const PipelineTimes& times_;
  const bool shared_nics_;
  const double message_, ring_step_, rate_, latency_;
  const Passes passes_;
  const int ranks_;
  int token_ = 0;  // what a message points to; nobody reads it
  s4u::NetZone* zone_ = nullptr;
  std::vector<s4u::Host*> hosts_;
  std::vector<s4u::Link*> out_, in_;
  std::map<std::pair<int, int>, s4u::Mailbox*> mailboxes_;  // by source and destination
};

}  // namespace

SimGridRun run_on_simgrid(int& argc, char** argv, const Schedule& schedule, const PipelineStep& step, bool shared_nics,
                          double message, double ring_step, double rate, double latency, Passes passes) {
  const double began = cpu_seconds();
  xbt_log_control_set("xbt_cfg.threshold:warning");
  s4u::Engine engine(&argc, argv);
  for (const char* setting : {"network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0",
                              "network/latency-factor:1", "network/bandwidth-factor:1", "network/weight-S:0",
                              "surf/precision:1e-12", "maxmin/precision:1e-12", "contexts/stack-size:64"})
    s4u::Engine::set_config(setting);
  Simulation simulation(schedule, step, shared_nics, message, ring_step, rate, latency, passes);
  simulation.build();
  const double built = cpu_seconds();
  engine.run();
  const double ended = cpu_seconds();
  return {s4u::Engine::get_clock(), ended - built, ended - began};
}

}  // namespace meshwright::peers
