// SPDX-License-Identifier: Apache-2.0
#include "launch/output_folder.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/durable_folder.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "io/checkpoint_directory.hpp"
#include "io/checkpoint_levels.hpp"
#include "io/run_folder.hpp"
#include "optim/rules.hpp"
#include "ranks/agreed_error.hpp"
#include "ranks/gather.hpp"

namespace dos::launch {
namespace {

/// Who has locked the run's folder in train.checkpoint_local, as far as this rank sees; "" without
/// the key, or the folder.
std::string lock_text(const std::string& local, const std::filesystem::path& out) {
  if (local.empty()) return "";
  try {
    return read_text(io::local_folder(local, out) / io::kLockName);
  } catch (const Error&) {
    return "";
  }
}

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

void expect_place_for_checkpoints(const LaunchOptions& options, const train::Run& run) {
  const Index trained = run.layout.trained_count() * size_of(DType::kF32);
  const Index frozen = (run.layout.parameter_count() - run.layout.trained_count()) *
                       size_of(run.config.parameter_types().working);
  const Index states = trained * std::ssize(optim::find_rule(run.config.optim.rule).info->states);
  const std::string& local = run.config.train.checkpoint_local;
  if (!local.empty())
    expect_place("train.checkpoint_local", io::local_folder(local, options.out),
                 trained + frozen + states);
  expect_place("--out", options.out, trained + frozen + states);
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

std::unique_ptr<io::RunLock> lock_local_folder(const LaunchOptions& options,
                                               const config::TrainConfig& config) {
  if (config.train.checkpoint_local.empty()) return nullptr;
  return std::make_unique<io::RunLock>(io::lock_local(config.train.checkpoint_local, options.out));
}

void take_local_folder(const LaunchOptions& options, const config::TrainConfig& config,
                       const std::optional<train::CheckpointReader>& checkpoint) {
  if (config.train.checkpoint_local.empty()) return io::leave_unseen_local(options.out);
  const io::CheckpointLevels levels(options.out);
  io::LocalStart start = io::LocalStart::kAnew;
  if (checkpoint && levels.owns(checkpoint->folder())) {
    const std::vector<io::CheckpointLevels::Found> all = levels.all();
    const bool is_newest = all.empty() || all.front().step <= checkpoint->manifest().step;
    const bool goes_on = is_newest && !io::CheckpointStore::is_aside(checkpoint->folder());
    start = goes_on ? io::LocalStart::kGoesOn : io::LocalStart::kGoesBack;
  }
  io::take_local(config.train.checkpoint_local, options.out, start);
}

void expect_shared_folders(const LaunchOptions& options, const config::TrainConfig& config,
                           ranks::Exchange& exchange) {
  // Network file systems show a new file to other nodes after seconds.
  constexpr int kLooks = 50;
  constexpr std::chrono::milliseconds kPause{100};
  const std::string& local = config.train.checkpoint_local;
  const auto lock = [&] { return lock_text(local, options.out); };
  const std::string wanted = ranks::gather_texts(exchange, lock()).front();
  std::string unseen;
  for (int look = 0; look == 0 || (look < kLooks && !unseen.empty()); ++look) {
    if (look > 0) std::this_thread::sleep_for(kPause);
    std::error_code ignored;
    unseen.clear();
    if (!std::filesystem::exists(options.out / io::kRunInfo, ignored))
      unseen = "--out " + options.out.string();
    else if (lock() != wanted)
      unseen = "train.checkpoint_local = " + local;
  }
  const std::vector<std::string> blind = ranks::gather_texts(exchange, unseen);
  for (std::size_t rank = 0; rank < blind.size(); ++rank)
    if (!blind[rank].empty())
      throw ranks::AgreedError(fmt::format(
          "{}: rank {} does not see what rank 0 has written there, and each rank writes its part "
          "of a checkpoint: name a folder of a file system that all nodes share{}",
          blind[rank], rank,
          blind[rank].starts_with("--out") ? "" : ", or run on one node, or leave the key empty"));
}

}  // namespace dos::launch
