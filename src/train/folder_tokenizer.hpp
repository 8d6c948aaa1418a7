// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "data/dataset_manifest.hpp"

namespace dos::train {

/// Throws Error where the tokenizer in a Hugging Face folder is known not to be the one that the
/// data set `prefix` was prepared with, whose tokens would mean nothing to the model. A folder
/// without a tokenizer, or with one that cannot be compared, is taken.
void expect_tokenizer_of(const std::filesystem::path& folder, const std::string& prefix,
                         const data::DatasetManifest& manifest);

/// Throws Error where the tokenizer in a Hugging Face folder has more tokens than its model. A
/// folder without a tokenizer, or with one that is not read here, is taken.
void expect_tokens_within(const std::filesystem::path& folder, Index vocabulary);

}  // namespace dos::train
