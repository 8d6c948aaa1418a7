// SPDX-License-Identifier: Apache-2.0
// Instructions that elementwise kernels take for an element, counted one by one: what a change of
// the source or the compiler's options costs shows here, on a machine of any speed.
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/bf16.hpp"
#include "base/sanitizer.hpp"
#include "codelets/collect/collect.hpp"
#include "codelets/gelu/gelu.hpp"
#include "codelets/kernel_test.hpp"
#include "codelets/layernorm/layernorm.hpp"
#include "codelets/reduce/reduce.hpp"
#include "codelets/rmsnorm/rmsnorm.hpp"
#include "codelets/swiglu/swiglu.hpp"
#include "codelets/update/update.hpp"

namespace dos::test::instruction_count_kernel_test {
namespace {

using simd::Isa;

/// Counts the instructions of a call in a child process, which is stopped after each. nullopt where
/// that is not permitted.
std::optional<Index> instructions_of(const std::function<void()>& call) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
    ::raise(SIGSTOP);
    call();
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return std::nullopt;
  Index count = 0;
  do {
    ::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
    ++count;
  } while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return count;
}

/// Elements whose instructions are counted: what a call for twice as many takes more.
constexpr Index kElements = 1024;
/// A row of what is normalised or gated.
constexpr Index kWidth = 256;

/// A kernel's call, with the memory that it needs.
using Call = std::function<void()>;

template <class T>
std::vector<T> ones(Index count) {
  if constexpr (std::is_same_v<T, BF16>)
    return std::vector<T>(static_cast<std::size_t>(count), to_bf16(1.0F));
  else
    return std::vector<T>(static_cast<std::size_t>(count), 1.0F);
}

template <class T>
Call gelu_forward(Isa isa, Index n) {
  return [=, x = ones<T>(n), y = ones<T>(n)]() mutable {
    simd::dispatch(isa, [&]<Isa i>() { codelets::gelu_forward_cpu<i>(n, x.data(), y.data()); });
  };
}

template <class T>
Call gelu_backward(Isa isa, Index n) {
  return [=, x = ones<T>(n), dy = ones<T>(n)]() mutable {
    simd::dispatch(isa, [&]<Isa i>() { codelets::gelu_backward_cpu<i>(n, x.data(), dy.data()); });
  };
}

template <class T>
Call swiglu_forward(Isa isa, Index n) {
  const codelets::SwigluShape shape{.tokens = n / kWidth, .hidden = kWidth};
  return [=, x = ones<T>(2 * n), out = ones<T>(n)]() mutable {
    simd::dispatch(isa,
                   [&]<Isa i>() { codelets::swiglu_forward_cpu<i>(shape, x.data(), out.data()); });
  };
}

template <class T>
Call swiglu_backward(Isa isa, Index n) {
  const codelets::SwigluShape shape{.tokens = n / kWidth, .hidden = kWidth};
  return [=, x = ones<T>(2 * n), dout = ones<T>(n), dx = ones<T>(2 * n)]() mutable {
    simd::dispatch(isa, [&]<Isa i>() {
      codelets::swiglu_backward_cpu<i>(shape, x.data(), dout.data(), dx.data());
    });
  };
}

template <class T>
Call layernorm_forward(Isa isa, Index n) {
  return [=, x = ones<T>(n), y = ones<T>(n), weight = ones<T>(kWidth),
          statistics = ones<float>(2 * n / kWidth)]() mutable {
    simd::dispatch(isa, [&]<Isa i>() {
      codelets::layernorm_forward_cpu<i>(n / kWidth, kWidth, x.data(), weight.data(), weight.data(),
                                         y.data(), statistics.data());
    });
  };
}

template <class T>
Call layernorm_backward(Isa isa, Index n) {
  return [=, x = ones<T>(n), dy = ones<T>(n), dx = ones<T>(n), weight = ones<T>(kWidth),
          statistics = ones<float>(2 * n / kWidth)]() mutable {
    simd::dispatch(isa, [&]<Isa i>() {
      codelets::layernorm_backward_cpu<i>(n / kWidth, kWidth, x.data(), weight.data(),
                                          statistics.data(), dy.data(), x.data(), dx.data());
    });
  };
}

template <class T>
Call rmsnorm_forward(Isa isa, Index n) {
  const codelets::RmsNormShape shape{.tokens = n / kWidth, .width = kWidth, .epsilon = 1e-5F};
  return [=, x = ones<T>(n), y = ones<T>(n), weight = ones<T>(kWidth),
          statistics = ones<float>(n / kWidth)]() mutable {
    simd::dispatch(isa, [&]<Isa i>() {
      codelets::rmsnorm_forward_cpu<i>(shape, x.data(), weight.data(), y.data(), statistics.data());
    });
  };
}

template <class T>
Call rmsnorm_backward(Isa isa, Index n) {
  const codelets::RmsNormShape shape{.tokens = n / kWidth, .width = kWidth, .epsilon = 1e-5F};
  return [=, x = ones<T>(n), dy = ones<T>(n), dx = ones<T>(n), weight = ones<T>(kWidth),
          statistics = ones<float>(n / kWidth)]() mutable {
    simd::dispatch(isa, [&]<Isa i>() {
      codelets::rmsnorm_backward_cpu<i>(shape, x.data(), weight.data(), statistics.data(),
                                        dy.data(), x.data(), dx.data());
    });
  };
}

template <class T>
Call sum_of_squares(Isa isa, Index n) {
  return [=, x = ones<T>(n)] {
    simd::dispatch(
        isa, [&]<Isa i>() { static_cast<void>(codelets::sum_of_squares_cpu<i>(n, x.data())); });
  };
}

template <class T>
Call add_gradient(Isa isa, Index n) {
  return [=, x = ones<T>(n), sum = ones<float>(n)]() mutable {
    simd::dispatch(isa, [&]<Isa i>() {
      codelets::add_gradient_cpu<i>(n, /*first=*/false, x.data(), sum.data());
    });
  };
}

/// In FP32, or with gradients and working parameters in BF16.
template <Index kRule, DType kType>
Call update(Isa isa, Index n) {
  const std::vector<std::vector<float>> states(codelets::kMostStates, ones<float>(n));
  return [=, gradient = ones<float>(n), p = ones<float>(n), working = ones<BF16>(n),
          states = states]() mutable {
    const float clip = 1;
    codelets::UpdateArrays arrays{.count = n,
                                  .clip = &clip,
                                  .g = gradient.data(),
                                  .p = p.data(),
                                  .states = {},
                                  .w = kType == DType::kF32 ? nullptr : working.data()};
    for (std::size_t i = 0; i < states.size(); ++i) arrays.states[i] = states[i].data();
    const codelets::StepBytes step{};
    simd::dispatch(isa, [&]<Isa i>() {
      codelets::update_cpu<i>({kRule, kType, kType})(step.bytes, arrays);
    });
  };
}

/// What g++ 12 makes of a kernel: instructions of 100 elements.
struct Row {
  const char* name;
  Call (*call)(Isa, Index);
  double avx2;
  double avx512;
};

constexpr std::array kRows{
    Row{"gelu forward", &gelu_forward<float>, 412.5, 212.5},
    Row{"gelu forward, BF16", &gelu_forward<BF16>, 625.0, 287.5},
    Row{"gelu backward", &gelu_backward<float>, 862.5, 387.5},
    Row{"gelu backward, BF16", &gelu_backward<BF16>, 1256.2, 481.2},
    Row{"swiglu forward", &swiglu_forward<float>, 459.8, 244.5},
    Row{"swiglu forward, BF16", &swiglu_forward<BF16>, 758.4, 318.2},
    Row{"swiglu backward", &swiglu_backward<float>, 549.2, 290.6},
    Row{"swiglu backward, BF16", &swiglu_backward<BF16>, 1040.0, 436.7},
    Row{"layernorm forward", &layernorm_forward<float>, 265.6, 152.3},
    Row{"layernorm forward, BF16", &layernorm_forward<BF16>, 521.9, 266.8},
    Row{"layernorm backward", &layernorm_backward<float>, 292.2, 171.5},
    Row{"layernorm backward, BF16", &layernorm_backward<BF16>, 626.6, 327.3},
    Row{"rmsnorm forward", &rmsnorm_forward<float>, 191.4, 114.1},
    Row{"rmsnorm forward, BF16", &rmsnorm_forward<BF16>, 544.1, 258.6},
    Row{"rmsnorm backward", &rmsnorm_backward<float>, 244.9, 150.0},
    Row{"rmsnorm backward, BF16", &rmsnorm_backward<BF16>, 600.0, 312.9},
    Row{"sum of squares", &sum_of_squares<float>, 112.5, 56.2},
    Row{"sum of squares, BF16", &sum_of_squares<BF16>, 118.8, 59.4},
    Row{"add gradient", &add_gradient<float>, 75.0, 37.5},
    Row{"add gradient, BF16", &add_gradient<BF16>, 87.5, 43.8},
    Row{"AdamW", &update<0, DType::kF32>, 312.5, 178.1},
    Row{"AdamW, BF16", &update<0, DType::kBF16>, 565.6, 260.9},
    Row{"SGD", &update<1, DType::kF32>, 165.6, 101.6},
    Row{"SGD, BF16", &update<1, DType::kBF16>, 362.5, 181.2},
    Row{"Lion", &update<2, DType::kF32>, 315.6, 170.3},
    Row{"Lion, BF16", &update<2, DType::kBF16>, 593.8, 250.0},
    Row{"Adagrad", &update<3, DType::kF32>, 203.1, 120.3},
    Row{"Adagrad, BF16", &update<3, DType::kBF16>, 400.0, 200.0},
};

/// What another build of the same sources may take more.
constexpr double kMargin = 1.1;

TEST(InstructionCounts, OfElementwiseKernelsDoNotGrow) {
#if !defined(__OPTIMIZE__) || defined(__clang__) || __GNUC__ != 12  // NOLINT
  GTEST_SKIP() << "counts are those of g++ 12";
#endif
  if (kIsSanitized) GTEST_SKIP() << "sanitizers count along";
  if (!instructions_of([] {})) GTEST_SKIP() << "the kernel lets nobody trace a child";
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (!simd::is_usable(isa)) continue;
    for (const Row& row : kRows) {
      const Index once = instructions_of(row.call(isa, kElements)).value();
      const Index twice = instructions_of(row.call(isa, 2 * kElements)).value();
      const double taken = 100.0 * static_cast<double>(twice - once) / kElements;
      const double known = isa == Isa::kAvx2 ? row.avx2 : row.avx512;
      EXPECT_LE(taken, kMargin * known)
          << row.name << ", " << simd::name_of(isa) << ": {" << taken << "} for 100 elements";
    }
  }
}

}  // namespace
}  // namespace dos::test::instruction_count_kernel_test
