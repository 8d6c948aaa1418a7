// SPDX-License-Identifier: Apache-2.0
#include "launch/output_folder.hpp"

#include <filesystem>

#include "base/error.hpp"

namespace dos::launch {

std::unique_ptr<io::RunLock> lock_output(const LaunchOptions& options) {
  std::error_code ignored;
  if (options.dry_run || !std::filesystem::is_directory(options.out, ignored)) return nullptr;
  return std::make_unique<io::RunLock>(options.out);
}

void expect_unused_output(const LaunchOptions& options,
                          const std::optional<train::CheckpointReader>& checkpoint) {
  const io::CheckpointStore store(options.out);
  if (checkpoint && store.owns(checkpoint->folder())) return;
  const bool starts_anyway = !checkpoint && options.resume == "auto";
  const bool used =
      store.last() || (!starts_anyway && std::filesystem::exists(options.out / "metrics.jsonl"));
  expect(!used, "--out {} already holds a run: continue it with --resume, or choose another folder",
         options.out.string());
}

void claim_output(const LaunchOptions& options,
                  const std::optional<train::CheckpointReader>& checkpoint,
                  std::unique_ptr<io::RunLock>& lock) {
  if (lock) return;
  std::error_code error;
  std::filesystem::create_directories(options.out, error);
  expect(!error, "--out {}: cannot create the folder: {}; choose a writable place",
         options.out.string(), error.message());
  lock = std::make_unique<io::RunLock>(options.out);
  expect_unused_output(options, checkpoint);
}

}  // namespace dos::launch
