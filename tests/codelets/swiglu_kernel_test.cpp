// SPDX-License-Identifier: Apache-2.0
#include "codelets/swiglu/swiglu.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kernel_test.hpp"
#include "reference/swiglu.hpp"

namespace dos::test::swiglu_kernel_test {
namespace {

using codelets::SwigluShape;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// No row, no column, single ones, no multiple of a vector, many rows, LLaMA's width.
constexpr SwigluShape kShapes[] = {{0, 5},  {3, 0},   {1, 1},    {5, 1},    {1, 15},   {3, 16},
                                   {2, 17}, {63, 33}, {1000, 8}, {2, 4097}, {3, 11008}};

// Of the exponential, relative, in eps (math.hpp); silu.hpp says what it costs.
constexpr double kExponential = 1.5;

// Exponentials and products below 2^-125 are 0 or denormal; the inputs' products reach 2^7.
constexpr double kFloor = 0x1p-118 * 0x1p7;

/// Rows of gate and up, gates that are large, tiny or 0 among the first.
std::vector<float> inputs(const SwigluShape& shape) {
  std::vector<float> x = random_values(2 * shape.tokens * shape.hidden, 21, 3.0F);
  const float special[] = {0.0F,   -0.0F,  1e-30F, -1e-30F, 1e-40F, -1.2785F, -80.0F, -20.0F, 20.0F,
                           -86.6F, -86.7F, -88.8F, 88.8F,   -150.F, 150.0F,   -1e30F, 1e30F};
  if (shape.tokens > 0)
    for (std::size_t i = 0;
         i < std::min(static_cast<std::size_t>(shape.hidden) / 2, std::size(special)); ++i)
      x[2 * i] = special[i];
  return x;
}

template <class F>
void each_shape(F&& f) {
  for (const SwigluShape& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << shape.tokens << " x " << shape.hidden);
    f(shape);
  }
}

// The product with up is one rounding more, half an eps.
TEST(SwigluKernel, ForwardMatchesTheReference) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    each_shape([&](const SwigluShape& shape) {
      const Input<T> x(inputs(shape));
      Guarded<T> out(shape.tokens * shape.hidden);
      simd::dispatch(isa, [&]<simd::Isa kIsa>() {
        codelets::swiglu_forward_cpu<kIsa>(shape, x.elements(), out.get());
      });
      expect_close(out.view(), reference::swiglu(shape.tokens, shape.hidden, x.data()),
                   (kExponential + 2.5) * kEps, kFloor);
    });
  });
}

// The two products with the slope are an eps more.
TEST(SwigluKernel, BackwardMatchesTheReference) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    each_shape([&](const SwigluShape& shape) {
      const Input<T> x(inputs(shape));
      const Input<T> dout(random_values(shape.tokens * shape.hidden, 22));
      Guarded<T> dx(2 * shape.tokens * shape.hidden);
      simd::dispatch(isa, [&]<simd::Isa kIsa>() {
        codelets::swiglu_backward_cpu<kIsa>(shape, x.elements(), dout.elements(), dx.get());
      });
      expect_close(dx.view(),
                   reference::swiglu_gradient(shape.tokens, shape.hidden, x.data(), dout.data()),
                   (kExponential + 5) * kEps, kFloor);
    });
  });
}

struct Values {
  float gate, up, dout;
};

/// One element with these values among 1s, in column `column` of the second of three rows: where
/// they are not finite neither are the results, and no other result suffers.
template <class T>
void expect_not_finite(simd::Isa isa, const Values& bad, Index column) {
  SCOPED_TRACE(testing::Message() << bad.gate << " " << bad.up << " " << bad.dout << " " << column);
  constexpr SwigluShape kShape{3, 33};
  constexpr Index kCount = kShape.tokens * kShape.hidden;
  const Index at = kShape.hidden + column;
  const Index gate = 2 * kShape.hidden + column;
  const Index up = gate + kShape.hidden;
  Input<T> x(std::vector<float>(2 * kCount, 1.0F));
  Input<T> dout(std::vector<float>(kCount, 1.0F));
  x.set(static_cast<std::size_t>(gate), bad.gate);
  x.set(static_cast<std::size_t>(up), bad.up);
  dout.set(static_cast<std::size_t>(at), bad.dout);
  Guarded<T> out(kCount);
  simd::dispatch(isa, [&]<simd::Isa kIsa>() {
    codelets::swiglu_forward_cpu<kIsa>(kShape, x.elements(), out.get());
  });
  Guarded<T> dx(2 * kCount);
  simd::dispatch(isa, [&]<simd::Isa kIsa>() {
    codelets::swiglu_backward_cpu<kIsa>(kShape, x.elements(), dout.elements(), dx.get());
  });

  const auto finite = [](T value) { return std::isfinite(to_float(value)); };
  EXPECT_EQ(finite(out[at]), std::isfinite(bad.gate) && std::isfinite(bad.up));
  EXPECT_FALSE(finite(dx[gate]) && finite(dx[up]));
  for (Index i = 0; i < kCount; ++i) EXPECT_TRUE(i == at || finite(out[i])) << i;
  for (Index i = 0; i < 2 * kCount; ++i) EXPECT_TRUE(i == gate || i == up || finite(dx[i])) << i;
}

// Beside zeros too, and where silu and its slope are 0.
TEST(SwigluKernel, BadInputsGiveBadOutputs) {
  for_each_kernel([]<class T>(simd::Isa isa) {
    for (const float bad : {kNan, kInfinity, -kInfinity})
      for (const float other : {0.0F, 1.0F, -1e4F})
        for (const Index column : {0, 20, 32}) {
          expect_not_finite<T>(isa, {bad, other, 1}, column);
          expect_not_finite<T>(isa, {other, bad, 1}, column);
          expect_not_finite<T>(isa, {other, 1, bad}, column);
        }
  });
}

}  // namespace
}  // namespace dos::test::swiglu_kernel_test
