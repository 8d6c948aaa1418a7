// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "checkpoint/kept_file.hpp"
#include "io/checkpoint_directory.hpp"
#include "storage/engine.hpp"

namespace dos::checkpoint {

/// Asked before each part of a copy is written, with its bytes: may wait, and throws what is to end
/// the copy.
using Turn = std::function<void(Index bytes)>;

/// Memory that a copy takes, beside what an engine needs for memory that is not aligned, as this
/// is.
Index copy_bytes();

/// Writes the checkpoint of a step that is in `from` to `to`, and commits it there, as the best if
/// `mark_best`: files and manifest are the same. Every byte is compared with the sums of the
/// manifest on its way. A constant file that `kept` has with the same sums is not copied again.
/// Throws Error naming path and cause, or file and tensor; then nothing is left in `to`. Pre: no
/// other checkpoint of the step is being written to `to`.
void copy_checkpoint(storage::Engine& engine, const io::CheckpointStore& from,
                     io::CheckpointStore& to, Index step, bool mark_best, KeptFile& kept,
                     const Turn& turn);

}  // namespace dos::checkpoint
