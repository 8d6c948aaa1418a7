// SPDX-License-Identifier: Apache-2.0
#include "offload/state_version.hpp"

#include "storage/blocking.hpp"

namespace dos::offload {

void StateVersion::publish(storage::Engine& engine, const std::filesystem::path& path,
                           std::string_view header, Index bytes,
                           const storage::Label& label) const {
  storage::write(engine, *file_, 0, header, label);
  file_->truncate(bytes);
  file_->link(path);
}

}  // namespace dos::offload
