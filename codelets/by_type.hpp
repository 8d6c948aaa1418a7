// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <type_traits>

#include "base/bf16.hpp"
#include "base/error.hpp"
#include "rt/codelet.hpp"

/// One codelet an element type, all made from one template. Submission takes the one for the types
/// of its handles.
namespace dos::codelets {

/// Types of activations and of the working parameters that meet them.
inline constexpr DType kActivationTypes[] = {DType::kF32, DType::kBF16};

/// Types of activations and of the parameters' gradients that are made from them.
struct GradientTypes {
  DType activation;
  DType gradient;
};
inline constexpr GradientTypes kGradientTypes[] = {
    {DType::kF32, DType::kF32}, {DType::kBF16, DType::kF32}, {DType::kBF16, DType::kBF16}};

template <class T>
inline constexpr DType kTypeOf = std::is_same_v<T, BF16> ? DType::kBF16 : DType::kF32;

/// "dos.<op>.<type>.v<version>"; two types are both named where they differ.
template <class T, class G = T>
std::string symbol_of(const char* op, int version) {
  if constexpr (std::is_same_v<T, G>)
    return fmt::format("dos.{}.{}.v{}", op, name_of(kTypeOf<T>), version);
  return fmt::format("dos.{}.{}.{}.v{}", op, name_of(kTypeOf<T>), name_of(kTypeOf<G>), version);
}

/// The codelets of an operation for each of kActivationTypes: make.operator()<T>() makes one.
class ByType {
 public:
  template <class Make>
  explicit ByType(const Make& make)
      : f32_(make.template operator()<float>()), bf16_(make.template operator()<BF16>()) {}

  const rt::Codelet& operator[](DType type) const {
    require(type == DType::kF32 || type == DType::kBF16, "elements of type f32 or bf16");
    return type == DType::kF32 ? f32_ : bf16_;
  }

 private:
  rt::Codelet f32_;
  rt::Codelet bf16_;
};

/// The codelets of an operation for each of kGradientTypes: make.operator()<T, G>() makes one.
class ByGradientTypes {
 public:
  template <class Make>
  explicit ByGradientTypes(const Make& make)
      : f32_(make.template operator()<float, float>()),
        mixed_(make.template operator()<BF16, float>()),
        bf16_(make.template operator()<BF16, BF16>()) {}

  const rt::Codelet& operator[](const GradientTypes& types) const {
    const bool narrow = types.activation == DType::kBF16;
    require(narrow || types.activation == DType::kF32, "activations of type f32 or bf16");
    require(types.gradient == DType::kF32 || (narrow && types.gradient == DType::kBF16),
            "gradients of type f32, or of the activations' type");
    if (!narrow) return f32_;
    return types.gradient == DType::kF32 ? mixed_ : bf16_;
  }

 private:
  rt::Codelet f32_;
  rt::Codelet mixed_;
  rt::Codelet bf16_;
};

}  // namespace dos::codelets
