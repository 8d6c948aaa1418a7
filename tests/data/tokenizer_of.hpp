// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "data/dataset.hpp"

namespace dos::test {

/// The tokenizer of the dataset PREFIX, which has a manifest.
inline std::unique_ptr<data::Tokenizer> tokenizer_of(const std::filesystem::path& prefix) {
  const data::DatasetPaths paths = data::find_dataset(prefix);
  return data::make_tokenizer(data::read_manifest(paths.manifest), paths.manifest);
}

}  // namespace dos::test
