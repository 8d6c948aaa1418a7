// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <vector>

#include "base/bf16.hpp"
#include "ranks/exchange.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::test {

/// Where MPI has read what backward left and written what forward reads: gradients that were sent,
/// parameters.
class MessageAddresses final : public ranks::MessageObserver {
 public:
  explicit MessageAddresses(ranks::Exchange* exchange) : exchange_(exchange) { observe(this); }
  MessageAddresses(const MessageAddresses&) = delete;
  MessageAddresses& operator=(const MessageAddresses&) = delete;
  ~MessageAddresses() { stop(); }

  void message_ended(const ranks::Message& message, ranks::Clock::time_point /*started*/,
                     ranks::Clock::time_point /*ended*/) noexcept override {
    const bool is_sent = message.direction == platform::MpiMessage::Direction::kSend;
    if (message.name.kind == ranks::Kind::kParameter ||
        (message.name.kind == ranks::Kind::kGradient && is_sent))
      seen_.push_back(message.bytes.data());
  }
  void stop() { observe(nullptr); }

  /// Pre: stop().
  [[nodiscard]] const std::vector<const void*>& seen() const { return seen_; }

 private:
  void observe(ranks::MessageObserver* observer) {
    if (exchange_ != nullptr) exchange_->observe(observer);
  }

  ranks::Exchange* exchange_;
  std::vector<const void*> seen_;
};

/// The addresses of the copies in host memory of what forward reads and backward writes. Waits for
/// the tasks and messages that use them; the contents are lost.
inline std::set<const void*> host_copies(const tensor::ParameterSet& parameters) {
  std::set<const void*> copies;
  for (Index i = 0; i < std::ssize(parameters.layout().subgroups); ++i)
    for (const rt::Handle* handle :
         {&parameters.working()[i],
          parameters.gradients().has(i) ? &parameters.gradients()[i] : nullptr}) {
      if (handle == nullptr) continue;
      const rt::HostAccess access(*handle, rt::Mode::kWrite);
      if (handle->type() == DType::kF32)
        copies.insert(access.as<float>().data());
      else
        copies.insert(access.as<BF16>().data());
    }
  return copies;
}

}  // namespace dos::test
