// SPDX-License-Identifier: Apache-2.0
#include "storage/backend.hpp"

namespace dos::storage {

std::unique_ptr<Backend> make_uring_backend() {
  return nullptr;
}

}  // namespace dos::storage
