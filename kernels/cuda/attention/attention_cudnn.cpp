// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/attention_cudnn.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cuda/attention/attention_graph_cudnn.h"
#include "kernels/cuda/runtime/cudnn_calls.h"

namespace meshwright::kernels::cuda {

namespace {

using namespace attention_operand;

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

enum class Pass { Forward, ForwardWithLogSums, Backward };

template <class T>
HeadStrides strides_of(const HeadView<T>& view) {
  return {view.sample, view.row, view.head};
}

// A forward's has no strides of gradients.
template <class T>
AttentionProblem problem_of(const AttentionCall<T>& call) {
  const AttentionShape& s = call.shape;
  AttentionProblem problem{};
  problem.type = kCudnnType<T>;
  problem.shape = s;
  problem.q = strides_of(call.operands.q);
  problem.k = strides_of(call.operands.k);
  problem.v = strides_of(call.operands.v);
  problem.out = strides_of(dense_heads<T>(nullptr, s.seq, s.heads(), s.value_dim));
  problem.causal = call.rule.causal;
  problem.window = call.rule.window;
  problem.first_position = call.rule.first_position;
  return problem;
}
template <class T>
AttentionProblem problem_of(const AttentionCall<T>& call, const AttentionGradients<T>& gradients) {
  AttentionProblem problem = problem_of(call);
  problem.dq = strides_of(gradients.operands.q);
  problem.dk = strides_of(gradients.operands.k);
  problem.dv = strides_of(gradients.operands.v);
  return problem;
}
AttentionProblem without_gradients(AttentionProblem problem) {
  problem.dq = problem.dk = problem.dv = {};
  return problem;
}

using Key = std::vector<std::int64_t>;
Key key_of(Pass pass, const AttentionProblem& p) {
  const AttentionShape& s = p.shape;
  Key key = {static_cast<std::int64_t>(pass),
             p.type,
             s.batch,
             s.seq,
             s.kv_seq,
             s.kv_heads,
             s.group,
             s.key_dim,
             s.value_dim,
             p.causal,
             p.window,
             p.first_position};
  for (const HeadStrides& strides : {p.q, p.k, p.v, p.out, p.dq, p.dk, p.dv})
    key.insert(key.end(), {strides.sample, strides.row, strides.head});
  return key;
}

// --- what is not even asked for ---

// 16 bytes can be read at once, of every row.
template <class T>
bool lies_well(const HeadView<T>& view) {
  const auto in_eights = [](std::int64_t stride) { return stride % 8 == 0; };
  return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 && in_eights(view.sample) && in_eights(view.row) &&
         in_eights(view.head);
}
template <class T>
bool lie_well(const AttentionViews<T>& views) {
  return lies_well(views.q) && lies_well(views.k) && lies_well(views.v);
}

// Why not, or null.
template <class T>
const char* obstacle(const AttentionCall<T>& call, const T* result) {
  const AttentionShape& s = call.shape;
  const AttentionRule<T>& rule = call.rule;
  if (rule.sink != nullptr || rule.distance_bias != nullptr || rule.mask != nullptr)
    return "it has a sink, a bias or a mask";
  if (std::min({s.batch, s.seq, s.kv_seq, s.kv_heads, s.group, s.key_dim, s.value_dim}) < 1) return "it is empty";
  if (s.key_dim % 8 != 0 || s.value_dim % 8 != 0) return "its heads are not of eights of elements";
  if (std::max({s.seq, s.kv_seq, rule.first_position + s.seq}) > std::numeric_limits<std::int32_t>::max())
    return "it has positions beyond 32 bits";
  if (rule.first_position < 0) return "it begins before the first key";
  if (rule.window > 0 && (!rule.causal || s.seq > s.kv_seq)) return "its window is of another kind";
  if (!lie_well(call.operands) || reinterpret_cast<std::uintptr_t>(result) % 16 != 0)
    return "its operands lie at no multiples of 16 bytes";
  return nullptr;
}

// --- parts of a call ---

struct Part {
  std::int64_t sample = 0, kv_head = 0;
};

// So many samples with all their heads or, of one sample, so many heads of keys.
AttentionProblem with(const AttentionProblem& whole, std::int64_t samples, std::int64_t kv_heads) {
  AttentionProblem part = whole;
  part.shape.batch = samples;
  part.shape.kv_heads = kv_heads;
  return part;
}

// The largest part, all alike, whose share of `bytes` is at most `room`; none: not even one head's is.
std::optional<AttentionProblem> largest_part(const AttentionProblem& whole, std::size_t bytes, std::size_t room) {
  const AttentionShape& s = whole.shape;
  for (std::int64_t samples = s.batch; samples >= 1; --samples)
    if (s.batch % samples == 0 && bytes / static_cast<std::size_t>(s.batch / samples) <= room)
      return with(whole, samples, s.kv_heads);
  const std::size_t of_sample = bytes / static_cast<std::size_t>(s.batch);
  for (std::int64_t heads = s.kv_heads; heads >= 1; --heads)
    if (s.kv_heads % heads == 0 && of_sample / static_cast<std::size_t>(s.kv_heads / heads) <= room)
      return with(whole, 1, heads);
  return std::nullopt;
}

// Of the scores' gradients, which a backward's workspace holds.
std::size_t score_bytes(const AttentionShape& s) {
  return static_cast<std::size_t>(s.batch * s.heads() * s.seq) * static_cast<std::size_t>(s.kv_seq) * 2;
}

template <class Action>
void for_each_part(const AttentionShape& whole, const AttentionShape& part, Action action) {
  for (std::int64_t sample = 0; sample < whole.batch; sample += part.batch)
    for (std::int64_t head = 0; head < whole.kv_heads; head += part.kv_heads) action(Part{sample, head});
}

// The scalars of a graph, as the host has them.
struct Values {
  float scale, one = 1.0f, nothing = -std::numeric_limits<float>::infinity(), window_shift;
  std::int32_t shift, keys, queries;

  template <class T>
  explicit Values(const AttentionCall<T>& call)
      : scale(static_cast<float>(call.rule.scale)),
        window_shift(static_cast<float>(call.rule.window - call.rule.first_position)),
        shift(static_cast<std::int32_t>(call.rule.first_position)),
        keys(static_cast<std::int32_t>(call.shape.kv_seq)),
        queries(static_cast<std::int32_t>(call.shape.seq)) {}

  void add_to(std::vector<GraphPlan::Operand>& operands, const AttentionProblem& p) const {
    operands.push_back({kScale, &scale});
    if (p.has_last_key()) {
      operands.push_back({kNothing, &nothing});
      if (p.has_bottom_right_diagonal())
        operands.insert(operands.end(), {{kKeys, &keys}, {kQueries, &queries}});
      else if (p.first_position != 0)
        operands.push_back({kShift, &shift});
    }
    if (p.has_first_key()) operands.insert(operands.end(), {{kNothingToo, &nothing}, {kWindowShift, &window_shift}});
  }
};

// Where a part's operands begin.
template <class T>
struct PartOf {
  const AttentionShape& shape;
  Part part;

  template <class View>
  [[nodiscard]] const void* queries(const View& view) const {
    return view.at(part.sample, 0, part.kv_head * shape.group);
  }
  template <class View>
  [[nodiscard]] const void* keys(const View& view) const {
    return view.at(part.sample, 0, part.kv_head);
  }
  [[nodiscard]] const void* results(const T* array) const {
    return queries(dense_heads(array, shape.seq, shape.heads(), shape.value_dim));
  }
  [[nodiscard]] const void* statistics(const float* array) const {
    return array + (part.sample * shape.heads() + part.kv_head * shape.group) * shape.seq;
  }
};

}  // namespace

struct CudnnAttention::State {
  // How a pass of a problem runs: `part` by part.
  struct Way {
    std::optional<GraphPlan> plan;
    AttentionProblem part;
    std::string answer;
  };

  struct Closer {
    void operator()(cudnnHandle_t handle) const { (void)cudnnDestroy(handle); }
  };
  std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, Closer> library;
  std::size_t room;
  std::map<Key, Way> ways;
  std::string answer;

  explicit State(std::size_t bytes) : room(bytes) {
    cudnnHandle_t handle = nullptr;
    check_cudnn(cudnnCreate(&handle), "a start");
    library.reset(handle);
  }

  [[nodiscard]] GraphPlan plan(Pass pass, const AttentionProblem& problem) const {
    return GraphPlan::of(library.get(), pass == Pass::Backward
                                            ? attention_backward_graph(problem)
                                            : attention_graph(problem, pass == Pass::ForwardWithLogSums));
  }
  [[nodiscard]] Way found(Pass pass, const AttentionProblem& problem) const {
    Way way{std::nullopt, problem, ""};
    try {
      std::size_t whole = pass == Pass::Backward ? score_bytes(problem.shape) : 0;  // at least
      for (int attempt = 0; attempt < 2; ++attempt) {
        const std::optional<AttentionProblem> part = largest_part(problem, whole, room);
        if (!part) break;
        GraphPlan made = plan(pass, *part);
        if (made.bytes <= room) {
          way.part = *part;
          way.answer = "engine " + std::to_string(made.engine) + ", " + std::to_string(made.bytes) +
                       " bytes of workspace, parts of " + std::to_string(part->shape.batch) + " samples and " +
                       std::to_string(part->shape.heads()) + " heads";
          way.plan.emplace(std::move(made));
          return way;
        }
        whole = made.bytes * static_cast<std::size_t>(problem.shape.batch / part->shape.batch) *
                static_cast<std::size_t>(problem.shape.kv_heads / part->shape.kv_heads);
      }
      way.answer = "it needs a workspace of " + std::to_string(whole) + " bytes";
    } catch (const GraphRefusal& refusal) {
      way.answer = refusal.what();
    }
    return way;
  }
  // cuDNN is asked once; that it runs none is remembered as well.
  const Way& way(Pass pass, const AttentionProblem& problem) {
    const Key key = key_of(pass, problem);
    const auto known = ways.find(key);
    return known != ways.end() ? known->second : ways.try_emplace(key, found(pass, problem)).first->second;
  }
  // The forward whose results a backward of this part reads.
  const Way& forward_of(const Way& backward) { return way(Pass::ForwardWithLogSums, without_gradients(backward.part)); }

  bool answered(const Way& way) {
    answer = way.answer;
    return way.plan.has_value();
  }
  void use(Stream stream) {
    check_cudnn(cudnnSetStream(library.get(), static_cast<cudaStream_t>(stream.handle)), "a change of stream");
  }
  void run(const Way& way, const std::vector<GraphPlan::Operand>& operands, void* workspace) const {
    if (!way.plan) throw Failure("an attention that cuDNN does not run: " + way.answer);
    way.plan->run(library.get(), operands, workspace);
  }
  template <class T>
  void run_part(const Way& way, const AttentionCall<T>& call, Part part, const T* out, const float* log_sums,
                void* workspace) const {
    const PartOf<T> at{call.shape, part};
    std::vector<GraphPlan::Operand> operands = {{kQ, at.queries(call.operands.q)},
                                                {kK, at.keys(call.operands.k)},
                                                {kV, at.keys(call.operands.v)},
                                                {kOut, at.results(out)}};
    if (log_sums != nullptr) operands.push_back({kLogSums, at.statistics(log_sums)});
    const Values values(call);
    values.add_to(operands, way.part);
    run(way, operands, workspace);
  }
};

bool CudnnAttention::are_built() { return true; }

CudnnAttention::CudnnAttention(std::size_t room) : state_(std::make_unique<State>(room)) {}
CudnnAttention::~CudnnAttention() = default;

const std::string& CudnnAttention::answer() const { return state_->answer; }

// --- forward ---

namespace {

Pass forward_pass(bool log_sums) { return log_sums ? Pass::ForwardWithLogSums : Pass::Forward; }

}  // namespace

template <class T>
bool CudnnAttention::runs(const AttentionCall<T>& call, const T* out, bool log_sums) {
  if constexpr (sizeof(T) != 2) {
    state_->answer = "it is not of 16 bits";
    return false;
  } else {
    if (const char* why = obstacle(call, out)) {
      state_->answer = why;
      return false;
    }
    return state_->answered(state_->way(forward_pass(log_sums), problem_of(call)));
  }
}

template <class T>
std::size_t CudnnAttention::workspace(const AttentionCall<T>& call, bool log_sums) {
  const State::Way& way = state_->way(forward_pass(log_sums), problem_of(call));
  return way.plan ? way.plan->bytes : 0;
}

template <class T>
void CudnnAttention::run(Stream stream, const AttentionCall<T>& call, T* out, float* log_sums, void* workspace) {
  const State::Way& way = state_->way(forward_pass(log_sums != nullptr), problem_of(call));
  state_->use(stream);
  for_each_part(call.shape, way.part.shape,
                [&](Part part) { state_->run_part<T>(way, call, part, out, log_sums, workspace); });
}

// --- backward ---

namespace {

// What a backward's workspace holds; out and the sums' logarithms where the forward is run again.
struct Rooms {
  std::size_t out, log_sums, along, engine;

  [[nodiscard]] std::size_t bytes() const { return out + log_sums + along + engine; }
};

template <class Way>
Rooms rooms_of(const AttentionShape& whole, const Way& backward, const Way* forward) {
  const auto queries = [](const AttentionShape& s) { return static_cast<std::size_t>(s.batch * s.heads() * s.seq); };
  Rooms rooms{};
  if (forward != nullptr) {
    rooms.out = aligned(queries(whole) * static_cast<std::size_t>(whole.value_dim) * 2);
    rooms.log_sums = aligned(queries(whole) * sizeof(float));
    rooms.engine = forward->plan ? forward->plan->bytes : 0;
  }
  rooms.along = aligned(queries(backward.part.shape) * sizeof(float));
  rooms.engine = std::max(rooms.engine, backward.plan ? backward.plan->bytes : 0);
  return rooms;
}

}  // namespace

template <class T>
bool CudnnAttention::runs_backward(const AttentionCall<T>& call, const T* dout,
                                   const AttentionGradients<T>& gradients) {
  if constexpr (sizeof(T) != 2) {
    state_->answer = "it is not of 16 bits";
    return false;
  } else {
    const char* why = obstacle(call, dout);
    if (why == nullptr && !lie_well(gradients.operands)) why = "its gradients lie at no multiples of 16 bytes";
    if (why == nullptr && call.shape.seq == 1 && call.shape.kv_seq == 1) why = "it is of one query and one key";
    if (why != nullptr) {
      state_->answer = why;
      return false;
    }
    const State::Way& backward = state_->way(Pass::Backward, problem_of(call, gradients));
    if (backward.plan && !state_->answered(state_->forward_of(backward))) return false;
    return state_->answered(backward);
  }
}

template <class T>
std::size_t CudnnAttention::backward_workspace(const AttentionCall<T>& call, const AttentionGradients<T>& gradients,
                                               bool forward_again) {
  const State::Way& backward = state_->way(Pass::Backward, problem_of(call, gradients));
  return rooms_of(call.shape, backward, forward_again ? &state_->forward_of(backward) : nullptr).bytes();
}

template <class T>
void CudnnAttention::run_backward(Stream stream, const AttentionCall<T>& call, const T* out, const float* log_sums,
                                  const T* dout, const AttentionGradients<T>& gradients, void* workspace) {
  const State::Way& backward = state_->way(Pass::Backward, problem_of(call, gradients));
  const State::Way* const forward = out == nullptr ? &state_->forward_of(backward) : nullptr;
  const Rooms rooms = rooms_of(call.shape, backward, forward);
  auto* bytes = static_cast<unsigned char*>(workspace);
  if (forward != nullptr) {
    out = reinterpret_cast<const T*>(bytes);
    log_sums = reinterpret_cast<const float*>(bytes + rooms.out);
    bytes += rooms.out + rooms.log_sums;
  }
  const void* const along = bytes;
  void* const room = bytes + rooms.along;
  const Values values(call);
  state_->use(stream);
  for_each_part(call.shape, backward.part.shape, [&](Part part) {
    if (forward != nullptr) state_->run_part<T>(*forward, call, part, out, log_sums, room);
    const PartOf<T> at{call.shape, part};
    std::vector<GraphPlan::Operand> operands = {{kQ, at.queries(call.operands.q)},
                                                {kK, at.keys(call.operands.k)},
                                                {kV, at.keys(call.operands.v)},
                                                {kOut, at.results(out)},
                                                {kLogSums, at.statistics(log_sums)},
                                                {kDout, at.results(dout)},
                                                {kAlong, along},
                                                {kDq, at.queries(gradients.operands.q)},
                                                {kDk, at.keys(gradients.operands.k)},
                                                {kDv, at.keys(gradients.operands.v)},
                                                {kOne, &values.one}};
    values.add_to(operands, backward.part);
    state_->run(backward, operands, room);
  });
}

#define MW_INSTANTIATE(T)                                                                                           \
  template bool CudnnAttention::runs<T>(const AttentionCall<T>&, const T*, bool);                                   \
  template std::size_t CudnnAttention::workspace<T>(const AttentionCall<T>&, bool);                                 \
  template void CudnnAttention::run<T>(Stream, const AttentionCall<T>&, T*, float*, void*);                         \
  template bool CudnnAttention::runs_backward<T>(const AttentionCall<T>&, const T*, const AttentionGradients<T>&);  \
  template std::size_t CudnnAttention::backward_workspace<T>(const AttentionCall<T>&, const AttentionGradients<T>&, \
                                                             bool);                                                 \
  template void CudnnAttention::run_backward<T>(Stream, const AttentionCall<T>&, const T*, const float*, const T*,  \
                                                const AttentionGradients<T>&, void*);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
