// SPDX-License-Identifier: Apache-2.0
// Adapters of low rank on an NVIDIA GPU.
#include <memory>

#include "codelets/cuda_test.hpp"
#include "codelets/low_rank_tasks.hpp"

namespace dos::test::low_rank_cuda_test {
namespace {

using namespace codelets;

struct LowRankInputs {
  LowRankInputs(const LowRankCase& c, DType type)
      : between(type, random_values(c.sizes.tokens * c.sizes.width(), 1)),
        up(type, random_values(c.rows() * c.sizes.rank, 2)),
        y(type, random_values(c.sizes.tokens * c.sizes.out, 3)),
        between_there(between),
        y_there(y) {
    const RowBlocking blocking = c.blocking();
    const auto values = up.values();
    for (Index b = 0; b < blocking.count(); ++b) {
      const auto first = values.begin() + blocking.first_row(b) * blocking.columns;
      const std::vector<float> part(first, first + blocking.rows_of(b) * blocking.columns);
      blocks.push_back(std::make_unique<OnGpu>(Elements(type, part)));
    }
  }
  template <class T>
  [[nodiscard]] auto matrix(const LowRankCase& c) const {
    typename buffers::Matrix<rt::Mode::kRead, T>::template Blocks<const T> result;
    result.blocking = c.blocking();
    for (const auto& block : blocks) result.blocks.push_back(static_cast<const T*>(block->get()));
    return result;
  }
  Elements between, up, y;
  OnGpu between_there, y_there;
  std::vector<std::unique_ptr<OnGpu>> blocks;
};

double low_rank_factor(Index terms) {
  return (static_cast<double>(terms) + 3) / 2 * kEps;
}

template <class T>
std::span<T> elements_at(const void* memory, Index count) {
  return {static_cast<T*>(const_cast<void*>(memory)), static_cast<std::size_t>(count)};
}

/// f.operator()<T>(case, type)
template <class F>
void each_low_rank_case(F&& f) {
  for (const LowRankCase& c : low_rank_shapes())
    for (const DType type : kElementTypes) {
      SCOPED_TRACE(testing::Message() << name_of(type) << " " << c.sizes.tokens << " x "
                                      << c.sizes.rank << " of " << c.sizes.out);
      if (type == DType::kBF16)
        f.template operator()<BF16>(c, type);
      else
        f.template operator()<float>(c, type);
    }
}

// Of each block one rounding to the type.
TEST_F(CudaKernel, LowRankForwardAndDataGradientMatchTheReference) {
  each_low_rank_case([]<class T>(const LowRankCase& c, DType type) {
    const LowRankInputs in(c, type);
    const auto& s = c.sizes;
    Elements y = in.y;
    Elements between = unwritten(type, s.tokens * s.width());
    {
      Both out(y);
      const LowRankTask<T> task{
          .args = c.args(),
          .dy = {},
          .y = elements_at<T>(out.get(), s.tokens * s.out),
          .between = elements_at<T>(in.between_there.get(), s.tokens * s.width()),
          .up = in.matrix<T>(c)};
      expect_done(LowRankForward::cuda(cuda_context(), task));
      out.bring_back();
    }
    {
      Both out(between);
      const LowRankTask<T> task{.args = c.args(),
                                .dy = elements_at<T>(in.y_there.get(), s.tokens * s.out),
                                .y = {},
                                .between = elements_at<T>(out.get(), s.tokens * s.width()),
                                .up = in.matrix<T>(c)};
      expect_done(LowRankBackwardData::cuda(cuda_context(), task));
      out.bring_back();
    }
    expect_rounded(y,
                   reference::low_rank_forward(s, in.between.values().data(), in.up.values().data(),
                                               in.y.values().data()),
                   low_rank_factor(s.rank) + rounding_of(type));
    const auto pieces = static_cast<double>(c.blocking().count() + std::ssize(s.parts));
    expect_rounded(
        between, reference::low_rank_data_gradient(s, in.y.values().data(), in.up.values().data()),
        low_rank_factor(c.rows()) + pieces * rounding_of(type));
  });
}

TEST_F(CudaKernel, LowRankWeightGradientMatchesTheReference) {
  each_low_rank_case([]<class T>(const LowRankCase& c, DType type) {
    const LowRankInputs in(c, type);
    const auto& s = c.sizes;
    const RowBlocking blocking = c.blocking();
    std::vector<float> all(static_cast<std::size_t>(c.rows() * s.rank));
    for (Index b = 0; b < blocking.count(); ++b) {
      const Index first = blocking.first_row(b);
      Elements dup = unwritten(DType::kF32, blocking.rows_of(b) * s.rank);
      Both out(dup);
      const LowRankWeightTask<T, float> task{
          .args = c.args(),
          .dy = elements_at<const T>(in.y_there.get(), s.tokens * s.out),
          .between = elements_at<const T>(in.between_there.get(), s.tokens * s.width()),
          .dup = {{first, blocking.rows_of(b), s.rank}, static_cast<float*>(out.get())}};
      expect_done(LowRankBackwardWeight::cuda(cuda_context(), task));
      out.bring_back();
      const auto values = dup.values();
      std::copy(values.begin(), values.end(), all.begin() + first * s.rank);
    }
    expect_rounded(Elements(DType::kF32, all),
                   reference::low_rank_weight_gradient(s, in.y.values().data(),
                                                       in.between.values().data(), nullptr),
                   low_rank_factor(s.tokens));
  });
}

}  // namespace
}  // namespace dos::test::low_rank_cuda_test
