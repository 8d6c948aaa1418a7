// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_field.hpp"
#include "base/nearest.hpp"

namespace dos::io {
namespace {

constexpr const char* kRemedy = "the file is damaged or not safetensors: copy or write it again";
constexpr std::size_t kLengthBytes = 8;

struct DTypeName {
  DType dtype;
  const char* name;
};
constexpr std::array kDTypeNames{DTypeName{DType::kF64, "F64"}, DTypeName{DType::kF32, "F32"},
                                 DTypeName{DType::kBF16, "BF16"}, DTypeName{DType::kI32, "I32"},
                                 DTypeName{DType::kU8, "U8"}};

struct Entry {
  TensorSpec spec;
  Index begin;
  Index end;
  std::string place;
};

/// The JSON text between the length field and the data.
std::string_view header_text(const MappedFile& file) {
  const std::string shown = file.path().string();
  const auto bytes = file.bytes();
  expect(bytes.size() >= kLengthBytes, "{}: {} bytes are too few for a header; {}", shown,
         bytes.size(), kRemedy);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  expect(length <= static_cast<std::uint64_t>(kMaxHeaderBytes),
         "{}: the header claims {} bytes, more than the {} allowed; {}", shown, length,
         kMaxHeaderBytes, kRemedy);
  expect(length <= bytes.size() - kLengthBytes,
         "{}: the header claims {} bytes, but only {} follow: the file is truncated; {}", shown,
         length, bytes.size() - kLengthBytes, kRemedy);
  return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
          static_cast<std::size_t>(length)};
}

Entry parse_entry(const std::string& file, const std::string& name, const nlohmann::json& value) {
  std::string place = fmt::format("{}: tensor '{}'", file, one_line(name));
  const JsonField entry(value, place, kRemedy);
  const std::string dtype_name = entry.member("dtype").text();
  const std::optional<DType> dtype = parse_file_dtype(dtype_name);
  expect(dtype.has_value(), "{}: unknown dtype '{}', known are {}; convert the file", place,
         one_line(dtype_name), known_file_dtypes());
  std::vector<Index> shape = entry.member("shape").indices();
  const JsonField offsets = entry.member("data_offsets");
  const std::vector<Index> range = offsets.indices();
  if (range.size() != 2) offsets.fail("must hold two numbers");
  if (range[0] > range[1]) offsets.fail("must not end before it begins");
  const std::optional<Index> size = byte_size(*dtype, shape);
  expect(size.has_value(), "{}: shape {} overflows 64 bits; {}", place, shape_text(shape), kRemedy);
  expect(*size == range[1] - range[0],
         "{}: {} of shape {} needs {} bytes, but its offsets [{}, {}] hold {}; {}", place,
         dtype_name, shape_text(shape), *size, range[0], range[1], range[1] - range[0], kRemedy);
  return {{name, *dtype, std::move(shape)}, range[0], range[1], std::move(place)};
}

std::map<std::string, std::string> parse_metadata(const std::string& file,
                                                  const nlohmann::json& value) {
  const JsonField metadata(value, file + ": " + std::string(kMetadataName), kRemedy);
  std::map<std::string, std::string> result;
  for (const auto& item : metadata.object().items())
    result.emplace(item.key(), metadata.member(item.key()).text());
  return result;
}

/// Pre: sorted by offset. Throws unless the entries cover [0, data_size) once.
void check_cover(const std::vector<Entry>& entries, Index data_size, const std::string& file) {
  Index covered = 0;
  for (const Entry& entry : entries) {
    expect(entry.end <= data_size,
           "{}: its offsets [{}, {}] lie outside the {} data bytes: the file is truncated; {}",
           entry.place, entry.begin, entry.end, data_size, kRemedy);
    expect(entry.begin >= covered, "{}: its offsets [{}, {}] overlap the tensor before it; {}",
           entry.place, entry.begin, entry.end, kRemedy);
    expect(entry.begin == covered, "{}: bytes {} to {} before it belong to no tensor; {}",
           entry.place, covered, entry.begin, kRemedy);
    covered = entry.end;
  }
  expect(covered == data_size, "{}: {} bytes follow the last tensor; {}", file, data_size - covered,
         kRemedy);
}

}  // namespace

std::optional<Index> byte_size(DType dtype, std::span<const Index> shape) {
  Index size = size_of(dtype);
  for (const Index extent : shape)
    if (extent < 0 || __builtin_mul_overflow(size, extent, &size)) return std::nullopt;
  return size;
}

std::string shape_text(std::span<const Index> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

const char* file_dtype(DType dtype) {
  for (const DTypeName& known : kDTypeNames)
    if (known.dtype == dtype) return known.name;
  require(false, "dtype without a name in files");
  return nullptr;
}

std::optional<DType> parse_file_dtype(std::string_view name) {
  for (const DTypeName& known : kDTypeNames)
    if (known.name == name) return known.dtype;
  return std::nullopt;
}

std::string known_file_dtypes() {
  std::vector<std::string_view> names;
  for (const DTypeName& known : kDTypeNames) names.emplace_back(known.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
  const std::string shown = path.string();
  const std::string_view text = header_text(file_);
  const nlohmann::json header = parse_json_object(text, shown + ": header", kRemedy);
  std::vector<Entry> entries;
  for (const auto& item : header.items()) {
    if (item.key() == kMetadataName)
      metadata_ = parse_metadata(shown, item.value());
    else
      entries.push_back(parse_entry(shown, item.key(), item.value()));
  }
  std::ranges::stable_sort(entries, {},
                           [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
  const auto data = file_.bytes().subspan(kLengthBytes + text.size());
  check_cover(entries, std::ssize(data), shown);
  for (Entry& entry : entries) {
    positions_.emplace(entry.spec.name, tensors_.size());
    tensors_.push_back(
        {std::move(entry.spec), data.subspan(static_cast<std::size_t>(entry.begin),
                                             static_cast<std::size_t>(entry.end - entry.begin))});
  }
}

const MappedTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = positions_.find(name);
  return found == positions_.end() ? nullptr : &tensors_[found->second];
}

const MappedTensor& SafetensorsFile::at(std::string_view name) const {
  if (const MappedTensor* found = find(name)) return *found;
  std::vector<std::string> names;
  for (const MappedTensor& tensor : tensors_) names.push_back(tensor.name);
  fail("{}: tensor '{}': not in the file{}; use a file of the same model", path().string(),
       one_line(name), did_you_mean(name, names));
}

}  // namespace dos::io
