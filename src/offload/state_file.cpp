// SPDX-License-Identifier: Apache-2.0
#include "offload/state_file.hpp"

#include "storage/blocking.hpp"

namespace dos::offload {

void StateFile::complete(storage::Engine& engine, std::string_view header, Index bytes,
                         const storage::Label& label) {
  const std::lock_guard lock(mutex_);
  if (is_complete_) return;
  storage::write(engine, file_, 0, header, label);
  file_.truncate(bytes);
  is_complete_ = true;
}

}  // namespace dos::offload
