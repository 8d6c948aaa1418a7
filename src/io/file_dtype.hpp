// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bf16.hpp"
#include "base/types.hpp"

namespace dos::io {

/// An element type of the safetensors format: those of buffers (DType), and those that only files
/// have.
class FileDType {
 public:
  constexpr FileDType(DType dtype) : bits_(static_cast<int>(8 * size_of(dtype))), dtype_(dtype) {}
  constexpr FileDType(const char* name, int bits) : name_(name), bits_(bits) {}

  /// As files say it: "F32".
  [[nodiscard]] const char* name() const;
  [[nodiscard]] constexpr Index bits() const { return bits_; }
  /// Of buffers; nullopt for a type that no buffer has.
  [[nodiscard]] constexpr std::optional<DType> dtype() const { return dtype_; }

  bool operator==(const FileDType& other) const { return std::string_view(name()) == other.name(); }

 private:
  const char* name_ = nullptr;  ///< of a type that no buffer has
  int bits_;
  std::optional<DType> dtype_;
};

/// Half precision of IEEE 754, which files have and buffers do not.
inline constexpr FileDType kF16{"F16", 16};

/// Bytes of a tensor, or nullopt when a dimension is negative, the product does not fit an Index,
/// or the elements do not fill whole bytes.
std::optional<Index> byte_size(FileDType dtype, std::span<const Index> shape);

/// The name of an element type in files: F64, F32, BF16, I32, U8 of those of buffers.
const char* file_dtype(FileDType dtype);

/// The inverse of file_dtype(); nullopt for a name that the format does not have.
std::optional<FileDType> parse_file_dtype(std::string_view name);

/// All names that parse_file_dtype() knows, for messages: "F64, F32, ...".
std::string known_file_dtypes();

/// Whether elements of this type are FP32 numbers or become such without a rounding: F32, F16,
/// BF16.
bool widens_to_float(FileDType dtype);

/// Whether none is infinite or NaN.
bool all_finite(std::span<const float> numbers);
bool all_finite(std::span<const BF16> numbers);

/// Elements of a file as FP32. Pre: widens_to_float(), as many elements on both sides. Returns
/// whether all are finite.
bool widen(FileDType dtype, std::span<const std::byte> elements, std::span<float> out);
/// The same, rounded to nearest, ties to even. Returns whether all are finite, before and after.
bool round(FileDType dtype, std::span<const std::byte> elements, std::span<BF16> out);

}  // namespace dos::io
