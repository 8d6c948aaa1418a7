// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/attempt.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "checkpoint/fault_of.hpp"
#include "io/checkpoint_moves.hpp"
#include "storage/blocking.hpp"

namespace dos::checkpoint {
namespace {

/// Of an update, times that after which there is a warning, for a device that takes bytes or does
/// not.
constexpr double kMostPatience = 4;

}  // namespace

Attempt::Attempt(const Surroundings& around, io::CheckpointStore& store,
                 io::CheckpointManifest manifest, std::vector<FileContents> files,
                 const StepSums* sums, bool mark_best, Agreement agreement,
                 std::shared_ptr<Event> before)
    : around_(around),
      store_(store),
      step_(manifest.step),
      manifest_(std::move(manifest)),
      contents_(std::move(files)),
      mark_best_(mark_best),
      agreement_(std::move(agreement)),
      before_(std::move(before)),
      parts_(around.engine, contents_, step_, sums, around.buffers) {
  outcome_.step = step_;
  outcome_.store = &store_;
  outcome_.is_best = mark_best;
  outcome_.validation_loss = manifest_.best_validation_loss;
  // First, as nothing would give back what is asked for.
  try {
    thread_ = std::thread([this] {
      asked_.wait();
      if (has_asked_) run();
    });
  } catch (const std::system_error& error) {
    fail(
        "step {}: no thread to write the checkpoint: {}; raise ulimit -u, or pids.max of the "
        "control group",
        step_, error.what());
  }
  try {
    ask();
    has_asked_ = true;
  } catch (...) {
    asked_.set();
    thread_.join();
    throw;
  }
  asked_.set();
}

void Attempt::ask() {
  parts_.request();
  taken_.ask(around_.disks);
}

Attempt::~Attempt() {
  thread_.join();
}

void Attempt::confirm() {
  const std::lock_guard lock(mutex_);
  is_confirmed_ = true;
  changed_.notify_all();
}

void Attempt::cancel() {
  const std::lock_guard lock(mutex_);
  if (is_confirmed_) return;
  is_cancelled_ = true;
  parts_.cancel();
  changed_.notify_all();
}

std::string Attempt::text() const {
  const std::chrono::duration<double> seconds = Clock::now() - begun_;
  return fmt::format("step {}, for {:.3g} s, in {}", step(), seconds.count(),
                     store_.staging_path(step()).string());
}

const Outcome& Attempt::outcome() {
  over_->wait();
  return outcome_;
}

void Attempt::watch() noexcept {
  const std::chrono::duration<double> patience = around_.patience_of_updates;
  if (!parts_.holds_up(patience)) return;
  const std::string rank =
      around_.exchange == nullptr ? "" : fmt::format("rank {}: ", around_.exchange->rank());
  const auto warn = [&](std::chrono::duration<double> waited, std::string_view consequence) {
    log::warn("{}an update has waited {:.3g} s for bytes of the checkpoint of {}: {}", rank,
              waited.count(), text(), consequence);
  };
  has_held_up_ = becomes(Use::kGivingBack);
  if (has_held_up_) {
    warn(patience, "its files are not there yet: it is given up, and training goes on");
    waited_s_ = parts_.run({}).waited_s;
    return;
  }
  warn(patience, "training goes on when the device has taken them");
  if (!parts_.holds_up(kMostPatience * patience)) return;
  has_held_up_ = parts_.give_up(fmt::format(
      "{}: the device had not taken its bytes when an update had waited {:.3g} s for them",
      store_.staging_path(step()).string(), (kMostPatience * patience).count()));
  if (has_held_up_) warn(kMostPatience * patience, "it is given up, and training goes on");
}

bool Attempt::becomes(Use use) {
  const std::lock_guard lock(mutex_);
  if (use_ == Use::kNone) use_ = use;
  return use_ == use;
}

void Attempt::run() noexcept {
  std::thread watch;
  try {
    watch = std::thread([this] { this->watch(); });
  } catch (const std::system_error&) {
    // Without a thread for it nobody is told.
  }
  try {
    carry_out();
  } catch (const std::exception& error) {
    // A rank was lost, or there is no memory: this rank does not answer any more, and so ends the
    // run. What was asked for is given back.
    outcome_.end = Outcome::End::kLost;
    outcome_.fault = error.what();
    parts_.cancel();
    if (becomes(Use::kWriting)) static_cast<void>(parts_.run({}));
  }
  if (watch.joinable()) watch.join();
  outcome_.waited_s = std::max(outcome_.waited_s, waited_s_);
  if (before_ != nullptr) before_->wait();
  if (must_prune_) io::warn_of([&] { store_.prune(); });
  store_.remove_discarded();
  over_->set();
}

void Attempt::carry_out() {
  std::optional<io::CheckpointStore::Staging> staging;
  Start start;
  if (agreement_.leads()) {
    start.fault = create_files(staging);
    start.takes_kept = kept_.has_value();
  }
  start = agreement_.agree_on_start(start);
  takes_kept_ = start.takes_kept;
  if (start.differs) {
    // Before anybody opens it: what some have is of earlier checkpoints, too.
    if (start.fault.empty() && agreement_.leads()) start.fault = write_kept(*staging);
    start = agreement_.agree_on_start(start);
  }
  if (start.fault.empty() && !agreement_.leads()) start.fault = open_files();
  const RankReport report = write_parts(start.fault);
  if (!wait_for_verdict()) return;
  const Clock::time_point confirmed = Clock::now();
  conclude(commit(staging, agreement_.collect(report)));
  outcome_.seconds += std::chrono::duration<double>(Clock::now() - confirmed).count();
}

std::filesystem::path Attempt::lay_out(const FileContents& contents) {
  std::filesystem::path path = store_.staging_path(step_) / contents.name;
  layouts_.push_back(layout_of(path, contents.tensors));
  return path;
}

bool Attempt::takes_kept(const FileContents& contents, const std::filesystem::path& path) {
  if (!contents.is_constant) return false;
  kept_ = around_.kept->in(store_);
  if (kept_ && !around_.kept->link(store_, path)) kept_.reset();
  return kept_.has_value();
}

std::string Attempt::create_files(std::optional<io::CheckpointStore::Staging>& staging) {
  return fault_of([&] {
    staging.emplace(store_.begin(step_));
    for (std::size_t i = 0; i < contents_.size(); ++i) {
      const std::filesystem::path path = lay_out(contents_[i]);
      files_.emplace_back();
      if (!contents_[i].subgroup && !takes_kept(contents_[i], path)) create_file(*staging, i);
    }
    reserve_parts();
  });
}

void Attempt::create_file(const io::CheckpointStore::Staging& staging, std::size_t file) {
  const io::SafetensorsLayout& layout = layouts_[file];
  const auto room = agreement_.folders().are_several() ? storage::DirectFile::Room::kNone
                                                       : storage::DirectFile::Room::kAll;
  files_[file].emplace(staging.create(contents_[file].name, layout.bytes(), room));
  storage::write(around_.engine, *files_[file], 0, layout.header(), parts_.label());
}

std::string Attempt::write_kept(const io::CheckpointStore::Staging& staging) {
  if (!kept_ || takes_kept_) return "";
  kept_.reset();
  return fault_of([&] {
    for (std::size_t i = 0; i < contents_.size(); ++i) {
      if (!contents_[i].is_constant) continue;
      std::filesystem::remove(staging.path() / contents_[i].name);
      create_file(staging, i);
    }
    reserve_parts();
  });
}

void Attempt::reserve_parts() {
  if (!agreement_.folders().are_several()) return;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (!files_[i]) continue;
    std::map<Index, Index> ranges;  // by their first byte, their end
    for (const Part& part : contents_[i].parts)
      for (const Extent& extent : part.extents) {
        const Index begin = layouts_[i].tensors()[extent.tensor].begin + extent.tensor_offset;
        ranges[begin] = begin + extent.bytes;
      }
    for (auto each = ranges.begin(); each != ranges.end();) {
      const Index begin = each->first;
      Index end = each->second;
      while (++each != ranges.end() && each->first == end) end = each->second;
      static_cast<void>(files_[i]->reserve(begin, end - begin));
    }
  }
}

std::string Attempt::open_files() {
  return fault_of([&] {
    for (const FileContents& contents : contents_) {
      const std::filesystem::path path = lay_out(contents);
      files_.emplace_back();
      const bool is_there = contents.is_constant && takes_kept_;
      if (!contents.subgroup && !is_there)
        files_.back().emplace(storage::DirectFile::open_to_write(path));
    }
    reserve_parts();
  });
}

RankReport Attempt::write_parts(std::string fault) {
  const bool writes = becomes(Use::kWriting);
  if (!writes && fault.empty())
    fault = fmt::format("{}: its files were not ready when an update had waited {:.3g} s for them",
                        store_.staging_path(step()).string(), around_.patience_of_updates.count());
  std::vector<std::optional<PartWriter::Target>> targets;
  for (std::size_t i = 0; fault.empty() && i < files_.size(); ++i) {
    targets.emplace_back();
    if (files_[i]) targets.back().emplace(PartWriter::Target{*files_[i], layouts_[i]});
  }
  PartsWritten written;
  if (writes) written = parts_.run(targets);
  outcome_.bytes = written.bytes;
  outcome_.copied_bytes = written.copied_bytes;
  outcome_.summed_bytes = written.summed_bytes;
  outcome_.waited_s = written.waited_s;
  RankReport report{.fault = fault.empty() ? std::move(written.fault) : fault,
                    .bad_tensor = std::move(written.bad_tensor),
                    .pieces = std::move(written.pieces)};
  if (report.fault.empty() && around_.source_fault) report.fault = around_.source_fault();
  Clock::time_point began = written.began;
  if (report.fault.empty()) {
    const Clock::time_point taken = take_files(report);
    if (began == Clock::time_point()) began = taken;
  }
  if (report.fault.empty()) report.fault = flush();
  if (began != Clock::time_point())
    outcome_.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  return report;
}

Attempt::Clock::time_point Attempt::take_files(RankReport& report) {
  const TakenFiles::Taken taken = taken_.take(
      around_.engine, parts_.label(), store_.staging_path(step_), layouts_,
      [this](Index) {
        const std::lock_guard lock(mutex_);
        expect(!is_cancelled_, "the checkpoint was cancelled");
      },
      report);
  outcome_.linked_bytes += taken.named_bytes;
  outcome_.bytes += taken.copied_bytes;
  return taken.began;
}

std::string Attempt::flush() {
  std::vector<const storage::DirectFile*> files;
  for (const auto& file : files_)
    if (file) files.push_back(&*file);
  for (const storage::DirectFile* file : taken_.named()) files.push_back(file);
  return fault_of([&] {
    storage::sync(around_.engine, files, parts_.label());
    // Names that this rank has made, perhaps on another node than rank 0's.
    if (taken_.has_any()) sync_directory(store_.staging_path(step_));
  });
}

bool Attempt::wait_for_verdict() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_confirmed_ || is_cancelled_; });
  return is_confirmed_;
}

Verdict Attempt::assemble(const std::vector<std::string>& reports) {
  Verdict verdict;
  std::vector<PieceRecord> pieces;
  // What it throws is a fault, too: the others wait for the verdict.
  const std::string broken = fault_of([&] {
    for (std::size_t rank = 0; rank < reports.size(); ++rank) {
      const RankReport report =
          parse_report(reports[rank], agreement_.folders().of(static_cast<Index>(rank)));
      if (verdict.fault.empty()) verdict.fault = report.fault;
      if (verdict.bad_tensor.empty()) verdict.bad_tensor = report.bad_tensor;
      pieces.insert(pieces.end(), report.pieces.begin(), report.pieces.end());
    }
    if (!verdict.is_good()) return;
    manifest_.files = file_records(contents_, layouts_, kept_, std::move(pieces));
    manifest_.parts = agreement_.folders().count();
    if (manifest_.parts > 1) verdict.manifest = io::to_text(manifest_);
  });
  if (!broken.empty()) verdict.fault = broken;
  return verdict;
}

std::string Attempt::publish(io::CheckpointStore::Staging& staging) {
  if (before_ != nullptr) before_->wait();
  return fault_of([&] {
    manifest_.part = agreement_.part();
    io::write_manifest(staging.path(), manifest_);
    const std::filesystem::path folder = staging.commit(mark_best_, agreement_.is_root());
    for (std::size_t i = 0; i < contents_.size(); ++i)
      if (contents_[i].is_constant)
        around_.kept->keep(store_, folder / contents_[i].name, manifest_.files[i]);
  });
}

Verdict Attempt::commit(std::optional<io::CheckpointStore::Staging>& staging,
                        const std::vector<std::string>& reports) {
  const bool is_root = agreement_.is_root();
  Verdict verdict = is_root ? assemble(reports) : Verdict();
  bool has_committed = false;  // before it is known whether all could
  if (agreement_.folders().are_several()) {
    verdict = agreement_.hear(verdict);
    std::string fault;
    if (verdict.is_good() && !is_root && staging) {
      fault = fault_of([&] {
        manifest_ = io::parse_manifest(verdict.manifest, "the manifest that rank 0 sends");
      });
      if (fault.empty()) fault = publish(*staging);
      has_committed = fault.empty();
    }
    fault = agreement_.first_fault(fault);
    if (verdict.is_good()) verdict.fault = fault;
    verdict.manifest.clear();
  }
  if (is_root && verdict.is_good()) verdict.fault = publish(*staging);
  staging.reset();
  verdict = agreement_.hear(verdict);
  must_prune_ = has_committed && verdict.is_good();
  if (has_committed && !verdict.is_good()) store_.take_back(step());
  return verdict;
}

void Attempt::conclude(const Verdict& verdict) {
  outcome_.bad_tensor = verdict.bad_tensor;
  if (!outcome_.bad_tensor.empty()) {
    outcome_.end = Outcome::End::kDropped;
    return;
  }
  outcome_.fault = verdict.fault;
  outcome_.end = verdict.fault.empty() ? Outcome::End::kCommitted : Outcome::End::kGivenUp;
}

}  // namespace dos::checkpoint
