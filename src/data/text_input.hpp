// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/mapped_file.hpp"
#include "base/types.hpp"

namespace dos::data {

/// A file of text for prepare(): one document, or JSON-lines, an object with one document a line.
class TextInput {
 public:
  /// Opens it. `field` names the member that holds a line's document; "": plain text, or, in a file
  /// *.jsonl, the field "text". Throws Error when it cannot be read, is empty, or is
  /// compressed.
  TextInput(const std::filesystem::path& path, const std::string& field);

  /// Divides it: the last part, at least `val_fraction` of the bytes, is for validation. Plain text
  /// is cut as split_position() says, JSON-lines between two lines.
  void split(double val_fraction);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return file_.path(); }
  [[nodiscard]] Index bytes() const noexcept { return std::ssize(file_.bytes()); }
  [[nodiscard]] bool has_lines() const noexcept { return !field_.empty(); }
  /// As they are in the file; before split() all is for training.
  [[nodiscard]] std::string_view train() const noexcept { return train_; }
  [[nodiscard]] std::string_view val() const noexcept { return val_; }

  /// The place of the first byte that is not UTF-8, if there is one.
  [[nodiscard]] std::optional<Index> first_not_utf8() const;
  /// The number of the line, from 1 on, that has the byte `place`.
  [[nodiscard]] Index line_of(Index place) const;

  /// Takes the next line that is not only white space off `lines`; nullopt when there is none.
  static std::optional<std::string_view> next_line(std::string_view& lines);

  /// Calls `visit` with each line of `lines`, a view into this file that starts and ends with a
  /// line; lines of white space are left out. Thread-safe. What it throws as Error is thrown with
  /// the file's name and the line's number before it.
  void each_line(std::string_view lines, const std::function<void(std::string_view)>& visit) const;

  /// Calls `document` with the document of each line that is not empty. As each_line(). Throws
  /// Error when a line is no JSON object or has no such text.
  void documents(std::string_view lines,
                 const std::function<void(const std::string&)>& document) const;

 private:
  [[nodiscard]] std::string_view text() const;
  [[nodiscard]] std::string document_of(std::string_view line) const;

  MappedFile file_;
  std::string field_;
  std::string_view train_;
  std::string_view val_;
};

/// Where the validation part of `text` starts: at least `val_fraction` of its bytes, cut at the
/// start of a line if one is near (half as far again), else between two characters. Pre: 0 <
/// val_fraction < 1.
Index split_position(std::string_view text, double val_fraction);

}  // namespace dos::data
