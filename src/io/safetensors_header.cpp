// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors_header.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/json_field.hpp"

namespace dos::io {
namespace {

constexpr const char* kHeaderRemedy =
    "the file is damaged or not safetensors: copy or write it again";

/// A tensor's bytes, counted from the end of the header, and how errors name it.
struct Entry {
  TensorSpec spec;
  Index begin;
  Index end;
  std::string place;
};

/// The length field of a file of `size` bytes, checked.
std::size_t header_length(std::span<const std::byte> start, Index size, const std::string& shown) {
  expect(size >= Index{kHeaderLengthBytes} && start.size() >= kHeaderLengthBytes,
         "{}: {} bytes are too few for a header; {}", shown, size, kHeaderRemedy);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kHeaderLengthBytes; ++i)
    length |= std::to_integer<std::uint64_t>(start[i]) << (8 * i);
  expect(length <= static_cast<std::uint64_t>(kMaxHeaderBytes),
         "{}: the header claims {} bytes, more than the {} allowed; {}", shown, length,
         kMaxHeaderBytes, kHeaderRemedy);
  const Index following = size - Index{kHeaderLengthBytes};
  expect(static_cast<Index>(length) <= following,
         "{}: the header claims {} bytes, but only {} follow: the file is truncated; {}", shown,
         length, following, kHeaderRemedy);
  return static_cast<std::size_t>(length);
}

Entry parse_entry(const std::string& file, const std::string& name, const nlohmann::json& value) {
  std::string place = fmt::format("{}: tensor '{}'", file, one_line(name));
  const JsonField entry(value, place, kHeaderRemedy);
  const std::string dtype_name = entry.member("dtype").text();
  const std::optional<FileDType> dtype = parse_file_dtype(dtype_name);
  expect(dtype.has_value(), "{}: unknown dtype '{}', known are {}; convert the file", place,
         one_line(dtype_name), known_file_dtypes());
  std::vector<Index> shape = entry.member("shape").indices();
  const JsonField offsets = entry.member("data_offsets");
  const std::vector<Index> range = offsets.indices();
  if (range.size() != 2) offsets.fail("must hold two numbers");
  if (range[0] > range[1]) offsets.fail("must not end before it begins");
  const std::optional<Index> size = byte_size(*dtype, shape);
  expect(size.has_value(), "{}: {} of shape {} {}; {}", place, dtype_name, shape_text(shape),
         dtype->bits() % 8 == 0 ? "overflows 64 bits" : "fills no whole bytes", kHeaderRemedy);
  expect(*size == range[1] - range[0],
         "{}: {} of shape {} needs {} bytes, but its offsets [{}, {}] hold {}; {}", place,
         dtype_name, shape_text(shape), *size, range[0], range[1], range[1] - range[0],
         kHeaderRemedy);
  return {{name, *dtype, std::move(shape)}, range[0], range[1], std::move(place)};
}

std::map<std::string, std::string> parse_metadata(const std::string& file,
                                                  const nlohmann::json& value) {
  const JsonField metadata(value, file + ": " + std::string(kMetadataName), kHeaderRemedy);
  std::map<std::string, std::string> result;
  for (const auto& item : metadata.object().items())
    result.emplace(item.key(), metadata.member(item.key()).text());
  return result;
}

/// Pre: sorted by offset. Throws unless the entries cover [0, data_size) once.
void check_cover(const std::vector<Entry>& entries, Index data_size, const std::string& file) {
  for (const Entry& entry : entries)
    expect(entry.end <= data_size,
           "{}: its offsets [{}, {}] lie outside the {} data bytes: the file is truncated; {}",
           entry.place, entry.begin, entry.end, data_size, kHeaderRemedy);
  Index covered = 0;
  for (const Entry& entry : entries) {
    expect(entry.begin >= covered, "{}: its offsets [{}, {}] overlap the tensor before it; {}",
           entry.place, entry.begin, entry.end, kHeaderRemedy);
    expect(entry.begin == covered, "{}: bytes {} to {} before it belong to no tensor; {}",
           entry.place, covered, entry.begin, kHeaderRemedy);
    covered = entry.end;
  }
  expect(covered == data_size, "{}: {} bytes follow the last tensor; {}", file, data_size - covered,
         kHeaderRemedy);
}

}  // namespace

std::string shape_text(std::span<const Index> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

SafetensorsHeader parse_header(std::span<const std::byte> start, Index file_size,
                               const std::filesystem::path& path) {
  const std::string shown = path.string();
  const std::size_t length = header_length(start, file_size, shown);
  require(start.size() >= kHeaderLengthBytes + length, "the whole header is given");
  const std::string_view text(reinterpret_cast<const char*>(start.data()) + kHeaderLengthBytes,
                              length);
  const nlohmann::json document = parse_json_object(text, shown + ": header", kHeaderRemedy);
  SafetensorsHeader header;
  std::vector<Entry> entries;
  for (const auto& item : document.items()) {
    if (item.key() == kMetadataName)
      header.metadata = parse_metadata(shown, item.value());
    else
      entries.push_back(parse_entry(shown, item.key(), item.value()));
  }
  std::ranges::stable_sort(entries, {},
                           [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
  const auto data = static_cast<Index>(kHeaderLengthBytes + length);
  check_cover(entries, file_size - data, shown);
  for (Entry& entry : entries)
    header.tensors.push_back({std::move(entry.spec), data + entry.begin, data + entry.end});
  return header;
}

SafetensorsHeader read_header(const InputFile& file) {
  const auto read = [&](std::size_t count) {
    std::vector<std::byte> bytes(count);
    bytes.resize(static_cast<std::size_t>(file.read(0, bytes)));
    return bytes;
  };
  const std::size_t length =
      header_length(read(kHeaderLengthBytes), file.size(), file.path().string());
  const std::vector<std::byte> start = read(kHeaderLengthBytes + length);
  expect(start.size() == kHeaderLengthBytes + length, "{}: it became shorter while it was read; {}",
         file.path().string(), kHeaderRemedy);
  return parse_header(start, file.size(), file.path());
}

}  // namespace dos::io
