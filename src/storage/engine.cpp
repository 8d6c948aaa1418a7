// SPDX-License-Identifier: Apache-2.0
#include "storage/engine.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "storage/blocks.hpp"
#include "storage/device_queue.hpp"
#include "storage/fault_text.hpp"

namespace dos::storage {
namespace {

using Clock = std::chrono::steady_clock;

/// Times that an operation may come back with nothing done before it is a fault, after half a
/// second of pauses that grow.
constexpr int kMostTries = 100;
constexpr std::chrono::microseconds kPause{100};

}  // namespace

/// The engine's thread with all that it alone touches, and the mailbox where it finds its work.
class Engine::Worker {
 public:
  Worker(const EngineOptions& options, std::unique_ptr<Backend> backend)
      : options_(options),
        backend_(std::move(backend)),
        tasks_(static_cast<std::size_t>(backend_->capacity())),
        sleeper_([this] { backend_->wake(); }) {
    for (std::size_t i = tasks_.size(); i > 0; --i) free_.push_back(i - 1);
  }

  void submit(std::shared_ptr<Transfer> transfer) {
    {
      const std::lock_guard lock(mutex_);
      mail_.push_back(transfer);
      try {
        open_.insert(std::move(transfer));
      } catch (const std::exception&) {
        mail_.pop_back();
        throw;
      }
      ++open_transfers_;
    }
    backend_->wake();
  }

  void end() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    backend_->wake();
  }

  void drop(const DirectFile& file) {
    std::unique_lock lock(mutex_);
    to_drop_.insert(&file);
    backend_->wake();
    dropped_.wait(lock, [&] { return !to_drop_.contains(&file); });
  }

  void wait_all() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return open_.empty(); });
  }

  [[nodiscard]] const char* backend() const { return backend_->name(); }

  void observe(Observer* observer) { observer_ = observer; }
  [[nodiscard]] Observer* observer() const { return observer_; }

  void run() {
    try {
      serve();
    } catch (const std::exception& error) {
      refuse(fmt::format("nothing can be read or written any more: {}", error.what()));
    }
  }

 private:
  void serve() {
    while (true) {
      take_mail();
      for (auto& [device, lane] : lanes_) fill(lane, device);
      if (is_over()) return;
      most_tries_ = 0;
      for (const Completion& completion : backend_->wait()) complete(completion);
      if (most_tries_ > 0) std::this_thread::sleep_for(most_tries_ * kPause);
    }
  }

  /// Ends all transfers, now and to come, with the fault: those that are under way when they have
  /// ended, as the kernel uses their memory, or when that can no longer be learnt.
  void refuse(const std::string& fault) {
    int tries = 0;
    while (true) {
      try {
        while (const std::shared_ptr<Transfer> transfer = next_to_refuse(tries == kMostTries)) {
          transfer->fault = fault;
          finish(transfer);
        }
        if (is_over()) return;
        if (tries < kMostTries) {
          for (const Completion& completion : backend_->wait())
            tasks_[static_cast<std::size_t>(completion.tag)].transfer = nullptr;
          tries = 0;
          continue;
        }
      } catch (const std::exception&) {
        tries = std::min(tries + 1, kMostTries);
      }
      std::this_thread::sleep_for(kMostTries * kPause);
    }
  }

  std::shared_ptr<Transfer> next_to_refuse(bool takes_all) {
    const std::lock_guard lock(mutex_);
    mail_.clear();
    forget_drops();
    const auto found = std::ranges::find_if(open_, [&](const std::shared_ptr<Transfer>& each) {
      return takes_all ||
             std::ranges::none_of(tasks_, [&](const Task& task) { return task.transfer == each; });
    });
    return found == open_.end() ? nullptr : *found;
  }

  void take_mail() {
    std::vector<std::shared_ptr<Transfer>> mail;
    {
      const std::lock_guard lock(mutex_);
      mail = std::exchange(mail_, {});
    }
    for (auto& transfer : mail) enqueue(std::move(transfer));
    const std::lock_guard lock(mutex_);
    if (to_drop_.empty()) return;
    // What is under way may come back with a part of it left.
    for (const Task& task : tasks_) drop(task);
    for (auto& [device, lane] : lanes_)
      for (const std::deque<Task>& queue : lane.queues)
        for (const Task& task : queue) drop(task);
    forget_drops();
  }

  /// Under the lock.
  void drop(const Task& task) {
    if (task.transfer == nullptr || !to_drop_.contains(&task.transfer->file)) return;
    if (task.transfer->fault.empty())
      task.transfer->fault = fmt::format("{}: given up", task.transfer->file.path().string());
  }

  /// Under the lock.
  void forget_drops() {
    to_drop_.clear();
    dropped_.notify_all();
  }

  [[nodiscard]] bool is_over() const {
    const std::lock_guard lock(mutex_);
    return ends_ && open_.empty();
  }

  void enqueue(std::shared_ptr<Transfer> transfer) {
    const DirectFile& file = transfer->file;
    DeviceQueue& lane = lanes_[file.device()];
    std::vector<Block> blocks{Block{.offset = transfer->offset}};
    if (transfer->kind != Kind::kSync)
      blocks = cut_into_blocks(transfer->offset, std::ssize(transfer->memory),
                               file.is_direct() ? file.alignment() : 0, options_.block_bytes);
    transfer->left = std::ssize(blocks);
    if (blocks.empty()) return finish(transfer);
    if (is_awaited(*transfer)) transfer->awaited = std::make_unique<AwaitedTransfer>(file.device());
    for (const Block& block : blocks)
      lane.queue_of(*transfer).push_back(
          {.transfer = transfer,
           .block = block,
           .memory = transfer->memory.data() + (block.offset - transfer->offset)});
  }

  /// Starts what may be under way at once.
  void fill(DeviceQueue& lane, std::uint64_t device) {
    while (std::deque<Task>* queue = lane.next()) {
      Task& next = queue->front();
      if (!next.transfer->fault.empty()) {
        end_block(next.transfer);
        queue->pop_front();
        continue;
      }
      const bool waits = !is_awaited(*next.transfer) && AwaitedTransfer::is_any(device);
      if (lane.under_way >= (waits ? 1 : options_.depth) || free_.empty()) return;
      // What was written must have arrived before it is flushed.
      if (next.transfer->kind == Kind::kSync && is_under_way(next.transfer->file)) return;
      Task task = std::move(next);
      queue->pop_front();
      start(lane, std::move(task));
    }
  }

  [[nodiscard]] bool is_under_way(const DirectFile& file) const {
    return std::ranges::any_of(tasks_, [&](const Task& task) {
      return task.transfer != nullptr && &task.transfer->file == &file;
    });
  }

  void start(DeviceQueue& lane, Task task) {
    Operation operation;
    try {
      operation = prepare(lane, task);
    } catch (const Error& error) {
      task.transfer->fault = error.what();
      return end_block(task.transfer);
    }
    const std::size_t number = free_.back();
    free_.pop_back();
    ++lane.under_way;
    Transfer& transfer = *task.transfer;
    if (observer() != nullptr && transfer.start == Clock::time_point())
      transfer.start = Clock::now();
    tasks_[number] = std::move(task);
    try {
      backend_->start(operation, number);
    } catch (const std::exception&) {
      tasks_[number].transfer = nullptr;
      throw;
    }
  }

  /// The task's operation; takes a buffer where the memory cannot be used in place.
  Operation prepare(DeviceQueue& lane, Task& task) {
    const DirectFile& file = task.transfer->file;
    Operation operation{.kind = task.transfer->kind,
                        .descriptor = file.buffered(),
                        .offset = task.block.offset,
                        .memory = task.memory,
                        .bytes = task.block.bytes};
    if (!task.block.is_direct) return operation;
    operation.descriptor = file.direct();
    const auto alignment = static_cast<std::uintptr_t>(file.memory_alignment());
    if (reinterpret_cast<std::uintptr_t>(task.memory) % alignment == 0) return operation;
    task.buffer = lane.take_buffer(options_.block_bytes);
    operation.memory = task.buffer->data();
    if (operation.kind == Kind::kWrite)
      std::memcpy(operation.memory, task.memory, static_cast<std::size_t>(task.block.bytes));
    return operation;
  }

  void complete(const Completion& completion) {
    const auto number = static_cast<std::size_t>(completion.tag);
    Task task = std::move(tasks_[number]);
    free_.push_back(number);
    DeviceQueue& lane = lanes_[task.transfer->file.device()];
    --lane.under_way;
    const Index moved = std::max<Index>(completion.result, 0);
    if (task.buffer != nullptr) {
      if (task.transfer->kind == Kind::kRead && task.transfer->fault.empty())
        std::memcpy(task.memory, task.buffer->data(), static_cast<std::size_t>(moved));
      lane.free_buffers.push_back(std::exchange(task.buffer, nullptr));
    }
    task.transfer->moved += moved;
    if (completion.result >= 0 && moved == task.block.bytes) return end_block(task.transfer);
    go_on(lane, std::move(task), completion.result);
  }

  /// After an operation that did not do all: the rest once more, or a fault.
  void go_on(DeviceQueue& lane, Task task, Index result) {
    Transfer& transfer = *task.transfer;
    const DirectFile& file = transfer.file;
    if (result > 0) {
      task.block.offset += result;
      task.block.bytes -= result;
      task.memory += result;
      task.tries = 0;
      task.block.is_direct = task.block.is_direct && result % file.alignment() == 0;
    } else if (result == -EINVAL && task.block.is_direct) {
      file.give_up_direct();
      task.block.is_direct = false;
    } else if (++task.tries > kMostTries || !may_try_again(transfer.kind, result)) {
      transfer.fault = fault_text(file, transfer.kind, task.block,
                                  transfer.offset + std::ssize(transfer.memory), result);
      return end_block(task.transfer);
    }
    most_tries_ = std::max(most_tries_, task.tries);
    lane.queue_of(transfer).push_front(std::move(task));
  }

  static bool may_try_again(Kind kind, Index result) {
    return result == -EINTR || result == -EAGAIN || (result == 0 && kind == Kind::kWrite);
  }

  void end_block(const std::shared_ptr<Transfer>& transfer) {
    if (--transfer->left == 0) finish(transfer);
  }

  void finish(const std::shared_ptr<Transfer>& transfer) {
    transfer->awaited.reset();
    if (!std::exchange(transfer->has_ended, true)) {
      if (transfer->start != Clock::time_point()) tell_of(*transfer);
      transfer->done(transfer->fault);
    }
    const std::lock_guard lock(mutex_);
    open_transfers_ -= static_cast<Index>(open_.erase(transfer));
    if (open_.empty()) idle_.notify_all();
  }

  void tell_of(const Transfer& transfer) {
    constexpr std::array kActivities{Activity::kRead, Activity::kWrite, Activity::kFlush};
    if (Observer* observer = observer_)
      observer->saw({.activity = kActivities[static_cast<std::size_t>(transfer.kind)],
                     .file = &transfer.file,
                     .label = transfer.label,
                     .bytes = transfer.moved,
                     .start = transfer.start,
                     .end = Clock::now()});
  }

  EngineOptions options_;
  std::unique_ptr<Backend> backend_;
  std::vector<Task> tasks_;  ///< under way, by tag
  AwaitedTransfer::Sleeper sleeper_;
  std::vector<std::size_t> free_;
  std::map<std::uint64_t, DeviceQueue> lanes_;  ///< by device
  int most_tries_ = 0;                          ///< of what came back just now with nothing done
  std::atomic<Observer*> observer_ = nullptr;

  mutable std::mutex mutex_;  ///< of what follows
  std::condition_variable idle_;
  std::vector<std::shared_ptr<Transfer>> mail_;
  std::set<std::shared_ptr<Transfer>> open_;  ///< have not ended
  std::condition_variable dropped_;
  std::set<const DirectFile*> to_drop_;
  bool ends_ = false;
};

Engine::Engine(const EngineOptions& options, std::unique_ptr<Backend> backend) {
  require(options.depth > 0 && options.block_bytes > 0 && backend != nullptr,
          "an engine with operations to do");
  worker_ = std::make_unique<Worker>(options, std::move(backend));
  thread_ = std::thread([this] { worker_->run(); });
}

Engine::~Engine() {
  worker_->end();
  thread_.join();
}

void Engine::submit(std::shared_ptr<Transfer> transfer) {
  require(transfer->offset >= 0 && transfer->done != nullptr, "a transfer with an end");
  worker_->submit(std::move(transfer));
}

void Engine::read(const DirectFile& file, Index offset, std::span<std::byte> memory, Done done,
                  const Label& label) {
  submit(std::make_shared<Transfer>(
      Transfer{file, Kind::kRead, offset, memory, std::move(done), label}));
}

void Engine::write(const DirectFile& file, Index offset, std::span<const std::byte> memory,
                   Done done, const Label& label) {
  // Writing does not change it.
  const std::span<std::byte> bytes{const_cast<std::byte*>(memory.data()), memory.size()};
  submit(std::make_shared<Transfer>(
      Transfer{file, Kind::kWrite, offset, bytes, std::move(done), label}));
}

void Engine::sync(const DirectFile& file, Done done, const Label& label) {
  submit(std::make_shared<Transfer>(Transfer{file, Kind::kSync, 0, {}, std::move(done), label}));
}

void Engine::drop(const DirectFile& file) {
  worker_->drop(file);
}

void Engine::wait_all() {
  worker_->wait_all();
}

void Engine::observe(Observer* observer) {
  worker_->observe(observer);
}

Observer* Engine::observer() const {
  return worker_->observer();
}

const char* Engine::backend() const {
  return worker_->backend();
}

}  // namespace dos::storage
