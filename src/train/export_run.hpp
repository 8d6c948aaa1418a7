// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace dos::train {

/// What the command line of `export` says.
struct ExportRequest {
  std::filesystem::path source;     ///< a run, a checkpoint, or a folder with weights
  std::filesystem::path folder;     ///< to be written
  std::string checkpoint = "last";  ///< of a run: last, best or a step
  std::optional<DType> dtype;       ///< none: as the source computes with
  Index shard_bytes = 0;
  bool merge = false;  ///< of a run with adapters: the whole model, with what they add to it
};

/// What export_run() has to say beside what it wrote.
struct ExportOutcome {
  std::string source;              ///< the folder that the weights came from
  DType dtype = DType::kF32;       ///< of the weights
  std::vector<std::string> notes;  ///< what the folder lacks, and why
};

/// Writes the model of a run, of a checkpoint, or of another such folder, in the form of
/// hf::export_model(), or its adapters alone in that of hf::export_adapters(), with the tokenizer's
/// files if the run has some that others read. A checkpoint's checksums are compared first. Throws
/// Error; nothing is left of the folder then.
ExportOutcome export_run(const ExportRequest& request);

}  // namespace dos::train
