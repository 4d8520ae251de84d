// SPDX-License-Identifier: Apache-2.0
#include "costmodel/calibration/kernel_rows.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "costmodel/sheets/data_sheet.h"

namespace meshwright {

namespace {

constexpr std::int64_t kMaxSize = 1LL << 40;

struct TypeName {
  std::string_view written, name;
  double bytes;
};
// Eight-bit products differ by how their scales are applied (per tensor, per block), so that each kind is a type.
constexpr std::array<TypeName, 9> kTypes = {{{"bf16", "bf16", 2},
                                             {"fp16", "f16", 2},
                                             {"f16", "f16", 2},
                                             {"fp32", "f32", 4},
                                             {"f32", "f32", 4},
                                             {"tf32", "tf32", 4},
                                             {"fp8", "f8", 1},
                                             {"fp8_block", "f8-block", 1},
                                             {"mxfp8", "f8-block", 1}}};

// What a row says that no term is for; thrown inside this file only.
struct Unused {
  std::string reason;
};

class RowReader {
 public:
  explicit RowReader(const CsvTable::Row& row) : row_(row) {}

  [[nodiscard]] KernelRow read() const {
    KernelRow kernel;
    const std::string device(row_.text("device"));
    require(!device.empty(), "{}: the cell is empty; name the device.", row_.place("device"));
    const DataSheet* sheet = find_data_sheet(device);
    kernel.device = sheet == nullptr ? device : sheet->name;
    kernel.library = row_.text("algorithm");
    kernel.place = row_.place();
    kernel.time = microseconds(positive("time_us"));
    const std::string_view op = row_.text("op");
    if (op == "gemm" || op == "bmm") {
      kernel.kernel = product();
    } else if (op == "attention") {
      kernel.kernel = attention();
    } else if (const auto kind = collective_kind(op)) {
      kernel.kernel = collective(*kind);
    } else if (row_.number("size_bytes") && !row_.number("ranks")) {
      kernel.kernel =
          MeasuredPass{fmt::format("{}{}", op, is_backward() ? " backward" : ""), Bytes(positive("size_bytes"))};
    } else {
      throw Unused{fmt::format("no term predicts '{}'", op)};
    }
    kernel.dtype = type().name;
    return kernel;
  }

 private:
  [[nodiscard]] TypeName type() const {
    const std::string_view written = row_.text("dtype");
    const auto* found =
        std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeName& known) { return known.written == written; });
    require(found != kTypes.end(), "{}: unknown type '{}'; expected bf16, fp16, fp32, tf32, fp8 or fp8_block.",
            row_.place("dtype"), written);
    return *found;
  }
  [[nodiscard]] double positive(std::string_view column) const {
    const std::optional<double> value = row_.number(column);
    require(value && *value > 0, "{}: '{}' is not a number above 0.", row_.place(column), row_.text(column));
    return *value;
  }
  [[nodiscard]] std::int64_t size(std::string_view column) const {
    const std::optional<std::int64_t> value = row_.integer(column, 1, kMaxSize);
    require(value.has_value(), "{}: the cell is empty; give a size.", row_.place(column));
    return *value;
  }
  [[nodiscard]] std::int64_t size_or(std::string_view column, std::int64_t otherwise) const {
    return row_.integer(column, 1, kMaxSize).value_or(otherwise);
  }
  // "v_dim=64" among the words of the algorithm.
  [[nodiscard]] std::optional<std::int64_t> number_behind(std::string_view algorithm, std::string_view name) const {
    const std::size_t at = algorithm.find(name);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view digits = algorithm.substr(at + name.size());
    return parse_integer(digits.substr(0, digits.find_first_not_of("0123456789")), row_.place("algorithm"), 1, 1 << 30);
  }
  [[nodiscard]] bool is_backward() const { return row_.text("direction") == "bwd"; }

  [[nodiscard]] ProductShape product() const {
    const std::string_view algorithm = row_.text("algorithm");
    if (algorithm.find("dgrad+wgrad") != std::string_view::npos) throw Unused{"two products were timed as one"};
    const Bytes element(type().bytes);
    ProductShape shape{size_or("batch", 1), size("m"), size("n"), size("k"), element, element};
    // Products of eight bits have results of 16.
    if (element.si() < 2) shape.result_element = Bytes(2);
    // A sum that is accumulated is read and written.
    if (algorithm.find("out=fp32") != std::string_view::npos)
      shape.result_element = Bytes(algorithm.find("accumulate") != std::string_view::npos ? 8 : 4);
    return shape;
  }
  [[nodiscard]] AttentionShape attention() const {
    AttentionShape shape;
    shape.batch = size("batch");
    shape.heads = size("heads");
    shape.kv_heads = size_or("kv_heads", shape.heads);
    require(shape.heads % shape.kv_heads == 0, "{}: {} query heads cannot share {} key and value heads evenly.",
            row_.place("kv_heads"), shape.heads, shape.kv_heads);
    shape.queries = size("seq_q");
    shape.keys = size_or("seq_kv", shape.queries);
    shape.key_width = shape.value_width = size("head_dim");
    const std::string_view algorithm = row_.text("algorithm");
    if (const auto width = number_behind(algorithm, "v_dim=")) shape.value_width = *width;
    shape.causal = row_.integer("causal", 0, 1).value_or(0) == 1;
    if (const auto window = number_behind(algorithm, "window="); window && *window < shape.keys) {
      // Every query meets `window` keys: a dense rectangle of that width.
      shape.keys = *window;
      shape.causal = false;
    }
    shape.backward = is_backward();
    shape.element = Bytes(type().bytes);
    return shape;
  }
  [[nodiscard]] static std::optional<CollectiveKind> collective_kind(std::string_view op) {
    if (op == "all_reduce") return CollectiveKind::AllReduce;
    if (op == "all_gather") return CollectiveKind::AllGather;
    if (op == "reduce_scatter") return CollectiveKind::ReduceScatter;
    if (op == "all_to_all") return CollectiveKind::AllToAll;
    return std::nullopt;
  }
  [[nodiscard]] MeasuredCollective collective(CollectiveKind kind) const {
    const auto hosts = static_cast<int>(row_.integer("hosts", 1, 1 << 20).value_or(1));
    const auto ranks = static_cast<int>(size("ranks"));
    require(ranks >= 2, "{}: a collective needs at least 2 ranks.", row_.place("ranks"));
    return {kind, ranks, hosts, std::string(row_.text("topology")), Bytes(positive("size_bytes"))};
  }

  const CsvTable::Row& row_;
};

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace

KernelRows read_kernel_rows(const CsvTable& table) {
  for (const char* column : {"device", "op", "dtype", "time_us"})
    require(table.has(column), "{}: the column '{}' is missing; docs/files.md lists the columns of measured kernels.",
            table.rows().front().place(), column);
  KernelRows result;
  for (const CsvTable::Row& row : table.rows()) {
    try {
      result.rows.push_back(RowReader(row).read());
    } catch (const InputError& error) {
      result.rejected.push_back({row.place(), error.what()});
    } catch (const Unused& unused) {
      result.unused.push_back({row.place(), unused.reason});
    }
  }
  return result;
}

std::string shape_group(const KernelRow& row) {
  return std::visit(
      Overloaded{[](const ProductShape& product) {
                   const auto [low, high] = std::minmax(product.n, product.k);
                   return fmt::format("product {}x{}", low, high);
                 },
                 [](const AttentionShape& attention) {
                   return fmt::format("attention {}x{}", attention.batch * attention.heads, attention.key_width);
                 },
                 [](const MeasuredCollective& collective) {
                   return fmt::format("{} {}", name_of(collective.kind), std::floor(std::log2(collective.size.si())));
                 },
                 [](const MeasuredPass& pass) { return fmt::format("{} {}", pass.kind, pass.operand.si()); }},
      row.kernel);
}

const char* term_name(const KernelRow& row) {
  return std::visit(
      Overloaded{[](const ProductShape&) { return "products"; }, [](const AttentionShape&) { return "attention"; },
                 [](const MeasuredCollective&) { return "network"; }, [](const MeasuredPass&) { return "memory"; }},
      row.kernel);
}

// Libraries have kernels of their own for batches.
std::string product_family(const ProductShape& product) { return product.batch > 1 ? "batched products" : "products"; }

std::string attention_family(const AttentionShape& attention) {
  return fmt::format("attention {}{}", attention.causal ? "causal" : "dense", attention.backward ? " backward" : "");
}

std::string collective_family(CollectiveKind kind, int hosts) {
  return fmt::format("{} over {} host{}", name_of(kind), hosts, hosts == 1 ? "" : "s");
}

bool includes_launch(const KernelRow& row) { return row.library.find("incl. launch") != std::string::npos; }

std::optional<std::string> kernel_family(const KernelRow& row) {
  using Family = std::optional<std::string>;
  const auto says = [&](const char* word) { return row.library.find(word) != std::string::npos; };
  return std::visit(Overloaded{[&](const ProductShape& product) -> Family {
                                 return product_family(product) + (includes_launch(row) ? " with launch" : "");
                               },
                               [&](const AttentionShape& attention) -> Family {
                                 return attention_family(attention) + (says("deterministic") ? " deterministic" : "") +
                                        (says("window=") ? " windowed" : "");
                               },
                               [](const MeasuredCollective& collective) -> Family {
                                 return collective_family(collective.kind, collective.hosts);
                               },
                               [](const MeasuredPass&) -> Family { return std::nullopt; }},
                    row.kernel);
}

std::string implementation(const KernelRow& row) {
  const std::string_view text = row.library;
  std::string name(text.substr(0, text.find_first_of("- ")));
  if (const std::size_t kernel = text.find(':'); kernel != std::string_view::npos)
    name += text.substr(kernel, text.find(' ', kernel) - kernel);
  if (text.find("window=") != std::string_view::npos) name += " windowed";
  const auto* collective = std::get_if<MeasuredCollective>(&row.kernel);
  return collective == nullptr ? name : fmt::format("{}: {}", name, collective->fabric);
}

}  // namespace meshwright
