// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bf16.hpp"
#include "base/random.hpp"
#include "base/row_blocking.hpp"
#include "codelets/matrix/row_blocks.hpp"
#include "codelets/simd/isa.hpp"

namespace dos::test {

/// Distance from 1 to the next FP32 number; one rounding is at most half of it, relative.
inline constexpr double kEps = 0x1p-23;

/// Calls f(isa) for every instruction set that this machine runs, and names it in the messages of
/// the expectations that fail inside. What a test does is compiled once, not once an instruction
/// set: only its calls of kernels go through simd::dispatch(isa, ...).
template <class F>
void for_each_isa(F&& f) {
  for (const simd::Isa isa : {simd::Isa::kPortable, simd::Isa::kAvx2, simd::Isa::kAvx512}) {
    if (!simd::is_usable(isa)) continue;
    SCOPED_TRACE(simd::name_of(isa));
    f(isa);
  }
}

/// Calls f.template operator()<isa>() for each of them.
template <class F>
void for_each_compiled_isa(F&& f) {
  for_each_isa([&](simd::Isa isa) { simd::dispatch(isa, f); });
}

/// Calls f.template operator()<T>(isa) for every instruction set and type T of activations.
template <class F>
void for_each_kernel(F&& f) {
  for_each_isa([&](simd::Isa isa) {
    f.template operator()<float>(isa);
    SCOPED_TRACE("BF16");
    f.template operator()<BF16>(isa);
  });
}

/// Calls f.template operator()<T, G>(isa) for every instruction set and types T of activations and
/// G of the parameters' gradients.
template <class F>
void for_each_gradient_kernel(F&& f) {
  for_each_isa([&](simd::Isa isa) {
    f.template operator()<float, float>(isa);
    SCOPED_TRACE("BF16");
    f.template operator()<BF16, float>(isa);
    SCOPED_TRACE("BF16 gradients");
    f.template operator()<BF16, BF16>(isa);
  });
}

/// The value as an element of type T, rounded to nearest.
template <class T>
T element(float value) {
  if constexpr (std::is_same_v<T, BF16>)
    return to_bf16(value);
  else
    return value;
}

/// Values of a kernel's input as elements of type T, and as the same numbers in FP32 for the
/// reference.
template <class T>
class Input {
 public:
  Input() = default;
  Input(std::vector<float> values)  // NOLINT(google-explicit-constructor): in member lists
      : exact_(std::move(values)) {
    for (float& each : exact_) {
      elements_.push_back(element<T>(each));
      each = to_float(elements_.back());
    }
  }
  [[nodiscard]] const T* elements() const { return elements_.data(); }
  [[nodiscard]] T* elements() { return elements_.data(); }
  [[nodiscard]] std::span<const T> view() const { return elements_; }
  [[nodiscard]] const float* data() const { return exact_.data(); }
  [[nodiscard]] const std::vector<float>& exact() const { return exact_; }
  [[nodiscard]] std::size_t size() const { return exact_.size(); }
  float operator[](std::size_t i) const { return exact_[i]; }
  void set(std::size_t i, float value) {
    elements_[i] = element<T>(value);
    exact_[i] = to_float(elements_[i]);
  }

 private:
  std::vector<float> exact_;
  std::vector<T> elements_;
};

/// A kernel's output between two zones that it must not touch; checked at scope end. `shift`
/// elements move it away from the alignment that the allocator gives.
template <class T>
class Guarded {
 public:
  explicit Guarded(Index count, T value = T{}, Index shift = 0)
      : count_(count), first_(kZone + shift) {
    store_.assign(static_cast<std::size_t>(first_ + count + kZone), kSentinel);
    std::fill_n(get(), count, value);
  }
  explicit Guarded(std::span<const T> values, Index shift = 0)
      : Guarded(std::ssize(values), T{}, shift) {
    std::copy(values.begin(), values.end(), get());
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() {
    for (Index i = 0; i < std::ssize(store_); ++i) {
      if (i >= first_ && i < first_ + count_) continue;
      if (store_[static_cast<std::size_t>(i)] == kSentinel) continue;
      ADD_FAILURE() << "element " << i - first_ << " outside an output of " << count_
                    << " was written";
      return;
    }
  }

  [[nodiscard]] T* get() { return store_.data() + first_; }
  [[nodiscard]] T* data() { return get(); }
  [[nodiscard]] Index count() const { return count_; }
  [[nodiscard]] std::span<const T> view() const {
    return {store_.data() + first_, static_cast<std::size_t>(count_)};
  }
  T& operator[](Index i) { return get()[i]; }

 private:
  static constexpr Index kZone = 64;
  static constexpr T sentinel() {
    if constexpr (std::is_same_v<T, BF16>)
      return {0x5A5A};
    else
      return static_cast<T>(-12345678);
  }
  static constexpr T kSentinel = sentinel();
  Index count_;
  Index first_;
  std::vector<T> store_;
};

/// `count` normal numbers times `deviation`, the same for the same seed.
inline std::vector<float> random_values(Index count, std::uint64_t seed, float deviation = 1.0F) {
  const Philox random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = deviation * random.normal(i);
  return values;
}

/// `count` tokens below `vocabulary`.
inline std::vector<std::int32_t> random_tokens(Index count, Index vocabulary, std::uint64_t seed) {
  const Philox random(seed);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(random.uniform(i) * static_cast<double>(vocabulary));
  }
  return tokens;
}

/// What rounding a result of about this size to BF16 may add: half of the last of 8 bits, or of the
/// smallest denormal number.
inline double bf16_rounding(double value) {
  return 0x1p-8 * std::abs(value) + 0x1p-134;
}

/// Of a batch's tokens: those whose prediction counts.
enum class Counted { kAll, kSome, kNone };
inline bool counts(Counted counted, std::size_t place) {
  return counted == Counted::kAll || (counted == Counted::kSome && place % 3 != 1);
}

/// The tokens as a batch holds them (base/target.hpp): -1 - token where it is an input only.
inline std::vector<std::int32_t> batch_of(std::vector<std::int32_t> tokens, Counted counted) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (!counts(counted, i)) tokens[i] = -1 - tokens[i];
  return tokens;
}

/// |got[i] - value[i]| <= tolerance[i] for all i, where elements of type BF16 are rounded from an
/// FP32 result within that tolerance; reports the first that is not.
template <class T>
void expect_within(std::span<const T> got, std::span<const double> value,
                   std::span<const double> tolerance) {
  ASSERT_EQ(got.size(), value.size());
  ASSERT_EQ(got.size(), tolerance.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto element = static_cast<double>(to_float(got[i]));
    double allowed = tolerance[i];
    if constexpr (std::is_same_v<T, BF16>)
      allowed += bf16_rounding(std::abs(value[i]) + tolerance[i]);
    // Written so that a NaN fails.
    ASSERT_TRUE(std::abs(element - value[i]) <= allowed)
        << "element " << i << ": got " << element << ", expected " << value[i] << " +- " << allowed;
  }
}

/// The same for a reference that says how large the terms of each result were:
/// tolerance = factor * magnitude + floor.
template <class T, class Bounded>
void expect_close(std::span<const T> got, const Bounded& reference, double factor,
                  double floor = 0) {
  std::vector<double> tolerance(reference.magnitude);
  for (double& t : tolerance) t = t * factor + floor;
  expect_within<T>(got, reference.value, tolerance);
}

template <class T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// A row-major matrix cut into separately allocated row blocks.
template <class T>
class BlockedMatrix {
 public:
  BlockedMatrix(RowBlocking blocking, std::span<const T> elements) : blocking_(blocking) {
    for (Index b = 0; b < blocking.count(); ++b) {
      const auto first = elements.begin() + blocking.first_row(b) * blocking.columns;
      blocks_.emplace_back(first, first + blocking.rows_of(b) * blocking.columns);
    }
    for (const auto& block : blocks_) pointers_.push_back(block.data());
  }
  [[nodiscard]] codelets::RowBlocks<const T> view() const { return {blocking_, pointers_.data()}; }

 private:
  RowBlocking blocking_;
  std::vector<std::vector<T>> blocks_;
  std::vector<const T*> pointers_;
};

}  // namespace dos::test
