// SPDX-License-Identifier: Apache-2.0
// Processes that run one Program together, played by threads of one: what every implementation of Peers has to do.
#pragma once

#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "executor/peers/peers.h"

namespace meshwright {

class LocalPeers final : public Peers {
 public:
  // They outlive each other's use.
  static std::vector<std::unique_ptr<LocalPeers>> make(int processes) {
    const auto world = std::make_shared<World>();
    std::vector<std::unique_ptr<LocalPeers>> peers;
    for (int rank = 0; rank < processes; ++rank) {
      peers.emplace_back(new LocalPeers(world, rank));
      world->processes.push_back(peers.back().get());
    }
    return peers;
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(world_->processes.size()); }
  [[nodiscard]] std::string describe() const override { return std::to_string(size()) + " processes of one"; }
  [[nodiscard]] int host() const override { return 0; }
  [[nodiscard]] int rank_on_host() const override { return rank_; }
  [[nodiscard]] int size_on_host() const override { return size(); }
  [[nodiscard]] std::vector<Place> places() const override {
    return std::vector<Place>(static_cast<std::size_t>(size()), Place{0, "here", 1});
  }

  void send(int to, std::uint64_t tag, std::vector<std::byte> data) override {
    {
      const std::lock_guard lock(mutex_);
      sent_ += data.size();
    }
    LocalPeers& other = *world_->processes.at(static_cast<std::size_t>(to));
    {
      const std::lock_guard lock(other.mutex_);
      other.arrived_[{rank_, tag}].push_back(std::move(data));
    }
    other.arrival_.advance();
  }
  [[nodiscard]] std::vector<std::byte> receive(int from, std::uint64_t tag, const Abort& abort) override {
    for (;;) {
      const std::uint32_t seen = arrival_.value();
      abort.check();
      {
        const std::lock_guard lock(mutex_);
        const auto found = arrived_.find({from, tag});
        if (found != arrived_.end() && !found->second.empty()) {
          std::vector<std::byte> data = std::move(found->second.front());
          found->second.pop_front();
          return data;
        }
      }
      arrival_.wait_beyond(seen);
    }
  }

  void watch(Abort& abort) override {
    abort.watch(arrival_);
    const std::lock_guard lock(mutex_);
    watched_.push_back(&abort);
    if (failure_) abort.raise();
  }
  void forget(Abort& abort) override {
    const std::lock_guard lock(mutex_);
    std::erase(watched_, &abort);
  }
  void fail(const std::string& why) override {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(failed_, true)) return;
    }
    for (LocalPeers* other : world_->processes)
      if (other != this) other->learn({rank_, why});
  }
  [[nodiscard]] std::optional<Failure> failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  [[nodiscard]] std::size_t bytes_sent() const {
    const std::lock_guard lock(mutex_);
    return sent_;
  }

 private:
  struct World {
    std::vector<LocalPeers*> processes;  // [rank]
  };
  LocalPeers(std::shared_ptr<const World> world, int rank) : world_(std::move(world)), rank_(rank) {}
  void learn(const Failure& failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
    for (Abort* abort : watched_) abort->raise();
  }

  const std::shared_ptr<const World> world_;
  const int rank_;
  mutable std::mutex mutex_;
  std::map<std::pair<int, std::uint64_t>, std::deque<std::vector<std::byte>>> arrived_;  // by sender and tag
  Signal arrival_;
  std::vector<Abort*> watched_;
  std::optional<Failure> failure_;
  bool failed_ = false;
  std::size_t sent_ = 0;
};

// Calls body(LocalPeers&) in each of them at a time; what one of them throws, when all have ended.
template <class Body>
void in_processes(int processes, Body body) {
  const auto peers = LocalPeers::make(processes);
  std::vector<std::exception_ptr> errors(peers.size());
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < peers.size(); ++p)
    threads.emplace_back([&, p] {
      try {
        body(*peers[p]);
      } catch (...) {
        errors[p] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace meshwright
