// SPDX-License-Identifier: Apache-2.0
#include "launch/read/megatron/megatron_assertions.h"

#include <algorithm>

#include "core/base/text.h"
#include "launch/rules/launch_rules.h"

namespace meshwright {

namespace {

class FlagChecks {
 public:
  explicit FlagChecks(ReadingJob& job) : job_(job), s_(job.settings()), d_(job.degrees()) {}

  void all() {
    pipeline();
    offloading();
    experts();
    states();
    ramp();
  }

 private:
  void expect(bool kept, const std::string& sentence) {
    if (!kept) job_.broken(sentence);
  }

  void pipeline() {
    const bool unhidden = s_.flag("no-overlap-p2p-communication");
    for (const char* key : {"num-virtual-stages-per-pipeline-rank", "num-layers-per-virtual-pipeline-stage"})
      if (s_.integer(key))
        expect(d_.pp > (unhidden ? 2 : 1),
               fmt::format("--{} needs pp above {}, and it is {}", key, unhidden ? 2 : 1, d_.pp));
    if (s_.flag("defer-embedding-wgrad-compute"))
      expect(d_.pp > 1, "--defer-embedding-wgrad-compute needs pp above 1, and it is 1");
    if (s_.flag("hybrid-context-parallel")) {
      expect(d_.pp == 1, fmt::format("--hybrid-context-parallel needs pp 1, and it is {}", d_.pp));
      job_.assume("every sequence over the same ranks of cp, without --hybrid-context-parallel");
    }
    if (s_.flag("distribute-saved-activations"))
      expect(d_.tp > 1 && !d_.sequence_parallel,
             "--distribute-saved-activations needs tp above 1 without --sequence-parallel");
    if (!s_.flag("use-tp-pp-dp-mapping") || d_.pp == 1) return;
    const std::int64_t replicas = job_.reading.setup.devices() / std::max<std::int64_t>(1, expert_ranks() * d_.pp);
    expect(replicas == d_.dp,
           fmt::format("--use-tp-pp-dp-mapping needs devices / (etp x ep x pp) = {} to be dp = {}", replicas, d_.dp));
  }

  // etp x ep
  std::int64_t expert_ranks() { return s_.integer("expert-tensor-parallel-size").value_or(d_.tp) * d_.ep; }

  void offloading() {
    if (s_.integer("cpu-offloading-num-layers", 0).value_or(0) > 0) {
      expect(d_.pp == 1, fmt::format("--cpu-offloading-num-layers needs pp 1, and it is {}", d_.pp));
      expect(d_.recompute == Recompute::None && job_.reading.setup.recompute_layers.empty() &&
                 job_.reading.setup.degrees.recompute_modules == RecomputeModules::None,
             "--cpu-offloading-num-layers excludes --recompute-granularity");
    }
  }

  void experts() {
    if (s_.flag("moe-router-enable-expert-bias")) {
      const std::string score = s_.text("moe-router-score-function").value_or("softmax");
      expect(score == "sigmoid" || score == "sqrtsoftplus",
             fmt::format("--moe-router-enable-expert-bias needs --moe-router-score-function sigmoid, and it is {}",
                         score));
    }
    const std::string dispatcher = s_.text("moe-token-dispatcher-type").value_or("allgather");
    if (dispatcher == "flex" && s_.text("moe-flex-dispatcher-backend").value_or("deepep") != "hybridep")
      expect(expert_ranks() > 1, "--moe-token-dispatcher-type flex needs etp x ep above 1, and it is 1");
    if (!s_.flag("overlap-moe-expert-parallel-comm")) return;
    expect(d_.ep > 1, "--overlap-moe-expert-parallel-comm needs ep above 1, and it is 1");
    expect(dispatcher != "allgather",
           "--overlap-moe-expert-parallel-comm needs --moe-token-dispatcher-type alltoall or flex");
    expect(d_.pp == 1 || d_.chunks > 1, "--overlap-moe-expert-parallel-comm in a pipeline needs virtual stages");
    expect(d_.recompute != Recompute::Full && job_.reading.setup.recompute_layers.empty(),
           "--overlap-moe-expert-parallel-comm excludes --recompute-granularity full");
    expect(job_.reading.setup.dtype == DType::BF16 || job_.reading.setup.dtype == DType::F16,
           "--overlap-moe-expert-parallel-comm needs --bf16 or --fp16");
  }

  void states() {
    const std::string kind = s_.text("optimizer").value_or("adam");
    const bool aware = s_.flag("use-precision-aware-optimizer");
    if (aware)
      expect(kind == "adam", fmt::format("--use-precision-aware-optimizer needs --optimizer adam, and it is {}", kind));
    if (s_.flag("optimizer-cpu-offload"))
      expect(aware, "--optimizer-cpu-offload needs --use-precision-aware-optimizer");
  }

  // Every batch on the way is one of whole micro-batches of all replicas.
  void ramp() {
    std::vector<std::string> given = s_.words("rampup-batch-size");
    if (given.size() < 2) return;
    const auto number = [&](const std::string& word) {
      return parse_integer(word, s_.where("rampup-batch-size"), 0, 1'000'000'000);
    };
    const std::int64_t start = number(given[0]), more = number(given[1]);
    const std::int64_t unit = d_.micro_batch * d_.dp, whole = job_.reading.setup.global_batch();
    for (const auto& [what, value] : {std::pair{"starts with", start}, {"adds", more}})
      if (unit > 0 && value > 0)
        expect(value % unit == 0,
               fmt::format("--rampup-batch-size {} {}, which is not a multiple of mbs x dp = {} x {}{}", what, value,
                           d_.micro_batch, d_.dp, nearest_multiples(value, unit)));
    if (more > 0 && whole > start)
      expect((whole - start) % more == 0,
             fmt::format("--rampup-batch-size does not reach gbs {} from {} by steps of {}", whole, start, more));
  }

  ReadingJob& job_;
  Settings& s_;
  const Degrees& d_;
};

}  // namespace

void check_flags_together(ReadingJob& job) {
  if (job.text.variant.empty() && (job.text.target == "megatron" || job.text.target == "megatron-bridge"))
    FlagChecks(job).all();
}

}  // namespace meshwright
