// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/types.hpp"

namespace dos::trace {

/// Appends one field, quoted as RFC 4180 says where it has to be.
void append_field(std::string& out, std::string_view text);
inline void append_field(std::string& out, Index value) {
  fmt::format_to(std::back_inserter(out), "{}", value);
}
/// Times in microseconds are written to the nanosecond.
inline void append_field(std::string& out, double value) {
  fmt::format_to(std::back_inserter(out), "{:.3f}", value);
}

/// "codelet,label,...\n".
template <class Row>
std::string csv_header() {
  std::string header;
  Row row;
  Row::visit(row, [&](const char* name, const auto&) {
    if (!header.empty()) header += ',';
    header += name;
  });
  return header + '\n';
}

/// Appends the row as a line.
template <class Row>
void append_row(std::string& out, const Row& row) {
  bool first = true;
  Row::visit(row, [&](const char*, const auto& value) {
    if (!first) out += ',';
    first = false;
    append_field(out, value);
  });
  out += '\n';
}

/// The fields of one line, without its end. Throws Error when a quote is not closed.
std::vector<std::string> split_fields(std::string_view line, const std::string& where);

void parse_field(const std::string& text, std::string& value, const std::string& where);
void parse_field(const std::string& text, Index& value, const std::string& where);
void parse_field(const std::string& text, double& value, const std::string& where);

/// The rows of a file's text. Throws Error naming `path` and the line: another header, a field that
/// is missing or no number. An unfinished last line is an error too, unless `may_be_cut`: then it
/// is left out.
template <class Row>
std::vector<Row> parse_csv(std::string_view text, const std::string& path, bool may_be_cut) {
  std::vector<Row> rows;
  const std::string header = csv_header<Row>();
  expect(text.starts_with(header),
         "{}: the first line is not the one of this program's traces: record the trace again",
         path);
  text.remove_prefix(header.size());
  for (Index line = 2; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      expect(may_be_cut, "{}:{}: the line is cut off: copy the file again", path, line);
      break;
    }
    const std::string where = fmt::format("{}:{}", path, line);
    const std::vector<std::string> fields = split_fields(text.substr(0, end), where);
    std::size_t next = 0;
    Row row;
    Row::visit(row, [&](const char* name, auto& value) {
      expect(next < fields.size(), "{}: no field '{}': the file is damaged", where, name);
      parse_field(fields[next++], value, where);
    });
    expect(next == fields.size(), "{}: {} fields instead of {}: the file is damaged", where,
           fields.size(), next);
    rows.push_back(std::move(row));
    text.remove_prefix(end + 1);
  }
  return rows;
}

}  // namespace dos::trace
