// SPDX-License-Identifier: Apache-2.0
#include "launch/output_folder.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/durable_folder.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "io/checkpoint_directory.hpp"
#include "io/checkpoint_levels.hpp"
#include "io/run_folder.hpp"
#include "launch/look_for.hpp"
#include "optim/rules.hpp"
#include "ranks/agreed_error.hpp"
#include "ranks/gather.hpp"

namespace dos::launch {
namespace {

/// For checkpoints of so many bytes in ROOT/checkpoints.
void expect_place(const char* key, const std::filesystem::path& root, Index bytes) {
  const std::filesystem::path folder = root / io::kCheckpointsName;
  std::error_code error;
  if (std::filesystem::is_symlink(folder, error) || std::filesystem::exists(folder, error)) {
    expect(std::filesystem::is_directory(folder, error),
           "{} {}: '{}' is no folder, and checkpoints go there: remove it, or name another place",
           key, root.string(), folder.string());
    if (::access(folder.c_str(), W_OK | X_OK) != 0)
      fail(
          "{} {}: checkpoints cannot be written to '{}': {}; change its permissions, or name "
          "another place",
          key, root.string(), folder.string(), std::generic_category().message(errno));
  }
  const std::filesystem::space_info space = std::filesystem::space(root, error);
  if (!error && static_cast<Index>(space.available) < bytes)
    log::warn(
        "{} {}: a checkpoint takes {}, and {} are free: make room before the first one comes, or "
        "name another place",
        key, root.string(), format_bytes(bytes), format_bytes(static_cast<Index>(space.available)));
}

}  // namespace

std::unique_ptr<io::RunLock> lock_output(const LaunchOptions& options) {
  std::error_code ignored;
  if (options.dry_run || !std::filesystem::is_directory(options.out, ignored)) return nullptr;
  io::expect_known_run(options.out);
  return std::make_unique<io::RunLock>(options.out);
}

void expect_unused_output(const LaunchOptions& options,
                          const std::optional<train::CheckpointReader>& checkpoint) {
  const io::CheckpointLevels levels(options.out);
  if (checkpoint && levels.owns(checkpoint->folder())) return;
  const bool starts_anyway = !checkpoint && options.resume == "auto";
  const bool used = levels.shared().last() || levels.shared().has_any() ||
                    (!starts_anyway && std::filesystem::exists(options.out / "metrics.jsonl"));
  if (!used) return;
  const std::string out = options.out.string();
  expect(!checkpoint,
         "--out {} already holds a run, and {} is a checkpoint of another: name the folder of that "
         "one, or an empty one",
         out, checkpoint ? checkpoint->folder().string() : "");
  expect(!levels.all().empty(),
         "--out {} already holds a run, which has no checkpoint yet: start it afresh with --resume "
         "auto, or choose another folder",
         out);
  fail("--out {} already holds a run: continue it with --resume, or choose another folder", out);
}

void claim_output(const LaunchOptions& options,
                  const std::optional<train::CheckpointReader>& checkpoint,
                  std::unique_ptr<io::RunLock>& lock) {
  if (lock) return;
  const std::error_code error = create_directories_durably(options.out);
  expect(!error, "--out {}: cannot create the folder: {}; choose a writable place",
         options.out.string(), error.message());
  lock = std::make_unique<io::RunLock>(options.out);
  expect_unused_output(options, checkpoint);
}

void expect_place_for_checkpoints(const LaunchOptions& options, const train::Run& run,
                                  const LocalFolders& local) {
  const Index trained = run.layout.trained_count() * size_of(DType::kF32);
  const Index frozen = (run.layout.parameter_count() - run.layout.trained_count()) *
                       size_of(run.config.parameter_types().working);
  const Index states = trained * optim::states_of_rule(run.config.optim.rule);
  const Index all = trained + frozen + states;
  if (local.lock)
    expect_place("train.checkpoint_local",
                 io::local_folder(run.config.train.checkpoint_local, options.out),
                 all / local.nodes.count());
  if (run.share.rank != 0) return;
  expect_place("--out", options.out, all);
  rlimit limit{};
  const auto largest = static_cast<rlim_t>(std::max({trained, frozen, states}));
  // Of states on disks each subgroup has a file.
  if (run.config.disks().empty() && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
      limit.rlim_cur < largest)
    log::warn(
        "files may have {} at most (ulimit -f), and the largest of a checkpoint has {}: raise the "
        "limit, or no checkpoint can be written",
        format_bytes(static_cast<Index>(limit.rlim_cur)),
        format_bytes(static_cast<Index>(largest)));
}

void expect_shared_output(const LaunchOptions& options, ranks::Exchange& exchange) {
  std::error_code ignored;
  // Rank 0 has written it.
  static_cast<void>(ranks::gather_texts(exchange, ""));
  const bool sees_it =
      look_for([&] { return std::filesystem::exists(options.out / io::kRunInfo, ignored); });
  const std::vector<std::string> blind = ranks::gather_texts(exchange, sees_it ? "" : "blind");
  for (std::size_t rank = 0; rank < blind.size(); ++rank)
    if (!blind[rank].empty())
      throw ranks::AgreedError(fmt::format(
          "--out {}: rank {} does not see what rank 0 has written there, and each rank writes its "
          "part of a checkpoint: name a folder of a file system that all nodes share",
          options.out.string(), rank));
}

}  // namespace dos::launch
