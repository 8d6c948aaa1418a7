// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/checkpoint_manifest.hpp"
#include "io/safetensors.hpp"

namespace dos::test {

/// Throws Error unless a file of a checkpoint is what the manifest says, to its last byte: what a
/// restart asks, which has some of the tensors from it.
inline void expect_contents(const io::SafetensorsFile& file,
                            const io::CheckpointManifest& manifest) {
  io::expect_layout(file, manifest);
  for (const io::TensorRecord& expected : io::record_of(file.path(), manifest).tensors)
    io::expect_sums(file.path(), file.at(expected.name).bytes, expected);
}

}  // namespace dos::test
