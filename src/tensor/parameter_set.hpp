// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rt/handle.hpp"
#include "rt/session.hpp"
#include "tensor/layout.hpp"

namespace dos::tensor {

/// One handle a subgroup: the values, the gradients or a moment of all parameters, in FP32 or BF16.
class SubgroupHandles {
 public:
  /// Handles are named "<prefix>.<subgroup name>". `layout` must outlive the object.
  SubgroupHandles(rt::Session& session, const Layout& layout, const std::string& prefix,
                  rt::MemoryCategory category, DType type = DType::kF32);

  [[nodiscard]] const rt::Handle& operator[](Index subgroup) const {
    return *handles_[static_cast<std::size_t>(subgroup)];
  }

  /// Copies a parameter's elements, in order, to `out` as FP32; waits for the tasks that write
  /// them.
  void read(const PlacedParameter& parameter, std::span<float> out) const;
  /// Overwrites a parameter's elements from `in`; waits for the tasks that use them. Pre: FP32.
  void write(const PlacedParameter& parameter, std::span<const float> in) const;

 private:
  std::vector<std::unique_ptr<rt::Handle>> handles_;
};

/// Types of what forward and backward read and write of the parameters, each kF32 or kBF16.
struct ParameterTypes {
  DType working = DType::kF32;
  DType gradient = DType::kF32;
};

/// Values and gradients of a model's parameters. The values are FP32, what the optimizer updates;
/// with narrower working parameters forward and backward read those, of which every update, and
/// nn::submit_working_parameters(), makes the rounded values.
class ParameterSet {
 public:
  ParameterSet(rt::Session& session, Layout layout, const ParameterTypes& types = {});
  ParameterSet(const ParameterSet&) = delete;
  ParameterSet& operator=(const ParameterSet&) = delete;

  /// Bytes that the constructor will register, by category.
  static rt::MemoryBytes bytes(const Layout& layout, const ParameterTypes& types);

  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] const SubgroupHandles& values() const { return values_; }
  /// What forward and backward read: the values themselves in FP32.
  [[nodiscard]] const SubgroupHandles& working() const { return working_ ? *working_ : values_; }
  [[nodiscard]] bool has_working() const { return working_.has_value(); }
  [[nodiscard]] const SubgroupHandles& gradients() const { return gradients_; }

 private:
  Layout layout_;
  SubgroupHandles values_;
  std::optional<SubgroupHandles> working_;
  SubgroupHandles gradients_;
};

}  // namespace dos::tensor
