// SPDX-License-Identifier: Apache-2.0
#include "trace/csv.hpp"

#include <system_error>

namespace dos::trace {
namespace {

template <class Number>
void parse_number(const std::string& text, Number& value, const std::string& where) {
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  expect(error == std::errc() && stopped == end && !text.empty(),
         "{}: '{}' is not a number: the file is damaged", where, text);
}

}  // namespace

void append_field(std::string& out, std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char each : text) {
    // A line is a row: a name with a line break does not break it.
    if (each == '\n' || each == '\r') {
      out += ' ';
      continue;
    }
    if (each == '"') out += '"';
    out += each;
  }
  out += '"';
}

std::vector<std::string> split_fields(std::string_view line, const std::string& where) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char each = line[i];
    const bool doubled = each == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"';
    if (doubled)
      fields.back() += line[++i];
    else if (each == '"')
      quoted = !quoted;
    else if (each == ',' && !quoted)
      fields.emplace_back();
    else
      fields.back() += each;
  }
  expect(!quoted, "{}: a quote is not closed: the file is damaged", where);
  return fields;
}

void parse_field(const std::string& text, std::string& value, const std::string&) {
  value = text;
}

void parse_field(const std::string& text, Index& value, const std::string& where) {
  parse_number(text, value, where);
}

void parse_field(const std::string& text, double& value, const std::string& where) {
  parse_number(text, value, where);
}

}  // namespace dos::trace
