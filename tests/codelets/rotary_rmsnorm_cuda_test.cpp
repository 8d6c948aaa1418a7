// SPDX-License-Identifier: Apache-2.0
// Root-mean-square norms and rotary embeddings on an NVIDIA GPU.
#include "codelets/cuda_test.hpp"
#include "codelets/rmsnorm/rmsnorm.hpp"
#include "codelets/rotary_cases.hpp"
#include "reference/rmsnorm.hpp"

namespace dos::test::rotary_rmsnorm_cuda_test {
namespace {

using namespace codelets;

// Vectors of a warp's and of a block's, of every number of words a thread, whole and in part, more
// than registers keep, odd ones; heads.
constexpr RmsNormShape kNorms[] = {{0, 8, 1e-5F},
                                   {1, 1, 1e-5F},
                                   {5, 31, 1e-5F},
                                   {9, 200, 1e-5F},
                                   {3, 1025, 1e-5F},
                                   {2, 9001, 1e-5F},
                                   {270, 16, 1e-6F},
                                   {3, 768, 1e-5F},
                                   {2, 1000, 1e-5F},
                                   {2, 1280, 1e-5F},
                                   {1, 1544, 1e-5F},
                                   {2, 2048, 1e-5F},
                                   {1, 2056, 1e-5F},
                                   {1, 6144, 1e-5F},
                                   {7, 80, 1e-5F, 5, 4, 0, 560},
                                   {4, 33, 1e-3F, 4, 2, 0, 140},
                                   {65, 128, 1e-5F, 3, 2, 0, 512}};

/// Arrays of one norm on host and device.
struct Norm {
  Norm(const RmsNormShape& s, DType type, Index shift)
      : x(type, random_values(s.tokens * s.stride_of_x(), 1), shift),
        weight(type, random_values(s.weights() * s.width, 2), shift),
        dy(type, random_values(s.tokens * s.stride_of_y(), 4), shift),
        residual(type, random_values(s.tokens * s.stride_of_y(), 5), shift) {
    const auto values = x.values();
    for (Index v = 0; v < s.tokens * s.vectors; ++v)
      roots.push_back(static_cast<float>(reference::inverse_root(
          s.width, values.data() + v / s.vectors * s.stride_of_x() + v % s.vectors * s.width,
          s.epsilon)));
  }
  Elements x, weight, dy, residual;
  std::vector<float> roots;
};

template <class F>
void each_norm(F&& f) {
  for (const RmsNormShape& s : kNorms)
    for (const DType type : kElementTypes)
      for (const Index shift : {0, 1}) {
        SCOPED_TRACE(testing::Message() << name_of(type) << " " << s.tokens << " x " << s.vectors
                                        << " x " << s.width << " + " << shift);
        f(s, type, shift);
      }
}

/// As on CPUs: fewer roundings than terms of a sum, and about 8 of the formula; where the
/// normalised number is rounded to BF16, once more.
double row_factor(const RmsNormShape& s) {
  return (static_cast<double>(s.width) / 4 + 8) * kEps;
}
double rounding_between(DType type) {
  return type == DType::kBF16 ? kBf16Rounding : 0;
}

/// f(number, place in x, place in y, place of the weight) for each vector.
template <class F>
void each_vector(const RmsNormShape& s, F&& f) {
  for (Index v = 0; v < s.tokens * s.vectors; ++v)
    f(v, v / s.vectors * s.stride_of_x() + v % s.vectors * s.width,
      v / s.vectors * s.stride_of_y() + v % s.vectors * s.width,
      v % s.vectors < s.first ? 0 : s.width);
}

void expect_vector(const Elements& got, Index at, const reference::Bounded& expected,
                   double factor) {
  std::vector<float> part;
  for (Index i = 0; i < std::ssize(expected.value); ++i) part.push_back(got.get(at + i));
  expect_close(std::span<const float>(part), expected, factor + rounding_of(got.type()));
}

TEST_F(CudaKernel, RmsNormMatchesTheReference) {
  each_norm([](const RmsNormShape& s, DType type, Index shift) {
    const Norm n(s, type, shift);
    Elements y(type, n.dy.values(), shift);
    Elements roots = unwritten(DType::kF32, s.tokens * s.vectors);
    const OnGpu x(n.x);
    const OnGpu weight(n.weight);
    Both out(y);
    Both kept(roots);
    expect_done(rmsnorm_forward_cuda(cuda_context(), type, s, x.get(), weight.get(), out.get(),
                                     static_cast<float*>(kept.get())));
    out.bring_back();
    kept.bring_back();
    const auto values = n.x.values();
    const auto weights = n.weight.values();
    each_vector(s, [&](Index number, Index from, Index to, Index scale) {
      expect_vector(
          y, to,
          reference::rmsnorm(s.width, values.data() + from, weights.data() + scale, s.epsilon),
          row_factor(s) + rounding_between(type));
      const float exact = n.roots[static_cast<std::size_t>(number)];
      EXPECT_NEAR(roots.get(number), exact, row_factor(s) * exact);
    });
    for (Index i = 0; i < y.count(); ++i) {
      if (i % s.stride_of_y() < s.row()) continue;
      ASSERT_EQ(y.get(i), n.dy.get(i)) << "behind the vectors of a row";
    }
  });
}

TEST_F(CudaKernel, RmsNormDataGradientMatchesTheReferenceInPlaceToo) {
  each_norm([](const RmsNormShape& s, DType type, Index shift) {
    if (s.width > 2100) return;  // the reference takes width^2 steps
    const Norm n(s, type, shift);
    const Elements roots(DType::kF32, n.roots);
    const OnGpu x(n.x);
    const OnGpu weight(n.weight);
    const OnGpu kept(roots);
    const OnGpu dy(n.dy);
    const OnGpu residual(n.residual);
    for (const bool with : {false, true}) {
      Elements dx(type, n.dy.values(), shift);
      Both out(dx);
      expect_done(rmsnorm_backward_cuda(cuda_context(), type, s, x.get(), weight.get(),
                                        kept.as<float>(), with ? dy.get() : out.get(),
                                        with ? residual.get() : nullptr, out.get()));
      out.bring_back();
      const auto values = n.x.values();
      const auto weights = n.weight.values();
      const auto gradients = n.dy.values();
      const auto extra = n.residual.values();
      each_vector(s, [&](Index, Index from, Index to, Index scale) {
        expect_vector(dx, to,
                      reference::rmsnorm_data_gradient(
                          s.width, values.data() + from, weights.data() + scale, s.epsilon,
                          gradients.data() + to, with ? extra.data() + to : nullptr),
                      row_factor(s));
      });
    }
  });
}

TEST_F(CudaKernel, RmsNormWeightGradientMatchesTheReference) {
  each_norm([](const RmsNormShape& s, DType type, Index shift) {
    const Norm n(s, type, shift);
    const Elements roots(DType::kF32, n.roots);
    const OnGpu x(n.x);
    const OnGpu kept(roots);
    const OnGpu dy(n.dy);
    for (const DType gradient : kElementTypes)
      for (const bool accumulate : {false, true}) {
        Elements dweight(gradient, random_values(s.weights() * s.width, 6), shift);
        reference::Bounded expected(s.weights() * s.width);
        for (Index i = 0; accumulate && i < dweight.count(); ++i) expected.add(i, dweight.get(i));
        Both out(dweight);
        expect_done(rmsnorm_backward_weight_cuda(cuda_context(), type, gradient, s, x.get(),
                                                 kept.as<float>(), dy.get(), accumulate,
                                                 out.get()));
        out.bring_back();
        const auto values = n.x.values();
        const auto gradients = n.dy.values();
        each_vector(s, [&](Index, Index from, Index to, Index scale) {
          reference::add_rmsnorm_weight_gradient(s.width, values.data() + from, s.epsilon,
                                                 gradients.data() + to, expected, scale);
        });
        expect_rounded(
            dweight, expected,
            (static_cast<double>(s.tokens * s.vectors) / 2 + 5) * kEps + rounding_between(type));
      }
  });
}

TEST_F(CudaKernel, RmsNormCopiesTheVectorsOfEachRow) {
  each_norm([](const RmsNormShape& s, DType type, Index shift) {
    const Norm n(s, type, shift);
    const OnGpu from(n.dy);
    Elements copy = unwritten(type, s.tokens * s.row(), shift);
    Both to(copy);
    expect_done(copy_vectors_cuda(cuda_context(), type, s, from.get(), to.get()));
    to.bring_back();
    for (Index i = 0; i < copy.count(); ++i)
      ASSERT_EQ(copy.get(i), n.dy.get(i / s.row() * s.stride_of_y() + i % s.row()));
  });
}

TEST_F(CudaKernel, RotaryMatchesTheReference) {
  for (const RotaryShape& s : rotary_shapes())
    for (const DType type : kElementTypes) {
      SCOPED_TRACE(name_of(s));
      Elements x(type, random_values(s.sequences * s.tokens * s.stride, 1));
      const reference::Bounded expected = expected_rotation(s, x.values().data());
      Both there(x);
      expect_done(rotary_cuda(cuda_context(), type, s, there.get()));
      there.bring_back();
      expect_rounded(x, expected, kRotaryFactor);
    }
}

}  // namespace
}  // namespace dos::test::rotary_rmsnorm_cuda_test
