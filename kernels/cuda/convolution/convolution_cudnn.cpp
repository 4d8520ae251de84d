// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/convolution/convolution_cudnn.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>

#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/layout/layout.h"
#include "kernels/cuda/runtime/cudnn_calls.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kAlgorithms = 16;  // cuDNN has less than that of each pass

// What cuDNN keeps behind a pointer, with the call that frees it.
template <auto destroy>
struct Destroyer {
  template <class Handle>
  void operator()(Handle* handle) const {
    (void)destroy(handle);
  }
};
template <class Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<destroy>>;

template <class Handle, auto destroy, class Create>
Owned<Handle, destroy> made(Create create, const char* what = "a description") {
  Handle handle = nullptr;
  check_cudnn(create(&handle), what);
  return Owned<Handle, destroy>(handle);
}

using Library = Owned<cudnnHandle_t, cudnnDestroy>;
using TensorDescriptor = Owned<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>;
using FilterDescriptor = Owned<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor = Owned<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>;

int narrowed(std::int64_t size) { return static_cast<int>(size); }

TensorDescriptor channels_last(cudnnDataType_t type, std::int64_t batch, std::int64_t channels, std::int64_t rows,
                               std::int64_t columns) {
  auto made_one = made<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor>(cudnnCreateTensorDescriptor);
  check_cudnn(cudnnSetTensor4dDescriptor(made_one.get(), CUDNN_TENSOR_NHWC, type, narrowed(batch), narrowed(channels),
                                         narrowed(rows), narrowed(columns)),
              "a tensor's description");
  return made_one;
}

// cuDNN pads both sides alike: its windows are those of the shape where it would count as many.
bool has_windows_of(const Windows& w) { return (w.from + 2 * w.before - w.size) / w.stride + 1 == w.to; }

std::int64_t filter_elements(const ConvolutionShape& s) {
  return s.groups * s.rows.size * s.columns.size * s.in * s.out;
}
std::int64_t places_of_x(const ConvolutionShape& s) { return s.batch * s.rows.from * s.columns.from; }
// Below 2^31 elements in each array, every size fits the int that cuDNN's descriptions take.
bool fits(const ConvolutionShape& s) {
  const std::int64_t x = places_of_x(s) * s.groups * s.in;
  const std::int64_t y = s.batch * s.rows.to * s.columns.to * s.groups * s.out;
  return std::max({x, y, filter_elements(s)}) <= std::numeric_limits<std::int32_t>::max();
}

// Algorithms whose results are sums of the definition's products, in one order.
bool is_plain(cudnnConvolutionFwdAlgo_t algorithm) {
  return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM ||
         algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM || algorithm == CUDNN_CONVOLUTION_FWD_ALGO_GEMM;
}
bool is_plain(cudnnConvolutionBwdDataAlgo_t algorithm) { return algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1; }
bool is_plain(cudnnConvolutionBwdFilterAlgo_t algorithm) { return algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1; }

// One pass of one shape, described to cuDNN, and how it runs.
struct Plan {
  TensorDescriptor x, y;
  FilterDescriptor w;
  ConvolutionDescriptor windows;
  bool exists = false;
  int algorithm = 0;      // of the pass's enumeration
  std::size_t bytes = 0;  // that it needs
};

Plan described(const ConvolutionShape& s, cudnnDataType_t type, cudnnMathType_t math) {
  Plan plan;
  plan.x = channels_last(type, s.batch, s.groups * s.in, s.rows.from, s.columns.from);
  plan.y = channels_last(type, s.batch, s.groups * s.out, s.rows.to, s.columns.to);
  plan.w = made<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor>(cudnnCreateFilterDescriptor);
  // NHWC means (out, row, column, in) for filters. Ours are (row, column, in, out) in each group: transpose_filters
  // turns them.
  check_cudnn(cudnnSetFilter4dDescriptor(plan.w.get(), type, CUDNN_TENSOR_NHWC, narrowed(s.groups * s.out),
                                         narrowed(s.in), narrowed(s.rows.size), narrowed(s.columns.size)),
              "a filter's description");
  plan.windows =
      made<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor>(cudnnCreateConvolutionDescriptor);
  // No dilation. Cross-correlation is what our definition says; sums are float for every type.
  check_cudnn(cudnnSetConvolution2dDescriptor(plan.windows.get(), narrowed(s.rows.before), narrowed(s.columns.before),
                                              narrowed(s.rows.stride), narrowed(s.columns.stride), 1, 1,
                                              CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
              "a convolution's description");
  check_cudnn(cudnnSetConvolutionGroupCount(plan.windows.get(), narrowed(s.groups)), "a convolution's groups");
  check_cudnn(cudnnSetConvolutionMathType(plan.windows.get(), math), "a convolution's kind of products");
  return plan;
}

// Takes the first of cuDNN's proposals that may be taken; bytes_of(algorithm, &bytes) asks what it needs. `math`: what
// was asked for. A proposal may go without tensor cores, but not with them where they would shorten float.
template <class Proposal, class BytesOf>
void choose(Plan& plan, cudnnStatus_t status, const std::array<Proposal, kAlgorithms>& proposals, int count,
            cudnnMathType_t math, BytesOf bytes_of) {
  // A shape that cuDNN refuses is no failure: our own kernels run it.
  const int category = CUDNN_STATUS_CATEGORY(static_cast<int>(status));
  if (category == CUDNN_STATUS_NOT_SUPPORTED || category == CUDNN_STATUS_BAD_PARAM) return;
  check_cudnn(status, "the choice of a convolution's algorithm");
  for (int i = 0; i < count; ++i) {
    const Proposal& proposal = proposals[static_cast<std::size_t>(i)];
    if (proposal.status != CUDNN_STATUS_SUCCESS || proposal.determinism != CUDNN_DETERMINISTIC) continue;
    // FFT and Winograd algorithms compute other sums, and conversions shorten the operands: neither is taken.
    if (proposal.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION || !is_plain(proposal.algo)) continue;
    if (math == CUDNN_FMA_MATH && proposal.mathType == CUDNN_TENSOR_OP_MATH) continue;
    const cudnnMathType_t kept = math == CUDNN_FMA_MATH ? math : proposal.mathType;
    check_cudnn(cudnnSetConvolutionMathType(plan.windows.get(), kept), "a convolution's kind of products");
    std::size_t bytes = 0;
    if (bytes_of(proposal.algo, &bytes) != CUDNN_STATUS_SUCCESS || bytes > CudnnConvolutions::kRoom) continue;
    plan.exists = true;
    plan.algorithm = static_cast<int>(proposal.algo);
    plan.bytes = bytes;
    return;
  }
}

Plan planned(cudnnHandle_t library, ConvolutionPass pass, const ConvolutionShape& shape, cudnnDataType_t type,
             cudnnMathType_t math) {
  Plan plan = described(shape, type, math);
  const auto x = plan.x.get(), y = plan.y.get();
  const auto w = plan.w.get();
  const auto windows = plan.windows.get();
  int count = 0;
  if (pass == ConvolutionPass::Forward) {
    std::array<cudnnConvolutionFwdAlgoPerf_t, kAlgorithms> proposals{};
    const cudnnStatus_t status =
        cudnnGetConvolutionForwardAlgorithm_v7(library, x, w, windows, y, kAlgorithms, &count, proposals.data());
    choose(plan, status, proposals, count, math, [&](auto algorithm, std::size_t* bytes) {
      return cudnnGetConvolutionForwardWorkspaceSize(library, x, w, windows, y, algorithm, bytes);
    });
  } else if (pass == ConvolutionPass::BackwardInput) {
    std::array<cudnnConvolutionBwdDataAlgoPerf_t, kAlgorithms> proposals{};
    const cudnnStatus_t status =
        cudnnGetConvolutionBackwardDataAlgorithm_v7(library, w, y, windows, x, kAlgorithms, &count, proposals.data());
    choose(plan, status, proposals, count, math, [&](auto algorithm, std::size_t* bytes) {
      return cudnnGetConvolutionBackwardDataWorkspaceSize(library, w, y, windows, x, algorithm, bytes);
    });
  } else {
    std::array<cudnnConvolutionBwdFilterAlgoPerf_t, kAlgorithms> proposals{};
    const cudnnStatus_t status =
        cudnnGetConvolutionBackwardFilterAlgorithm_v7(library, x, y, windows, w, kAlgorithms, &count, proposals.data());
    choose(plan, status, proposals, count, math, [&](auto algorithm, std::size_t* bytes) {
      return cudnnGetConvolutionBackwardFilterWorkspaceSize(library, x, y, windows, w, algorithm, bytes);
    });
  }
  return plan;
}

// Tensor cores take 16-bit channels by eights. An image, which has fewer, is given zeros for the others: to read them
// costs less than to go without tensor cores.
constexpr std::int64_t kChannels = 8;
template <class T>
ConvolutionShape padded(ConvolutionPass pass, ConvolutionShape shape) {
  if (sizeof(T) == 2 && shape.groups == 1 && shape.in < kChannels && pass != ConvolutionPass::BackwardInput)
    shape.in = kChannels;
  return shape;
}

// Hands out a workspace, piece by piece; of none it counts the bytes.
class Room {
 public:
  explicit Room(void* begin) : begin_(static_cast<unsigned char*>(begin)) {}
  template <class T>
  T* take(std::int64_t elements) {
    const std::size_t at = bytes_;
    bytes_ += (static_cast<std::size_t>(elements) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return begin_ == nullptr ? nullptr : reinterpret_cast<T*>(begin_ + at);
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  unsigned char* begin_;
  std::size_t bytes_ = 0;
};

// A pass's own arrays: the filters as cuDNN has them, and where x is padded, x and the filters without padding. The
// algorithm's bytes come last.
template <class T>
struct Own {
  T *filters, *unpadded = nullptr, *x = nullptr;

  Own(Room& room, const ConvolutionShape& shape, const ConvolutionShape& by_library)
      : filters(room.take<T>(filter_elements(by_library))) {
    if (by_library.in == shape.in) return;
    unpadded = room.take<T>(filter_elements(shape));
    x = room.take<T>(places_of_x(shape) * by_library.in);
  }
};

}  // namespace

struct CudnnConvolutions::State {
  Library library = made<cudnnHandle_t, cudnnDestroy>(cudnnCreate, "a start");
  bool tensor_float;
  std::map<std::tuple<ConvolutionPass, cudnnDataType_t, ConvolutionShape>, Plan> plans;

  explicit State(bool tensor) : tensor_float(tensor) {}

  // CUDNN_DEFAULT_MATH would take TF32 for float.
  [[nodiscard]] cudnnMathType_t math_of(cudnnDataType_t type) const {
    return type == CUDNN_DATA_FLOAT && !tensor_float ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
  }
  // cuDNN is asked once per pass, type and shape; that it runs none is remembered as well.
  const Plan& plan(ConvolutionPass pass, cudnnDataType_t type, const ConvolutionShape& shape) {
    const auto known = plans.find({pass, type, shape});
    if (known != plans.end()) return known->second;
    return plans.try_emplace({pass, type, shape}, planned(library.get(), pass, shape, type, math_of(type)))
        .first->second;
  }
};

bool CudnnConvolutions::are_built() { return true; }

CudnnConvolutions::CudnnConvolutions(bool tensor_float) : state_(std::make_unique<State>(tensor_float)) {}
CudnnConvolutions::~CudnnConvolutions() = default;

template <class T>
bool CudnnConvolutions::runs(ConvolutionPass pass, const ConvolutionShape& shape) {
  if constexpr (std::is_same_v<T, double>) {
    return false;
  } else {
    // Groups of few channels have kernels here that read no more than they must.
    const ConvolutionShape by_library = padded<T>(pass, shape);
    if (has_narrow_groups(shape) || !fits(by_library)) return false;
    if (!has_windows_of(shape.rows) || !has_windows_of(shape.columns)) return false;
    return state_->plan(pass, kCudnnType<T>, by_library).exists;
  }
}

template <class T>
std::size_t CudnnConvolutions::workspace(ConvolutionPass pass, const ConvolutionShape& shape) {
  const ConvolutionShape by_library = padded<T>(pass, shape);
  Room room(nullptr);
  const Own<T> own(room, shape, by_library);
  return room.bytes() + state_->plan(pass, kCudnnType<T>, by_library).bytes;
}

template <class T>
void CudnnConvolutions::run(Stream stream, ConvolutionPass pass, const ConvolutionShape& shape, const T* first,
                            const T* second, T* result, void* workspace) {
  const ConvolutionShape by_library = padded<T>(pass, shape);
  const Plan& plan = state_->plan(pass, kCudnnType<T>, by_library);
  if (!plan.exists) throw Failure("a convolution that cuDNN does not run");
  const cudnnHandle_t library = state_->library.get();
  check_cudnn(cudnnSetStream(library, static_cast<cudaStream_t>(stream.handle)), "a change of stream");
  Room space(workspace);
  const Own<T> own(space, shape, by_library);
  auto* const room = space.take<unsigned char>(static_cast<std::int64_t>(plan.bytes));
  const std::int64_t taps = shape.rows.size * shape.columns.size, line = taps * shape.in;
  const bool pads = own.x != nullptr;
  T* const turned = pads ? own.unpadded : own.filters;
  const float one = 1.0f, zero = 0.0f;
  const auto pad = [&](const T* from, T* to, std::int64_t rows) {
    pad_rows(stream, from, to, {.rows = rows, .length = shape.in, .width = by_library.in, .start = 0}, T(Wide<T>(0)));
  };
  if (pass == ConvolutionPass::BackwardInput) {
    transpose_filters(stream, first, own.filters, shape.groups, line, shape.out);
    check_cudnn(
        cudnnConvolutionBackwardData(library, &one, plan.w.get(), own.filters, plan.y.get(), second, plan.windows.get(),
                                     static_cast<cudnnConvolutionBwdDataAlgo_t>(plan.algorithm), room, plan.bytes,
                                     &zero, plan.x.get(), result),
        "a convolution's backward to its input");
    return;
  }
  if (pads) pad(first, own.x, places_of_x(shape));
  const T* const x = pads ? own.x : first;
  if (pass == ConvolutionPass::Forward) {
    transpose_filters(stream, second, turned, shape.groups, line, shape.out);
    if (pads) pad(turned, own.filters, shape.out * taps);
    check_cudnn(cudnnConvolutionForward(library, &one, plan.x.get(), x, plan.w.get(), own.filters, plan.windows.get(),
                                        static_cast<cudnnConvolutionFwdAlgo_t>(plan.algorithm), room, plan.bytes, &zero,
                                        plan.y.get(), result),
                "a convolution");
  } else {
    // dw comes as (out, row, column, in) and is turned afterwards.
    check_cudnn(cudnnConvolutionBackwardFilter(library, &one, plan.x.get(), x, plan.y.get(), second, plan.windows.get(),
                                               static_cast<cudnnConvolutionBwdFilterAlgo_t>(plan.algorithm), room,
                                               plan.bytes, &zero, plan.w.get(), own.filters),
                "a convolution's backward to its weight");
    if (pads)
      copy_rows(stream, own.filters, turned,
                {.rows = shape.out * taps, .length = shape.in, .from_stride = by_library.in, .to_stride = shape.in});
    transpose_filters(stream, turned, result, shape.groups, shape.out, line);
  }
}

#define MW_INSTANTIATE(T)                                                                                           \
  template bool CudnnConvolutions::runs<T>(ConvolutionPass, const ConvolutionShape&);                               \
  template std::size_t CudnnConvolutions::workspace<T>(ConvolutionPass, const ConvolutionShape&);                   \
  template void CudnnConvolutions::run<T>(Stream, ConvolutionPass, const ConvolutionShape&, const T*, const T*, T*, \
                                          void*);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
