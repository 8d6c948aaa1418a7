// SPDX-License-Identifier: Apache-2.0
#include "base/output_file.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"

namespace dos {

void expect_replaceable(const std::filesystem::path& path, std::string_view mark) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  const InputFile file(path);
  std::string start(mark.size(), '\0');
  start.resize(static_cast<std::size_t>(file.read(0, std::as_writable_bytes(std::span(start)))));
  expect(start.empty() || start == mark,
         "{}: is there already and does not begin with {}, as what would replace it does: name "
         "another file, or remove it",
         path.string(), mark);
}

void write_replaceable(const std::filesystem::path& path, std::string_view text,
                       std::string_view mark) {
  require(text.starts_with(mark), "an output begins with its mark");
  expect_replaceable(path, mark);
  write_durably(path, text);
}

}  // namespace dos
