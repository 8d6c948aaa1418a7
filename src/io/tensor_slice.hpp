// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "io/safetensors_header.hpp"

namespace dos::io {

/// Rows first .. end - 1 of a tensor, its first dimension, as files name them: "name[first:end]".
struct TensorSlice {
  std::string_view name;  ///< of the whole tensor
  Index first = 0;
  Index end = 0;
};

/// Rows first .. end - 1 as a tensor of its own, a slice unless they are all. Pre: there are such
/// rows.
TensorSpec part_of(const TensorSpec& whole, Index first, Index end);

/// Under the name of the whole tensor with `suffix` behind: "name.suffix[first:end]".
TensorSpec with_suffix(const TensorSpec& part, std::string_view suffix);

/// What a tensor's name says; nullopt where it is no slice. The view is into `name`.
std::optional<TensorSlice> parse_slice(std::string_view name);

/// The name of the whole tensor, of slices and of whole ones.
std::string_view name_of_whole(std::string_view name);

}  // namespace dos::io
