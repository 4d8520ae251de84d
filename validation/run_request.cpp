// SPDX-License-Identifier: Apache-2.0
#include "validation/run_request.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "costmodel/sheets/data_sheet.h"

namespace meshwright {

namespace {

template <class... Args>
void expect(bool sound, fmt::format_string<Args...> text, Args&&... args) {
  if (!sound) throw ContradictionError(fmt::format(text, std::forward<Args>(args)...));
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// --- cluster ---

const DataSheet& sheet_of(const PublishedRun& run) {
  const std::string with_memory =
      run.device_memory_gb ? fmt::format("{}-{:.0f}GB", run.device, *run.device_memory_gb) : run.device;
  const DataSheet* sheet = find_data_sheet(with_memory);
  if (sheet == nullptr) sheet = find_data_sheet(run.device);
  expect(sheet != nullptr, "no data sheet has a device '{}'; give one of costmodel/sheets/devices.json.", run.device);
  return *sheet;
}

// The number right before position `end`: "4x", "800 G".
std::optional<double> number_before(const std::string& text, std::size_t end) {
  while (end > 0 && text[end - 1] == ' ') --end;
  std::size_t begin = end;
  while (begin > 0 && (std::isdigit(static_cast<unsigned char>(text[begin - 1])) != 0)) --begin;
  if (begin == end) return std::nullopt;
  return std::stod(text.substr(begin, end - begin));
}

// Gb/s of a host, as far as the text says: "800 Gb/s per node", "400 Gb/s RDMA per GPU", "8x400G", "4x 100Gb RoCE per
// node", "8x HDR 200G", "4x HDR IB", "400GB/s per node".
std::optional<double> network_of_text(const std::string& text, std::int64_t devices_per_host) {
  if (const auto at = text.find("GB/s per node"); at != std::string::npos)
    if (const auto rate = number_before(text, at)) return 8.0 * *rate;
  if (const auto at = text.find(" Gb/s per node"); at != std::string::npos) {
    const auto rate = number_before(text, at);
    // "4x Omni-Path 100 Gb/s per node": four of them.
    const std::size_t x = text.rfind("x ", at);
    const std::size_t part = text.find_last_of(";(", at);
    const bool several = x != std::string::npos && (part == std::string::npos || x > part);
    if (rate) return *rate * (several ? number_before(text, x).value_or(1.0) : 1.0);
  }
  if (const auto at = text.find(" Gb/s RDMA per GPU"); at != std::string::npos)
    if (const auto rate = number_before(text, at)) return *rate * static_cast<double>(devices_per_host);
  // COUNTx [WORDS] RATE(G|Gb), or COUNTx and a generation's name; of several networks the fastest carries the training,
  // and not the one for storage and management.
  std::optional<double> fastest;
  const auto note = [&](double rate) { fastest = std::max(fastest.value_or(0.0), rate); };
  for (std::size_t x = text.find('x'); x != std::string::npos; x = text.find('x', x + 1)) {
    const auto count = number_before(text, x);
    if (!count || *count > 16) continue;
    const std::size_t end = std::min(text.find_first_of(";,+", x), text.size());
    const std::size_t before = text.find_last_of(";,+", x);
    const std::size_t begin = before == std::string::npos ? 0 : before;
    const std::string rest = text.substr(x + 1, end - x - 1), part = text.substr(begin, end - begin);
    if (!has(part, "Compute") && (has(part, "Management") || has(part, "Storage") || has(part, "Ethernet"))) continue;
    bool stated = false;
    for (std::size_t i = 0; i < rest.size() && !stated; ++i)
      if (rest[i] == 'G')
        if (const auto rate = number_before(rest, i); rate && *rate >= 10) {
          note(*count * *rate);
          stated = true;
        }
    if (!stated && has(rest, "HDR")) note(*count * 200);
    if (!stated && has(rest, "NDR")) note(*count * 400);
  }
  return fastest;
}

// --- model ---

// What the software computes with: parts of 128 words, or equal parts that leave a rest out.
std::int64_t parted_vocabulary(std::int64_t words, std::int64_t tp, bool padded) {
  if (!padded) return words / tp * tp;
  const std::int64_t multiple = 128 * tp;
  return (words + multiple - 1) / multiple * multiple;
}

DType dtype_of(const PublishedRun& run) {
  const std::string& precision = run.precision;
  if (has(precision, "fp32") || has(precision, "tf32")) return DType::F32;
  if (precision.starts_with("fp16")) return DType::F16;
  if (precision.empty()) throw InputError("the precision is not stated.");
  if (has(precision, "nvfp4")) throw InputError("products of 4 bits are not modelled");
  return DType::BF16;  // bf16, and the 8-bit formats, in which only products of layers are
}

// Letters and digits in lower case.
std::string plain_name(const std::string& name) {
  std::string plain = lower_case(name);
  std::erase_if(plain, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return plain;
}

// Columns do not say how wide experts are, nor what latent attention is made of: a built-in mixture whose name begins
// the row's does. Its layers are those of the row; of fewer, the same share is dense.
std::optional<ModelConfig> built_in_mixture(const PublishedRun& run, bool padded) {
  for (ModelConfig model : builtin_models()) {
    if (!model.more.contains("experts") || !plain_name(run.model).starts_with(plain_name(model.name))) continue;
    if (run.experts && *run.experts != model.more.at("experts")) continue;
    if (const auto dense = model.more.find("dense_layers"); dense != model.more.end() && dense->second > 0)
      dense->second = std::max<std::int64_t>(1, (dense->second * *run.layers + model.layers / 2) / model.layers);
    model.layers = *run.layers;
    model.seq = *run.seq;
    model.vocab = parted_vocabulary(run.vocab.value_or(model.vocab), *run.tp, padded);
    return model;
  }
  return std::nullopt;
}

ModelConfig whole_model_of(const PublishedRun& run, const SoftwareProfile& software,
                           std::vector<std::string>& assumed) {
  constexpr std::int64_t kUsualVocabulary = 50257;
  if (!run.vocab) assumed.push_back(fmt::format("a vocabulary of {} words", kUsualVocabulary));
  const bool padded = software.pads_vocabulary || !run.vocab;
  const std::int64_t vocab = parted_vocabulary(run.vocab.value_or(kUsualVocabulary), *run.tp, padded);
  const std::int64_t ffn = run.ffn.value_or(4 * *run.hidden), kv_heads = run.kv_heads.value_or(*run.heads);
  const bool gated = run.gated.value_or(run.arch != "gpt");
  const std::string sizes = fmt::format("layers={},hidden={},heads={},seq={},vocab={}", *run.layers, *run.hidden,
                                        *run.heads, *run.seq, vocab);
  if (run.arch == "moe") {
    if (auto known = built_in_mixture(run, padded)) return *known;
    require(run.experts && *run.experts > 0, "experts is not stated; a mixture needs it.");
    return find_builtin_model(fmt::format("mixtral:{},kv_heads={},intermediate={},experts={},top_k={}", sizes, kv_heads,
                                          ffn, *run.experts, run.top_k.value_or(1)));
  }
  if (gated || kv_heads != *run.heads || *run.hidden % *run.heads != 0)
    return find_builtin_model(
        fmt::format("llama:{},kv_heads={},intermediate={},gated={}", sizes, kv_heads, ffn, gated ? 1 : 0));
  if (ffn == 4 * *run.hidden) return find_builtin_model(fmt::format("gpt:{}", sizes));
  return find_builtin_model(fmt::format("gpt2:{},intermediate={}", sizes, ffn));
}

ModelConfig model_of(const PublishedRun& run, const SoftwareProfile& software, std::vector<std::string>& assumed) {
  ModelConfig model = whole_model_of(run, software, assumed);
  if (!run.partly_trained) return model;
  // As the scripts that were measured have it: scripts/performance of Megatron-Bridge, NeMo's lora_tuning.
  constexpr std::int64_t kUsualRank = 16, kQueriesKeysAndValues = 2;
  require(model.more.contains("lora_rank"), "adapters of {} are in no model here.", model.family);
  model.more["lora_rank"] = kUsualRank;
  model.more["lora_targets"] = kQueriesKeysAndValues;
  assumed.push_back(fmt::format("adapters of rank {} of queries, keys and values", kUsualRank));
  return model;
}

// --- plan ---

struct RowDegrees {
  std::int64_t tp, pp, dp, cp, ep, chunks;
};

RowDegrees degrees_of(const PublishedRun& run) {
  // Interleaved passes have two stages or more on a device; where a row says that it does not know, one.
  const std::int64_t chunks = has(run.schedule, "interleaved") && !has(run.schedule, "not stated") ? 2 : 1;
  RowDegrees degrees{*run.tp, run.pp.value_or(1), 1, run.cp.value_or(1), run.ep.value_or(1), run.vpp.value_or(chunks)};
  const std::int64_t model = degrees.tp * degrees.pp * degrees.cp;
  if (run.dp) {
    expect(model * *run.dp == *run.devices, "tp={} x pp={} x dp={} x cp={} is {}, not the {} devices of the row.",
           degrees.tp, degrees.pp, *run.dp, degrees.cp, model * *run.dp, *run.devices);
    degrees.dp = *run.dp;
  } else {
    expect(*run.devices % model == 0, "tp={} x pp={} x cp={} does not divide the {} devices of the row.", degrees.tp,
           degrees.pp, degrees.cp, *run.devices);
    degrees.dp = *run.devices / model;
  }
  if (degrees.pp == 1) degrees.chunks = 1;
  return degrees;
}

struct ScheduleChoice {
  ScheduleKind kind;
  std::int64_t chunks;
};

ScheduleChoice schedule_of_run(const PublishedRun& run, std::int64_t chunks) {
  const std::string& text = run.schedule;
  if (has(text, "zb-v")) return {ScheduleKind::ZeroBubbleV, 2};
  if (has(text, "dualpipe-v")) return {ScheduleKind::DualPipeV, 2};
  if (has(text, "dualpipe")) return {ScheduleKind::DualPipe, 2};
  if (has(text, "v-half")) return {ScheduleKind::VHalf, 2};
  if (has(text, "zb-2p") || has(text, "zb-h2")) return {ScheduleKind::ZeroBubbleH2, 1};
  if (has(text, "zb")) return {ScheduleKind::ZeroBubbleH1, 1};
  if (has(text, "gpipe")) return {ScheduleKind::GPipe, 1};
  if (chunks > 1) return {ScheduleKind::Interleaved, chunks};
  return {ScheduleKind::OneFOneB, 1};
}

// 0 to 3; the software's own where the row does not say.
int zero_of(const PublishedRun& run, const SoftwareProfile& software) {
  if (run.zero.empty()) return 0;
  if (has(run.zero, "zero-2") || run.zero == "2") return 2;
  if (has(run.zero, "fsdp") || has(run.zero, "hsdp") || run.zero == "3") return 3;
  // Software that gathers from sharded master weights splits them over context-parallel ranks, too.
  if (software.weights_from_master && run.cp.value_or(1) > 1) return 3;
  return run.zero == "1" ? 1 : 0;
}

Recompute recompute_of(const PublishedRun& run, const SoftwareProfile& software) {
  if (run.recompute.starts_with("full")) return Recompute::Full;
  // With fused attention nothing that selective recompute drops is kept in the first place.
  if (run.recompute.starts_with("selective") && !software.fused_attention) return Recompute::Selective;
  return Recompute::None;
}

// --- software ---

struct KnownFramework {
  const char* part;      // of the framework's name, in lower case
  const char* software;  // its profile
};
// The first that fits.
constexpr std::array<KnownFramework, 18> kFrameworks = {{
    {"megatron-deepspeed", "megatron-deepspeed"},
    {"megatron-bridge", "nemo"},
    {"(mlperf", "nemo-mlperf"},
    {"nemo", "nemo"},
    {"megatron-core", "nemo"},
    {"+ te", "megatron-te"},
    {"megascale", "nemo"},
    {"megatron", "megatron"},
    {"torchtitan", "torchtitan"},
    {"composer", "fsdp"},
    {"fsdp", "fsdp"},
    {"internevo", "internevo"},
    {"deepspeed", "deepspeed"},
    {"nanotron", "nanotron"},
    {"maxtext", "fsdp2"},
    {"paxml", "fsdp2"},
    {"alpa", "alpa"},
    {"pytorch", "deepspeed"},
}};

// The share of tensor parallelism's communication that stays when it goes on beside products.
constexpr double kExposedBesideProducts = 0.58;
// The release from which on NeMo computes and exchanges what experts read as the profile nemo-2026 says.
constexpr const char* kNewExperts = "26.06";

// What the other columns say of the software.
std::string variant_of(const PublishedRun& run, const std::string& software) {
  if (software == "nemo" && run.release >= kNewExperts) return "nemo-2026";
  if (software == "torchtitan" && run.not_compiled) return "torchtitan-eager";
  if (software == "megatron-deepspeed" && !has(run.attention, "fused softmax")) return "megatron-deepspeed-plain";
  return software;
}

SoftwareProfile software_of(const PublishedRun& run, const std::string& name) {
  if (!name.empty()) return find_software_profile(name);
  const std::string framework = lower_case(run.framework);
  for (const KnownFramework& known : kFrameworks)
    if (has(framework, known.part)) return find_software_profile(variant_of(run, known.software));
  throw InputError(fmt::format("no software profile is known for framework '{}'; give --software.", run.framework));
}

}  // namespace

Cluster cluster_of_run(const PublishedRun& run) {
  const DataSheet& sheet = sheet_of(run);
  const std::int64_t devices = *run.devices;
  std::int64_t per_host = std::min<std::int64_t>(run.devices_per_host.value_or(8), devices);
  const std::int64_t real_host = per_host;
  // One switch joins what several hosts hold.
  if (sheet.domain > 1) {
    per_host = std::min<std::int64_t>(devices, sheet.domain);
    while (devices % per_host != 0 || (per_host & (per_host - 1)) != 0) --per_host;
  }
  require(devices % per_host == 0, "{} devices are not hosts of {}.", devices, per_host);
  const double network = network_of_text(run.interconnect, real_host)
                             .value_or(8e-9 * sheet.network.si() * static_cast<double>(real_host)) *
                         (static_cast<double>(per_host) / static_cast<double>(real_host));
  HostGroup group;
  group.hosts = static_cast<int>(devices / per_host);
  group.devices_per_host = static_cast<int>(per_host);
  group.device.name = sheet.name;
  for (const auto& [dtype, rate] : sheet.peak) group.device.peak.emplace(dtype, rate);
  group.device.memory_bandwidth = sheet.memory_bandwidth;
  group.device.memory = gibibytes(run.device_memory_gb.value_or(sheet.memory.si() / 1e9));
  group.within_host = {microseconds(3), SecondsPerByte(1.0 / sheet.link.si())};
  group.between_hosts = {microseconds(12), SecondsPerByte(8e-9 / network)};
  return {fmt::format("{} x {} {}", group.hosts, per_host, sheet.name), {group}};
}

std::vector<LayerRecompute> spread_recompute(int layers, int count) {
  std::vector<LayerRecompute> spread;
  for (int layer = 0; layer < layers; ++layer)
    if ((layer + 1) * count / layers > layer * count / layers) spread.push_back({layer, layer, Recompute::Full});
  return spread;
}

RunRequest request_of_run(const PublishedRun& run, const std::string& software) {
  RunRequest request;
  const RowDegrees degrees = degrees_of(run);
  request.software = software_of(run, software);
  if (has(run.precision, "fp8")) request.software.product_dtype = "f8";
  if (has(run.precision, "tf32")) request.software.product_dtype = "tf32";
  if (has(run.attention, "flash") || has(run.attention, "cudnn")) request.software.fused_attention = true;
  if (has(run.attention, "unfused")) request.software.fused_attention = false;
  if (run.overlaps_tensor_parallel) request.software.collective_factor *= kExposedBesideProducts;
  PlanRequest& plan = request.plan;
  plan.cluster = cluster_of_run(run);
  plan.model = model_of(run, request.software, request.assumed);
  plan.training.dtype = dtype_of(run);
  const ScheduleChoice schedule = schedule_of_run(run, degrees.chunks);
  plan.search.schedule = schedule.kind;
  plan.search.chunks = static_cast<int>(std::max<std::int64_t>(2, schedule.chunks));
  // Micro-batches of a replica.
  std::int64_t micro_batch = run.micro_batch.value_or(1);
  if (!run.micro_batch && run.micro_batches && run.global_batch)
    micro_batch = std::max<std::int64_t>(1, *run.global_batch / (*run.micro_batches * degrees.dp));
  else if (!run.micro_batch)
    request.assumed.push_back("one sample per micro-batch");
  // Times are of the global batch, so it decides where the number of micro-batches disagrees.
  const std::int64_t samples = micro_batch * degrees.dp;
  const std::int64_t micro_batches =
      run.global_batch ? std::max<std::int64_t>(1, (*run.global_batch + samples / 2) / samples) : *run.micro_batches;
  plan.training.batch = micro_batches * micro_batch * degrees.dp;
  plan.search.microbatches = micro_batches;
  const std::int64_t stages = degrees.pp * schedule.chunks;
  plan.search.layer_cut.cut = cut_for_stages(*run.layers, stages);
  plan.search.recompute = recompute_of(run, request.software);
  if (run.recompute.starts_with("selective") && request.software.fused_attention) {
    const auto layers = static_cast<int>(*run.layers);
    plan.search.recompute_layers =
        spread_recompute(layers, static_cast<int>(request.software.selective_recompute * layers));
  }
  if (run.recompute.starts_with("selective") && request.software.selective_by_op)
    request.recompute_in_memory = Recompute::Selective;
  request.recompute_is_open =
      run.recompute.empty() || has(run.recompute, "not stated") || run.recompute == "none (assumed)";
  // Experts of more groups than there are replicas are whole, and lie on the ranks of tp, too.
  const bool whole_experts = degrees.dp % degrees.ep != 0;
  require(!whole_experts || (degrees.ep % degrees.tp == 0 && degrees.dp % (degrees.ep / degrees.tp) == 0),
          "ep={} divides neither dp={} nor dp x tp={}.", degrees.ep, degrees.dp, degrees.dp * degrees.tp);
  Degrees of_method{.tp = static_cast<int>(degrees.tp),
                    .pp = static_cast<int>(degrees.pp),
                    .cp = static_cast<int>(degrees.cp),
                    .ep = static_cast<int>(degrees.ep)};
  of_method.whole_experts = whole_experts;
  of_method.sequence_parallel = run.sequence_parallel.value_or(false) && degrees.tp > 1;
  of_method.zero = degrees.dp * degrees.cp > 1 ? zero_of(run, request.software) : 0;
  // The schedule has the stages of each rank.
  plan.search.method = method_from_text(method_text(of_method));
  return request;
}

}  // namespace meshwright
