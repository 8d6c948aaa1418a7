// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "codelets/update/rule_info.hpp"
#include "codelets/update/update.hpp"

namespace dos::bench {

inline const codelets::RuleInfo& rule_of(const codelets::UpdateKind& kind) {
  return codelets::all_rules()[static_cast<std::size_t>(kind.rule)];
}

/// Bytes that an update of the kind reads and writes for one parameter.
inline Index bytes_of(const codelets::UpdateKind& kind) {
  return codelets::bytes_per_parameter(kind, std::ssize(rule_of(kind).states));
}

/// The arrays of an update, in memory that no thread has touched yet.
class Arrays {
 public:
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;
  Arrays(const codelets::UpdateKind& kind, Index count) : kind_(kind), arrays_{} {
    arrays_.count = count;
    arrays_.clip = &clip_;
    arrays_.g = allocate(count * size_of(kind.gradient));
    arrays_.p = reinterpret_cast<float*>(allocate(count * size_of(DType::kF32)));
    for (Index s = 0; s < states(); ++s)
      arrays_.states[s] = reinterpret_cast<float*>(allocate(count * size_of(DType::kF32)));
    if (kind.working == DType::kBF16)
      arrays_.w = reinterpret_cast<BF16*>(allocate(count * size_of(kind.working)));
  }

  [[nodiscard]] const codelets::UpdateKind& kind() const { return kind_; }
  [[nodiscard]] Index states() const { return std::ssize(rule_of(kind_).states); }
  [[nodiscard]] const codelets::UpdateArrays& all() const { return arrays_; }

  /// Elements first .. first + count - 1.
  [[nodiscard]] codelets::UpdateArrays part(Index first, Index count) const {
    codelets::UpdateArrays result = arrays_;
    result.count = count;
    result.g = static_cast<const std::byte*>(arrays_.g) + first * size_of(kind_.gradient);
    result.p += first;
    for (Index s = 0; s < states(); ++s) result.states[s] += first;
    if (result.w != nullptr) result.w += first;
    return result;
  }

  [[nodiscard]] float gradient(Index i) const {
    return kind_.gradient == DType::kBF16 ? to_float(static_cast<const BF16*>(arrays_.g)[i])
                                          : static_cast<const float*>(arrays_.g)[i];
  }
  void set_gradient(Index i, float value) const {
    std::byte* g = stores_.front().get();  // allocated first
    if (kind_.gradient == DType::kBF16)
      reinterpret_cast<BF16*>(g)[i] = to_bf16(value);
    else
      reinterpret_cast<float*>(g)[i] = value;
  }

 private:
  std::byte* allocate(Index bytes) {
    stores_.emplace_back(new std::byte[static_cast<std::size_t>(bytes)]);
    return stores_.back().get();
  }

  codelets::UpdateKind kind_;
  float clip_ = 1.0F;
  codelets::UpdateArrays arrays_;
  std::vector<std::unique_ptr<std::byte[]>> stores_;
};

}  // namespace dos::bench
