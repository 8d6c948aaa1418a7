// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "base/types.hpp"
#include "trace/csv.hpp"

namespace dos::trace {

/// A CSV file that grows. Every member but the destructor throws Error naming the path and the
/// cause, "No space left on device" say.
class RowFile {
 public:
  /// Creates or empties the file and writes its first line.
  RowFile(std::filesystem::path path, const std::string& header);
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;
  ~RowFile();

  template <class Row>
  void add(const Row& row) {
    append_row(pending_, row);
    ++rows_;
  }
  /// Hands what was added to the system.
  void flush();

  [[nodiscard]] Index rows() const { return rows_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string pending_;
  Index rows_ = 0;
};

}  // namespace dos::trace
