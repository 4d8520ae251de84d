// SPDX-License-Identifier: Apache-2.0
#include "costmodel/calibration/minimize.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/base/random.h"

namespace meshwright {

namespace {

constexpr int kSamplePerStart = 50;
constexpr int kMaxRestarts = 6;
constexpr double kRestartGain = 1e-3;    // relative; below it a restart is the last one
constexpr double kConverged = 1e-6;      // relative spread of the losses of a simplex
constexpr double kFirstStep = 0.4;       // of a logarithm: a factor of 1.5
constexpr int kStepsPerParameter = 120;  // at most, per restart

struct Corner {
  std::vector<double> logs;
  double loss;
};

class Simplex {
 public:
  Simplex(const std::function<double(const std::vector<double>&)>& loss, const std::vector<FitParameter>& parameters)
      : loss_(loss), parameters_(parameters) {}

  FitResult run(const FitStarts& starts) {
    std::vector<double> start;
    for (const FitParameter& parameter : parameters_) start.push_back(std::log(parameter.start));
    FitResult least = run_from(corner(std::move(start)));
    for (Corner& other : sampled_starts(starts)) {
      FitResult found = run_from(std::move(other));
      if (found.loss < least.loss) least = std::move(found);
    }
    return least;
  }

 private:
  // The best of random points.
  std::vector<Corner> sampled_starts(const FitStarts& starts) {
    Random random(starts.seed);
    std::vector<Corner> sample;
    for (int i = 0; i < starts.count * kSamplePerStart; ++i) {
      std::vector<double> logs;
      for (const FitParameter& parameter : parameters_)
        logs.push_back(std::log(parameter.low) + random.unit() * std::log(parameter.high / parameter.low));
      sample.push_back(corner(std::move(logs)));
    }
    std::stable_sort(sample.begin(), sample.end(), [](const Corner& a, const Corner& b) { return a.loss < b.loss; });
    sample.resize(static_cast<std::size_t>(starts.count - 1));
    return sample;
  }
  FitResult run_from(Corner best) {
    for (int restart = 0; restart < kMaxRestarts; ++restart) {
      const double before = best.loss;
      best = search_around(best, restart % 2 == 0 ? kFirstStep : -kFirstStep / 2);
      if (before - best.loss <= kRestartGain * std::abs(before)) break;
    }
    return {values_of(best.logs), best.loss};
  }

  [[nodiscard]] std::vector<double> values_of(const std::vector<double>& logs) const {
    std::vector<double> values;
    for (std::size_t i = 0; i < logs.size(); ++i)
      values.push_back(std::clamp(std::exp(logs[i]), parameters_[i].low, parameters_[i].high));
    return values;
  }
  Corner corner(std::vector<double> logs) {
    for (std::size_t i = 0; i < logs.size(); ++i)
      logs[i] = std::clamp(logs[i], std::log(parameters_[i].low), std::log(parameters_[i].high));
    const double loss = loss_(values_of(logs));
    return {std::move(logs), loss};
  }
  // On the line from the worst corner through the centre of the others; 1 is the mirror image.
  Corner beyond(const std::vector<double>& centre, const Corner& worst, double factor) {
    std::vector<double> logs(centre.size());
    for (std::size_t i = 0; i < logs.size(); ++i) logs[i] = centre[i] + factor * (centre[i] - worst.logs[i]);
    return corner(std::move(logs));
  }

  [[nodiscard]] Corner search_around(const Corner& best, double step) {
    std::vector<Corner> corners = {best};
    for (std::size_t i = 0; i < best.logs.size(); ++i) {
      std::vector<double> moved = best.logs;
      moved[i] += step;
      corners.push_back(corner(std::move(moved)));
    }
    const auto by_loss = [](const Corner& a, const Corner& b) { return a.loss < b.loss; };
    const int steps = kStepsPerParameter * static_cast<int>(best.logs.size());
    for (int i = 0; i < steps; ++i) {
      std::stable_sort(corners.begin(), corners.end(), by_loss);
      if (corners.back().loss - corners.front().loss <= kConverged * std::abs(corners.front().loss)) break;
      replace_worst(corners);
    }
    return *std::min_element(corners.begin(), corners.end(), by_loss);
  }

  // `corners` in the order of their losses.
  void replace_worst(std::vector<Corner>& corners) {
    Corner& worst = corners.back();
    std::vector<double> centre(worst.logs.size(), 0.0);
    for (std::size_t c = 0; c + 1 < corners.size(); ++c)
      for (std::size_t i = 0; i < centre.size(); ++i)
        centre[i] += corners[c].logs[i] / static_cast<double>(corners.size() - 1);
    Corner mirrored = beyond(centre, worst, 1.0);
    if (mirrored.loss < corners.front().loss) {
      Corner further = beyond(centre, worst, 2.0);
      worst = further.loss < mirrored.loss ? std::move(further) : std::move(mirrored);
    } else if (mirrored.loss < corners[corners.size() - 2].loss) {
      worst = std::move(mirrored);
    } else {
      Corner nearer = beyond(centre, worst, mirrored.loss < worst.loss ? 0.5 : -0.5);
      if (nearer.loss < std::min(mirrored.loss, worst.loss))
        worst = std::move(nearer);
      else
        shrink(corners);
    }
  }
  void shrink(std::vector<Corner>& corners) {
    for (std::size_t c = 1; c < corners.size(); ++c) {
      std::vector<double> logs = corners[c].logs;
      for (std::size_t i = 0; i < logs.size(); ++i) logs[i] = (logs[i] + corners.front().logs[i]) / 2;
      corners[c] = corner(std::move(logs));
    }
  }

  const std::function<double(const std::vector<double>&)>& loss_;
  const std::vector<FitParameter>& parameters_;
};

}  // namespace

FitResult minimize(const std::function<double(const std::vector<double>&)>& loss,
                   const std::vector<FitParameter>& parameters, const FitStarts& starts) {
  for (const FitParameter& parameter : parameters)
    MW_CHECK(0 < parameter.low && parameter.low <= parameter.start && parameter.start <= parameter.high,
             "parameter '{}' starts at {}, outside {}..{}", parameter.name, parameter.start, parameter.low,
             parameter.high);
  return Simplex(loss, parameters).run(starts);
}

}  // namespace meshwright
