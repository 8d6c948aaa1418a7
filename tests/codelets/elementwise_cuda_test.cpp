// SPDX-License-Identifier: Apache-2.0
// GELU, SwiGLU, initialisation and sums on an NVIDIA GPU.
#include <algorithm>

#include "codelets/cuda_test.hpp"
#include "codelets/gelu/gelu.hpp"
#include "codelets/init/init.hpp"
#include "codelets/reduce/reduce.hpp"
#include "codelets/swiglu/swiglu.hpp"
#include "reference/gelu.hpp"
#include "reference/swiglu.hpp"

namespace dos::test::elementwise_cuda_test {
namespace {

using namespace codelets;

// None, one, one pack and its neighbours, more than one round of a small grid.
constexpr Index kCounts[] = {0, 1, 7, 8, 9, 2047, 4097, 300'001};

/// f(type, count, shift) for all of them.
template <class F>
void each_size(F&& f) {
  for (const DType type : kElementTypes)
    for (const Index count : kCounts)
      for (const Index shift : {0, 1}) {
        SCOPED_TRACE(testing::Message() << name_of(type) << " " << count << " + " << shift);
        f(type, count, shift);
      }
}

// Relative, in eps, as in gelu_kernel_test.cpp: 10.5 |2u| + 12 from the argument's roundings, as
// much again for the exponential of BF16, which is off by 2 + 1.2 |2u| (CUDA C++ Programming Guide,
// "Intrinsic Functions"), its quotient, and contracted operations.
double gelu_error(double x) {
  return 2 * (10.5 * std::min(2 * std::abs(reference::gelu_argument(x)), 90.0) + 12) * kEps;
}

TEST_F(CudaKernel, GeluMatchesTheReference) {
  each_size([](DType type, Index count, Index shift) {
    const Elements x(type, random_values(count, 1, 3.0F), shift);
    const Elements before(type, random_values(count, 2), shift);
    Elements y = unwritten(type, count, shift);
    Elements dy = before;
    const OnGpu in(x);
    Both out(y);
    Both gradient(dy);
    expect_done(gelu_forward_cuda(cuda_context(), type, count, in.get(), out.get()));
    expect_done(gelu_backward_cuda(cuda_context(), type, count, in.get(), gradient.get()));
    out.bring_back();
    gradient.bring_back();
    for (Index i = 0; i < count; ++i) {
      const double v = x.get(i);
      const double value = reference::gelu(v);
      const double derivative = reference::gelu_derivative(v);
      const double sigmoid = 0.5 * (1 + std::tanh(reference::gelu_argument(v)));
      const double magnitude = sigmoid + std::abs(derivative - sigmoid);
      const double rounding = rounding_of(type);
      // Of 1 + tanh in the reference, and of exponentials below 2^-126 that become 0.
      const double floor = (1 + std::abs(v)) * 0x1p-52;
      ASSERT_NEAR(y.get(i), value, std::abs(value) * (gelu_error(v) + rounding) + floor) << v;
      ASSERT_NEAR(dy.get(i), before.get(i) * derivative,
                  std::abs(before.get(i)) *
                      (magnitude * gelu_error(v) + std::abs(derivative) * rounding + floor))
          << v;
    }
  });
}

TEST_F(CudaKernel, GeluOfExtremes) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const DType type : kElementTypes) {
    Elements x(type, std::vector<float>{kInf, -kInf, kCudaNan, 1e30F, -1e30F, 0.0F});
    Elements y = unwritten(type, 6);
    const OnGpu in(x);
    Both out(y);
    expect_done(gelu_forward_cuda(cuda_context(), type, 6, in.get(), out.get()));
    out.bring_back();
    EXPECT_EQ(y.get(0), kInf);
    EXPECT_TRUE(std::isnan(y.get(1)) || y.get(1) == 0);
    EXPECT_TRUE(std::isnan(y.get(2)));
    EXPECT_EQ(y.get(3), x.get(3));
    EXPECT_EQ(y.get(4), 0);
    EXPECT_EQ(y.get(5), 0);
  }
}

// Rows and columns as kCounts, rows that packs divide and that they do not, more rows than one
// round of a small grid, LLaMA's width.
constexpr SwigluShape kSwigluShapes[] = {{0, 8},      {3, 0},      {1, 1},    {7, 1},    {1, 7},
                                         {3, 8},      {5, 9},      {4, 20},   {2, 2047}, {3, 4097},
                                         {300, 1000}, {40'001, 8}, {5, 11008}};

/// Of an exponential, relative, in eps: FP32's, and, of up to 2^-126, BF16's (exponential.cuh).
double exponential_error(DType type) {
  return type == DType::kF32 ? 2 : 2 + 1.2 * 88;
}

// As in swiglu_kernel_test.cpp.
TEST_F(CudaKernel, SwigluMatchesTheReference) {
  constexpr double kFloor = 0x1p-118 * 0x1p7;
  for (const SwigluShape& shape : kSwigluShapes)
    for (const DType type : kElementTypes)
      for (const Index shift : {0, 1}) {
        SCOPED_TRACE(testing::Message() << name_of(type) << " " << shape.tokens << " x "
                                        << shape.hidden << " + " << shift);
        const Index count = shape.tokens * shape.hidden;
        const Elements x(type, random_values(2 * count, 1, 3.0F), shift);
        const Elements dout(type, random_values(count, 2), shift);
        Elements out = unwritten(type, count, shift);
        Elements dx = unwritten(type, 2 * count, shift);
        const OnGpu x_there(x);
        const OnGpu dout_there(dout);
        Both out_there(out);
        Both dx_there(dx);
        expect_done(
            swiglu_forward_cuda(cuda_context(), type, shape, x_there.get(), out_there.get()));
        expect_done(swiglu_backward_cuda(cuda_context(), type, shape, x_there.get(),
                                         dout_there.get(), dx_there.get()));
        out_there.bring_back();
        dx_there.bring_back();
        const double error = exponential_error(type);
        expect_rounded(out, reference::swiglu(shape.tokens, shape.hidden, x.values().data()),
                       (error + 2.5) * kEps, kFloor);
        expect_rounded(dx,
                       reference::swiglu_gradient(shape.tokens, shape.hidden, x.values().data(),
                                                  dout.values().data()),
                       (error + 5) * kEps, kFloor);
      }
}

TEST_F(CudaKernel, SwigluOfExtremes) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr SwigluShape kRow{1, 6};
  const std::vector<float> gates{kInf, -kInf, kCudaNan, 1e30F, -1e30F, 0.0F};
  for (const DType type : kElementTypes) {
    std::vector<float> row = gates;
    row.resize(12, 1.0F);
    const Elements x(type, row);
    const Elements dout(type, std::vector<float>(6, 1.0F));
    Elements out = unwritten(type, 6);
    Elements dx = unwritten(type, 12);
    const OnGpu x_there(x);
    const OnGpu dout_there(dout);
    Both out_there(out);
    Both dx_there(dx);
    expect_done(swiglu_forward_cuda(cuda_context(), type, kRow, x_there.get(), out_there.get()));
    expect_done(swiglu_backward_cuda(cuda_context(), type, kRow, x_there.get(), dout_there.get(),
                                     dx_there.get()));
    out_there.bring_back();
    dx_there.bring_back();
    EXPECT_EQ(out.get(0), kInf);
    for (const Index i : {1, 2}) EXPECT_TRUE(std::isnan(out.get(i))) << i;
    for (const Index i : {0, 1, 2}) EXPECT_TRUE(std::isnan(dx.get(i))) << i;
    const float slopes[] = {1, 0, 0.5F};
    for (const Index i : {3, 4, 5}) {
      EXPECT_EQ(out.get(i), i == 3 ? x.get(i) : 0);
      EXPECT_EQ(dx.get(i), slopes[i - 3]);
    }
    // Gradients of up are the results for up = 1.
    for (Index i = 0; i < 6; ++i)
      EXPECT_TRUE(dx.get(6 + i) == out.get(i) || std::isnan(out.get(i))) << i;
  }
}

TEST_F(CudaKernel, FillsAndRounds) {
  each_size([](DType type, Index count, Index shift) {
    Elements out = unwritten(type, count, shift);
    Both gpu(out);
    expect_done(fill_cuda(cuda_context(), type, count, 1.25F, gpu.get()));
    gpu.bring_back();
    for (Index i = 0; i < count; ++i) ASSERT_EQ(out.get(i), 1.25F) << i;
    const Elements x(DType::kF32, random_values(count, 1), shift);
    const Elements expected(DType::kBF16, x.values());
    Elements rounded = unwritten(DType::kBF16, count, shift);
    const OnGpu from(x);
    Both to(rounded);
    expect_done(round_cuda(cuda_context(), count, from.as<float>(), static_cast<BF16*>(to.get())));
    to.bring_back();
    for (Index i = 0; i < count; ++i) ASSERT_EQ(rounded.get(i), expected.get(i)) << i;
  });
}

// Every kind of number, in every place of a pack, with others beside it.
TEST_F(CudaKernel, RoundsToTheBitsOfTheHost) {
  std::vector<float> x;
  for (const std::uint32_t bits :
       {0x00000000U, 0x80000000U, 0x3F800000U, 0x3F808000U, 0x3F818000U, 0x3F808001U, 0xBF807FFFU,
        0x7F7FFFFFU, 0xFF7F8000U, 0x7F800000U, 0xFF800000U, 0x7FC00000U, 0xFFC00000U, 0x7F800001U,
        0xFFA00000U, 0x7FFFFFFFU, 0x00000001U, 0x807FFFFFU, 0x00008000U, 0x00018000U})
    for (std::size_t place = 0; place < 9; ++place) {
      x.resize(x.size() + 9, 0.1F * static_cast<float>(place));
      x[x.size() - 9 + place] = __builtin_bit_cast(float, bits);
    }
  const Index count = std::ssize(x);
  for (const Index shift : {0, 1}) {
    const Elements from(DType::kF32, x, shift);
    Elements to = unwritten(DType::kBF16, count, shift);
    const OnGpu there(from);
    Both back(to);
    expect_done(
        round_cuda(cuda_context(), count, there.as<float>(), static_cast<BF16*>(back.get())));
    back.bring_back();
    const auto* rounded = static_cast<const BF16*>(to.data());
    for (Index i = 0; i < count; ++i) {
      const float value = x[static_cast<std::size_t>(i)];
      ASSERT_EQ(rounded[i].bits, to_bf16(value).bits)
          << std::hex << __builtin_bit_cast(std::uint32_t, value);
    }
  }
}

// Two FP64 roundings more or less move the FP32 result by one of its own at most.
void expect_random_numbers_of_the_cpu(Distribution distribution) {
  each_size([&](DType type, Index count, Index shift) {
    const RandomInit init{
        .seed = 7, .stream = 3, .first_index = 5, .spread = 0.02F, .distribution = distribution};
    std::vector<float> expected(static_cast<std::size_t>(count));
    init_random_cpu(init, count, expected.data());
    Elements out = unwritten(type, count, shift);
    Both gpu(out);
    expect_done(init_random_cuda(cuda_context(), type, init, count, gpu.get()));
    gpu.bring_back();
    for (Index i = 0; i < count; ++i) {
      const float value = expected[static_cast<std::size_t>(i)];
      ASSERT_NEAR(out.get(i), value, std::abs(value) * (rounding_of(type) + kEps)) << i;
    }
  });
}

TEST_F(CudaKernel, RandomNumbersAreThoseOfTheCpu) {
  expect_random_numbers_of_the_cpu(Distribution::kNormal);
  expect_random_numbers_of_the_cpu(Distribution::kUniform);
}

TEST_F(CudaKernel, SumsOfSquares) {
  each_size([](DType type, Index count, Index shift) {
    const Elements x(type, random_values(count, 1), shift);
    double expected = 0;
    for (const double v : x.values()) expected += v * v;
    double sums[2] = {-1, -1};
    const OnGpu in(x);
    for (double& sum : sums) {
      const OnGpu out(&sum, sizeof sum);
      expect_done(sum_of_squares_cuda(cuda_context(), type, count, in.get(), out.as<double>()));
      out.copy_to(&sum);
    }
    // An FP64 rounding an element, in either order.
    EXPECT_NEAR(sums[0], expected, expected * static_cast<double>(count) * 0x1p-52);
    EXPECT_EQ(sums[0], sums[1]);
  });
}

TEST_F(CudaKernel, CombinesNormsAsTheCpuDoes) {
  for (const Index count : {0, 1, 3, 256, 257, 700})
    for (const float max_norm : {0.0F, 0.5F, 1e9F})
      for (const float previous : {1.0F, kCudaNan}) {
        SCOPED_TRACE(testing::Message() << count << " " << max_norm << " " << previous);
        std::vector<double> sums(static_cast<std::size_t>(count));
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = 0.1 * static_cast<double>(i + 1);
        const OnGpu memory(sums.data(), std::ssize(sums) * Index{sizeof(double)});
        std::vector<double*> addresses;
        for (Index i = 0; i < count; ++i) addresses.push_back(memory.as<double>() + i);
        float factor = previous;
        double norm = -1;
        const OnGpu factor_there(&factor, sizeof factor);
        const OnGpu norm_there(&norm, sizeof norm);
        expect_done(combine_norm_cuda(cuda_context(), addresses, max_norm, factor_there.as<float>(),
                                      norm_there.as<double>()));
        factor_there.copy_to(&factor);
        norm_there.copy_to(&norm);
        const ClipResult expected = combine_norm(sums, max_norm, previous);
        EXPECT_EQ(norm, expected.norm);
        EXPECT_TRUE(factor == expected.factor ||
                    (std::isnan(factor) && std::isnan(expected.factor)));
      }
}

}  // namespace
}  // namespace dos::test::elementwise_cuda_test
