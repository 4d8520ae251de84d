// SPDX-License-Identifier: Apache-2.0
// The physical cost model: terms of costmodel/terms/ with a device's data sheet and calibrated constants, as one
// software spends them.
#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "core/base/errors.h"
#include "costmodel/cost_models.h"
#include "costmodel/model_per_group.h"
#include "costmodel/sheets/kernel_constants.h"
#include "costmodel/sheets/software_profile.h"
#include "costmodel/terms/op_shapes.h"

namespace meshwright {

namespace {

// Bytes that passes over unfused scores move, per score of two bytes: the two products write and read them once each
// (counted with the products); masking, softmax and dropout read and write them and their mask.
constexpr double kScoreBytesForward = 9.0, kScoreBytesBackward = 11.0;
// Unfused attention moves queries, keys, values and results to and from a layout by heads: read and written.
constexpr double kLayoutBytes = 4.0;
// Batched products whose depth or width is not a multiple of 8 elements cannot load 16 bytes at once, and take this
// many times as long (heads of 108 and 150 in the tuning of BLOOM).
constexpr double kMisaligned = 7.0;
// Rows of an odd number of 16-bit elements begin at addresses that loads of four bytes and more cannot start from, so
// that they pass through registers: products of such operands take this many times as long (an unpadded vocabulary of
// 50,257 words: logits at 80 TFLOP/s on an A100).
constexpr double kOddRows = 2.5;
// The longer of the device's and the host's time decides, with a soft corner.
constexpr double kCorner = 4.0;
// Each product quantises operands of which another needs one, too: it pays this share.
constexpr double kQuantiseShare = 0.5;

struct DTypeConstants {
  ProductUnit unit;
  ProductConstants products;
};

class PhysicalCostModel final : public CostModel {
 public:
  PhysicalCostModel(std::unique_ptr<CostModel> analytic, HostGroup group, const DataSheet& sheet,
                    SoftwareProfile software, const MeasuredKernels* measured)
      : analytic_(std::move(analytic)),
        group_(std::move(group)),
        sheet_(sheet),
        software_(std::move(software)),
        measured_(measured),
        causal_(KernelConstants::shipped().attention(sheet, true)),
        dense_(KernelConstants::shipped().attention(sheet, false)) {
    for (const auto& [dtype, peak] : sheet.peak)
      products_.emplace(dtype, DTypeConstants{sheet.unit(dtype), KernelConstants::shipped().products(sheet, dtype)});
    for (const CollectiveKind kind : kKinds)
      collectives_[static_cast<std::size_t>(kind)] = KernelConstants::shipped().collectives(sheet, kind);
  }

  // Plans ask for the same few ops many thousand times.
  [[nodiscard]] TimeEstimate compute(const OpWork& work) const override {
    if (work.signature.empty()) return estimate(work);
    {
      const std::shared_lock lock(known_mutex_);
      if (const auto found = known_.find(work.signature); found != known_.end()) return found->second;
    }
    const TimeEstimate time = estimate(work);
    const std::unique_lock lock(known_mutex_);
    known_.emplace(work.signature, time);
    return time;
  }

  [[nodiscard]] TimeEstimate collective(CollectiveKind kind, Bytes bytes, const MeshAxis& axis) const override {
    const bool exchange = kind == CollectiveKind::AllToAll;
    // What all gather on the way to experts they add up on the way back, which takes as long.
    if (exchange && software_.dispatch == TokenDispatch::ToAll)
      return collective(CollectiveKind::AllGather, bytes * axis.size() / software_.experts_per_token, axis);
    const TimeEstimate by_itself = alone(kind, bytes, axis);
    return {(exchange ? software_.exchange_factor : software_.collective_factor) * by_itself.time, by_itself.basis};
  }

  [[nodiscard]] TimeEstimate transfer(Bytes bytes, bool hosts_apart, int concurrent) const override {
    const LinkCost& link = hosts_apart ? group_.between_hosts : group_.within_host;
    const Bytes on_link = hosts_apart ? concurrent * bytes : bytes;
    const Seconds at_most(software_.message_gbs > 0 ? 1e-9 * bytes.si() / software_.message_gbs : 0.0);
    return {Seconds(1e-6 * software_.message_us) + std::max(link.beta * on_link / software_.message_share, at_most),
            Basis::Modelled};
  }

  [[nodiscard]] MessageTraits messages() const override { return {software_.blocking, software_.scatter_gather}; }

  [[nodiscard]] MoveShares gathers() const override { return move_shares(1.0); }
  [[nodiscard]] MoveShares sums(DType of) const override {
    return move_shares(software_.gradient_bytes / static_cast<double>(size_of(of)));
  }
  [[nodiscard]] HostTimes host_times() const override {
    return {Seconds(1e-6 * software_.dispatch_run_us),
            Seconds(1e-3 * software_.step_ms),
            Seconds(1e-6 * software_.dispatch_us),
            Seconds(1e-6 * software_.dispatch_tokens_us),
            Seconds(1e-6 * software_.dispatch_collective_us),
            Seconds(1e-6 * software_.dispatch_peer_us)};
  }
  [[nodiscard]] Seconds beside_host(Seconds device, Seconds host) const override {
    return Seconds(std::pow(std::pow(device.si(), kCorner) + std::pow(host.si(), kCorner), 1 / kCorner));
  }

  [[nodiscard]] std::optional<Seconds> as_one_product(const std::vector<const OpWork*>& products,
                                                      bool summed) const override {
    if (!software_.fused_projections) return std::nullopt;
    std::optional<ProductShape> all;
    for (const OpWork* work : products) {
      const auto signature = parse_signature(work->signature);
      const auto shape = signature ? product_of(*signature) : std::nullopt;
      if (!shape || (all && (all->batch != shape->batch || all->m != shape->m))) return std::nullopt;
      if (!all)
        all = shape;
      else if (summed ? all->n == shape->n : all->k == shape->k)
        (summed ? all->k : all->n) += summed ? shape->k : shape->n;
      else
        return std::nullopt;
    }
    return all ? std::optional(product_of_shape(*all, products.front()->dtype).time) : std::nullopt;
  }

  [[nodiscard]] TimeEstimate host_transfer(Bytes bytes) const override { return analytic_->host_transfer(bytes); }

  [[nodiscard]] Seconds run_overhead() const override { return Seconds(1e-6 * software_.dispatch_run_us); }
  [[nodiscard]] bool run_depends_on_work() const override { return true; }
  // The host issues work ahead of the device. What moves parameters goes on beside the computation of a pass; the sum
  // of gradients beside the backward passes before the update.
  [[nodiscard]] Seconds run_overhead(const RunWork& work) const override {
    Seconds one_by_one(0.0), moving(0.0);
    for (const ParameterCollectives& some : work.parameters) {
      one_by_one += some.time;
      moving += in_buckets(some);
    }
    // While the tokens of one micro-batch travel, interleaved passes compute another.
    const Seconds hidden(work.interleaved ? software_.exchange_overlap * std::min(work.exchanges.si(), work.ops.si())
                                          : 0.0);
    const Seconds waiting = work.ops - work.fused + work.collectives - hidden;
    if (work.phase == Phase::Update)
      return (1.0 - software_.gradient_overlap) * moving - one_by_one +
             (work.once_per_step ? host_times().step : Seconds(0.0));
    const Seconds device = std::max(waiting + software_.contention * std::min(waiting, moving), moving);
    const HostTimes times = host_times();
    const Seconds host = times.run + work.op_count * times.op + work.token_moves * times.token_move +
                         work.collective_count * times.collective + work.collective_peers * times.peer;
    return beside_host(device, host) - (work.ops + work.collectives) - one_by_one;
  }

 private:
  static constexpr std::array kKinds = {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
                                        CollectiveKind::AllGather, CollectiveKind::AllToAll};

  // Inside a host by the measured protocols. Between hosts a ring through all devices of the axis, in which the network
  // cards of the devices that a host has on it share the work; a tree where latency decides. In an all-to-all every
  // device sends what is for other hosts through its own card.
  [[nodiscard]] TimeEstimate alone(CollectiveKind kind, Bytes bytes, const MeshAxis& axis) const {
    const TimeEstimate inside = in_host(kind, bytes, axis);
    if (axis.outer == 1) return inside;
    const double n = axis.size(), hosts = axis.outer;
    const double through_a_card = kind == CollectiveKind::AllToAll
                                      ? share_between_hosts(hosts) * (hosts - 1.0) / hosts
                                      : (kind == CollectiveKind::AllReduce ? 2.0 : 1.0) * (n - 1.0) / (n * axis.inner);
    const Seconds moving = through_a_card * axis.outer_link.beta * bytes / software_.network_share;
    const Seconds latency = 2.0 * std::ceil(std::log2(static_cast<double>(axis.outer))) * axis.outer_link.alpha;
    return {std::max(moving + latency, inside.time), Basis::Modelled};
  }
  // The share that crosses the network of what copies for every expert would send. A token whose k experts lie on H
  // hosts evenly and by chance has some on H (1 - (1 - 1/H)^k) of them.
  [[nodiscard]] double share_between_hosts(double hosts) const {
    if (software_.dispatch != TokenDispatch::ToHosts) return software_.exchange_between_hosts;
    const double experts = software_.experts_per_token;
    return hosts * (1.0 - std::pow(1.0 - 1.0 / hosts, experts)) / experts;
  }
  // Counts only the part of the axis that is in one host.
  [[nodiscard]] TimeEstimate in_host(CollectiveKind kind, Bytes bytes, const MeshAxis& axis) const {
    if (axis.inner < 2) return {Seconds(0.0), Basis::Modelled};
    const auto& protocols = collectives_[static_cast<std::size_t>(kind)];
    if (!protocols) return analytic_->collective(kind, bytes, {axis.inner, 1, link_in_host(kind, axis), {}});
    const Seconds time = collective_time(kind, bytes, axis.inner, *protocols);
    return measured_ == nullptr ? TimeEstimate{time, Basis::Modelled}
                                : measured_->collective(sheet_, kind, bytes, axis.inner, time);
  }

  [[nodiscard]] LinkCost link_in_host(CollectiveKind kind, const MeshAxis& axis) const {
    const auto& rates = kind == CollectiveKind::AllToAll ? sheet_.all_to_all : sheet_.rings;
    const auto rate = rates.find(axis.inner);
    return rate == rates.end() ? axis.inner_link : LinkCost{axis.inner_link.alpha, inverse(rate->second)};
  }

  // `size`: of what travels, as a share of what the plan says. Buckets take what the collective takes alone.
  [[nodiscard]] MoveShares move_shares(double size) const {
    const double alone = size / software_.collective_factor;
    return {alone, std::min(1.0, software_.contention) * alone, (1.0 - software_.gradient_overlap) * alone};
  }

  // Gradients are summed in the software's type, whatever the plan accumulates in (32 bits for bf16, 16 for f16).
  [[nodiscard]] Seconds in_buckets(const ParameterCollectives& some) const {
    const bool sums = some.kind == CollectiveKind::AllReduce || some.kind == CollectiveKind::ReduceScatter;
    const Bytes bytes = sums ? Bytes(software_.gradient_bytes * some.elements) : some.bytes;
    const double buckets =
        std::clamp(std::ceil(bytes.si() / (software_.bucket_mib * 1024 * 1024)), 1.0, static_cast<double>(some.count));
    return buckets * alone(some.kind, bytes / buckets, some.axis).time;
  }

  [[nodiscard]] TimeEstimate estimate(const OpWork& work) const {
    switch (work.kind) {
      case OpKind::Contract:
        return product(work);
      case OpKind::Attention:
      case OpKind::AttentionBackward:
      case OpKind::GroupedAttention:
      case OpKind::GroupedAttentionBackward:
        return attention(work);
      default:
        return {time_of(work), Basis::Modelled};
    }
  }

  // The time of an op of any other kind.
  [[nodiscard]] Seconds time_of(const OpWork& work) const {
    switch (work.kind) {
      case OpKind::BiasAdd:
        return software_.fused_bias ? Seconds(0.0) : pass(work.bytes);
      case OpKind::Scale:
      case OpKind::Shift:
      case OpKind::Clamp:
      case OpKind::ClampBackward:
        return software_.fused_scaling ? Seconds(0.0) : pass(work.bytes);
      case OpKind::Accumulate:
        return software_.fused_accumulation ? Seconds(0.0) : software_.accumulation_factor * pass(work.bytes);
      case OpKind::AdamUpdate:
        return update(work);
      case OpKind::RowMax:
      case OpKind::SumExp:
      case OpKind::PickLabel:
        return software_.loss_factor * pass(work.bytes);
      case OpKind::CrossEntropyBackward:
        return software_.loss_factor * pass(work.bytes) + between_loss_chunks(work);
      case OpKind::Convolution:
      case OpKind::ConvolutionBackwardInput:
      case OpKind::ConvolutionBackwardWeight:
        return convolution(work);
      case OpKind::Reshape:
        return Seconds(0.0);  // names change, bytes stay where they are
      default:
        return work.flops.si() > 0 ? analytic_->compute(work).time : pass(work.bytes);
    }
  }

  // Each chunk of the loss reads the head's weights for the two products with them, and reads and writes their
  // gradient. Chunks that fit are words / hidden size many, so that the hidden size cancels. Of other numbers the time
  // is not known here, and small: they are fewer.
  [[nodiscard]] Seconds between_loss_chunks(const OpWork& work) const {
    constexpr double kPassesOfChunk = 4.0;
    const auto signature = software_.loss_chunks == kFittingLossChunks ? parse_signature(work.signature) : std::nullopt;
    if (!signature || signature->inputs.empty() || signature->inputs[0].axes.empty()) return Seconds(0.0);
    const auto words = static_cast<double>(signature->sizes.at(signature->inputs[0].axes.back()));
    return Bytes(kPassesOfChunk * words * words * size_of(work.dtype)) / sheet_.memory_bandwidth;
  }

  // Libraries choose among many kernels, which reach very different shares of the peak: one share per software.
  [[nodiscard]] Seconds convolution(const OpWork& work) const {
    if (software_.convolution_share == 0.0) return analytic_->compute(work).time;
    const FlopsPerSecond peak = constants_of(name_of(work.dtype)).unit.peak;
    return std::max(work.flops / (software_.convolution_share * peak), pass(work.bytes));
  }

  [[nodiscard]] Seconds pass(Bytes bytes) const { return software_.pass_factor * bytes / sheet_.memory_bandwidth; }

  // The bytes of the update of a parameter of two bytes with 32-bit gradient, moments and weights are 32 for each.
  [[nodiscard]] Seconds update(const OpWork& work) const {
    constexpr double kCounted = 32.0;
    return software_.optimizer_bytes / kCounted * (work.bytes / sheet_.memory_bandwidth);
  }

  [[nodiscard]] const DTypeConstants& constants_of(std::string_view dtype) const {
    const auto found = products_.find(dtype);
    require(found != products_.end(), "the data sheet of {} has no peak for {}; choose another dtype or device.",
            sheet_.name, dtype);
    return found->second;
  }

  [[nodiscard]] TimeEstimate product(const OpWork& work) const {
    const auto signature = parse_signature(work.signature);
    const auto shape = signature ? product_of(*signature) : std::nullopt;
    if (!shape) return analytic_->compute(work);
    TimeEstimate time = product_of_shape(*shape, work.dtype);
    const bool odd = !software_.pads_vocabulary && shape->operand_element == Bytes(2.0) && has_odd_rows(*signature);
    if (odd && time.basis == Basis::Modelled) time.time = kOddRows * time.time;
    return time;
  }

  [[nodiscard]] static bool has_odd_rows(const OpSignature& signature) {
    const auto odd = [&](const OpSignature::Operand& operand) {
      const std::int64_t row = operand.axes.empty() ? 1 : signature.sizes.at(operand.axes.back());
      return row > 1 && row % 2 == 1;
    };
    return std::any_of(signature.inputs.begin(), signature.inputs.end(), odd) ||
           std::any_of(signature.outputs.begin(), signature.outputs.end(), odd);
  }

  [[nodiscard]] TimeEstimate product_of_shape(const ProductShape& shape, DType dtype) const {
    // Frameworks launch one product for each expert, or one kernel of products that differ in size.
    const double grouped = shape.batch > 1 ? software_.grouped_factor : 1.0;
    // Measured products of 8 bits include the quantisation, which the software's profile counts.
    if (software_.product_dtype == "f8" && products_.contains("f8"))
      return {grouped * eight_bit_product(shape), Basis::Modelled};
    const bool rounded = software_.product_dtype == "tf32" && products_.contains("tf32");
    const TimeEstimate time = product(shape, rounded ? "tf32" : name_of(dtype));
    return {grouped * time.time, time.basis};
  }

  [[nodiscard]] TimeEstimate product(const ProductShape& shape, const std::string& dtype) const {
    const DTypeConstants& constants = constants_of(dtype);
    const Seconds time = product_time(shape, constants.unit, constants.products);
    // Measurements are of kernels alone, in bursts.
    const TimeEstimate burst =
        measured_ == nullptr ? TimeEstimate{time, Basis::Modelled} : measured_->product(sheet_, dtype, shape, time);
    return {sustained(dtype) * burst.time, burst.basis};
  }

  [[nodiscard]] double sustained(const std::string& dtype) const {
    const auto own = sheet_.sustained.find(dtype);
    return software_.sustained * (own != sheet_.sustained.end() ? own->second : sustained_factor(sheet_.generation));
  }

  [[nodiscard]] Seconds eight_bit_product(ProductShape shape) const {
    const DTypeConstants& constants = constants_of("f8");
    shape.operand_element = Bytes(1.0);
    const double operands = static_cast<double>(shape.batch) *
                            (static_cast<double>(shape.m) + static_cast<double>(shape.n)) *
                            static_cast<double>(shape.k);
    const Bytes quantised(kQuantiseShare * software_.quantise_passes * operands);
    return sustained("f8") * product_time(shape, constants.unit, constants.products) +
           quantised / sheet_.memory_bandwidth;
  }

  [[nodiscard]] TimeEstimate attention(const OpWork& work) const {
    const auto signature = parse_signature(work.signature);
    const auto shape = signature ? attention_of(*signature) : std::nullopt;
    if (!shape) return analytic_->compute(work);
    const DTypeConstants& constants = constants_of(name_of(work.dtype));
    if (!software_.fused_attention) return {unfused_attention(*shape, name_of(work.dtype)), Basis::Modelled};
    // With the sequence split over devices, each has pieces of the causal triangle from both ends, so that all have the
    // same share of it; or the last device's decides.
    AttentionShape balanced = *shape;
    double pieces = 1.0;
    if (software_.balances_causal && shape->causal && shape->keys > shape->queries &&
        shape->keys % shape->queries == 0) {
      pieces = static_cast<double>(shape->keys) / static_cast<double>(shape->queries);
      balanced.queries = shape->keys;
    }
    const Seconds time = attention_time(balanced, constants.unit, shape->causal ? causal_ : dense_);
    const TimeEstimate burst = measured_ == nullptr ? TimeEstimate{time, Basis::Modelled}
                                                    : measured_->attention(sheet_, name_of(work.dtype), balanced, time);
    const bool newer = sheet_.generation == "hopper" || sheet_.generation == "blackwell";
    const double factor = software_.attention_factor * (newer ? software_.attention_on_newer : 1.0);
    return {factor * sustained(name_of(work.dtype)) / pieces * burst.time, burst.basis};
  }

  // Two batched products, of all scores whatever the mask, and passes over the scores between them; twice the products
  // in the backward pass.
  [[nodiscard]] Seconds unfused_attention(const AttentionShape& shape, const std::string& dtype) const {
    const std::int64_t batch = shape.batch * shape.heads;
    const auto time = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
      const bool aligned = n % 8 == 0 && k % 8 == 0;
      return (aligned ? 1.0 : kMisaligned) * product({batch, m, n, k, shape.element, shape.element}, dtype).time;
    };
    const Seconds products =
        time(shape.queries, shape.keys, shape.key_width) + time(shape.queries, shape.value_width, shape.keys);
    const double scores =
        static_cast<double>(batch) * static_cast<double>(shape.queries) * static_cast<double>(shape.keys);
    const double elements = static_cast<double>(batch) * static_cast<double>(shape.queries + shape.keys) *
                            static_cast<double>(shape.key_width + shape.value_width);
    const Bytes moved((shape.backward ? kScoreBytesBackward : kScoreBytesForward) * scores);
    const Bytes laid_out((shape.backward ? 1.5 : 1.0) * kLayoutBytes * elements);
    return software_.score_factor * ((shape.backward ? 2.0 : 1.0) * products + pass(moved)) + pass(laid_out);
  }

  std::unique_ptr<CostModel> analytic_;  // for what has no term: links between hosts
  HostGroup group_;
  const DataSheet& sheet_;
  SoftwareProfile software_;
  const MeasuredKernels* measured_;  // nullptr: none
  AttentionConstants causal_, dense_;
  std::map<std::string, DTypeConstants, std::less<>> products_;
  std::array<std::optional<CollectiveProtocols>, kKinds.size()> collectives_;  // by CollectiveKind
  mutable std::shared_mutex known_mutex_;
  mutable std::unordered_map<std::string, TimeEstimate> known_;  // by signature
};

}  // namespace

std::unique_ptr<CostModel> make_physical_cost_model(const Cluster& cluster, const SoftwareProfile& software,
                                                    const MeasuredKernels* measured) {
  return model_per_group(cluster, [&](const HostGroup& group) -> std::unique_ptr<CostModel> {
    const DataSheet* sheet = find_data_sheet(group.device.name);
    require(sheet != nullptr,
            "cluster '{}': no data sheet has a device '{}'; give --software none, which prices its description alone.",
            cluster.name, group.device.name);
    return std::make_unique<PhysicalCostModel>(make_analytic_cost_model({cluster.name, {group}}), group, *sheet,
                                               software, measured);
  });
}

}  // namespace meshwright
