// SPDX-License-Identifier: Apache-2.0
#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/error.hpp"
#include "storage/backend.hpp"

namespace dos::storage {
namespace {

constexpr unsigned kEntries = 256;
/// Of the read of the event that wakes.
constexpr std::uint64_t kWakeTag = ~std::uint64_t{0};
/// Before the kernel is asked again that had no memory.
constexpr std::chrono::milliseconds kShortagePause{1};

class UringBackend final : public Backend {
 public:
  /// Throws nothing: error() says what was wrong.
  UringBackend() {
    error_ = -io_uring_queue_init(kEntries, &ring_, 0);
    has_ring_ = error_ == 0;
    if (!has_ring_) return;
    event_ = ::eventfd(0, EFD_CLOEXEC);
    if (event_ < 0) error_ = errno;
    if (error_ == 0 && !has_operations()) error_ = ENOSYS;
    if (error_ == 0) listen();
  }
  ~UringBackend() override {
    if (has_ring_) io_uring_queue_exit(&ring_);
    if (event_ >= 0) ::close(event_);
  }

  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] const char* name() const override { return "io_uring"; }
  // One entry is the event's.
  [[nodiscard]] Index capacity() const override { return kEntries - 1; }

  void start(const Operation& operation, std::uint64_t tag) override {
    io_uring_sqe* entry = take_entry();
    const auto bytes = static_cast<unsigned>(operation.bytes);
    const auto offset = static_cast<std::uint64_t>(operation.offset);
    switch (operation.kind) {
      case Kind::kRead:
        io_uring_prep_read(entry, operation.descriptor, operation.memory, bytes, offset);
        break;
      case Kind::kWrite:
        io_uring_prep_write(entry, operation.descriptor, operation.memory, bytes, offset);
        break;
      case Kind::kSync:
        io_uring_prep_fsync(entry, operation.descriptor, IORING_FSYNC_DATASYNC);
        break;
    }
    io_uring_sqe_set_data64(entry, tag);
  }

  std::vector<Completion> wait() override {
    std::vector<Completion> completed;
    // Signals are the program's affair.
    int status = 0;
    do status = io_uring_submit_and_wait(&ring_, 1);
    while (status == -EINTR);
    // Where the kernel lacks memory, or room for completions, those that are there are taken: what
    // was not submitted is with the next call.
    const bool lacks = status == -EAGAIN || status == -ENOMEM;
    if (status < 0 && status != -EBUSY && !lacks) fail_errno("io_uring: cannot wait", -status);
    if (lacks) std::this_thread::sleep_for(kShortagePause);
    bool is_woken = false;
    unsigned head = 0;
    unsigned seen = 0;
    io_uring_cqe* entry = nullptr;
    io_uring_for_each_cqe(&ring_, head, entry) {
      ++seen;
      const std::uint64_t tag = io_uring_cqe_get_data64(entry);
      if (tag == kWakeTag)
        is_woken = true;
      else
        completed.push_back({tag, entry->res});
    }
    io_uring_cq_advance(&ring_, seen);
    if (is_woken) listen();
    return completed;
  }

  void wake() override {
    const std::uint64_t one = 1;
    // Cannot be full: nobody counts to 2^64.
    [[maybe_unused]] const auto written = ::write(event_, &one, sizeof one);
  }

 private:
  /// Of kernels from 5.6 on.
  bool has_operations() {
    io_uring_probe* probe = io_uring_get_probe_ring(&ring_);
    if (probe == nullptr) return false;
    bool has_all = true;
    for (const int code : {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_FSYNC})
      has_all = has_all && io_uring_opcode_supported(probe, code) != 0;
    io_uring_free_probe(probe);
    return has_all;
  }

  io_uring_sqe* take_entry() {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) {
      io_uring_submit(&ring_);
      entry = io_uring_get_sqe(&ring_);
    }
    require(entry != nullptr, "fewer operations than the ring has entries");
    return entry;
  }

  void listen() {
    io_uring_sqe* entry = take_entry();
    io_uring_prep_read(entry, event_, &count_, sizeof count_, 0);
    io_uring_sqe_set_data64(entry, kWakeTag);
  }

  io_uring ring_{};
  bool has_ring_ = false;
  int event_ = -1;
  std::uint64_t count_ = 0;
  int error_ = 0;
};

}  // namespace

std::unique_ptr<Backend> make_uring_backend(int* cause) {
  auto backend = std::make_unique<UringBackend>();
  if (backend->error() == 0) return backend;
  if (cause != nullptr) *cause = backend->error();
  return nullptr;
}

}  // namespace dos::storage
