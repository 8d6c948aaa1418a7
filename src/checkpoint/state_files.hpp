// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors_header.hpp"
#include "offload/state_form.hpp"
#include "shape/layout.hpp"

namespace dos::checkpoint {

struct Extent;

/// Subgroups, of all ranks, whose buffers are in files of their own, which offload::AwayStates
/// gives away: a checkpoint takes them as they are.
struct StateFiles {
  std::set<Index> subgroups{};
  bool with_parameters = false;  ///< FP32 parameters beside the states

  /// `array`: as Part::array.
  [[nodiscard]] bool have(Index subgroup, Index array) const {
    return (array > 0 || with_parameters) && subgroups.contains(subgroup);
  }
};

/// "states-000012.safetensors"
std::string state_file_name(Index subgroup);

/// The tensors of such a file, by subgroup, in the order of their bytes: of each buffer, FP32
/// parameters first, the parts of tensors that are in it, and what fills its last page.
std::vector<std::vector<io::TensorSpec>> state_file_tensors(
    const shape::Layout& layout, std::span<const char* const> state_names, const StateFiles& files);

/// Where such tensors lie in the memory of a slot.
std::vector<Extent> extents_of(std::span<const io::TensorSpec> tensors);

/// The form of a file with these tensors.
offload::StateForm form_of(const std::vector<io::TensorSpec>& tensors);

}  // namespace dos::checkpoint
