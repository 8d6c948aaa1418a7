// SPDX-License-Identifier: Apache-2.0
#include "train/run_checkpoints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/checkpoint_levels.hpp"
#include "train/metrics_history.hpp"
#include "train/stop_signal.hpp"

namespace dos::train {

RunCheckpoints::RunCheckpoints(const CheckpointInputs& inputs,
                               const tensor::ParameterSet& parameters,
                               const optim::Optimizer& optimizer)
    : config_(inputs.config),
      states_(inputs.states),
      exchange_(inputs.exchange),
      out_(inputs.out),
      writes_(inputs.writes),
      make_storage_(inputs.storage),
      description_(inputs.description),
      store_(out_, {config_.train.keep, config_.train.keep_every_hours}),
      engine_({}, inputs.storage()),
      writer_({.engine = engine_,
               .exchange = inputs.exchange,
               .buffers =
                   checkpoint::Writer::buffers_within(1e9 * inputs.config.train.checkpoint_memory),
               .source_fault = [this] { return states_.fault(); },
               .disks = states_.away()},
              parameters, optimizer) {
  if (config_.train.checkpoint_local.empty()) return;
  local_.emplace(io::local_folder(config_.train.checkpoint_local, out_),
                 io::Retention(config_.train.keep));
}

void RunCheckpoints::set_recorder(trace::Recorder* recorder) {
  if (recorder != nullptr) storage_trace_.emplace(*recorder);
  engine_.observe(recorder != nullptr ? &*storage_trace_ : nullptr);
  if (recorder != nullptr) copies_trace_.emplace(*recorder);
  if (copier_ != nullptr) copier_->observe(recorder != nullptr ? &*copies_trace_ : nullptr);
}

void RunCheckpoints::continue_from(const std::filesystem::path& checkpoint,
                                   const io::CheckpointManifest& manifest) {
  description_.runs = manifest.runs;
  const bool is_local = local_ && local_->owns(checkpoint);
  // The first level may be another one now, or none.
  if (!is_local && !io::CheckpointLevels(out_).owns(checkpoint)) return;
  best_ = best_saved_ = manifest.best_validation_loss;
  from_ = checkpoint;
  if (is_local || store_.owns(checkpoint)) newest_ = manifest.step;
}

void RunCheckpoints::start_local() {
  if (nodes_.are_several())
    local_.emplace(io::local_folder(config_.train.checkpoint_local, out_),
                   io::Retention(std::max(config_.train.keep, io::kLeastParts)));
  const Index rank = exchange_ == nullptr ? 0 : exchange_->rank();
  if (!nodes_.leads(rank)) return;
  std::optional<ranks::RootTexts> parts;
  if (nodes_.are_several()) parts.emplace(*exchange_, nodes_.other_leaders());
  copier_ = std::make_unique<checkpoint::Copier>(
      *local_, store_, make_storage_(),
      config_.train.checkpoint_copy_rate * 1e6 / static_cast<double>(nodes_.count()),
      std::move(parts));
  if (copies_trace_) copier_->observe(&*copies_trace_);
}

void RunCheckpoints::start(Index step, io::RunLock* lock, checkpoint::NodeFolders nodes) {
  nodes_ = std::move(nodes);
  if (local_) start_local();
  store_.set_lock(lock);
  description_.runs = with_new_run(std::move(description_.runs), step);
  writer_.forget();
  agree_on_taken_files();
  const auto keep = [&](io::CheckpointStore& store) {
    store.stay();
    // Files of states on disks have other ways, and need the room.
    if (config_.disks().empty()) store.recycle();
  };
  if (writes_) keep(store_);
  if (copier_) keep(*local_);
  go_on_from(step);
  constexpr double kSecondsAnHour = 3600;
  if (config_.train.checkpoint_every == config::kAuto)
    interval_.emplace(step, config_.train.mtbf_hours * kSecondsAnHour);
  if (copier_) request_missing_copies(step);
}

void RunCheckpoints::go_on_from(Index step) {
  if (copier_) local_->go_on_from(step, from_);
  if (!writes_) return;
  if (!local_)
    if (const std::optional<io::LocalLevel> former = io::find_local(out_))
      // Which may be read once more.
      io::CheckpointStore(former->folder).go_on_from(step, from_);
  store_.go_on_from(step, from_);
}

void RunCheckpoints::agree_on_taken_files() {
  // Other ranks may have disks where this one has none.
  if (config_.disks().empty() && exchange_ == nullptr) return;
  std::vector<std::filesystem::path> folders{out_};
  if (local_) folders.push_back(io::local_folder(config_.train.checkpoint_local, out_));
  std::vector<checkpoint::StateFiles> files = states_.files_for(folders, exchange_);
  taken_ = std::move(files.front());
  if (local_) taken_locally_ = std::move(files.back());
}

void RunCheckpoints::request_missing_copies(Index step) {
  using io::CheckpointStore;
  const auto step_of = [](const std::optional<std::filesystem::path>& folder) {
    // What is set aside stays where it is.
    const bool is_behind = folder && !CheckpointStore::is_aside(*folder);
    return is_behind ? CheckpointStore::step_of_folder(*folder) : std::nullopt;
  };
  try {
    const std::optional<Index> best = step_of(local_->best());
    // Rank 0 knows what is missing, the others keep it for it.
    if (best && (!writes_ || best > step_of(store_.best())))
      copier_->request(*best, /*is_best=*/true, local_->hold(*best));
    if (writes_ && step_of(store_.last()) == step)
      copier_->is_there(step);
    else if (step_of(local_->last()) == step)
      copier_->request(step, /*is_best=*/false, local_->hold(step));
  } catch (const Error& error) {
    // What is wrong with a link concerns those who follow it.
    log::warn("{}", error.what());
  }
}

bool RunCheckpoints::is_due(Index step) {
  const Index every = config_.train.checkpoint_every;
  const bool is_regular = interval_ ? interval_->is_due(step) : every > 0 && step % every == 0;
  was_asked_for_ = std::exchange(honoured_, requests_) != requests_;
  if (is_regular) ++regular_;
  copy_is_due_ =
      was_asked_for_ || (is_regular && regular_ % config_.train.checkpoint_copy_every == 0);
  return was_asked_for_ || is_regular;
}

std::span<const std::unique_ptr<rt::Handle>> RunCheckpoints::sums(rt::Session& session,
                                                                  bool is_due) {
  if (!is_due) return {};
  return writer_.sums(session);
}

void RunCheckpoints::add_to(ranks::StepNote& note) const {
  note.requests = checkpoint_requests();
  note.checkpoint = ended_;
  note.checkpoint_s = committed_.seconds;
  note.checkpoint_waited_s = committed_.waited_s + committed_.room_s;
  note.checkpoint_slowed_s = slowed_.seconds();
}

void RunCheckpoints::step_ended(Index step, double seconds) {
  slowed_.see(seconds, !under_way_.empty() && under_way_.front() <= step);
}

void RunCheckpoints::see(std::span<const ranks::StepNote> notes) {
  requests_ = 0;
  Index ended = std::numeric_limits<Index>::max();
  CheckpointCosts costs;
  for (const ranks::StepNote& note : notes) {
    requests_ += note.requests;
    ended = std::min(ended, note.checkpoint);
    costs.step_s = std::max(costs.step_s, note.step_s);
    costs.write_s = std::max(costs.write_s, note.checkpoint_s);
    costs.waited_s = std::max(costs.waited_s, note.checkpoint_waited_s);
    costs.slowed_s = std::max(costs.slowed_s, note.checkpoint_slowed_s);
  }
  if (ended <= seen_) return;
  const bool is_measured = draw_consequences(ended) && costs.step_s > 0;
  if (!interval_) return;
  if (!is_measured) return interval_->give_up();
  const std::optional<std::string> news = interval_->see(costs);
  if (news && writes_) log::info("train.checkpoint_every=auto: {}", *news);
}

bool RunCheckpoints::is_best(double validation_loss) {
  if (best_ && validation_loss >= *best_) return false;
  best_before_ = std::exchange(best_, validation_loss);
  return true;
}

bool RunCheckpoints::has_room(Index step) {
  if (begun_ - seen_ < checkpoint::Writer::kMostUnderWay) return true;
  // Ranks know of ends at different times. Who was waited for in vain is not waited for again.
  const bool was_waited_for = !writer_.has_room() && writer_.oldest() == behind_;
  std::string obstacle;
  if (!writer_.wait_for_room(was_waited_for ? std::chrono::seconds(0) : writer_.patience())) {
    obstacle = writer_.oldest_text();
    behind_ = writer_.oldest();
  }
  obstacle = ranks::first_text(exchange_, obstacle);
  if (obstacle.empty()) return true;
  if (writes_)
    log::warn(
        "step {}: no checkpoint, as {} are under way, the older one of {}; {}, training goes on",
        step, checkpoint::Writer::kMostUnderWay, obstacle, newest_text());
  return false;
}

void RunCheckpoints::leave_out(Index step, bool is_best) {
  // The next has its place: a copy, or a better one.
  if (std::exchange(copy_is_due_, false)) --regular_;
  left_out_ = step;
  given_up_ = {};
  given_up_.step = step;
  given_up_.is_best = is_best;
  given_up_.validation_loss = best_;
  if (is_best) best_ = best_before_;
}

/// Whether one of the step, which was given up or left out, was to be the best: then it is again.
bool RunCheckpoints::was_best(Index step) {
  const bool was_best = given_up_.step == step && given_up_.is_best;
  if (was_best) best_ = given_up_.validation_loss;
  return was_best;
}

void RunCheckpoints::begin(Index step, Index samples_consumed, Reason reason) {
  if (reason != Reason::kLast && !was_asked_for_ && !has_room(step))
    return leave_out(step, reason == Reason::kBest);
  const bool mark_best = reason == Reason::kBest || (reason == Reason::kLast && was_best(step));
  if (!local_) return begin_in(store_, step, samples_consumed, mark_best, taken_);
  const bool is_copied = mark_best || std::exchange(copy_is_due_, false);
  if (is_copied && local_has_failed_)
    return begin_in(store_, step, samples_consumed, mark_best, taken_);
  if (is_copied && copier_) to_be_copied_.emplace(step, local_->hold(step));
  begin_in(*local_, step, samples_consumed, mark_best, taken_locally_);
}

void RunCheckpoints::begin_in(io::CheckpointStore& store, Index step, Index samples_consumed,
                              bool mark_best, const checkpoint::StateFiles& taken) {
  io::CheckpointManifest manifest = description_;
  manifest.step = step;
  manifest.samples_consumed = samples_consumed;
  manifest.best_validation_loss = best_;
  states_.open_for_reading(/*disks=*/taken.subgroups.empty());
  const bool is_local = local_ && &store == &*local_;
  writer_.begin(store, std::move(manifest), mark_best, taken,
                is_local ? nodes_ : checkpoint::NodeFolders());
  ++begun_;
  under_way_.push_back(step);
  states_.end_round();
}

void RunCheckpoints::repeat(Index step, Index samples_consumed) {
  begin_in(store_, step, samples_consumed, was_best(step), {});
}

bool RunCheckpoints::is_local(const checkpoint::Outcome& outcome) const {
  return local_ && outcome.store == &*local_;
}

void RunCheckpoints::request_copy(const checkpoint::Outcome& outcome) {
  if (!copier_) return;
  const bool is_there = outcome.end == checkpoint::Outcome::End::kCommitted;
  if (!is_local(outcome)) {
    if (is_there) copier_->is_there(outcome.step);
    return;
  }
  const auto held = to_be_copied_.find(outcome.step);
  if (held == to_be_copied_.end()) return;
  if (is_there) copier_->request(outcome.step, outcome.is_best, std::move(held->second));
  to_be_copied_.erase(held);
}

std::optional<StepMetrics::Checkpoint> RunCheckpoints::take_ended() {
  using End = checkpoint::Outcome::End;
  std::optional<StepMetrics::Checkpoint> last;
  for (const checkpoint::Outcome& outcome : writer_.take_ended()) {
    expect(outcome.end != End::kLost, "step {}: its checkpoint was lost: {}", outcome.step,
           outcome.fault);
    ++ended_;
    under_way_.pop_front();
    slowed_.checkpoint_ended();
    if (outcome.end == End::kCommitted) committed_ = outcome;
    unseen_.push_back(outcome);
    if (outcome.end == End::kCommitted) newest_ = outcome.step;
    request_copy(outcome);
    if (!outcome.bad_tensor.empty() && !bad_parameter_) bad_parameter_ = outcome.step;
    // Where states are lost, training ends, and says so itself.
    if (outcome.end == End::kGivenUp && writes_ && states_.fault().empty())
      log::warn("step {}: no checkpoint: {}; {}{}", outcome.step, outcome.fault, newest_text(),
                is_over_ && writer_.begun() == outcome.step ? "" : ", training goes on");
    last = {.step = outcome.step,
            .is_committed = outcome.end == End::kCommitted,
            .seconds = outcome.seconds,
            .megabytes = static_cast<double>(outcome.bytes) / 1e6,
            .megabytes_linked = static_cast<double>(outcome.linked_bytes) / 1e6,
            .megabytes_copied = static_cast<double>(outcome.copied_bytes) / 1e6,
            .ms_waited = outcome.waited_s * 1e3,
            .ms_room = outcome.room_s * 1e3};
  }
  return told(std::move(last));
}

std::optional<StepMetrics::Checkpoint> RunCheckpoints::told(
    std::optional<StepMetrics::Checkpoint> ended) {
  if (!ended) {
    const std::optional<Index> step = std::exchange(left_out_, std::nullopt);
    return step ? std::optional(StepMetrics::Checkpoint{.step = *step}) : std::nullopt;
  }
  // Of one line for several the last counts.
  if (left_out_ && *left_out_ < ended->step) left_out_.reset();
  return ended;
}

bool RunCheckpoints::draw_consequences(Index ended) {
  using End = checkpoint::Outcome::End;
  bool is_there = false;
  for (; seen_ < ended; ++seen_) {
    const checkpoint::Outcome outcome = std::move(unseen_.front());
    unseen_.pop_front();
    if (is_local(outcome) && outcome.end != End::kDropped)
      local_has_failed_ = outcome.end == End::kGivenUp;
    is_there = is_there || outcome.end == End::kCommitted;
    if (outcome.end == End::kCommitted && outcome.is_best) best_saved_ = outcome.validation_loss;
    if (outcome.end != End::kGivenUp) continue;
    given_up_ = outcome;
    // The next that is better than the best one in the folder takes its place.
    if (outcome.is_best) best_ = best_saved_;
  }
  return is_there;
}

void RunCheckpoints::settle() {
  is_over_ = true;
  writer_.settle();
  static_cast<void>(take_ended());
  draw_consequences(ended_);
}

std::string RunCheckpoints::share(Index step) {
  if (!copier_) return "";
  const std::string fault = copier_->finish(step);
  try {
    // What was held is not needed any more.
    local_->prune();
  } catch (const Error& error) {
    log::warn("{}", error.what());
  }
  if (fault.empty()) return "";
  return fmt::format(
      "step {}: the last checkpoint is not in {}: {}; it was written to {}, in {}: free space or "
      "mend the device, then --resume there",
      step, out_.string(), fault, nodes_.are_several() ? "the nodes' disks" : "this node's disk",
      local_->folder_of(step).string());
}

void RunCheckpoints::share_newest() {
  if (newest_ < 0) return;
  const std::string fault = share(newest_);
  if (!fault.empty()) log::warn("{}", fault);
}

std::string RunCheckpoints::failure_text(Index step) const {
  return fmt::format(
      "step {}: the last checkpoint cannot be written: {}; {}. Free space or mend the device, then "
      "--resume",
      step, given_up_.fault, newest_text());
}

std::string RunCheckpoints::newest_text() const {
  return newest_ < 0 ? std::string("no checkpoint was written yet")
                     : fmt::format("the checkpoint of step {} is intact", newest_);
}

}  // namespace dos::train
