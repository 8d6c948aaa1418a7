// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels of attention, block by block, on an emulation of a GPU's threads.
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "codelets/attention/attention_kinds.hpp"
#include "codelets/attention_batched_run.hpp"
#include "codelets/block_emulator.hpp"
#include "codelets/kernel_test.hpp"

namespace dos::test::attention_block_test {
namespace {

using namespace codelets::attention;
using codelets::AttentionShape;

/// Shared memory as a block finds it: anything; NaNs show what is read before it was written.
template <class T>
class Shared {
 public:
  explicit Shared(Index bytes) : memory_(static_cast<std::size_t>(bytes / 16)) {
    std::memset(memory_.data(), 0xFF, static_cast<std::size_t>(bytes));
  }
  T* get() { return reinterpret_cast<T*>(memory_.data()); }

 private:
  std::vector<Four> memory_;
};

std::vector<float> deltas(const AttentionData& data) {
  const AttentionShape& s = data.shape;
  std::vector<float> delta;
  for (Index head = 0; head < s.sequences * s.heads; ++head) {
    const HeadOffsets at = head_offsets(s, head);
    for (Index t = 0; t < s.tokens; ++t) {
      float sum = 0;
      for (Index i = 0; i < s.head_size; ++i) {
        const Index k = at.out + t * at.width + i;
        sum += data.out.get(k) * data.dout.get(k);
      }
      delta.push_back(sum);
    }
  }
  return delta;
}

/// block(place) for every block of a launch over so many heads.
template <class Tiling, class F>
void each_block(const AttentionShape& s, Index heads, bool last_first, F&& block) {
  const Index blocks = (s.queries() + Tiling::kRows - 1) / Tiling::kRows * heads;
  for (Index b = 0; b < blocks; ++b)
    block(block_place(b, heads, s.queries(), Tiling::kRows, last_first));
}

bool in_words(const AttentionData& data) {
  return data.qkv.shift() == 0 && data.shape.head_size * size_of(data.qkv.type()) % kWord == 0;
}
float scale_of(const AttentionShape& s) {
  return 1.0F / std::sqrt(static_cast<float>(s.head_size));
}

template <class T, int kHead>
void emulate_forward(AttentionData& data) {
  using Forward = typename Kinds<T, kHead>::Forward;
  const AttentionShape& s = data.shape;
  const ForwardArrays<T> arrays{data.qkv.as<T>(), data.out.as<T>(), data.logsumexp.data()};
  each_block<Forward>(s, s.sequences * s.heads, true, [&](const BlockPlace& place) {
    Shared<T> shared(forward_shared_bytes<Forward>());
    emulate_block(Forward::kThreads, [&](const EmulatedLane& lane) {
      forward_block<Forward>(lane, head_of(s, in_words(data), scale_of(s), arrays, place.head),
                             s.first + place.first_row, shared.get());
    });
  });
}

template <class T, int kHead>
void emulate_backward(AttentionData& data) {
  using Backward = typename Kinds<T, kHead>::Backward;
  const AttentionShape& s = data.shape;
  const auto delta = deltas(data);
  const BackwardArrays<T> arrays{data.qkv.as<T>(), data.dout.as<T>(), data.logsumexp.data(),
                                 delta.data(),     data.dqkv.as<T>(), 0};
  each_block<Backward>(s, s.sequences * s.heads, true, [&](const BlockPlace& place) {
    Shared<T> shared(backward_shared_bytes<Backward>());
    emulate_block(Backward::kThreads, [&](const EmulatedLane& lane) {
      backward_queries_block<Backward>(lane,
                                       head_of(s, in_words(data), scale_of(s), arrays, place.head),
                                       place.first_row, shared.get());
    });
  });
  each_block<Backward>(s, s.sequences * s.key_heads(), false, [&](const BlockPlace& place) {
    Shared<T> shared(backward_shared_bytes<Backward>());
    emulate_block(Backward::kThreads, [&](const EmulatedLane& lane) {
      backward_keys_block<Backward>(
          lane, head_of(s, in_words(data), scale_of(s), arrays, place.head * s.group()),
          place.first_row, shared.get());
    });
  });
}

void emulate_forward(AttentionData& data) {
  const bool small = data.shape.head_size <= 64;
  if (data.qkv.type() == DType::kBF16)
    small ? emulate_forward<BF16, 64>(data) : emulate_forward<BF16, 128>(data);
  else
    small ? emulate_forward<float, 64>(data) : emulate_forward<float, 128>(data);
}

void emulate_backward(AttentionData& data) {
  const bool small = data.shape.head_size <= 64;
  if (data.qkv.type() == DType::kBF16)
    small ? emulate_backward<BF16, 64>(data) : emulate_backward<BF16, 128>(data);
  else
    small ? emulate_backward<float, 64>(data) : emulate_backward<float, 128>(data);
}

void emulate_attention(AttentionData& data) {
  emulate_forward(data);
  emulate_backward(data);
}

// Rows and columns of every tile height and width, one more and one less; heads that fill their
// words and heads that do not.
constexpr AttentionShape kShapes[] = {{1, 1, 1, 1},
                                      {2, 3, 2, 5},
                                      {1, 33, 1, 16},
                                      {1, 64, 1, 64},
                                      {1, 65, 2, 8},
                                      {1, 129, 1, 24},
                                      {1, 63, 1, 80},
                                      {1, 97, 1, 128},
                                      {1, 200, 1, 64},
                                      // Shared keys and values; windows of any size.
                                      {2, 70, 4, 8, 2},
                                      {1, 97, 3, 80, 1},
                                      {1, 40, 2, 96, 2},
                                      {1, 150, 2, 16, 1, 1},
                                      {2, 131, 2, 24, 2, 20},
                                      {1, 200, 4, 32, 2, 64},
                                      {1, 260, 2, 16, 1, 65},
                                      {1, 150, 2, 128, 1, 33},
                                      {1, 90, 2, 16, 1, 89},
                                      {1, 90, 2, 16, 1, 500}};

TEST(AttentionBlock, MatchesTheReference) {
  for (const AttentionShape& s : kShapes)
    for (const DType type : {DType::kF32, DType::kBF16})
      expect_attention(&emulate_attention, s, type, 0);
}

TEST(AttentionBlock, LaterTokensAloneMatchTheReference) {
  for (AttentionShape s : kShapes)
    for (const Index first : {s.tokens / 2, s.tokens - 1}) {
      if (first < 1 || first >= s.tokens) continue;
      s.first = first;
      for (const DType type : {DType::kF32, DType::kBF16})
        expect_later_attention([](AttentionData& data) { emulate_forward(data); }, s, type, 0);
    }
}

TEST(AttentionBlock, UnalignedArraysGiveTheSame) {
  for (const DType type : {DType::kF32, DType::kBF16})
    expect_attention(&emulate_attention, {1, 40, 2, 16}, type, 1);
}

TEST(AttentionBlock, IsThatOfBatchedProducts) {
  for (const AttentionShape& s : {AttentionShape{2, 65, 2, 24}, {1, 97, 1, 128}})
    for (const DType type : {DType::kF32, DType::kBF16})
      expect_same_attention(&emulate_attention, &run_batched, s, type);
}

TEST(AttentionBlock, ItAndBatchedProductsTakeWhatTheOtherLeft) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    const AttentionShape s{2, 70, 2, 40};
    expect_attention(
        [](AttentionData& data) {
          emulate_forward(data);
          run_batched_backward(data);
        },
        s, type, 0);
    expect_attention(
        [](AttentionData& data) {
          run_batched_forward(data);
          emulate_backward(data);
        },
        s, type, 0);
  }
}

TEST(AttentionBlock, LaterTokensDoNotMatter) {
  const AttentionShape s{1, 150, 1, 16};
  AttentionData before(s, DType::kBF16, 0);
  emulate_attention(before);
  AttentionData after(s, DType::kBF16, 0);
  const Index first_changed = 70 * s.qkv_width();
  for (Index i = first_changed; i < after.qkv.count(); ++i) after.qkv.set(i, -after.qkv.get(i));
  emulate_attention(after);
  EXPECT_EQ(std::memcmp(before.out.data(), after.out.data(),
                        static_cast<std::size_t>(70 * s.width()) * sizeof(BF16)),
            0);
  EXPECT_NE(before.out.values(), after.out.values());
}

// Scores of about +-1e4 overflow unless the largest is subtracted first.
TEST(AttentionBlock, ExtremeScoresStayFinite) {
  AttentionData data({1, 70, 1, 16}, DType::kBF16, 0);
  for (Index i = 0; i < data.qkv.count(); ++i)
    if (i % 48 < 32) data.qkv.set(i, 64 * data.qkv.get(i));
  emulate_attention(data);
  for (const float v : data.out.values()) ASSERT_TRUE(std::isfinite(v));
  for (const float v : data.dqkv.values()) ASSERT_TRUE(std::isfinite(v));
}

// As far back as attention.hpp allows.
TEST(AttentionBlock, BadInputsGiveBadOutputs) {
  for (const Index part : {0, 1, 2}) {
    AttentionData data({1, 150, 1, 16}, DType::kBF16, 0);
    data.qkv.set(130 * 48 + part * 16 + 3, std::numeric_limits<float>::quiet_NaN());
    emulate_attention(data);
    for (Index t = 0; t < 150; ++t) {
      const bool bad = std::isnan(data.out.get(t * 16)) || std::isnan(data.out.get(t * 16 + 3));
      SCOPED_TRACE(testing::Message() << "part " << part << " token " << t);
      if (t >= 130) {
        EXPECT_EQ(bad, t == 130 || part != 0);
      } else if (t <= 130 - codelets::kAttentionRows) {
        EXPECT_FALSE(bad);
      }
    }
  }
}

TEST(AttentionTiles, AResultsFragmentsCoverItOnce) {
  std::set<std::pair<int, int>> result;
  for (int lane = 0; lane < kWarp; ++lane)
    for (int i = 0; i < 4; ++i)
      result.emplace(result_place(lane, i).row, result_place(lane, i).column);
  EXPECT_EQ(result.size(), 128U);
  EXPECT_EQ(*result.rbegin(), std::pair(15, 7));
}

/// Banks of shared memory: 32 of 4 bytes; eight words of 16 bytes are read at a time.
template <class T, int kHead>
void expect_no_conflicts() {
  std::set<int> offsets;
  for (int column = 0; column < kHead; ++column) {
    std::set<int> banks;
    for (int row = 0; row < 8; ++row) {
      const int offset = tile_offset<T, kHead>(row, column);
      EXPECT_TRUE(offset >= 0 && offset < 8 * kHead);
      offsets.insert(offset);
      banks.insert(offset * static_cast<int>(sizeof(T)) / kWord % 8);
    }
    EXPECT_EQ(banks.size(), 8U) << "column " << column;
  }
  EXPECT_EQ(offsets.size(), 8U * kHead);
}

TEST(AttentionTiles, EightRowsLieInDifferentBanks) {
  expect_no_conflicts<BF16, 64>();
  expect_no_conflicts<BF16, 128>();
  expect_no_conflicts<float, 64>();
  expect_no_conflicts<float, 128>();
}

TEST(AttentionTiles, TilesAreThoseThatTheMaskLeaves) {
  for (const Index tokens : {1, 31, 32, 33, 127, 128, 129, 1000})
    for (const Index columns : {16, 32, 64})
      for (const Index rows : {64, 128})
        for (Index first = 0; first < tokens; first += rows) {
          const Index last = std::min(first + rows, tokens) - 1;
          const TileRange keys = tiles_of_keys(first, rows, columns, tokens, kNoWindow);
          EXPECT_EQ(keys.first, 0);
          EXPECT_GT(keys.end * columns, last);
          EXPECT_LE((keys.end - 1) * columns, last);
          const TileRange queries = tiles_of_queries(first, rows, columns, tokens, kNoWindow);
          EXPECT_LE(queries.first * columns, first);
          EXPECT_GT((queries.first + 1) * columns, first);
          EXPECT_GE(queries.end * columns, tokens);
          EXPECT_LT((queries.end - 1) * columns, tokens);
        }
}

TEST(AttentionTiles, OfAWindowAreThoseThatItLeaves) {
  for (const Index tokens : {1, 33, 129, 500})
    for (const Index window : {1, 2, 63, 64, 65, 200})
      for (const Index columns : {16, 32, 64})
        for (Index first = 0; first < tokens; first += 64) {
          const Index last = std::min(first + 64, tokens) - 1;
          const TileRange keys = tiles_of_keys(first, 64, columns, tokens, window);
          EXPECT_EQ(keys.first, std::max<Index>(0, first - window + 1) / columns);
          EXPECT_EQ(keys.end, last / columns + 1);
          const TileRange queries = tiles_of_queries(first, 64, columns, tokens, window);
          EXPECT_EQ(queries.first, first / columns);
          const Index last_query = std::min(tokens - 1, first + 63 + window - 1);
          EXPECT_EQ(queries.end, last_query / columns + 1);
        }
}

TEST(AttentionTiles, EveryRowOfEveryHeadHasOneBlock) {
  for (const bool last_first : {false, true}) {
    std::set<std::pair<Index, Index>> places;
    for (Index b = 0; b < 3 * 5; ++b) {
      const BlockPlace place = block_place(b, 5, 130, 64, last_first);
      EXPECT_LT(place.head, 5);
      EXPECT_LT(place.first_row, 130);
      EXPECT_EQ(place.first_row % 64, 0);
      places.emplace(place.head, place.first_row);
    }
    EXPECT_EQ(places.size(), 15U);
  }
  EXPECT_EQ(block_place(0, 5, 130, 64, true).first_row, 128);
  EXPECT_EQ(block_place(0, 5, 130, 64, false).first_row, 0);
}

}  // namespace
}  // namespace dos::test::attention_block_test
