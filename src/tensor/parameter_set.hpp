// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rt/handle.hpp"
#include "rt/session.hpp"
#include "shape/layout.hpp"
#include "tensor/ownership.hpp"
#include "tensor/state_homes.hpp"

namespace dos::tensor {

/// What uses buffers of a device. Those of updates come and go there, and have few sizes, so that
/// each can use memory of another.
enum class Use : std::uint8_t { kModel, kUpdates };

/// One handle a subgroup: the values, the gradients or a moment of all parameters, in FP32 or BF16.
/// Some may be absent, or shared between subgroups (ownership.hpp).
class SubgroupHandles {
 public:
  /// Handles are named "<prefix>.<subgroup name>". `layout` must outlive the object. `homes`
  /// takes those that it keeps elsewhere; null: nobody.
  SubgroupHandles(rt::Session& session, const shape::Layout& layout, const std::string& prefix,
                  MemoryCategory category, DType type = DType::kF32);
  SubgroupHandles(rt::Session& session, const shape::Layout& layout, const Buffers& buffers,
                  const std::string& prefix, MemoryCategory category, DType type,
                  StateHomes* homes = nullptr, Use use = Use::kModel);

  /// Pre: has(subgroup).
  [[nodiscard]] const rt::Handle& operator[](Index subgroup) const {
    const auto& handle = handles_[static_cast<std::size_t>(subgroup)];
    require(handle != nullptr, "a subgroup that this rank holds");
    return *handle;
  }
  [[nodiscard]] bool has(Index subgroup) const {
    return handles_[static_cast<std::size_t>(subgroup)] != nullptr;
  }

  /// Gives a subgroup a second bank: a buffer in whose place flip() puts the one that it has.
  /// Pre: has(subgroup), none yet.
  void add_bank(rt::Session& session, Index subgroup);
  [[nodiscard]] bool has_bank(Index subgroup) const { return banks_.contains(subgroup); }
  /// The bank that is not in use. Pre: has_bank(subgroup).
  [[nodiscard]] const rt::Handle& bank(Index subgroup) const { return *banks_.at(subgroup); }
  /// Tasks and accesses that are submitted from now on use the other bank. Pre: has_bank(subgroup).
  void flip(Index subgroup) {
    std::swap(handles_[static_cast<std::size_t>(subgroup)], banks_.at(subgroup));
  }

  /// Copies a parameter's elements, in order, to `out` as FP32; waits for the tasks that write
  /// them.
  void read(const shape::PlacedParameter& parameter, std::span<float> out) const;
  /// Overwrites the elements of a parameter that are in this rank's `owned` subgroups from `in`,
  /// the whole parameter; waits for the tasks that use them. Pre: FP32.
  void write(const shape::PlacedParameter& parameter, std::span<const float> in,
             const Ownership& ownership = {}) const;

 private:
  std::vector<std::shared_ptr<rt::Handle>> handles_;
  std::map<Index, std::shared_ptr<rt::Handle>> banks_;
};

/// Values and gradients of a model's parameters, or a rank's part of them. The values are FP32,
/// what the optimizer updates; with narrower working parameters forward and backward read those, of
/// which every update, and nn::submit_working_parameters(), makes the rounded values. What is
/// frozen has no other values than the working parameters.
class ParameterSet {
 public:
  /// `homes`, if it is not null, may keep FP32 values elsewhere that only updates need.
  ParameterSet(rt::Session& session, shape::Layout layout, const ParameterTypes& types = {},
               Ownership ownership = {}, StateHomes* homes = nullptr);
  ParameterSet(const ParameterSet&) = delete;
  ParameterSet& operator=(const ParameterSet&) = delete;

  /// Bytes that the constructor will register, by category.
  static rt::MemoryBytes bytes(const shape::Layout& layout, const ParameterTypes& types,
                               const Ownership& ownership = {});

  [[nodiscard]] const shape::Layout& layout() const { return layout_; }
  [[nodiscard]] const Ownership& ownership() const { return ownership_; }
  /// Those of owned subgroups are all that an update needs.
  [[nodiscard]] const SubgroupHandles& values() const { return values_; }
  /// Pre: has_working(), so that forward and backward know nothing of banks.
  [[nodiscard]] SubgroupHandles& values_in_banks() {
    require(has_working(), "working parameters of their own");
    return values_;
  }
  /// What lasts of an owned subgroup, to be loaded and saved: its values, or the working parameters
  /// of one that has no others. Pre: owned.
  [[nodiscard]] const rt::Handle& lasting(Index subgroup) const {
    return values_.has(subgroup) ? values_[subgroup] : working()[subgroup];
  }
  /// The type of that, which is the same on all ranks.
  [[nodiscard]] DType lasting_type(bool trained) const {
    return trained ? DType::kF32 : working_type_;
  }
  /// What forward and backward read: the values themselves in FP32.
  [[nodiscard]] const SubgroupHandles& working() const { return working_ ? *working_ : values_; }
  [[nodiscard]] bool has_working() const { return working_.has_value(); }
  /// What backward writes on this rank; of what is trained.
  [[nodiscard]] const SubgroupHandles& gradients() const { return gradients_; }
  /// Of owned subgroups the gradients of all ranks together, what norms and updates read: those of
  /// this rank themselves where others' are added to them in place.
  [[nodiscard]] const SubgroupHandles& sums() const { return sums_ ? *sums_ : gradients_; }
  [[nodiscard]] bool has_sums() const { return sums_.has_value(); }
  [[nodiscard]] DType gradient_type() const { return gradient_type_; }

 private:
  shape::Layout layout_;
  Ownership ownership_;
  DType working_type_;
  DType gradient_type_;
  SubgroupHandles values_;
  SubgroupHandles gradients_;
  std::optional<SubgroupHandles> working_;
  std::optional<SubgroupHandles> sums_;
};

}  // namespace dos::tensor
