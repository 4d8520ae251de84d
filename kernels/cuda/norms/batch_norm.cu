// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/norms/batch_norm.h"

#include "kernels/cuda/blocks/columns.h"

namespace meshwright::kernels::cuda {

namespace {

using namespace normalization;

// What is of a channel is computed in double, so that variance = mean of squares - mean^2 loses no more digits than the
// sums have; what is of an element, in Wide<T>. Double is slow: each of a block's channels is computed by one thread,
// and handed to the others through shared memory.
//
// Mean and 1 / sqrt(variance + epsilon) of a channel.
struct Moments {
  double mean, inverse_deviation;
};

template <class W>
MW_DEVICE Moments moments(const W* sums, const BatchNormShape& shape, std::int64_t channel) {
  const double mean = shape.share * static_cast<double>(sums[channel]);
  const double square = shape.share * static_cast<double>(sums[shape.channels + channel]);
  const double variance = square - mean * mean;
  // Rounding may leave a constant channel with a variance just below 0.
  return {mean, inverse_root((variance > 0.0 ? variance : 0.0) + shape.epsilon)};
}

// `kCount` numbers for each of N channels.
template <class W, int kCount, int N>
struct OfChannels {
  W at[kCount][N];
};

// Of a thread's N channels from `mine` on, of the `count` of its block from `first` on: the threads compute
// numbers(channel, write(which, value)) once for each of the block's. Called by all of them, once in a kernel.
template <class W, int kCount, int N, class Numbers>
MW_DEVICE OfChannels<W, kCount, N> share_channels(std::int64_t first, int count, int mine, Numbers numbers) {
  MW_SHARED W shared[kCount][kMaxColumns];
  for (int c = static_cast<int>(threadIdx.x); c < count; c += kColumnThreads)
    numbers(first + c, [&](int which, double value) { shared[which][c] = static_cast<W>(value); });
  __syncthreads();
  OfChannels<W, kCount, N> own = {};
  if (mine < count)
    for (int which = 0; which < kCount; ++which)
      for (int i = 0; i < N; ++i) own.at[which][i] = shared[which][mine + i];
  return own;
}

struct Nothing {};

template <class T>
struct SumsOfX {
  static constexpr int kOperands = 1;
  const T* operands[kOperands];

  template <int N>
  MW_DEVICE Nothing of_columns(std::int64_t, int, int) const {
    return {};
  }
  template <int N>
  MW_DEVICE void add(const Pack<T, N> (&loaded)[1], std::int64_t, const Nothing&, Wide<T> (&sums)[2][N]) const {
    MW_UNROLL
    for (int i = 0; i < N; ++i) {
      sums[0][i] += loaded[0][i];
      sums[1][i] += loaded[0][i] * loaded[0][i];
    }
  }
};

template <class T>
struct ParameterGradients {
  static constexpr int kOperands = 2;  // x, dy
  const T* operands[kOperands];
  const Wide<T>* batch;
  BatchNormShape shape;

  template <int N>
  MW_DEVICE OfChannels<Wide<T>, 2, N> of_columns(std::int64_t first, int count, int mine) const {
    return share_channels<Wide<T>, 2, N>(first, count, mine, [&](std::int64_t channel, auto write) {
      const Moments of = moments(batch, shape, channel);
      write(0, of.mean);
      write(1, of.inverse_deviation);
    });
  }
  template <int N>
  MW_DEVICE void add(const Pack<T, N> (&loaded)[2], std::int64_t, const OfChannels<Wide<T>, 2, N>& of,
                     Wide<T> (&sums)[2][N]) const {
    MW_UNROLL
    for (int i = 0; i < N; ++i) {
      sums[0][i] += loaded[1][i] * ((loaded[0][i] - of.at[0][i]) * of.at[1][i]);
      sums[1][i] += loaded[1][i];
    }
  }
};

// out = (x - mean) scale + beta
template <class T>
struct Forward {
  static constexpr int kOperands = 1;
  const T* operands[kOperands];  // x
  const Wide<T>* sums;
  const T *gamma, *beta;
  BatchNormShape shape;

  template <int N>
  MW_DEVICE OfChannels<Wide<T>, 3, N> of_columns(std::int64_t first, int count, int mine) const {
    return share_channels<Wide<T>, 3, N>(first, count, mine, [&](std::int64_t channel, auto write) {
      const Moments of = moments(sums, shape, channel);
      write(0, of.mean);
      write(1, of.inverse_deviation * static_cast<double>(static_cast<Wide<T>>(gamma[channel])));
      write(2, static_cast<double>(static_cast<Wide<T>>(beta[channel])));
    });
  }
  template <int N>
  MW_DEVICE Wide<T> value(const Pack<T, N> (&loaded)[1], int i, const OfChannels<Wide<T>, 3, N>& of) const {
    return (loaded[0][i] - of.at[0][i]) * of.at[1][i] + of.at[2][i];
  }
};

// dx = scale (dy - level - (x - mean) slope)
template <class T>
struct Backward {
  static constexpr int kOperands = 2;
  const T* operands[kOperands];  // x, dy
  const Wide<T>* sums;
  BatchNormParameters<T> parameters;
  BatchNormShape shape;

  template <int N>
  MW_DEVICE OfChannels<Wide<T>, 4, N> of_columns(std::int64_t first, int count, int mine) const {
    return share_channels<Wide<T>, 4, N>(first, count, mine, [&](std::int64_t channel, auto write) {
      const Moments of = moments(sums, shape, channel);
      const double inverse = of.inverse_deviation;
      write(0, of.mean);
      // With dbeta = sum(dy) and dgamma = sum(dy h): level = share dbeta, slope = share inverse dgamma, as h = (x -
      // mean) inverse.
      write(1, inverse * static_cast<double>(static_cast<Wide<T>>(parameters.gamma[channel])));
      write(2, shape.share * static_cast<double>(static_cast<Wide<T>>(parameters.dbeta[channel])));
      write(3, shape.share * inverse * static_cast<double>(static_cast<Wide<T>>(parameters.dgamma[channel])));
    });
  }
  template <int N>
  MW_DEVICE Wide<T> value(const Pack<T, N> (&loaded)[2], int i, const OfChannels<Wide<T>, 4, N>& of) const {
    return of.at[1][i] * (loaded[1][i] - of.at[2][i] - (loaded[0][i] - of.at[0][i]) * of.at[3][i]);
  }
};

// out = map's value, element by element.
template <class T, int N, class Map>
__global__ void __launch_bounds__(kColumnThreads) map_kernel(Map map, T* out, int across) {
  const std::int64_t packs = map.shape.channels / N;
  const ColumnPlace place(map.shape.rows, across);
  const std::int64_t first = (place.pack - place.lane) * N, after = map.shape.channels - first;
  const auto of_channels =
      map.template of_columns<N>(first, static_cast<int>(after < across * N ? after : across * N), place.lane * N);
  // Not before of_columns, whose barrier all threads of the block must reach.
  if (place.pack >= packs) return;
  for (std::int64_t run = place.begin + place.line; run < place.end; run += std::int64_t{kRun} * place.lines) {
    Pack<T, N> loaded[kRun][Map::kOperands];
    MW_UNROLL
    for (int i = 0; i < kRun; ++i)
      if (const std::int64_t row = run + i * place.lines; row < place.end) MW_UNROLL
    for (int operand = 0; operand < Map::kOperands; ++operand)
      loaded[i][operand] = load<N>(map.operands[operand], row * packs + place.pack);
    MW_UNROLL
    for (int i = 0; i < kRun; ++i)
      if (const std::int64_t row = run + i * place.lines; row < place.end) {
        Pack<T, N> result;
        MW_UNROLL
        for (int c = 0; c < N; ++c) result.set(c, map.value(loaded[i], c, of_channels));
        store(out, row * packs + place.pack, result);
      }
  }
}

template <class T, class Map>
void start_map(const char* name, Stream stream, const Map& map, T* out) {
  const T* last = map.operands[Map::kOperands - 1];
  with_packs<T>(map.shape.channels, {map.operands[0], last, out}, [&](auto n) {
    constexpr int N = decltype(n)::value;
    const ColumnLaunch plan = column_launch<N>(map.shape.rows, map.shape.channels, kMapBlocks);
    launch(name, map_kernel<T, N, Map>, {plan.blocks, plan.parts}, {kColumnThreads}, 0, stream, map, out, plan.across);
  });
}

}  // namespace

template <class T>
std::size_t batch_sums_workspace(std::int64_t rows, std::int64_t channels) {
  return column_sums_workspace<T>(rows, channels);
}

template <class T>
void batch_sums(Stream stream, const T* x, Wide<T>* sums, std::int64_t rows, std::int64_t channels, void* workspace) {
  column_sums<T>(stream, SumsOfX<T>{{x}}, rows, channels, sums, sums + channels, workspace);
}

template <class T>
void batch_norm(Stream stream, const Batch<T, Wide<T>>& batch, const T* gamma, const T* beta, T* out,
                const BatchNormShape& shape) {
  start_map("batch_norm", stream, Forward<T>{{batch.x}, batch.sums, gamma, beta, shape}, out);
}

template <class T>
void batch_norm_parameter_backward(Stream stream, const Batch<T, Wide<T>>& batch, const T* dy, T* dgamma, T* dbeta,
                                   const BatchNormShape& shape, void* workspace) {
  column_sums<T>(stream, ParameterGradients<T>{{batch.x, dy}, batch.sums, shape}, shape.rows, shape.channels, dgamma,
                 dbeta, workspace);
}

template <class T>
void batch_norm_backward(Stream stream, const Batch<T, Wide<T>>& batch, const BatchNormParameters<T>& parameters,
                         const T* dy, T* dx, const BatchNormShape& shape) {
  start_map("batch_norm_backward", stream, Backward<T>{{batch.x, dy}, batch.sums, parameters, shape}, dx);
}

#define MW_INSTANTIATE(T)                                                                                             \
  template std::size_t batch_sums_workspace<T>(std::int64_t, std::int64_t);                                           \
  template void batch_sums<T>(Stream, const T*, Wide<T>*, std::int64_t, std::int64_t, void*);                         \
  template void batch_norm<T>(Stream, const Batch<T, Wide<T>>&, const T*, const T*, T*, const BatchNormShape&);       \
  template void batch_norm_parameter_backward<T>(Stream, const Batch<T, Wide<T>>&, const T*, T*, T*,                  \
                                                 const BatchNormShape&, void*);                                       \
  template void batch_norm_backward<T>(Stream, const Batch<T, Wide<T>>&, const BatchNormParameters<T>&, const T*, T*, \
                                       const BatchNormShape&);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
