// SPDX-License-Identifier: Apache-2.0
#include "costmodel/calibration/fit_kernels.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "costmodel/calibration/minimize.h"
#include "costmodel/calibration/neighbours.h"
#include "costmodel/sheets/data_sheet.h"

namespace meshwright {

namespace {

// A set of rows needs several for each of its constants.
constexpr std::size_t kRowsPerConstant = 3;
constexpr double kSensitivityStep = 1.1;

using Values = std::vector<double>;

// What a term needs for its fit: its constants, and the time of a row under given values of them.
struct Term {
  std::vector<FitParameter> parameters;
  int starts = 4;
  double prior = 0.0;  // loss of a constant that is a factor e off its start
  std::function<Seconds(const KernelRow& row, const Values& values)> time;
};

ProductConstants product_constants(const Values& v) {
  return {v[0], v[1], BytesPerSecond(v[2]), Seconds(v[3]), v[4], v[5]};
}

Term product_term(const ProductUnit& unit, bool quantises) {
  Term term;
  term.parameters = {{"peak share", 0.85, 0.2, 1.2},       {"memory share", 0.8, 0.15, 1.3},
                     {"cache B/s", 10e12, 0.3e12, 200e12}, {"start s", 4e-6, 0.2e-6, 200e-6},
                     {"depth overhead", 128, 4, 2000},     {"droop", 0.01, 1e-4, 0.2}};
  if (quantises) term.parameters.push_back({"quantise B/element", 6, 0.1, 40});
  term.time = [unit](const KernelRow& row, const Values& v) {
    const ProductShape& shape = std::get<ProductShape>(row.kernel);
    const Seconds product = product_time(shape, unit, product_constants(v));
    if (v.size() < 7) return product;
    // The left operand is brought to eight bits by a kernel of its own.
    return product + Bytes(v[6] * static_cast<double>(shape.m * shape.k)) / unit.memory_bandwidth;
  };
  return term;
}

Term attention_term(const ProductUnit& unit, bool has_backward) {
  Term term;
  term.parameters = {{"peak share", 0.7, 0.1, 2.0},   {"softmax width", 60, 0.5, 2000}, {"last wave", 0.5, 0.02, 1.0},
                     {"start s", 9e-6, 0.2e-6, 2e-4}, {"memory share", 0.5, 0.05, 2.0}, {"prologue", 1.5, 0.05, 8},
                     {"wide heads", 0.3, 0.001, 5}};
  if (has_backward) term.parameters.push_back({"backward", 2.8, 1.5, 6});
  term.time = [unit](const KernelRow& row, const Values& v) {
    const AttentionShape& shape = std::get<AttentionShape>(row.kernel);
    return attention_time(shape, unit, {v[0], v[1], v[2], Seconds(v[3]), v[4], v[5], v[6], v.size() > 7 ? v[7] : 2.5});
  };
  return term;
}

Term collective_term() {
  Term term;
  // Which protocol is the faster where makes a landscape of many valleys; the sets are small.
  term.starts = 24;
  // Sizes of one protocol alone leave the other undetermined: as much loss as an error of 1.4 % on every row.
  term.prior = 1e-4;
  term.parameters = {{"low start s", 8e-6, 0.1e-6, 5e-3},   {"low step s", 0.5e-6, 1e-9, 1e-3},
                     {"low rate B/s", 50e9, 0.05e9, 2e12},  {"high start s", 25e-6, 0.1e-6, 20e-3},
                     {"high step s", 2e-6, 1e-9, 5e-3},     {"high rate B/s", 200e9, 0.2e9, 3e12},
                     {"rate per doubling", 1.07, 0.5, 1.52}};
  term.time = [](const KernelRow& row, const Values& v) {
    const MeasuredCollective& collective = std::get<MeasuredCollective>(row.kernel);
    return collective_time(collective.kind, collective.size, collective.ranks,
                           {Seconds(v[0]), Seconds(v[1]), BytesPerSecond(v[2]), Seconds(v[3]), Seconds(v[4]),
                            BytesPerSecond(v[5]), std::log2(v[6])});
  };
  return term;
}

Term pass_term(const DataSheet& sheet) {
  Term term;
  term.parameters = {{"start s", 5e-6, 0.1e-6, 1e-3}, {"passes", 2.5, 0.3, 60}};
  term.time = [bandwidth = sheet.memory_bandwidth](const KernelRow& row, const Values& v) {
    return pass_time(std::get<MeasuredPass>(row.kernel).operand, bandwidth, {Seconds(v[0]), v[1]});
  };
  return term;
}

// Which set of constants a row belongs to.
struct SetName {
  std::string term, device, what;
  auto operator<=>(const SetName&) const = default;
};

SetName set_of(const KernelRow& row) {
  if (std::holds_alternative<ProductShape>(row.kernel))
    return {"products", row.device, row.dtype + (includes_launch(row) ? " with launch" : "")};
  if (const auto* attention = std::get_if<AttentionShape>(&row.kernel))
    return {"attention", row.device,
            fmt::format("{} {} {}", row.dtype, attention->causal ? "causal" : "dense", implementation(row))};
  if (const auto* collective = std::get_if<MeasuredCollective>(&row.kernel))
    return {"network", row.device,
            fmt::format("{}{}{}", name_of(collective->kind), collective->hosts == 1 ? "" : " between hosts",
                        collective->fabric.empty() ? "" : ": " + collective->fabric)};
  return {"memory", row.device, fmt::format("{} {}", std::get<MeasuredPass>(row.kernel).kind, row.dtype)};
}

// The rows of a set, apart.
struct RowSet {
  std::vector<const KernelRow*> fitted, held_back;
};

Residuals residuals(const std::vector<const KernelRow*>& rows, const Term& term, const Values& values) {
  Residuals found;
  for (const KernelRow* row : rows) found.add(term.time(*row, values), row->time);
  return found;
}

double squared_distance_to_start(const Term& term, const Values& values) {
  double sum = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double distance = std::log(values[i] / term.parameters[i].start);
    sum += distance * distance;
  }
  return sum;
}

std::vector<FittedConstant> constants_of(const Term& term, const FitResult& fit,
                                         const std::function<double(const Values&)>& loss) {
  std::vector<FittedConstant> constants;
  for (std::size_t i = 0; i < term.parameters.size(); ++i) {
    const FitParameter& parameter = term.parameters[i];
    Values more = fit.values, less = fit.values;
    more[i] *= kSensitivityStep;
    less[i] /= kSensitivityStep;
    const double moved = (loss(more) + loss(less)) / 2;
    constants.push_back({parameter.name, fit.values[i], fit.loss > 0 ? moved / fit.loss - 1 : 0.0,
                         fit.values[i] <= parameter.low * 1.0001 || fit.values[i] >= parameter.high * 0.9999});
  }
  return constants;
}

// Rows that may correct each other: of one family and implementation.
using NeighbourName = std::pair<std::string, std::string>;

// The fitted rows of a set as corrections of its fit.
std::map<NeighbourName, Neighbours> neighbours_of(const RowSet& rows, const Term& term, const Values& values) {
  std::map<NeighbourName, std::vector<Neighbours::Measured>> measured;
  for (const KernelRow* row : rows.fitted)
    if (const auto family = kernel_family(*row))
      measured[{*family, implementation(*row)}].push_back(
          {*shape_point(*row), std::log(row->time / term.time(*row, values))});
  std::map<NeighbourName, Neighbours> neighbours;
  for (auto& [name, points] : measured) neighbours.emplace(name, std::move(points));
  return neighbours;
}

Residuals residuals_near(const RowSet& rows, const Term& term, const Values& values) {
  const std::map<NeighbourName, Neighbours> neighbours = neighbours_of(rows, term, values);
  Residuals found;
  for (const KernelRow* row : rows.held_back) {
    const auto near = neighbours.find({kernel_family(*row).value_or(""), implementation(*row)});
    const double factor = near == neighbours.end() ? 1.0 : near->second.at(*shape_point(*row)).factor;
    found.add(factor * term.time(*row, values), row->time);
  }
  return found;
}

// What is known of the rows kept back of a device and term.
struct HeldBack {
  Residuals alone, near;
};

KernelFit fit_set(const SetName& name, const RowSet& rows, const Term& term, std::uint64_t seed, HeldBack& of_device) {
  const auto loss = [&](const Values& values) {
    return residuals(rows.fitted, term, values).robust_loss() + term.prior * squared_distance_to_start(term, values);
  };
  const FitResult fit = minimize(loss, term.parameters, {term.starts, seed});
  const Residuals alone = residuals(rows.held_back, term, fit.values), near = residuals_near(rows, term, fit.values);
  of_device.alone.add(alone);
  of_device.near.add(near);
  return {name.term,
          name.device,
          name.what,
          constants_of(term, fit, loss),
          residuals(rows.fitted, term, fit.values).summary(),
          alone.summary(),
          near.summary()};
}

bool has_backward(const RowSet& rows) {
  return std::any_of(rows.fitted.begin(), rows.fitted.end(),
                     [](const KernelRow* row) { return std::get<AttentionShape>(row->kernel).backward; });
}

// The type in whose peak a set of products or attention is counted; "f8-block" computes at the peak of f8.
std::string type_of(const SetName& name) { return name.what.substr(0, name.what.find_first_of(" -")); }

bool has_peak(const SetName& name, const DataSheet& sheet) {
  return (name.term != "products" && name.term != "attention") || sheet.peak.count(type_of(name)) != 0;
}

// REQUIRES: has_peak.
Term term_of(const SetName& name, const RowSet& rows, const DataSheet& sheet) {
  const std::string type = type_of(name);
  if (name.term == "products") return product_term(sheet.unit(type), type == "f8");
  if (name.term == "attention") return attention_term(sheet.unit(type), has_backward(rows));
  return name.term == "network" ? collective_term() : pass_term(sheet);
}

std::string term_from_text(const std::string& text) {
  const std::vector<std::string> known = {"matmul", "attention", "network", "memory"};
  require(std::find(known.begin(), known.end(), text) != known.end(),
          "--fit: unknown term '{}'; expected some of {}, separated by commas.", text, join(known, ", "));
  return text == "matmul" ? "products" : text;
}

}  // namespace

KernelFits fit_kernels(const std::vector<KernelRow>& rows, const KernelFitOptions& options) {
  require(options.holdout >= 0 && options.holdout <= 0.9, "--holdout: {} is not a share from 0 to 0.9.",
          options.holdout);
  std::vector<std::string> terms;
  for (const std::string& term : options.terms) terms.push_back(term_from_text(term));
  std::map<SetName, RowSet> sets;
  for (const KernelRow& row : rows) {
    const SetName name = set_of(row);
    if (std::find(terms.begin(), terms.end(), name.term) == terms.end()) continue;
    RowSet& set = sets[name];
    (kept_back(shape_group(row), options.holdout, options.seed) ? set.held_back : set.fitted).push_back(&row);
  }
  KernelFits result;
  std::map<std::pair<std::string, std::string>, HeldBack> held_back;  // by term and device
  for (const auto& [name, set] : sets) {
    const std::string where = fmt::format("{} {} {}", name.term, name.device, name.what);
    const DataSheet* sheet = find_data_sheet(name.device);
    if (sheet == nullptr) {
      result.unused.push_back({where, "no data sheet has this device"});
      continue;
    }
    if (!has_peak(name, *sheet)) {
      result.impossible.push_back({where, fmt::format("the data sheet has no peak for {} ({} rows)", type_of(name),
                                                      set.fitted.size() + set.held_back.size())});
      continue;
    }
    const Term term = term_of(name, set, *sheet);
    if (set.fitted.size() < kRowsPerConstant * term.parameters.size()) {
      result.unused.push_back(
          {where, fmt::format("{} rows for {} constants", set.fitted.size(), term.parameters.size())});
      continue;
    }
    result.fits.push_back(fit_set(name, set, term, options.seed, held_back[{name.term, name.device}]));
  }
  for (const auto& [name, errors] : held_back)
    result.by_device.push_back({name.first, name.second, errors.alone.summary(), errors.near.summary()});
  return result;
}

}  // namespace meshwright
