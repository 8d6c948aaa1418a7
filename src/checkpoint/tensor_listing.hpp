// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "io/checkpoint_manifest.hpp"

namespace dos::checkpoint {

/// Where a tensor of a checkpoint is, or a slice of it.
struct ListedTensor {
  const io::FileRecord* file = nullptr;
  const io::TensorRecord* record = nullptr;
  Index first = 0;  ///< row
  Index end = 0;    ///< row behind the last; 0: it is whole

  [[nodiscard]] bool is_whole() const { return end == 0; }
};

/// By the names of whole tensors; slices in the order of their rows.
using TensorListing = std::map<std::string_view, std::vector<ListedTensor>>;

/// All tensors of a checkpoint; the manifest outlives the result.
TensorListing list_tensors(const io::CheckpointManifest& manifest);

/// Throws Error, naming manifest and tensor, unless slices make up the tensor, each row once.
void expect_whole(const std::filesystem::path& manifest, const io::TensorSpec& wanted,
                  std::span<const ListedTensor> slices);

}  // namespace dos::checkpoint
