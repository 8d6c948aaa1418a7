// SPDX-License-Identifier: Apache-2.0
#include "ranks/handle_transfer.hpp"

#include <utility>

namespace dos::ranks {

using Direction = platform::MpiMessage::Direction;

/// Owns itself from its start to its end.
class HandleTransfers::Transfer final : public rt::AccessListener, public Completion {
 public:
  /// `messages` lack their bytes, `size` of them.
  Transfer(HandleTransfers& owner, const rt::Handle& handle, std::vector<Message> messages,
           Index size)
      : owner_(owner), handle_(handle), messages_(std::move(messages)), size_(size) {}

  [[nodiscard]] const rt::Handle& handle() const { return handle_; }

  void granted(void* data) noexcept override {
    for (Message& message : messages_)
      message.bytes = {static_cast<std::byte*>(data), static_cast<std::size_t>(size_)};
    owner_.exchange_.post(std::move(messages_), *this);
  }

  void ended() noexcept override {
    const std::unique_ptr<Transfer> self(this);
    rt::end_access(handle_, owner_.node_);
    owner_.end_one();
  }

 private:
  HandleTransfers& owner_;
  const rt::Handle& handle_;
  std::vector<Message> messages_;
  Index size_;
};

void HandleTransfers::send(const rt::Handle& handle, const std::vector<Index>& peers,
                           const MessageName& name) {
  std::vector<Message> messages;
  for (const Index peer : peers) messages.push_back({Direction::kSend, {}, peer, name});
  if (messages.empty()) return;
  begin(std::make_unique<Transfer>(*this, handle, std::move(messages), handle.bytes()),
        rt::Mode::kRead);
}

void HandleTransfers::receive(const rt::Handle& handle, Index count, Index peer,
                              const MessageName& name) {
  require(count >= 0 && count <= handle.count(), "room for what is received");
  std::vector<Message> messages{{Direction::kReceive, {}, peer, name}};
  begin(std::make_unique<Transfer>(*this, handle, std::move(messages),
                                   count * size_of(handle.type())),
        rt::Mode::kWrite);
}

void HandleTransfers::begin(std::unique_ptr<Transfer> transfer, rt::Mode mode) {
  {
    const std::lock_guard lock(mutex_);
    ++under_way_;
  }
  Transfer* started = transfer.release();
  rt::request_access(started->handle(), node_, mode, *started);
}

void HandleTransfers::end_one() {
  // Under the lock: whoever waits may destroy this object when it has it.
  const std::lock_guard lock(mutex_);
  --under_way_;
  over_.notify_all();
}

void HandleTransfers::wait() {
  std::unique_lock lock(mutex_);
  over_.wait(lock, [&] { return under_way_ == 0; });
}

}  // namespace dos::ranks
