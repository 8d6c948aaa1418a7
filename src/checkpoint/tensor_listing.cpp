// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tensor_listing.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "io/tensor_slice.hpp"

namespace dos::checkpoint {

TensorListing list_tensors(const io::CheckpointManifest& manifest) {
  TensorListing listing;
  for (const io::FileRecord& file : manifest.files)
    for (const io::TensorRecord& tensor : file.tensors) {
      const std::optional<io::TensorSlice> slice = io::parse_slice(tensor.name);
      if (slice)
        listing[slice->name].push_back({&file, &tensor, slice->first, slice->end});
      else
        listing[tensor.name].push_back({&file, &tensor});
    }
  for (auto& [name, places] : listing) std::ranges::stable_sort(places, {}, &ListedTensor::first);
  return listing;
}

void expect_whole(const std::filesystem::path& manifest, const io::TensorSpec& wanted,
                  std::span<const ListedTensor> slices) {
  require(!wanted.shape.empty(), "a tensor with rows");
  Index rows = 0;
  for (const ListedTensor& slice : slices) {
    expect(slice.first == rows,
           "{}: tensor '{}': row {} is not listed once: the checkpoint is damaged, use another",
           manifest.string(), wanted.name, rows);
    rows = slice.end;
  }
  expect(rows == wanted.shape.front(),
         "{}: tensor '{}' has {} rows in slices, the model needs {}: use the checkpoint of this "
         "model",
         manifest.string(), wanted.name, rows, wanted.shape.front());
}

}  // namespace dos::checkpoint
