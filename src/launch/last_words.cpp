// SPDX-License-Identifier: Apache-2.0
#include "launch/last_words.hpp"

#include <atomic>
#include <csignal>
#include <utility>

#include "base/error.hpp"
#include "platform/crash_signals.hpp"

namespace dos::launch {
namespace {

// Any thread may abort, and a handler may only use what needs no lock.
std::atomic<const std::string*> words_at_abort = nullptr;
static_assert(std::atomic<const std::string*>::is_always_lock_free);
bool has_words = false;

void say_last_words(int signal) {
  if (const std::string* words = words_at_abort) platform::write_last_words(*words);
  platform::end_by(signal);
}

}  // namespace

LastWords::LastWords(std::string words) : words_(std::move(words)) {
  require(!std::exchange(has_words, true), "one program has one set of last words");
  platform::handle_at_end(SIGABRT, say_last_words);
}

LastWords::~LastWords() {
  platform::handle_at_end(SIGABRT, nullptr);
  apply(false);
  has_words = false;
}

void LastWords::apply(bool on) noexcept {
  words_at_abort = on ? &words_ : nullptr;
}

}  // namespace dos::launch
