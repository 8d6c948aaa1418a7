// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "base/types.hpp"

namespace dos::io {

/// The output folder of a run that `named` means: itself, or the one that it is the folder of
/// checkpoints of.
std::filesystem::path run_of(const std::filesystem::path& named);

/// What run.json of a run's output folder says of itself. A higher number is for what readers would
/// misunderstand: new fields alone change nothing.
inline constexpr Index kRunFormat = 1;

inline constexpr const char* kRunInfo = "run.json";

/// The prefix, as of a data set, of the run's own tokenizer.
inline constexpr const char* kTokenizerPrefix = "tokenizer";

/// Throws Error, naming file and release, when run.json, which was read from `path`, is of a format
/// that came later.
void expect_known_format(const std::filesystem::path& path, const nlohmann::json& run);

/// The same of a folder's run.json. What is not there or damaged says nothing.
void expect_known_run(const std::filesystem::path& folder);

}  // namespace dos::io
