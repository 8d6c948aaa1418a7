// SPDX-License-Identifier: Apache-2.0
#include "data/text_input.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_field.hpp"
#include "data/utf8.hpp"

namespace dos::data {
namespace {

constexpr const char* kUsualField = "text";

std::string field_of(const std::filesystem::path& path, const std::string& field) {
  return field.empty() && path.extension() == ".jsonl" ? kUsualField : field;
}

/// What makes files smaller, by what such a file begins with; "" for none.
const char* compressor_of(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, const char*>, 5> kMarks{
      {{"\x1F\x8B\x08", "gzip"},
       {"\x28\xB5\x2F\xFD", "zstd"},
       {"\xFD"
        "7zXZ",
        "xz"},
       {"BZh91AY&SY", "bzip2"},
       {"PK\x03\x04", "zip"}}};
  for (const auto& [mark, name] : kMarks)
    if (text.starts_with(mark)) return name;
  return "";
}

/// Where the validation part of `text` starts, without regard to lines.
std::size_t first_of_validation(std::string_view text, double val_fraction) {
  return static_cast<std::size_t>(static_cast<double>(text.size()) * (1 - val_fraction));
}

}  // namespace

TextInput::TextInput(const std::filesystem::path& path, const std::string& field)
    : file_(path), field_(field_of(path, field)), train_(text()) {
  expect(!file_.bytes().empty(), "{}: empty file; leave it out", path.string());
  const std::string_view compressor = compressor_of(text());
  expect(compressor.empty(), "{}: is compressed ({}) and no text: decompress it first",
         path.string(), compressor);
}

std::string_view TextInput::text() const {
  return {reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size()};
}

void TextInput::split(double val_fraction) {
  auto cut = static_cast<std::size_t>(split_position(text(), val_fraction));
  if (has_lines()) {
    const std::size_t wanted = first_of_validation(text(), val_fraction);
    const std::size_t newline = text().substr(0, wanted).rfind('\n');
    cut = newline == std::string_view::npos ? 0 : newline + 1;
  }
  train_ = text().substr(0, cut);
  val_ = text().substr(cut);
}

std::optional<Index> TextInput::first_not_utf8() const {
  const std::size_t good = utf8_prefix(text());
  if (good == text().size()) return std::nullopt;
  return static_cast<Index>(good);
}

Index TextInput::line_of(Index place) const {
  return std::ranges::count(text().substr(0, static_cast<std::size_t>(place)), '\n') + 1;
}

std::string TextInput::document_of(std::string_view line) const {
  const std::string place = "the line";
  const std::string remedy = fmt::format(
      "give JSON-lines whose '{}' is a text, name another member with --field, or mend the line",
      field_);
  const nlohmann::json object = parse_json_object(line, place, remedy);
  return JsonField(object, place, remedy).member(field_).text();
}

std::optional<std::string_view> TextInput::next_line(std::string_view& lines) {
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) return line;
  }
  return std::nullopt;
}

void TextInput::each_line(std::string_view lines,
                          const std::function<void(std::string_view)>& visit) const {
  while (const auto line = next_line(lines)) {
    try {
      visit(*line);
    } catch (const Error& error) {
      // Counted when it is needed.
      fail("{}:{}: {}", path().string(), line_of(line->data() - text().data()), error.what());
    }
  }
}

void TextInput::documents(std::string_view lines,
                          const std::function<void(const std::string&)>& document) const {
  each_line(lines, [&](std::string_view line) {
    const std::string text = document_of(line);
    if (!text.empty()) document(text);
  });
}

Index split_position(std::string_view text, double val_fraction) {
  const std::size_t wanted = first_of_validation(text, val_fraction);
  const std::size_t slack = (text.size() - wanted) / 2;
  // A cut at c needs a newline at c - 1.
  const std::size_t first = wanted > slack ? wanted - slack - 1 : 0;
  const std::size_t newline = text.substr(0, wanted).substr(first).rfind('\n');
  const std::size_t cut =
      newline != std::string_view::npos ? first + newline + 1 : utf8_boundary(text, wanted);
  return static_cast<Index>(cut);
}

}  // namespace dos::data
