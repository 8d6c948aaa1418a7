// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>

#include "base/types.hpp"

namespace dos::train {

/// What a line of metrics.jsonl names its run by: the time of its start, in ms since 1970.
inline constexpr const char* kRunKey = "run";
/// That of lines which name none.
inline constexpr Index kUnknownRun = 0;

/// The runs that a state comes of, [{"after": 0, "run": R}, {"after": 6, "run": S}], with one more
/// that begins now, after `step`. Null: none is known.
nlohmann::json with_new_run(nlohmann::json runs, Index step);

/// Makes metrics.jsonl at `path` the history of a run that goes on after `last_step` from a state
/// that comes of `runs`: whole lines of their steps. No line is lost without a word:
///
/// - other lines, of a run that went further before it was resumed from there, say, go to a file
///   of their own beside it, metrics.branch-1.jsonl (-2, ...);
/// - where lines of the state's steps are in such files, because the run had gone back to an
///   earlier step and now returns, they come back from there; a gap that nothing fills is told,
///   also where the file is gone;
/// - lines that are damaged or torn are appended to metrics.damaged.jsonl.
///
/// Creates no empty file. Throws Error when a file cannot be read or written, or
/// `runs` is not such a list.
void keep_metrics_until(const std::filesystem::path& path, Index last_step,
                        const nlohmann::json& runs = nullptr);

}  // namespace dos::train
