// SPDX-License-Identifier: Apache-2.0
#include "core/planner/cluster_size.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/base/errors.h"

namespace meshwright {

namespace {

// Sizes in a row that are over the price, or slower than the fastest, after which larger ones are not planned.
constexpr int kMaxWorse = 2;

bool is_cheaper(const SizedPlan& a, const SizedPlan& b) {
  const auto key = [](const SizedPlan& of) { return of.cost->price.value_or(of.hosts); };
  return key(a) < key(b);
}

class Sizes {
 public:
  Sizes(const SizeRequest& request, const SizePlanner& planner)
      : request_(request), planner_(planner), deadline_(request.deadline), max_price_(request.max_price) {
    if (deadline_) goal_ = max_price_ ? Goal::Cheapest : Goal::Smallest;
  }

  SizeSearch run() {
    search();
    SizeSearch found;
    if (best_ != nullptr)
      found.chosen = best_->hosts;
    else if (deadline_ && max_price_)
      search_each_limit(found);
    return result(std::move(found));
  }

 private:
  enum class Goal { Smallest, Fastest, Cheapest };

  void search() {
    if (goal_ == Goal::Smallest)
      find_smallest();
    else if (goal_ == Goal::Fastest)
      find_fastest();
    else
      find_cheapest();
  }

  // What is the answer under one of the two limits, as nothing meets both.
  void search_each_limit(SizeSearch& found) {
    const auto under = [&](Goal goal, std::optional<Seconds> deadline, std::optional<double> max_price) {
      goal_ = goal, deadline_ = deadline, max_price_ = max_price;
      search();
      const SizedPlan* best = std::exchange(best_, nullptr);
      return best != nullptr ? std::optional(best->hosts) : std::nullopt;
    };
    found.fastest_in_price = under(Goal::Fastest, std::nullopt, request_.max_price);
    found.cheapest_in_time = under(Goal::Cheapest, request_.deadline, std::nullopt);
    deadline_ = request_.deadline, max_price_ = request_.max_price;
    for (auto& [hosts, sized] : sizes_) sized.within = sized.step && is_within(*sized.cost);
  }

  [[nodiscard]] bool stopped() {
    interrupted_ = interrupted_ || (planner_.stop && planner_.stop());
    return interrupted_;
  }

  [[nodiscard]] RunCost cost_of(Seconds step, int hosts) const {
    return run_cost(request_.tokens, request_.tokens_per_step, step, hosts, request_.rates);
  }
  [[nodiscard]] bool is_within(const RunCost& cost) const {
    return (!deadline_ || cost.time <= *deadline_) && (!max_price_ || cost.price.value() <= *max_price_);
  }
  // `least`: no plan of the size costs less.
  [[nodiscard]] bool may_be_chosen(const RunCost& least) const {
    return is_within(least) &&
           (goal_ != Goal::Cheapest || best_ == nullptr || least.price.value() < best_->cost->price.value());
  }

  // nullptr: the search was stopped.
  const SizedPlan* look_at(int hosts) {
    const auto known = sizes_.find(hosts);
    // What one limit ruled out may be within the other.
    if (known != sizes_.end() && !(known->second.ruled_out && may_be_chosen(*known->second.cost)))
      return reconsider(known->second);
    if (stopped()) return nullptr;
    const RunCost least = known != sizes_.end() ? *known->second.cost : cost_of(planner_.bound(hosts), hosts);
    if (request_.every_power || may_be_chosen(least)) return plan(hosts);
    SizedPlan sized{.hosts = hosts};
    sized.cost = least;
    sized.ruled_out = true;
    return &sizes_.emplace(hosts, std::move(sized)).first->second;
  }

  // A size that is known, under the present limits.
  const SizedPlan* reconsider(SizedPlan& known) {
    known.within = known.step && is_within(*known.cost);
    if (is_better(known, best_)) best_ = &known;
    return &known;
  }

  const SizedPlan* plan(int hosts) {
    if (stopped()) return nullptr;
    SizedPlan sized{.hosts = hosts};
    SizePlanner::Answer answer = planner_.plan(hosts);
    // What was found when the search was stopped is not what it would have found.
    if (stopped()) return nullptr;
    sized.step = answer.step;
    sized.why = std::move(answer.why);
    if (sized.step) {
      sized.cost = cost_of(*sized.step, hosts);
      sized.within = is_within(*sized.cost);
    }
    const SizedPlan* made = &sizes_.insert_or_assign(hosts, std::move(sized)).first->second;
    if (is_better(*made, best_)) {
      best_ = made;
      if (planner_.keep) planner_.keep(hosts);
    }
    return made;
  }

  // Whether `sized` is a better answer; nullptr: there is none. The smaller wins of two that are equally fast.
  [[nodiscard]] bool is_better(const SizedPlan& sized, const SizedPlan* than) const {
    if (!sized.within || than == nullptr) return sized.within;
    if (goal_ == Goal::Cheapest && sized.cost->price != than->cost->price) return sized.cost->price < than->cost->price;
    if (goal_ != Goal::Fastest || sized.cost->time == than->cost->time) return sized.hosts < than->hosts;
    return sized.cost->time < than->cost->time;
  }

  // Where bounds alone say that nothing is within, one plan at least says what would be: of the largest size, or of
  // the smallest that has one.
  void plan_one_at_any_rate(const std::vector<int>& hosts) {
    for (const int size : hosts) {
      const auto known = sizes_.find(size);
      const bool planned = known != sizes_.end() && !known->second.ruled_out;
      const SizedPlan* sized = planned ? &known->second : plan(size);
      if (sized == nullptr || sized->step) return;
    }
  }

  [[nodiscard]] std::vector<int> powers() const {
    std::vector<int> hosts;
    for (int power = 1; power < request_.max_hosts; power *= 2) hosts.push_back(power);
    hosts.push_back(request_.max_hosts);
    return hosts;
  }

  // The first power of two that meets the deadline, then the gap below it.
  void find_smallest() {
    int below = 0;
    const SizedPlan* meets = nullptr;
    for (const int hosts : powers()) {
      if (meets != nullptr && !request_.every_power) break;
      const SizedPlan* sized = look_at(hosts);
      if (sized == nullptr) return;
      if (meets == nullptr && sized->within) meets = sized;
      if (meets == nullptr) below = hosts;
    }
    if (meets == nullptr) return plan_one_at_any_rate({request_.max_hosts});
    bisect(below, meets->hosts, [](const SizedPlan& sized) { return sized.within; });
  }

  // Powers of two until larger ones only get worse, then the gap above the fastest that is within.
  void find_fastest() {
    int worse = 0;
    const SizedPlan *best = nullptr, *above = nullptr;  // above: the first size after the best
    for (const int hosts : powers()) {
      const SizedPlan* sized = look_at(hosts);
      if (sized == nullptr) return;
      if (sized->within && (best == nullptr || sized->cost->time < best->cost->time)) {
        best = sized;
        above = nullptr;
        worse = 0;
        continue;
      }
      if (best == nullptr) continue;
      if (above == nullptr) above = sized;
      if (++worse == kMaxWorse && !request_.every_power) break;
    }
    if (best == nullptr) return plan_one_at_any_rate(powers());
    // Without a price nothing limits the size but its time, and sizes beside the fastest one need not be planned.
    if (!max_price_ || above == nullptr) return;
    bisect(best->hosts, above->hosts, [](const SizedPlan& sized) { return !sized.within; });
  }

  // Powers of two until larger ones only get dearer, then the gap below the first that is in time. A price grows with
  // the hosts where more of them are used less well, so the cheapest in time is mostly the smallest.
  void find_cheapest() {
    const auto in_time = [&](const SizedPlan& sized) { return sized.cost && sized.cost->time <= *deadline_; };
    int below = 0, worse = 0;
    const SizedPlan* first = nullptr;  // in time; of one that is ruled out its bound is
    for (const int hosts : powers()) {
      const SizedPlan* sized = look_at(hosts);
      if (sized == nullptr) return;
      if (first == nullptr && in_time(*sized)) first = sized;
      if (first == nullptr) below = hosts;
      worse = first == nullptr || best_ == sized ? 0 : worse + 1;
      if (worse > kMaxWorse && !request_.every_power) break;
    }
    if (first != nullptr) bisect(below, first->hosts, in_time);
    if (best_ == nullptr && !max_price_) plan_one_at_any_rate({request_.max_hosts});
  }

  // Halves the gap between `low` and `high`, of which `high` is as `is_high` says and `low` is not.
  template <class IsHigh>
  void bisect(int low, int high, const IsHigh& is_high) {
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      const SizedPlan* sized = look_at(middle);
      if (sized == nullptr) return;
      (is_high(*sized) ? high : low) = middle;
    }
  }

  // `found` with what is known of all sizes.
  [[nodiscard]] SizeSearch result(SizeSearch found) {
    found.interrupted = interrupted_;
    for (const auto& [hosts, sized] : sizes_) found.sizes.push_back(sized);
    int largest = 0;
    const SizedPlan *fastest = nullptr, *cheapest = nullptr;
    for (SizedPlan& sized : found.sizes) {
      if (!sized.step) continue;
      largest = sized.hosts;
      if (fastest == nullptr || sized.cost->time < fastest->cost->time) fastest = &sized;
      if (cheapest == nullptr || is_cheaper(sized, *cheapest)) cheapest = &sized;
      sized.front = std::none_of(found.sizes.begin(), found.sizes.end(), [&](const SizedPlan& other) {
        return other.step && other.hosts != sized.hosts && beats(other, sized);
      });
    }
    if (fastest != nullptr) found.fastest = fastest->hosts;
    if (cheapest != nullptr && request_.rates.price_per_hour) found.cheapest = cheapest->hosts;
    if (fastest != nullptr && fastest->hosts < largest) found.scaling_ends = fastest->hosts;
    return found;
  }

  // No slower and no dearer; of equal ones the smaller.
  [[nodiscard]] static bool beats(const SizedPlan& other, const SizedPlan& sized) {
    if (other.cost->time > sized.cost->time || is_cheaper(sized, other)) return false;
    return other.cost->time < sized.cost->time || is_cheaper(other, sized) || other.hosts < sized.hosts;
  }

  const SizeRequest& request_;
  const SizePlanner& planner_;
  Goal goal_ = Goal::Fastest;
  std::optional<Seconds> deadline_;  // the limits that hold now
  std::optional<double> max_price_;
  std::map<int, SizedPlan> sizes_;   // by hosts
  const SizedPlan* best_ = nullptr;  // of sizes_: the answer so far
  bool interrupted_ = false;
};

}  // namespace

RunCost run_cost(double tokens, std::int64_t tokens_per_step, Seconds step, int hosts, const HostRates& rates) {
  MW_CHECK(tokens > 0 && tokens_per_step > 0 && hosts > 0, "a run of {} tokens, {} a step, on {} hosts", tokens,
           tokens_per_step, hosts);
  RunCost cost;
  const double steps = std::ceil(tokens / static_cast<double>(tokens_per_step));
  cost.steps = static_cast<std::int64_t>(steps);
  cost.time = steps * step;
  const double host_hours = hosts * cost.time.si() / 3600.0;
  if (rates.price_per_hour) cost.price = host_hours * *rates.price_per_hour;
  if (rates.watts) cost.kilowatt_hours = host_hours * *rates.watts / 1000.0;
  return cost;
}

const SizedPlan& SizeSearch::at(int hosts) const {
  const auto found =
      std::find_if(sizes.begin(), sizes.end(), [&](const SizedPlan& sized) { return sized.hosts == hosts; });
  MW_CHECK(found != sizes.end(), "{} hosts were not looked at", hosts);
  return *found;
}

SizeSearch search_sizes(const SizeRequest& request, const SizePlanner& planner) {
  MW_CHECK(request.max_hosts >= 1, "{} hosts", request.max_hosts);
  return Sizes(request, planner).run();
}

}  // namespace meshwright
