// SPDX-License-Identifier: Apache-2.0
// Masks of attention in modules of primitive ops: what becomes an attribute, an operand, or stays written out.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/graph/import/primitive/builder.h"
#include "core/graph/import/primitive/recognise/recognise.h"

namespace meshwright::masks_test {
namespace {

using namespace primitive;

constexpr std::int64_t kSeq = 6, kHeads = 2, kWidth = 3;

// Attention of 2 heads over 6 positions, whose scores (batch, 2, 6, 6) `masked` changes.
class Attention {
 public:
  Attention() : b(module) {
    b.name = "op";
    there = b.input("there", {kBatchProbe, kSeq}, true);
    rows = b.unsqueeze(b.range(0.0, kSeq, 1.0, true), {1});
    columns = b.range(0.0, kSeq, 1.0, true);
  }
  int truth(int integers) { return b.compare(Comparison::NotEqual, integers, b.constant({}, true, std::vector{0.0})); }
  int by_key(int of_keys) { return b.reshape(of_keys, {kBatchProbe, 1, 1, kSeq}); }
  int both(int x, int y) { return b.binary(Kind::Multiply, x, y); }
  int seen() { return b.compare(Comparison::LessEqual, columns, rows); }
  // 0 where it is kept, a low number elsewhere.
  int added(int kept) { return b.select(kept, b.scalar(0.0), b.scalar(-1e9)); }

  template <class Masked>
  Module made(Masked&& masked) {
    const int x = b.input("x", {kBatchProbe, kSeq, kHeads * kWidth}, false);
    const auto heads = [&](const char* name) {
      const int y = b.matmul(x, b.parameter(name, {kHeads * kWidth, kHeads * kWidth}));
      return b.swap(b.reshape(y, {kBatchProbe, kSeq, kHeads, kWidth}), 1, 2);
    };
    const int q = heads("q"), k = heads("k"), v = heads("v");
    const int scores = b.binary(Kind::Multiply, b.matmul(q, b.swap(k, 2, 3)), b.scalar(0.5));
    module.result = b.matmul(b.softmax(masked(scores), 3), v);
    return recognised(module);
  }

  Module module;
  Builder b;
  int there, rows, columns;
};

const Node* attention_of(const Module& module) {
  const auto found = std::find_if(module.nodes.begin(), module.nodes.end(),
                                  [](const Node& node) { return node.kind == Kind::Attention; });
  return found == module.nodes.end() ? nullptr : &*found;
}

Shape mask_of(const Module& module, const Node& attention) {
  return attention.inputs.size() == 4 ? module.nodes[static_cast<std::size_t>(attention.inputs[3])].shape : Shape{};
}

TEST(AttentionMasks, OfPaddingAreAnOperandOfKeys) {
  for (const bool selected : {false, true}) {
    Attention a;
    const Module module = a.made([&](int scores) {
      const int kept = a.by_key(a.truth(a.there));
      return selected ? a.b.select(kept, scores, a.b.scalar(-1e9)) : a.b.binary(Kind::Add, scores, a.added(kept));
    });
    const Node* found = attention_of(module);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(mask_of(module, *found), (Shape{kBatchProbe, 1, kSeq}));
    EXPECT_FALSE(found->details.causal);
    ASSERT_EQ(module.notes.size(), 1u);
    EXPECT_EQ(module.notes[0], "1 attention hides the keys for which the input 'there' is 0");
  }
}

// Repeated for all queries before it is computed with, as transformers' newer exports do.
TEST(AttentionMasks, AreNotRepeatedForQueries) {
  Attention a;
  const Module module = a.made([&](int scores) {
    const int wide = a.b.broadcast(a.by_key(a.there), {kBatchProbe, 1, kSeq, kSeq});
    return a.b.binary(Kind::Add, scores, a.added(a.truth(wide)));
  });
  const Node* found = attention_of(module);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(mask_of(module, *found), (Shape{kBatchProbe, 1, kSeq}));
}

// Also where one mask holds the window, what is later, and padding.
TEST(AttentionMasks, HoldPositionsAsAttributes) {
  for (const std::int64_t window : {0, 2})
    for (const bool padded : {false, true}) {
      Attention a;
      const Module module = a.made([&](int scores) {
        int kept = a.seen();
        if (window > 0) {
          const int first = a.b.binary(Kind::Subtract, a.rows, a.b.constant({}, true, std::vector{2.0}));
          kept = a.both(kept, a.b.compare(Comparison::Greater, a.columns, first));
        }
        kept = a.b.reshape(kept, {1, 1, kSeq, kSeq});
        if (padded) kept = a.both(a.by_key(a.truth(a.there)), kept);
        return a.b.binary(Kind::Add, scores, a.added(kept));
      });
      const Node* found = attention_of(module);
      ASSERT_NE(found, nullptr);
      EXPECT_TRUE(found->details.causal);
      EXPECT_EQ(found->details.window, window > 0 ? Shape{window} : Shape{});
      EXPECT_EQ(mask_of(module, *found), padded ? (Shape{kBatchProbe, 1, kSeq}) : Shape{});
    }
}

// A mask of lengths hides nothing of a whole sequence, so that it is not causal unless the file says so.
TEST(AttentionMasks, OfLengthsAreOperandsAndNotCausal) {
  for (const bool causal : {false, true}) {
    Attention a;
    const int lengths = a.b.input("lengths", {kBatchProbe}, true);
    const Module module = a.made([&](int scores) {
      const int kept = a.b.compare(Comparison::Less, a.columns, a.b.reshape(lengths, {kBatchProbe, 1, 1, 1}));
      return a.b.binary(Kind::Add, scores, a.added(causal ? a.both(kept, a.seen()) : kept));
    });
    const Node* found = attention_of(module);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->details.causal, causal);
    EXPECT_EQ(mask_of(module, *found), (Shape{kBatchProbe, causal ? kSeq : 1, kSeq}));
  }
}

// Sequences that are packed into one see themselves alone.
TEST(AttentionMasks, OfPackedSequencesAreAnOperandOfQueriesAndKeys) {
  Attention a;
  const Module module = a.made([&](int scores) {
    const int same = a.b.compare(Comparison::Equal, a.b.reshape(a.there, {kBatchProbe, 1, kSeq, 1}), a.by_key(a.there));
    return a.b.binary(Kind::Add, scores, a.added(a.both(same, a.seen())));
  });
  const Node* found = attention_of(module);
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(found->details.causal);
  EXPECT_EQ(mask_of(module, *found), (Shape{kBatchProbe, kSeq, kSeq}));
  // What is later is not hidden twice.
  for (const Node& node : module.nodes) EXPECT_FALSE(node.kind == Kind::Multiply && node.integer);
}

// A window both ways is the same for all samples.
// Each query sees itself, two keys back and two ahead.
TEST(AttentionMasks, ThatAreWindowsBothWaysAreTheAttentionsOwn) {
  Attention a;
  const Module module = a.made([&](int scores) {
    const int apart = a.b.unary(Kind::Abs, a.b.binary(Kind::Subtract, a.rows, a.columns));
    const int near = a.b.compare(Comparison::Less, apart, a.b.constant({}, true, std::vector{3.0}));
    return a.b.binary(Kind::Add, scores, a.added(near));
  });
  const Node* found = attention_of(module);
  ASSERT_NE(found, nullptr);
  EXPECT_FALSE(found->details.causal);
  EXPECT_EQ(found->details.window, (Shape{3}));
  EXPECT_EQ(found->inputs.size(), 3U);
}

// Two keys ahead and one back.
TEST(AttentionMasks, ThatAreUnevenWindowsAreAnOperand) {
  Attention a;
  const Module module = a.made([&](int scores) {
    const int ahead = a.b.binary(Kind::Subtract, a.columns, a.rows);
    const int near =
        a.b.binary(Kind::Multiply, a.b.compare(Comparison::Less, ahead, a.b.constant({}, true, std::vector{3.0})),
                   a.b.compare(Comparison::Less, a.b.constant({}, true, std::vector{-2.0}), ahead));
    return a.b.binary(Kind::Add, scores, a.added(near));
  });
  const Node* found = attention_of(module);
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(found->details.window.empty());
  EXPECT_EQ(mask_of(module, *found), (Shape{1, kSeq, kSeq}));
}

TEST(AttentionMasks, ThatAreConstantButOfNoWindowAreAnOperand) {
  Attention a;
  const Module module = a.made([&](int scores) {
    const int apart = a.b.unary(Kind::Abs, a.b.binary(Kind::Subtract, a.rows, a.columns));
    const int others = a.b.compare(Comparison::NotEqual, apart, a.b.constant({}, true, std::vector{2.0}));
    return a.b.binary(Kind::Add, scores, a.added(others));
  });
  const Node* found = attention_of(module);
  ASSERT_NE(found, nullptr);
  EXPECT_FALSE(found->details.causal);
  EXPECT_EQ(mask_of(module, *found), (Shape{1, kSeq, kSeq}));
}

// What is added before the scores are doubled counts twice.
TEST(AttentionMasks, AreScaledWithTheScores) {
  Attention a;
  const Module module = a.made([&](int scores) {
    std::vector<double> bias(kSeq);
    for (std::size_t j = 0; j < bias.size(); ++j) bias[j] = 0.25 * static_cast<double>(j);
    return a.b.binary(Kind::Multiply, a.b.binary(Kind::Add, scores, a.b.constant({1, 1, 1, kSeq}, false, bias)),
                      a.b.scalar(2.0));
  });
  const Node* found = attention_of(module);
  ASSERT_NE(found, nullptr);
  const Node& mask = module.nodes[static_cast<std::size_t>(found->inputs.at(3))];
  ASSERT_TRUE(mask.values);
  EXPECT_EQ((*mask.values)[5], 2.5);
}

// Nothing is left out in silence: the scores stay a product with a softmax.
TEST(AttentionMasks, ThatTellHeadsApartOrMultiplyStayWrittenOut) {
  Attention by_head;
  std::vector<double> slopes;
  for (std::int64_t i = 0; i < kHeads * kSeq; ++i) slopes.push_back(-0.1 * static_cast<double>(i));
  const Module apart = by_head.made([&](int scores) {
    return by_head.b.binary(Kind::Add, scores, by_head.b.constant({1, kHeads, 1, kSeq}, false, slopes));
  });
  EXPECT_EQ(attention_of(apart), nullptr);
  Attention times;
  const Module multiplied = times.made([&](int scores) {
    return times.b.binary(Kind::Multiply, scores, times.b.unary(Kind::ToFloat, times.by_key(times.there)));
  });
  EXPECT_EQ(attention_of(multiplied), nullptr);
}

}  // namespace
}  // namespace meshwright::masks_test
