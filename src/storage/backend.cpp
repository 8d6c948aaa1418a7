// SPDX-License-Identifier: Apache-2.0
#include "storage/backend.hpp"

#include <atomic>

#include "base/log.hpp"

namespace dos::storage {

std::unique_ptr<Backend> make_backend() {
  if (auto backend = make_uring_backend()) return backend;
  static std::atomic<bool> said = false;
  if (!said.exchange(true))
    log::info("io_uring is not to be had here: threads read and write files");
  return make_thread_backend();
}

}  // namespace dos::storage
