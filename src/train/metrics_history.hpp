// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "base/types.hpp"

namespace dos::train {

/// Makes metrics.jsonl at `path` the history of a run that goes on after `last_step`: whole lines
/// of steps up to it. No line is lost without a word:
///
/// - lines of later steps, of a run that went further before it was resumed from there, go to a
/// file
///   of their own beside it, metrics.branch-1.jsonl (-2, ...);
/// - where the file ends before `last_step`, because the run had gone back to an earlier step and
/// now
///   returns, its lines since then change places with those of the branch that `last_step` is of; a
///   gap that no branch fills is told;
/// - lines that are damaged or torn are appended to metrics.damaged.jsonl.
///
/// Does nothing where there is no file. Throws Error when a file cannot be read or written.
void keep_metrics_until(const std::filesystem::path& path, Index last_step);

}  // namespace dos::train
