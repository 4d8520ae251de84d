// SPDX-License-Identifier: Apache-2.0
// Parts of one search that are searched side by side. Each has a request of its own, with its share of the threads; the
// record hears of one part after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/planner/plan_request.h"

namespace meshwright {

class SideBySide {
 public:
  // REQUIRES: the request of the search outlives this.
  SideBySide(const PlanRequest& search, std::size_t parts)
      : search_(search), threads_(std::max(1, search.threads / std::max(1, static_cast<int>(parts)))) {}
  SideBySide(const SideBySide&) = delete;

  class Part {
   public:
    // REQUIRES: `beside` outlives this.
    Part(PlanRequest own, SideBySide& beside) : request(std::move(own)), beside_(beside) {
      request.threads = beside.threads_;
      if (request.record != nullptr) request.record = &record_;
      if (request.progress)
        request.progress = [&beside](const std::string& line) {
          const std::lock_guard lock(beside.mutex_);
          beside.search_.progress(line);
        };
    }
    Part(const Part&) = delete;

    PlanRequest request;
    // The record of the search hears what this part has kept for it.
    void tell_record() {
      for (ConsideredPlan& considered : record_.kept) beside_.search_.record->add(std::move(considered));
      record_.kept.clear();
    }

   private:
    struct Kept final : SearchRecord {
      void add(ConsideredPlan considered) override { kept.push_back(std::move(considered)); }
      std::vector<ConsideredPlan> kept;
    };
    SideBySide& beside_;
    Kept record_;
  };

  // work(i) of each part. The step log hears of one step at a time, so that one part is searched after the other then.
  template <class Work>
  void run(std::size_t parts, const Work& work) const {
    for_each_index(parts, search_.steps != nullptr ? 1 : search_.threads, work);
  }

 private:
  const PlanRequest& search_;
  const int threads_;
  std::mutex mutex_;  // of the lines of progress
};

}  // namespace meshwright
