// SPDX-License-Identifier: Apache-2.0
// Collectives on exact data: element i of rank r is (7i + 3r) mod 16, so that every sum is a small integer and ==
// holds.
#include "executor/host/communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "executor/device/backend.h"
#include "executor/host/mailbox.h"

namespace meshwright::communicator_test {
namespace {

using Values = std::vector<float>;

float number(int rank, std::int64_t i) { return static_cast<float>((7 * i + 3 * rank) % 16); }
Values numbers(int rank, std::int64_t n) {
  Values values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(number(rank, i));
  return values;
}

// Runs `body(rank)` on `ranks` threads at once.
void on_ranks(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

Values sum_over_ranks(int ranks, std::int64_t n) {
  Values sum(static_cast<std::size_t>(n), 0.0f);
  for (int rank = 0; rank < ranks; ++rank)
    for (std::int64_t i = 0; i < n; ++i) sum[static_cast<std::size_t>(i)] += number(rank, i);
  return sum;
}

// Both the small and the shared algorithm, and sizes that no segment boundary divides.
const std::vector<std::int64_t> kSizes = {1, 5, 1024, 1025, 10007};

TEST(AllReduce, GivesEveryRankTheSum) {
  for (const int ranks : {1, 2, 3, 4})
    for (const std::int64_t n : kSizes) {
      Abort abort;
      Communicator group(ranks, abort);
      std::vector<Values> out(static_cast<std::size_t>(ranks), Values(static_cast<std::size_t>(n), -1.0f));
      on_ranks(ranks, [&](int rank) {
        const Values in = numbers(rank, n);
        group.all_reduce(rank, in.data(), out[static_cast<std::size_t>(rank)].data(), n, kernels::Reduction::Sum);
      });
      for (const Values& of_rank : out) EXPECT_EQ(of_rank, sum_over_ranks(ranks, n)) << ranks << " ranks, " << n;
    }
}

TEST(AllReduce, WorksInPlaceAndTakesTheMaximum) {
  for (const std::int64_t n : kSizes) {
    Abort abort;
    Communicator group(3, abort);
    std::vector<Values> values = {numbers(0, n), numbers(1, n), numbers(2, n)};
    Values largest;
    for (std::int64_t i = 0; i < n; ++i) largest.push_back(std::max({number(0, i), number(1, i), number(2, i)}));
    on_ranks(3, [&](int rank) {
      float* mine = values[static_cast<std::size_t>(rank)].data();
      group.all_reduce(rank, mine, mine, n, kernels::Reduction::Max);
    });
    for (const Values& of_rank : values) EXPECT_EQ(of_rank, largest) << n;
  }
}

// 1e8 + 1 - 1e8 is 0 in float from the left and 1 in another order.
TEST(AllReduce, AddsInRankOrderOnEveryRank) {
  for (const std::int64_t n : {1, 5000}) {
    Abort abort;
    Communicator group(3, abort);
    const float of_rank[] = {1e8f, 1.0f, -1e8f};
    std::vector<Values> values;
    for (const float value : of_rank) values.emplace_back(static_cast<std::size_t>(n), value);
    on_ranks(3, [&](int rank) {
      float* mine = values[static_cast<std::size_t>(rank)].data();
      group.all_reduce(rank, mine, mine, n, kernels::Reduction::Sum);
    });
    for (const Values& result : values) EXPECT_EQ(result, Values(static_cast<std::size_t>(n), 0.0f));
  }
}

TEST(ReduceScatter, GivesEachRankItsPartOfTheSum) {
  const std::int64_t outer = 3, inner = 5;
  for (const int ranks : {2, 3, 4}) {
    Abort abort;
    Communicator group(ranks, abort);
    const std::int64_t whole = outer * ranks * inner;
    const Values sum = sum_over_ranks(ranks, whole);
    on_ranks(ranks, [&](int rank) {
      const Values in = numbers(rank, whole);
      Values out(static_cast<std::size_t>(outer * inner), -1.0f);
      group.reduce_scatter(rank, in.data(), out.data(), outer, inner, kernels::Reduction::Sum);
      for (std::int64_t o = 0; o < outer; ++o)
        for (std::int64_t i = 0; i < inner; ++i)
          EXPECT_EQ(out[static_cast<std::size_t>(o * inner + i)],
                    sum[static_cast<std::size_t>((o * ranks + rank) * inner + i)]);
    });
  }
}

TEST(AllGather, JoinsThePartsInRankOrder) {
  const std::int64_t outer = 3, inner = 5;
  for (const int ranks : {2, 3, 4}) {
    Abort abort;
    Communicator group(ranks, abort);
    on_ranks(ranks, [&](int rank) {
      const Values in = numbers(rank, outer * inner);
      Values out(static_cast<std::size_t>(outer * ranks * inner), -1.0f);
      group.all_gather(rank, in.data(), out.data(), outer, inner);
      for (std::int64_t o = 0; o < outer; ++o)
        for (int part = 0; part < ranks; ++part)
          for (std::int64_t i = 0; i < inner; ++i)
            EXPECT_EQ(out[static_cast<std::size_t>((o * ranks + part) * inner + i)], number(part, o * inner + i));
    });
  }
}

// Rows of 10 in parts of 4, of 3 ranks: the last one has two elements and two zeros. Of 4 ranks the last has zeros
// alone.
TEST(ReduceScatter, EndsInZerosWhereTheRowDoes) {
  const std::int64_t outer = 3, inner = 4, row = 10;
  for (const int ranks : {3, 4}) {
    Abort abort;
    Communicator group(ranks, abort);
    const Values sum = sum_over_ranks(ranks, outer * row);
    on_ranks(ranks, [&](int rank) {
      const Values in = numbers(rank, outer * row);
      Values out(static_cast<std::size_t>(outer * inner), -1.0f);
      group.reduce_scatter(rank, in.data(), out.data(), outer, inner, kernels::Reduction::Sum, ranks * inner - row);
      for (std::int64_t o = 0; o < outer; ++o)
        for (std::int64_t i = 0; i < inner; ++i) {
          const std::int64_t at = rank * inner + i;
          EXPECT_EQ(out[static_cast<std::size_t>(o * inner + i)],
                    at < row ? sum[static_cast<std::size_t>(o * row + at)] : 0.0f);
        }
    });
  }
}

TEST(AllGather, LeavesPaddingOut) {
  const std::int64_t outer = 3, inner = 4, row = 10;
  for (const int ranks : {3, 4}) {
    Abort abort;
    Communicator group(ranks, abort);
    on_ranks(ranks, [&](int rank) {
      const Values in = numbers(rank, outer * inner);
      Values out(static_cast<std::size_t>(outer * row) + 1, -1.0f);
      group.all_gather(rank, in.data(), out.data(), outer, inner, ranks * inner - row);
      for (std::int64_t o = 0; o < outer; ++o)
        for (std::int64_t at = 0; at < row; ++at)
          EXPECT_EQ(out[static_cast<std::size_t>(o * row + at)],
                    number(static_cast<int>(at / inner), o * inner + at % inner));
      EXPECT_EQ(out.back(), -1.0f);
    });
  }
}

// A (4, 6) matrix of which each of 2 ranks holds 2 rows becomes one of which each holds 3 columns.
TEST(AllToAll, TurnsRowsIntoColumns) {
  Abort abort;
  Communicator group(2, abort);
  const std::vector<std::int64_t> in_shape = {2, 6};
  on_ranks(2, [&](int rank) {
    Values in(12), out(12, -1.0f);
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 6; ++j) in[static_cast<std::size_t>(6 * i + j)] = static_cast<float>(10 * (2 * rank + i) + j);
    group.all_to_all(rank, in.data(), out.data(), in_shape, 1, 0);
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 3; ++j)
        EXPECT_EQ(out[static_cast<std::size_t>(3 * i + j)], static_cast<float>(10 * i + 3 * rank + j));
  });
}

// The rows and columns of a 2x2 mesh are four groups of which each device is in two.
TEST(Fetch, BringsWhatAnotherRankHas) {
  Abort abort;
  Communicator group(3, abort);
  std::vector<Values> out(3, Values(5, -1.0f));
  on_ranks(3, [&](int rank) {
    const Values in = numbers(rank, 5);
    group.fetch(rank, in.data(), out[static_cast<std::size_t>(rank)].data(), 5, (rank + 2) % 3);
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(out[static_cast<std::size_t>(rank)], numbers((rank + 2) % 3, 5));
}
TEST(Ring, PassesToTheNextMemberOrToTheOneBefore) {
  EXPECT_EQ(next_in_ring(2, 3, Around::Forwards), 0);
  EXPECT_EQ(previous_in_ring(2, 3, Around::Forwards), 1);
  EXPECT_EQ(next_in_ring(0, 3, Around::Backwards), 2);
  EXPECT_EQ(previous_in_ring(0, 3, Around::Backwards), 1);
}

TEST(Groups, ThatOverlapDoNotMixTheirData) {
  Abort abort;
  Communicator row0(2, abort), row1(2, abort), column0(2, abort), column1(2, abort);
  std::vector<Values> out(4, Values(3000));
  on_ranks(4, [&](int device) {
    const int row = device / 2, column = device % 2;
    float* mine = out[static_cast<std::size_t>(device)].data();
    const Values in(3000, device == 0 ? 1.0f : device == 1 ? 10.0f : device == 2 ? 100.0f : 1000.0f);
    for (int repeat = 0; repeat < 20; ++repeat) {
      (row == 0 ? row0 : row1).all_reduce(column, in.data(), mine, 3000, kernels::Reduction::Sum);
      (column == 0 ? column0 : column1).all_reduce(row, mine, mine, 3000, kernels::Reduction::Sum);
    }
  });
  for (const Values& of_device : out) EXPECT_EQ(of_device, Values(3000, 1111.0f));
}

TEST(Mailbox, KeepsTheOrderOfEachTransferAndAddsWhenAsked) {
  Abort abort;
  Mailbox mailbox(abort);
  const std::vector<std::int64_t> from_shape = {2, 3}, to_shape = {2, 2}, from_offset = {0, 1}, to_offset = {0, 0},
                                  extent = {2, 2};
  const Values first = {0, 1, 2, 0, 3, 4}, second = {0, 10, 20, 0, 30, 40}, other = {0, 5, 5, 0, 5, 5};
  std::thread sender([&] {
    mailbox.send(8, other.data(), {from_shape, from_offset, extent});
    mailbox.send(7, first.data(), {from_shape, from_offset, extent});
    mailbox.send(7, second.data(), {from_shape, from_offset, extent});
  });
  Values array(4, -1.0f);
  mailbox.receive(7, array.data(), {to_shape, to_offset, extent}, false);
  EXPECT_EQ(array, (Values{1, 2, 3, 4}));
  mailbox.receive(7, array.data(), {to_shape, to_offset, extent}, true);
  EXPECT_EQ(array, (Values{11, 22, 33, 44}));
  mailbox.receive(8, array.data(), {to_shape, to_offset, extent}, false);
  EXPECT_EQ(array, (Values{5, 5, 5, 5}));
  sender.join();
}

// Rank 2 never comes: the two that wait in the collective and the one that waits for a message end all the same.
TEST(AbortTest, WakesEveryWaiter) {
  Abort abort;
  Communicator group(3, abort);
  Mailbox mailbox(abort);
  std::atomic<int> ended = 0;
  on_ranks(4, [&](int rank) {
    Values values(2000, 1.0f);
    const std::vector<std::int64_t> shape = {2000}, origin = {0};
    try {
      if (rank == 2) return abort.raise();
      if (rank == 3) mailbox.receive(0, values.data(), {shape, origin, shape}, false);
      if (rank < 2) group.all_reduce(rank, values.data(), values.data(), 2000, kernels::Reduction::Sum);
      ADD_FAILURE() << "rank " << rank << " did not wait";
    } catch (const Aborted&) {
      ++ended;
    }
  });
  EXPECT_EQ(ended, 3);
}

}  // namespace
}  // namespace meshwright::communicator_test
