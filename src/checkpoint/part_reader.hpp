// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "base/types.hpp"
#include "checkpoint/contents.hpp"
#include "io/checkpoint_manifest.hpp"
#include "storage/engine.hpp"

namespace dos::checkpoint {

/// Fills the parts of the contents, whichever files of the checkpoint hold their tensors, and
/// however the ranks that wrote them shared these: reads the pieces that hold bytes of the parts,
/// and no others, straight into the buffers where a piece is needed whole, and checks the sum of
/// each. Waits for the tasks that use the buffers.
/// Checkpoints of formats 1 and 2 are read whole.
/// Returns how many bytes of tensors were read.
///
/// Throws Error naming file and tensor when something is missing, of another type or shape than the
/// contents say, or not as it was written; then buffers may hold any of it.
Index read_parts(storage::Engine& engine, const std::filesystem::path& folder,
                 const io::CheckpointManifest& manifest, const FileContents& contents);

/// Reads the whole checkpoint, of one in parts that of the folder, and throws Error, naming file
/// and tensor, when anything is not as it was written.
void verify(storage::Engine& engine, const std::filesystem::path& folder,
            const io::CheckpointManifest& manifest);

/// The same of one of its files.
void verify(storage::Engine& engine, const std::filesystem::path& folder,
            const io::CheckpointManifest& manifest, const io::FileRecord& file);

}  // namespace dos::checkpoint
