// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rt/handle.hpp"
#include "rt/session.hpp"
#include "tensor/layout.hpp"

namespace dos::tensor {

/// One FP32 handle a subgroup: the values, the gradients or a moment of all parameters.
class SubgroupHandles {
 public:
  /// Handles are named "<prefix>.<subgroup name>". `layout` must outlive the object.
  SubgroupHandles(rt::Session& session, const Layout& layout, const std::string& prefix,
                  rt::MemoryCategory category);

  [[nodiscard]] const rt::Handle& operator[](Index subgroup) const {
    return *handles_[static_cast<std::size_t>(subgroup)];
  }

  /// Copies a parameter's elements, in order, to `out`; waits for the tasks that write them.
  void read(const PlacedParameter& parameter, std::span<float> out) const;
  /// Overwrites a parameter's elements from `in`; waits for the tasks that use them.
  void write(const PlacedParameter& parameter, std::span<const float> in) const;

 private:
  std::vector<std::unique_ptr<rt::Handle>> handles_;
};

/// Values and gradients of a model's parameters.
class ParameterSet {
 public:
  ParameterSet(rt::Session& session, Layout layout);
  ParameterSet(const ParameterSet&) = delete;
  ParameterSet& operator=(const ParameterSet&) = delete;

  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] const SubgroupHandles& values() const { return values_; }
  [[nodiscard]] const SubgroupHandles& gradients() const { return gradients_; }

 private:
  Layout layout_;
  SubgroupHandles values_;
  SubgroupHandles gradients_;
};

}  // namespace dos::tensor
