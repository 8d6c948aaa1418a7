// SPDX-License-Identifier: Apache-2.0
#include "train/last_words.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <utility>

#include "base/error.hpp"

namespace dos::train {
namespace {

// Any thread may abort, and a handler may only use what needs no lock.
std::atomic<const std::string*> words_at_abort = nullptr;
static_assert(std::atomic<const std::string*>::is_always_lock_free);
bool has_words = false;

void say_last_words(int /*signal*/) {
  const std::string* words = words_at_abort;
  if (words == nullptr) return;
  std::size_t said = 0;
  while (said < words->size()) {
    const ssize_t more = ::write(STDERR_FILENO, words->data() + said, words->size() - said);
    if (more <= 0) return;
    said += static_cast<std::size_t>(more);
  }
}

}  // namespace

LastWords::LastWords(std::string words) : words_(std::move(words)) {
  require(!std::exchange(has_words, true), "one program has one set of last words");
  struct sigaction action {};
  action.sa_handler = say_last_words;
  sigemptyset(&action.sa_mask);
  // abort() raises the signal again, for its ordinary end.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGABRT, &action, nullptr);
}

LastWords::~LastWords() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(SIGABRT, &action, nullptr);
  apply(false);
  has_words = false;
}

void LastWords::apply(bool on) noexcept {
  words_at_abort = on ? &words_ : nullptr;
}

}  // namespace dos::train
