// SPDX-License-Identifier: Apache-2.0
#include "storage/backend.hpp"

#include <cerrno>

namespace dos::storage {

std::unique_ptr<Backend> make_uring_backend(int* cause) {
  if (cause != nullptr) *cause = ENOSYS;
  return nullptr;
}

}  // namespace dos::storage
