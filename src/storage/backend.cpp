// SPDX-License-Identifier: Apache-2.0
#include "storage/backend.hpp"

#include <fmt/format.h>

#include <atomic>
#include <system_error>

#include "storage/fallback.hpp"

namespace dos::storage {

std::unique_ptr<Backend> make_backend() {
  int cause = 0;
  if (auto backend = make_uring_backend(&cause)) return backend;
  static std::atomic<bool> said = false;
  if (!said.exchange(true))
    say_fallback(fmt::format("io_uring is not to be had here ({}): threads read and write files",
                             std::generic_category().message(cause)));
  return make_thread_backend();
}

}  // namespace dos::storage
