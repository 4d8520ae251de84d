// SPDX-License-Identifier: Apache-2.0
// The physical cost model: terms of costmodel/terms/ with a device's data sheet and calibrated constants, as one
// software spends them.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/errors.h"
#include "costmodel/cost_models.h"
#include "costmodel/model_per_group.h"
#include "costmodel/sheets/kernel_constants.h"
#include "costmodel/sheets/software_profile.h"
#include "costmodel/terms/op_shapes.h"

namespace meshwright {

namespace {

// What a pass over unfused scores moves, in units of the scores: the two products write and read them once each
// (counted with the products), masking, softmax and dropout read and write them and their mask.
constexpr double kScorePassesForward = 4.5, kScorePassesBackward = 5.5;
// Gradients of weights that are added into 32-bit sums inside the product take 1.05 times as long as the forward
// product of the same sizes (Transformer Engine on A100 and B200: 1.05 to 1.07).
constexpr double kAccumulatingProduct = 1.05;

constexpr double kCorner = 4.0;

struct DTypeConstants {
  ProductUnit unit;
  ProductConstants products;
};

class PhysicalCostModel final : public CostModel {
 public:
  PhysicalCostModel(std::unique_ptr<CostModel> analytic, HostGroup group, const DataSheet& sheet,
                    const SoftwareProfile& software, const MeasuredKernels& measured)
      : analytic_(std::move(analytic)),
        group_(std::move(group)),
        sheet_(sheet),
        software_(software),
        measured_(measured),
        sustained_(sustained_factor(sheet.generation)),
        causal_(KernelConstants::shipped().attention(sheet, true)),
        dense_(KernelConstants::shipped().attention(sheet, false)) {
    for (const auto& [dtype, peak] : sheet.peak)
      products_.emplace(dtype, DTypeConstants{sheet.unit(dtype), KernelConstants::shipped().products(sheet, dtype)});
    for (const CollectiveKind kind : kKinds)
      collectives_[static_cast<std::size_t>(kind)] = KernelConstants::shipped().collectives(sheet, kind);
  }

  [[nodiscard]] TimeEstimate compute(const OpWork& work) const override {
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

  [[nodiscard]] TimeEstimate collective(CollectiveKind kind, Bytes bytes, const MeshAxis& axis) const override {
    const auto& protocols = collectives_[static_cast<std::size_t>(kind)];
    if (axis.outer > 1 || axis.inner < 2 || !protocols) return analytic_->collective(kind, bytes, axis);
    const TimeEstimate alone =
        measured_.collective(sheet_, kind, bytes, axis.inner, collective_time(kind, bytes, axis.inner, *protocols));
    return {software_.collective_factor * alone.time, alone.basis};
  }

  [[nodiscard]] TimeEstimate transfer(Bytes bytes, bool hosts_apart, int concurrent) const override {
    return analytic_->transfer(bytes, hosts_apart, concurrent);
  }

  [[nodiscard]] Seconds run_overhead() const override { return software_.dispatch_run; }
  // The host issues work ahead of the device: the longer of the two decides, with a soft corner, as ops of a pass
  // differ in how far ahead the host is.
  [[nodiscard]] Seconds run(const RunWork& work) const override {
    const Seconds host =
        software_.dispatch_run + work.ops * software_.dispatch + work.collectives * software_.dispatch_collective;
    return Seconds(std::pow(std::pow(work.device.si(), kCorner) + std::pow(host.si(), kCorner), 1 / kCorner));
  }

 private:
  static constexpr std::array kKinds = {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter,
                                        CollectiveKind::AllGather, CollectiveKind::AllToAll};

  [[nodiscard]] Seconds time_of(const OpWork& work) const {
    switch (work.kind) {
      case OpKind::BiasAdd:
        return software_.fused_bias ? Seconds(0.0) : pass(work.bytes);
      case OpKind::Accumulate:
        return software_.fused_accumulation ? Seconds(0.0) : pass(work.bytes);
      case OpKind::Reshape:
        return Seconds(0.0);  // names change, bytes stay where they are
      default:
        return work.flops.si() > 0 ? analytic_->compute(work).time : pass(work.bytes);
    }
  }

  [[nodiscard]] Seconds pass(Bytes bytes) const { return software_.pass_factor * bytes / sheet_.memory_bandwidth; }

  [[nodiscard]] const DTypeConstants& constants_of(DType dtype) const {
    const auto found = products_.find(name_of(dtype));
    require(found != products_.end(), "the data sheet of {} has no peak for {}; choose another dtype or device.",
            sheet_.name, name_of(dtype));
    return found->second;
  }

  [[nodiscard]] TimeEstimate product(const OpWork& work) const {
    const auto signature = parse_signature(work.signature);
    const auto shape = signature ? product_of(*signature) : std::nullopt;
    return shape ? product(*shape, work.dtype) : analytic_->compute(work);
  }
  [[nodiscard]] TimeEstimate product(const ProductShape& shape, DType dtype) const {
    const DTypeConstants& constants = constants_of(dtype);
    return sustained(
        measured_.product(sheet_, name_of(dtype), shape, product_time(shape, constants.unit, constants.products)));
  }
  // Measurements are of kernels alone, in bursts.
  [[nodiscard]] TimeEstimate sustained(const TimeEstimate& burst) const {
    return {sustained_ * burst.time, burst.basis};
  }

  [[nodiscard]] TimeEstimate attention(const OpWork& work) const {
    const auto signature = parse_signature(work.signature);
    const auto shape = signature ? attention_of(*signature) : std::nullopt;
    if (!shape) return analytic_->compute(work);
    if (!software_.fused_attention) return {unfused_attention(*shape, work.dtype), Basis::Modelled};
    return sustained(
        measured_.attention(sheet_, name_of(work.dtype), *shape,
                            attention_time(*shape, constants_of(work.dtype).unit, shape->causal ? causal_ : dense_)));
  }

  // Two batched products, of all scores whatever the mask, and passes over the scores between them; twice the products
  // in the backward pass.
  [[nodiscard]] Seconds unfused_attention(const AttentionShape& shape, DType dtype) const {
    const std::int64_t batch = shape.batch * shape.heads;
    const auto time = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
      return product({batch, m, n, k, shape.element, shape.element}, dtype).time;
    };
    const Seconds products =
        time(shape.queries, shape.keys, shape.key_width) + time(shape.queries, shape.value_width, shape.keys);
    const Bytes scores = static_cast<double>(batch) * static_cast<double>(shape.queries) *
                         static_cast<double>(shape.keys) * shape.element;
    return shape.backward ? 2.0 * products + pass(kScorePassesBackward * scores)
                          : products + pass(kScorePassesForward * scores);
  }

  std::unique_ptr<CostModel> analytic_;  // for what has no term: links between hosts, convolutions
  HostGroup group_;
  const DataSheet& sheet_;
  const SoftwareProfile& software_;
  const MeasuredKernels& measured_;
  double sustained_;
  AttentionConstants causal_, dense_;
  std::map<std::string, DTypeConstants, std::less<>> products_;
  std::array<std::optional<CollectiveProtocols>, kKinds.size()> collectives_;  // by CollectiveKind
};

}  // namespace

std::unique_ptr<CostModel> make_physical_cost_model(const Cluster& cluster, const SoftwareProfile& software,
                                                    const MeasuredKernels* measured) {
  static const MeasuredKernels kNone;
  return model_per_group(cluster, [&](const HostGroup& group) -> std::unique_ptr<CostModel> {
    const DataSheet* sheet = find_data_sheet(group.device.name);
    require(sheet != nullptr, "cluster '{}': no data sheet has a device '{}'; leave --software out.", cluster.name,
            group.device.name);
    return std::make_unique<PhysicalCostModel>(make_analytic_cost_model({cluster.name, {group}}), group, *sheet,
                                               software, measured == nullptr ? kNone : *measured);
  });
}

}  // namespace meshwright
