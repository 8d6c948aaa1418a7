// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/part_writer.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "base/bf16.hpp"
#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "checkpoint/part_writer_accesses.hpp"
#include "io/file_dtype.hpp"
#include "rt/device.hpp"

namespace dos::checkpoint {
namespace {

constexpr std::chrono::milliseconds kShortestLook{1};

codelets::ContentSum sum_of_rounded(std::span<const BF16> elements) {
  return {.crc32c = crc32c(std::as_bytes(elements)), .is_finite = io::all_finite(elements)};
}

}  // namespace

PartWriter::PartWriter(storage::Engine& engine, std::span<const FileContents> files, Index step,
                       const StepSums* sums, Index buffers)
    : engine_(engine), files_(files), step_(step), most_buffers_(buffers) {
  for (std::size_t file = 0; file < files.size(); ++file)
    for (const Part& part : files[file].parts)
      reads_.push_back(std::make_unique<Read>(*this, part, file));
  std::ranges::stable_sort(reads_, {}, [](const std::unique_ptr<Read>& read) {
    return std::tuple(read->part.turn, read->part.subgroup);
  });
  for (std::size_t i = 0; i < reads_.size(); ++i) reads_[i]->position = i;
  if (sums != nullptr) add_sums(*sums);
}

void PartWriter::add_sums(const StepSums& sums) {
  std::map<Index, Sums*> by_subgroup;
  for (const auto& read : reads_) {
    const Index subgroup = read->part.subgroup;
    const auto& handle = sums.handles()[static_cast<std::size_t>(subgroup)];
    if (handle == nullptr) continue;
    const auto [place, is_new] = by_subgroup.try_emplace(subgroup, nullptr);
    if (is_new) {
      sums_.push_back(std::make_unique<Sums>(*this, *handle));
      place->second = sums_.back().get();
    }
    read->sums = place->second;
    read->sums->reads.push_back(read.get());
  }
}

PartWriter::~PartWriter() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return pending_hurries_ == 0; });
}

void PartWriter::request() {
  {
    const std::lock_guard lock(mutex_);
    open_ = std::ssize(reads_);
  }
  for (const auto& sums : sums_)
    rt::request_access(sums->handle, rt::kHostNode, rt::Mode::kRead, *sums);
  for (const auto& read : reads_)
    rt::request_access(*read->part.handle, rt::kHostNode, rt::Mode::kRead, *read);
}

void PartWriter::hurry(const optim::Optimizer& optimizer) {
  if (!hurries_.empty()) return;
  // Subgroups may wait for one handle together.
  std::map<const rt::Handle*, std::unique_ptr<Hurry>> by_handle;
  for (const auto& read : reads_) {
    const rt::Handle* handle = optimizer.clip_factor(read->part.subgroup);
    if (handle == nullptr) continue;
    std::unique_ptr<Hurry>& hurry = by_handle[handle];
    if (hurry == nullptr) hurry = std::make_unique<Hurry>(*this, *handle);
    hurry->subgroups.push_back(read->part.subgroup);
  }
  {
    const std::lock_guard lock(mutex_);
    pending_hurries_ += std::ssize(by_handle);
  }
  for (auto& [handle, hurry] : by_handle) {
    hurries_.push_back(std::move(hurry));
    rt::request_access(*handle, rt::kHostNode, rt::Mode::kRead, *hurries_.back());
  }
}

bool PartWriter::is_idle() const {
  const std::lock_guard lock(mutex_);
  return pending_hurries_ == 0;
}

void PartWriter::cancel() {
  const std::lock_guard lock(mutex_);
  is_cancelled_ = true;
  changed_.notify_all();
}

bool PartWriter::give_up(std::string fault) {
  const std::lock_guard lock(mutex_);
  if (open_ == 0) return false;
  if (result_.fault.empty()) result_.fault = std::move(fault);
  is_given_up_ = true;
  changed_.notify_all();
  return true;
}

void PartWriter::granted(Read& read, void* data) noexcept {
  const std::lock_guard lock(mutex_);
  read.data = static_cast<const std::byte*>(data);
  read.since = Clock::now();
  // What is constant was there long before.
  const bool is_constant = files_[read.file].is_constant;
  if (result_.began == Clock::time_point() && !is_constant) result_.began = read.since;
  if (read.sums == nullptr || read.sums->are_known) make_ready(read);
}

void PartWriter::known(Sums& sums) noexcept {
  const std::lock_guard lock(mutex_);
  sums.are_known = true;
  for (Read* read : sums.reads)
    if (read->data != nullptr) make_ready(*read);
}

/// Under the lock: the buffer is granted, and known what is to be known of it.
void PartWriter::make_ready(Read& read) {
  if (read.pieces.empty())
    finished_.push_back(&read);
  else
    granted_.insert(read.position);
  changed_.notify_all();
}

void PartWriter::due(Hurry& hurry) noexcept {
  const std::lock_guard lock(mutex_);
  --pending_hurries_;
  for (const Index subgroup : hurry.subgroups) hurried_.emplace(subgroup, Clock::now());
  changed_.notify_all();
}

PartsWritten PartWriter::run(std::span<const std::optional<Target>> targets) {
  require(targets.empty() || targets.size() == files_.size(), "a target a file");
  std::unique_lock lock(mutex_);
  while (open_ > 0 || under_way_ > 0) {
    if (std::exchange(is_given_up_, false)) let_all_go(lock, targets);
    end_accesses(lock);
    give_back_unwritten(targets);
    if (!finished_.empty() || is_given_up_) continue;
    if (Read* read = next_read())
      write_next(lock, *read, *targets[read->file]);
    else if (open_ > 0 || under_way_ > 0)
      changed_.wait(lock);
  }
  return std::move(result_);
}

bool PartWriter::holds_up(std::chrono::duration<double> patience) {
  // Not told of each piece: a look now and then will do.
  const auto period = std::max<std::chrono::duration<double>>(patience / 8, kShortestLook);
  std::unique_lock lock(mutex_);
  while (!all_back_.wait_for(lock, period, [&] { return open_ == 0; }))
    if (is_awaited_since(Clock::now() - std::chrono::duration_cast<Clock::duration>(patience)))
      return true;
  return false;
}

bool PartWriter::is_awaited_since(Clock::time_point then) const {
  return std::ranges::any_of(reads_, [&](const std::unique_ptr<Read>& read) {
    if (read->data == nullptr || read->is_back || read->since > then) return false;
    const auto hurried = hurried_.find(read->part.subgroup);
    return hurried != hurried_.end() && hurried->second <= then;
  });
}

/// The read whose piece may be submitted now: one that an update waits for first.
PartWriter::Read* PartWriter::next_read() {
  if (granted_.empty()) return nullptr;
  const bool has_buffer = !free_buffers_.empty() || std::ssize(buffers_) < most_buffers_;
  if (has_buffer && !hurried_.empty())
    for (const std::size_t position : granted_)
      if (hurried_.contains(reads_[position]->part.subgroup)) return reads_[position].get();
  return in_place_ < kMostUnderWay ? reads_[*granted_.begin()].get() : nullptr;
}

void PartWriter::write_next(std::unique_lock<std::mutex>& lock, Read& read, const Target& target) {
  const Extent& piece = read.pieces[read.next++];
  if (read.next == read.pieces.size()) granted_.erase(read.position);
  storage::Pages* buffer = nullptr;
  if (hurried_.contains(read.part.subgroup)) buffer = take_buffer();
  ++under_way_;
  if (buffer == nullptr) ++in_place_;
  lock.unlock();
  std::span<const std::byte> memory{read.data + piece.buffer_offset,
                                    static_cast<std::size_t>(piece.bytes)};
  const codelets::ContentSum sum = sum_of(read, piece);
  if (buffer != nullptr) {
    const Clock::time_point start = Clock::now();
    std::memcpy(buffer->data(), memory.data(), memory.size());
    tell(read, storage::Activity::kCopy, piece.bytes, start, Clock::now());
    memory = buffer->bytes().first(memory.size());
  }
  const Index offset = target.layout.tensors()[piece.tensor].begin + piece.tensor_offset;
  engine_.write(
      target.file, offset, memory,
      [this, &read, buffer](const std::string& fault) { written(read, buffer, fault); },
      label_of(read));
  lock.lock();
  result_.pieces.push_back({.file = read.file,
                            .tensor = piece.tensor,
                            .offset = piece.tensor_offset,
                            .bytes = piece.bytes,
                            .crc32c = sum.crc32c});
  result_.bytes += piece.bytes;
  if (buffer != nullptr) result_.copied_bytes += piece.bytes;
  if (!sum.is_finite && result_.bad_tensor.empty())
    result_.bad_tensor = files_[read.file].tensors[piece.tensor].name;
  if (buffer != nullptr) let_go(read, 1);
}

/// What the update has left, or made now. Without the lock.
codelets::ContentSum PartWriter::sum_of(const Read& read, const Extent& piece) {
  const bool looks_at_elements = files_[read.file].must_be_finite;
  const Index size = size_of(read.part.handle->type());
  const Index first = piece.buffer_offset / size;
  const Index end = (piece.buffer_offset + piece.bytes) / size;
  if (read.sums != nullptr) {
    const codelets::UpdateSums left(read.sums->words);
    if (const auto sum = left.find(step_, read.part.array, first, end)) return *sum;
  }
  result_.summed_bytes += piece.bytes;
  if (read.part.handle->type() == DType::kBF16) {
    const auto* elements = reinterpret_cast<const BF16*>(read.data);
    return sum_of_rounded(std::span(elements + first, elements + end));
  }
  const auto* elements = reinterpret_cast<const float*>(read.data);
  return codelets::sum_of_content(std::span(elements + first, elements + end), looks_at_elements);
}

/// Null when all are in use, or the system has no memory for one: then updates wait for the disk.
storage::Pages* PartWriter::take_buffer() {
  if (free_buffers_.empty() && std::ssize(buffers_) < most_buffers_) {
    try {
      buffers_.push_back(std::make_unique<storage::Pages>(kPieceBytes));
      free_buffers_.push_back(buffers_.back().get());
    } catch (const Error&) {
      return nullptr;
    }
  }
  if (free_buffers_.empty()) return nullptr;
  storage::Pages* buffer = free_buffers_.back();
  free_buffers_.pop_back();
  return buffer;
}

/// On the engine's thread.
void PartWriter::written(Read& read, storage::Pages* buffer, const std::string& fault) {
  const std::lock_guard lock(mutex_);
  --under_way_;
  if (!fault.empty() && result_.fault.empty()) result_.fault = fault;
  if (buffer != nullptr) {
    free_buffers_.push_back(buffer);
  } else {
    --in_place_;
    let_go(read, 1);
  }
  changed_.notify_all();
}

/// Under the lock: so many pieces do not need the buffer any more.
void PartWriter::let_go(Read& read, Index pieces) {
  read.uses -= pieces;
  if (read.uses == 0 && !read.is_let_go) finished_.push_back(&read);
}

/// What the device takes of them from now on may be anything: no checkpoint comes of it.
void PartWriter::let_all_go(std::unique_lock<std::mutex>& lock,
                            std::span<const std::optional<Target>> targets) {
  lock.unlock();
  for (const std::optional<Target>& target : targets)
    if (target) engine_.drop(target->file);
  lock.lock();
  for (const auto& read : reads_) {
    const bool is_under_way = read->data != nullptr && read->uses > 0 && read->next > 0;
    if (!is_under_way) continue;
    granted_.erase(read->position);
    read->uses -=
        static_cast<Index>(read->pieces.size() - std::exchange(read->next, read->pieces.size()));
    read->is_let_go = true;
    finished_.push_back(read.get());
  }
}

/// Under the lock: what was granted, not submitted, and will not be is not needed.
void PartWriter::give_back_unwritten(std::span<const std::optional<Target>> targets) {
  const bool has_ended = targets.empty() || is_cancelled_ || !result_.fault.empty();
  std::erase_if(granted_, [&](std::size_t position) {
    Read& read = *reads_[position];
    if (!has_ended && targets[read.file]) return false;
    const auto left =
        static_cast<Index>(read.pieces.size() - std::exchange(read.next, read.pieces.size()));
    let_go(read, left);
    return true;
  });
}

/// Ends the accesses to finished buffers, without the lock: tasks are woken by it.
void PartWriter::end_accesses(std::unique_lock<std::mutex>& lock) {
  while (!finished_.empty()) {
    Read& read = *finished_.back();
    finished_.pop_back();
    lock.unlock();
    const Clock::time_point now = Clock::now();
    rt::end_access(*read.part.handle, rt::kHostNode);
    tell(read, storage::Activity::kHold, read.part.handle->bytes(), read.since, now);
    lock.lock();
    read.is_back = true;
    if (--open_ == 0) all_back_.notify_all();
    const auto hurried = hurried_.find(read.part.subgroup);
    // A task that came since has not waited.
    if (hurried == hurried_.end() || hurried->second >= now) continue;
    tell(read, storage::Activity::kWait, 0, hurried->second, now);
    const std::chrono::duration<double> waited = now - hurried->second;
    result_.waited_s = std::max(result_.waited_s, waited.count());
  }
}

storage::Label PartWriter::label_of(const Read& read) const {
  storage::Label label = this->label();
  label.buffer = read.part.handle->name();
  label.category = read.part.handle->category();
  return label;
}

void PartWriter::tell(const Read& read, storage::Activity activity, Index bytes,
                      Clock::time_point start, Clock::time_point end) const {
  if (storage::Observer* observer = engine_.observer())
    observer->saw({.activity = activity,
                   .label = label_of(read),
                   .bytes = bytes,
                   .start = start,
                   .end = end});
}

}  // namespace dos::checkpoint
