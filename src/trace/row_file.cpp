// SPDX-License-Identifier: Apache-2.0
#include "trace/row_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

namespace dos::trace {

RowFile::RowFile(std::filesystem::path path, const std::string& header)
    : path_(std::move(path)), pending_(header) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail_errno(fmt::format("{}: cannot create", path_.string()), errno);
}

RowFile::~RowFile() {
  ::close(descriptor_);
}

void RowFile::flush() {
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_errno(fmt::format("{}: cannot write", path_.string()), errno);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  pending_.clear();
}

}  // namespace dos::trace
