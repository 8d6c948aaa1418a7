// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "base/bf16.hpp"
#include "base/types.hpp"

namespace dos::test {

/// Half the distance between neighbouring BF16 numbers around 1: the largest relative error of one
/// rounding.
inline constexpr double kBf16Rounding = 0x1p-8;

/// What one more rounding to `type` costs, relative.
inline double rounding_of(DType type) {
  return type == DType::kBF16 ? kBf16Rounding : 0x1p-24;
}

/// An array of FP32 or BF16 elements in host memory, seen as FP32 numbers. Aligned to 16 bytes, or
/// `shift` elements off that.
class Elements {
 public:
  Elements(DType type, Index count, Index shift = 0)
      : type_(type),
        count_(count),
        shift_(shift),
        words_(static_cast<std::size_t>((count + shift) * size_of(type) / 16 + 1)) {}
  Elements(DType type, std::span<const float> values, Index shift = 0)
      : Elements(type, std::ssize(values), shift) {
    for (Index i = 0; i < count_; ++i) set(i, values[static_cast<std::size_t>(i)]);
  }

  [[nodiscard]] DType type() const { return type_; }
  [[nodiscard]] Index count() const { return count_; }
  [[nodiscard]] Index shift() const { return shift_; }
  [[nodiscard]] Index bytes() const { return count_ * size_of(type_); }
  [[nodiscard]] void* data() { return at(0); }
  [[nodiscard]] const void* data() const { return const_cast<Elements*>(this)->at(0); }
  template <class T>
  [[nodiscard]] T* as() {
    return static_cast<T*>(data());
  }

  [[nodiscard]] float get(Index i) const {
    if (type_ == DType::kF32) return *static_cast<const float*>(const_cast<Elements*>(this)->at(i));
    return to_float(*static_cast<const BF16*>(const_cast<Elements*>(this)->at(i)));
  }
  void set(Index i, float value) {
    if (type_ == DType::kF32)
      *static_cast<float*>(at(i)) = value;
    else
      *static_cast<BF16*>(at(i)) = to_bf16(value);
  }

  /// The numbers, as they are after rounding.
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> result;
    for (Index i = 0; i < count_; ++i) result.push_back(get(i));
    return result;
  }

 private:
  struct alignas(16) Word {
    std::byte bytes[16];
  };

  void* at(Index i) {
    return reinterpret_cast<std::byte*>(words_.data()) + (i + shift_) * size_of(type_);
  }

  DType type_;
  Index count_;
  Index shift_;
  std::vector<Word> words_;
};

}  // namespace dos::test
