// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "message_of.hpp"
#include "rt/codelet.hpp"
#include "rt/handle.hpp"
#include "rt/submitter.hpp"

namespace dos::test {

/// A function that outlives the tasks that call it, given to them by address.
using Body = std::function<void(const rt::TaskView&)>;

inline void call_body(const rt::TaskView& task) {
  (*task.args<const Body*>())(task);
}

/// A codelet of any number of kReadWrite buffers whose tasks call a Body.
inline const rt::Codelet& body_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<call_body>(
      {.symbol = "dos.test_body.v1", .modes = {}, .tail = rt::Mode::kReadWrite});
  return codelet;
}

/// The same with all buffers read.
inline const rt::Codelet& reading_body_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<call_body>(
      {.symbol = "dos.test_reading_body.v1", .modes = {}, .tail = rt::Mode::kRead});
  return codelet;
}

/// The same with all buffers work space.
inline const rt::Codelet& scratch_body_codelet() {
  static const rt::Codelet codelet = rt::make_codelet<call_body>(
      {.symbol = "dos.test_scratch_body.v1", .modes = {}, .tail = rt::Mode::kScratch});
  return codelet;
}

/// Submits a task that calls `body`, which must outlive it.
inline void submit_body(rt::Submitter& submitter, const Body& body,
                        const std::vector<const rt::Handle*>& buffers,
                        const rt::TaskOptions& options = {},
                        const rt::Codelet& codelet = body_codelet()) {
  const Body* address = &body;
  submitter.submit(codelet, buffers, address, rt::Work{.flops = 1, .sizes = {1}}, options);
}

inline void sleep_ms(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

/// True as soon as `condition` holds, false when it does not within ten seconds.
template <class Condition>
bool eventually(Condition&& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    sleep_ms(1);
  }
  return true;
}

}  // namespace dos::test
