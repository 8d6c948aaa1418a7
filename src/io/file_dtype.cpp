// SPDX-License-Identifier: Apache-2.0
#include "io/file_dtype.hpp"

#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "base/bf16.hpp"
#include "base/error.hpp"

namespace dos::io {
namespace {

struct BufferTypeName {
  DType dtype;
  const char* name;
};
constexpr std::array kBufferTypes{
    BufferTypeName{DType::kF64, "F64"}, BufferTypeName{DType::kF32, "F32"},
    BufferTypeName{DType::kBF16, "BF16"}, BufferTypeName{DType::kI32, "I32"},
    BufferTypeName{DType::kU8, "U8"}};

/// The rest of the format.
constexpr std::array kFileTypes{kF16,
                                FileDType{"I64", 64},
                                FileDType{"U64", 64},
                                FileDType{"C64", 64},
                                FileDType{"U32", 32},
                                FileDType{"I16", 16},
                                FileDType{"U16", 16},
                                FileDType{"I8", 8},
                                FileDType{"BOOL", 8},
                                FileDType{"F8_E4M3", 8},
                                FileDType{"F8_E5M2", 8},
                                FileDType{"F8_E8M0", 8},
                                FileDType{"F6_E2M3", 6},
                                FileDType{"F6_E3M2", 6},
                                FileDType{"F4", 4}};

/// The exponent is widened by a product, which is exact for subnormal numbers, too.
std::uint32_t widened_f16(std::uint16_t half) {
  constexpr std::uint32_t kInfinite = 0x7F800000U;
  const std::uint32_t sign = (half & 0x8000U) << 16U;
  const std::uint32_t shifted = (half & 0x7FFFU) << 13U;
  const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted) * 0x1p112F);
  const std::uint32_t special = (half & 0x7C00U) == 0x7C00U ? kInfinite : 0;
  return sign | scaled | special;
}

constexpr std::uint32_t kExponent = 0x7F800000U;

template <class T>
T load_element(std::span<const std::byte> elements, std::size_t i) {
  T element;
  std::memcpy(&element, elements.data() + i * sizeof(T), sizeof(T));
  return element;
}

/// Elements of type T, whose bits `to_bits` makes those of an FP32 number, of which `from_bits`
/// makes the result; objects, not functions: calls through a pointer would not become vector
/// instructions. Returns whether all numbers are finite.
template <class T, class Out, class ToBits, class FromBits>
bool convert(std::span<const std::byte> elements, std::span<Out> out, const ToBits& to_bits,
             const FromBits& from_bits) {
  require(elements.size() == out.size() * sizeof(T), "as many elements on both sides");
  std::uint32_t bad = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint32_t bits = to_bits(load_element<T>(elements, i));
    bad |= (bits & kExponent) == kExponent ? 1U : 0U;
    out[i] = from_bits(bits);
  }
  return bad == 0;
}

/// f(element type in files, its bits as those of FP32).
template <class F>
bool with_type(FileDType dtype, const F& f) {
  if (dtype == DType::kF32) return f(std::uint32_t{}, [](std::uint32_t bits) { return bits; });
  if (dtype == DType::kBF16)
    return f(BF16{}, [](BF16 value) { return std::uint32_t{value.bits} << 16U; });
  require(dtype == kF16, "a type that widens to FP32");
  return f(std::uint16_t{}, [](std::uint16_t bits) { return widened_f16(bits); });
}

}  // namespace

const char* FileDType::name() const {
  if (name_ != nullptr) return name_;
  for (const BufferTypeName& known : kBufferTypes)
    if (known.dtype == dtype_) return known.name;
  require(false, "dtype without a name in files");
  return nullptr;
}

std::optional<Index> byte_size(FileDType dtype, std::span<const Index> shape) {
  Index bits = dtype.bits();
  bool is_empty = false;
  for (const Index extent : shape) {
    if (extent < 0) return std::nullopt;
    is_empty = is_empty || extent == 0;
  }
  if (is_empty) return 0;
  Index count = 1;
  for (const Index extent : shape)
    if (__builtin_mul_overflow(count, extent, &count)) return std::nullopt;
  if (bits % 8 == 0) {
    Index size = 0;
    return __builtin_mul_overflow(count, bits / 8, &size) ? std::nullopt : std::optional(size);
  }
  if (__builtin_mul_overflow(count, bits, &bits) || bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

const char* file_dtype(FileDType dtype) {
  return dtype.name();
}

std::optional<FileDType> parse_file_dtype(std::string_view name) {
  for (const BufferTypeName& known : kBufferTypes)
    if (known.name == name) return known.dtype;
  for (const FileDType& known : kFileTypes)
    if (known.name() == name) return known;
  return std::nullopt;
}

std::string known_file_dtypes() {
  std::vector<std::string_view> names;
  for (const BufferTypeName& known : kBufferTypes) names.emplace_back(known.name);
  for (const FileDType& known : kFileTypes) names.emplace_back(known.name());
  return fmt::format("{}", fmt::join(names, ", "));
}

bool widens_to_float(FileDType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == kF16;
}

bool all_finite(std::span<const float> numbers) {
  std::uint32_t bad = 0;
  for (const float number : numbers)
    bad |= (std::bit_cast<std::uint32_t>(number) & kExponent) == kExponent ? 1U : 0U;
  return bad == 0;
}

bool all_finite(std::span<const BF16> numbers) {
  constexpr std::uint32_t kUpper = kExponent >> 16U;
  std::uint32_t bad = 0;
  for (const BF16 number : numbers) bad |= (number.bits & kUpper) == kUpper ? 1U : 0U;
  return bad == 0;
}

bool widen(FileDType dtype, std::span<const std::byte> elements, std::span<float> out) {
  const auto as_float = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  return with_type(dtype, [&]<class T>(T /*type*/, const auto& to_bits) {
    return convert<T>(elements, out, to_bits, as_float);
  });
}

bool round(FileDType dtype, std::span<const std::byte> elements, std::span<BF16> out) {
  const auto rounded = [](std::uint32_t bits) { return BF16{round_to_bf16(bits)}; };
  const bool is_finite = with_type(dtype, [&]<class T>(T /*type*/, const auto& to_bits) {
    return convert<T>(elements, out, to_bits, rounded);
  });
  // The largest FP32 numbers become infinite.
  return is_finite && all_finite(std::span<const BF16>(out));
}

}  // namespace dos::io
