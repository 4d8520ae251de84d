// SPDX-License-Identifier: Apache-2.0
// gpu_kernels: how near every kernel of kernels/cuda comes to what the GPU can do, at the shapes of training.
//
//   gpu_kernels [--only memory,products,convolutions,attention] [--quick] [--tiny] [--json]
//
// Each repetition is timed by itself on an idle device, with operands that lie in memory, not in the L2
// (kernels/cuda/measure/cold_timer.h); the median counts, the spread is the median absolute deviation. What moves
// memory is set beside a copy, what computes beside the best product. --tiny: sizes for what stands in for a GPU, whose
// figures mean nothing.
#include <cstdio>
#include <map>
#include <set>

#include "bench/gpu_kernels/table.h"
#include "core/base/text.h"
#include "kernels/cuda/measure/cold_timer.h"
#include "kernels/cuda/measure/copy_bandwidth.h"
#include "kernels/cuda/products/product_timing.h"
#include "kernels/cuda/runtime/clocks.h"

namespace meshwright::bench {

namespace {

constexpr int kAlgorithms = 32;  // of a product
constexpr int kWarmUp = 3, kRepetitions = 30, kQuickRepetitions = 10;
constexpr double kLargestCopy = 4e9;  // bytes moved: a larger one is no faster
constexpr std::size_t kCopiedL2s = 8, kMinCopied = std::size_t{1} << 20;

struct Options {
  std::set<std::string> parts = {"memory", "products", "convolutions", "attention"};
  bool quick = false, tiny = false, json = false;
};

Options options_from(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--quick") {
      options.quick = true;
    } else if (word == "--tiny") {
      options.tiny = true;
    } else if (word == "--json") {
      options.json = true;
    } else if (word == "--only" && i + 1 < argc) {
      const std::set<std::string> known = options.parts;
      options.parts.clear();
      for (const std::string& part : split(argv[++i], ',')) {
        require(known.contains(part), "--only: '{}' is not known; give some of memory,products,convolutions,attention.",
                part);
        options.parts.insert(part);
      }
    } else {
      throw InputError(fmt::format("'{}' is not known; give --only PARTS, --quick, --tiny or --json.", word));
    }
  }
  return options;
}

class Stopwatch {
 public:
  Stopwatch(std::size_t l2, int repetitions) : cold_(l2), repetitions_(repetitions) {}

  MeasuredTime time(const Body& body) {
    for (int i = 0; i < kWarmUp; ++i) body();
    return summarize(cold_.seconds_of(kStream, body, repetitions_));
  }
  // Of a copy that reads and writes so many bytes together.
  Seconds copy(double moved) {
    const auto size = static_cast<std::size_t>(std::min(moved, kLargestCopy) / 2.0) / 16 * 16 + 16;
    const auto known = copies_.find(size);
    if (known != copies_.end()) return known->second * (moved / 2.0 / static_cast<double>(size));
    Operands o;
    const void* from = o.numbers<float>(static_cast<std::int64_t>(size / sizeof(float)));
    void* to = o.bytes(size);
    const Seconds took = time([=] { cuda::copy_by_kernel(kStream, from, to, size); }).median;
    copies_.emplace(size, took);
    return took * (moved / 2.0 / static_cast<double>(size));
  }

 private:
  cuda::ColdTimer cold_;
  int repetitions_;
  std::map<std::size_t, Seconds> copies_;
};

// Calls measure(row) for a row of each case; one whose operands do not fit, or whose kernel fails, says so.
template <class Row, class Case, class Measure>
std::vector<Row> rows_of(std::vector<Case> cases, Measure measure) {
  std::vector<Row> rows;
  for (Case& one : cases) {
    Row row;
    row.what = std::move(one);
    try {
      measure(row);
    } catch (const cuda::OutOfMemory& error) {
      row.failure = fmt::format("needs more memory than there is ({} bytes free)", error.free);
    } catch (const cuda::Failure& error) {
      row.failure = error.what();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<MemoryCase> memory_cases(const Sizes& sizes) {
  std::vector<MemoryCase> all;
  for (const auto family : {elementwise_cases, normalization_cases, token_cases, update_cases, image_cases})
    for (MemoryCase& one : family(sizes)) all.push_back(std::move(one));
  return all;
}

std::vector<ComputeRow> compute_rows(std::vector<ComputeCase> cases, Stopwatch& watch) {
  return rows_of<ComputeRow>(std::move(cases), [&](ComputeRow& row) {
    Operands o;
    const Rate rate = row.what.prepare(o);
    row.by = rate.by;
    row.time = watch.time(rate.body);
  });
}

void measure_product(ProductRow& row, std::size_t l2) {
  Operands o;
  const std::vector<double> seconds = row.what.time(o, l2, kAlgorithms);
  const auto tried = std::min(seconds.size(), static_cast<std::size_t>(cuda::kTimedAlgorithms));
  row.algorithms = seconds.size();
  row.first = seconds.front();
  row.timed = seconds[cuda::fastest({seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(tried)})];
  row.best = *std::min_element(seconds.begin(), seconds.end());
}

std::string clocks() {
  const std::optional<cuda::Clocks> now = cuda::clocks_of(0);
  return now ? fmt::format("{} MHz and {:.0f} W", now->multiprocessors_mhz, now->watts) : "";
}

Found measure(const Options& options) {
  if (cuda::device_count() == 0) throw SystemError(cuda::why_none() + ".");
  cuda::use_device(0);
  const cuda::DeviceFacts facts = cuda::facts_of(0);
  const std::size_t l2 = options.tiny ? 0 : facts.l2;
  const Sizes sizes = options.tiny ? kTiny : Sizes{};
  const auto wants = [&](const char* part) { return options.parts.contains(part); };
  Found found;
  found.device = facts.name;
  found.libraries = facts.libraries;
  found.copy_bytes_per_second = cuda::copy_bandwidth(std::max(kCopiedL2s * l2, kMinCopied));  // lets the clocks rise
  found.clocks_before = clocks();
  Stopwatch watch(l2, options.tiny ? 1 : options.quick ? kQuickRepetitions : kRepetitions);
  if (wants("memory"))
    found.memory = rows_of<MemoryRow>(memory_cases(sizes), [&](MemoryRow& row) {
      {
        Operands o;
        row.time = watch.time(row.what.prepare(o));
      }
      row.copy = watch.copy(row.what.bytes);
    });
  if (wants("products"))
    found.products = rows_of<ProductRow>(product_cases(sizes), [&](ProductRow& row) { measure_product(row, l2); });
  if (wants("convolutions")) found.convolutions = compute_rows(convolution_cases(sizes), watch);
  if (wants("attention")) found.attention = compute_rows(attention_cases(sizes), watch);
  found.clocks_after = clocks();
  return found;
}

}  // namespace

}  // namespace meshwright::bench

int main(int argc, char** argv) {
  using namespace meshwright;
  try {
    const bench::Options options = bench::options_from(argc, argv);
    const bench::Found found = bench::measure(options);
    const std::string text = options.json ? bench::to_json(found).dump(1) + "\n" : bench::to_text(found);
    return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? 4 : 0;
  } catch (const InputError& error) {
    std::fputs(fmt::format("gpu_kernels: error: {}\n", error.what()).c_str(), stderr);
    return 2;
  } catch (const std::exception& error) {
    std::fputs(fmt::format("gpu_kernels: error: {}\n", error.what()).c_str(), stderr);
    return 4;
  }
}
