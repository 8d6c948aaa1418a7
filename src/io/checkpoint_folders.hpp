// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/types.hpp"

// How folders in OUT/checkpoints are called: for CheckpointStore.

namespace dos::io {

/// Those of CheckpointStore::LinkTargets.
inline constexpr std::array kLinks{"last", "best"};
inline constexpr std::string_view kStepPrefix = "step-";
inline constexpr std::string_view kStagingSuffix = ".tmp";
inline constexpr std::string_view kRefugeSuffix = ".old";

/// "step-00000010".
std::string step_name(Index step);
/// nullopt: of another form.
std::optional<Index> step_of(std::string_view name);
/// Digits alone; nullopt: it is none.
std::optional<Index> parse_number(std::string_view digits);

/// A checkpoint of a step that the run has reached once and is no longer behind: it has gone back
/// to an earlier one.
struct AsideName {
  Index step = 0;
  Index after = 0;   ///< the last step that the run still has in common with it
  Index number = 1;  ///< of the times that the run has gone back there
};
/// "step-00000010.after-6", and "step-00000010.after-6-2" of the second time.
std::string name_of(const AsideName& aside);
/// nullopt: of another form.
std::optional<AsideName> parse_aside(std::string_view name);

bool is_folder(const std::filesystem::path& path);

}  // namespace dos::io
