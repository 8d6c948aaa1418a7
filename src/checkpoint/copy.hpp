// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "checkpoint/kept_file.hpp"
#include "checkpoint/range_copy.hpp"
#include "io/checkpoint_directory.hpp"
#include "io/checkpoint_manifest.hpp"
#include "storage/engine.hpp"

namespace dos::checkpoint {

/// Does the work of this process, given last, while those that have the other parts of this
/// checkpoint do theirs, but for the files of these names, which are there already. Throws Error
/// when it fails anywhere.
using Others =
    std::function<void(const io::CheckpointManifest& part, const std::set<std::string>& kept,
                       const std::function<void()>& mine)>;

/// Writes the checkpoint of a step that is in `from`, or the part of it, to `to`, and commits it
/// there when `others` have written theirs (copy_part()), as the best if `mark_best`: files and
/// manifest are the same, and whole. Every byte is compared with the sums of the manifest on its
/// way. A constant file that `kept` has with the same sums is not copied again. Throws Error naming
/// path and cause, or file and tensor; then nothing is left in `to`. Pre: no other checkpoint of
/// the step is being written to `to`.
void copy_checkpoint(storage::Engine& engine, const io::CheckpointStore& from,
                     io::CheckpointStore& to, Index step, bool mark_best, KeptFile& kept,
                     const Turn& turn, const Others& others);

/// A copy of a checkpoint in `to` whose files have their headers; copy_part() of each process that
/// has a part writes the rest. Throws Error.
io::CheckpointStore::Staging begin_copy(storage::Engine& engine, io::CheckpointStore& to,
                                        const io::CheckpointManifest& whole);

/// Writes the part that is in `from` to the files that begin_copy(), or copy_checkpoint() of
/// another process, has made, but for those of the names `kept`. Returns which part it is. Throws
/// as that, and where it is not of the checkpoint with this identity_of().
Index copy_part(storage::Engine& engine, const io::CheckpointStore& from,
                const io::CheckpointStore& to, Index step, std::uint64_t identity,
                const std::set<std::string>& kept, const Turn& turn);

}  // namespace dos::checkpoint
