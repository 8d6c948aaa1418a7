// SPDX-License-Identifier: Apache-2.0
#include "data/mask_file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "base/target.hpp"
#include "data/missing.hpp"

namespace dos::data {
namespace {

constexpr auto kMagic = [] {
  std::array<char, 8> magic{};
  std::ranges::copy(kMaskMark, magic.begin());
  return magic;
}();
struct MaskHeader {
  std::array<char, 8> magic = kMagic;
  std::uint64_t tokens = 0;
};
static_assert(sizeof(MaskHeader) == 16 && std::endian::native == std::endian::little);

constexpr Index kBits = 8;
/// Read at a time: large enough for the disk, small enough for the cache.
constexpr Index kPieceBytes = Index{1} << 18;

constexpr Index bytes_for(Index bits) {
  return (bits + kBits - 1) / kBits;
}

bool bit_of(std::span<const std::byte> bytes, Index bit) {
  const auto byte = std::to_integer<unsigned>(bytes[static_cast<std::size_t>(bit / kBits)]);
  return (byte >> (bit % kBits) & 1U) != 0;
}

Index ones(std::span<const std::byte> bytes) {
  Index count = 0;
  for (const std::byte byte : bytes) count += std::popcount(std::to_integer<unsigned>(byte));
  return count;
}

/// Ones among `count` bits from `first` on.
Index ones(std::span<const std::byte> bytes, Index first, Index count) {
  Index found = 0;
  const Index last = first + count;
  for (; first < last && first % kBits != 0; ++first) found += bit_of(bytes, first) ? 1 : 0;
  const Index whole = (last - first) / kBits;
  if (whole > 0)
    found += ones(
        bytes.subspan(static_cast<std::size_t>(first / kBits), static_cast<std::size_t>(whole)));
  for (first += std::max(whole, Index{0}) * kBits; first < last; ++first)
    found += bit_of(bytes, first) ? 1 : 0;
  return found;
}

InputFile open_mask(const std::filesystem::path& path) {
  expect(!is_missing(path),
         "{}: missing, though the data set's manifest speaks of it: put it back, or write the data "
         "set again with prepare_data",
         path.string());
  return InputFile(path);
}

}  // namespace

MaskFile::MaskFile(const std::filesystem::path& path) : file_(open_mask(path)) {
  MaskHeader header{};
  const Index found = file_.read(0, std::as_writable_bytes(std::span(&header, 1)));
  expect(found == Index{sizeof header} && header.magic == kMagic,
         "{}: no mask file: write the data set again with prepare_data", path.string());
  const Index bits = (file_.size() - Index{sizeof header}) * kBits;
  const bool fits = header.tokens <= static_cast<std::uint64_t>(bits) &&
                    bits - static_cast<Index>(header.tokens) < kBits;
  expect(fits,
         "{}: announces {} tokens, but is {} bytes long: it is damaged, copy it again or write the "
         "data set again with prepare_data",
         path.string(), header.tokens, file_.size());
  size_ = static_cast<Index>(header.tokens);
}

void MaskFile::load(Index first_byte, std::span<std::byte> bytes) const {
  const Index found = file_.read(Index{sizeof(MaskHeader)} + first_byte, bytes);
  expect(found == std::ssize(bytes),
         "{}: was cut short while it is in use: put the file back and continue with --resume",
         path().string());
}

void MaskFile::apply(Index first, std::span<std::int32_t> tokens) const {
  require(first >= 0 && std::ssize(tokens) <= size_ - first, "tokens outside the mask file");
  const Index first_byte = first / kBits;
  const Index end = bytes_for(first + std::ssize(tokens));
  std::vector<std::byte> bytes(static_cast<std::size_t>(end - first_byte));
  load(first_byte, bytes);
  for (Index i = 0; i < std::ssize(tokens); ++i) {
    std::int32_t& token = tokens[static_cast<std::size_t>(i)];
    if (!bit_of(bytes, first % kBits + i)) token = input_only(token);
  }
}

void MaskFile::count(Index first, Index length, std::span<Index> out) const {
  require(first >= 0 && length > 0 && length * std::ssize(out) <= size_ - first,
          "tokens outside the mask file");
  const Index at_once = std::max(Index{1}, kPieceBytes * kBits / length);
  std::vector<std::byte> bytes;
  while (!out.empty()) {
    const auto part = out.first(static_cast<std::size_t>(std::min(at_once, std::ssize(out))));
    const Index first_byte = first / kBits;
    const Index end = bytes_for(first + length * std::ssize(part));
    bytes.resize(static_cast<std::size_t>(end - first_byte));
    load(first_byte, bytes);
    Index bit = first % kBits;
    for (Index& count : part) {
      count = ones(bytes, bit, length);
      bit += length;
    }
    first += length * std::ssize(part);
    out = out.subspan(part.size());
  }
}

std::optional<MaskSums> MaskFile::check(const std::stop_token& stop) const {
  std::vector<std::byte> buffer(static_cast<std::size_t>(kPieceBytes));
  Checksum checksum;
  MaskSums sums;
  const Index end = bytes_for(size_);
  for (Index first = 0; first < end; first += kPieceBytes) {
    if (stop.stop_requested()) return std::nullopt;
    const auto bytes =
        std::span(buffer).first(static_cast<std::size_t>(std::min(kPieceBytes, end - first)));
    load(first, bytes);
    checksum.update(bytes);
    sums.targets += ones(bytes);
  }
  sums.checksum = checksum.value();
  return sums;
}

MaskWriter::MaskWriter(const std::filesystem::path& path) : file_(path) {
  const MaskHeader header;
  file_.write(std::as_bytes(std::span(&header, 1)));
}

void MaskWriter::append(std::span<const std::int32_t> elements) {
  constexpr Index kBlockBits = std::tuple_size_v<decltype(block_)> * kBits;
  for (const std::int32_t element : elements) {
    const Index bit = size_ % kBlockBits;
    if (is_target(element)) {
      block_[static_cast<std::size_t>(bit / kBits)] |= std::byte{1} << (bit % kBits);
      ++targets_;
    }
    ++size_;
    if (bit + 1 == kBlockBits) write_block(block_.size());
  }
}

void MaskWriter::write_block(std::size_t bytes) {
  const auto written = std::span(block_).first(bytes);
  file_.write(written);
  checksum_.update(written);
  block_.fill(std::byte{0});
}

MaskSums MaskWriter::finish() {
  constexpr Index kBlockBits = std::tuple_size_v<decltype(block_)> * kBits;
  write_block(static_cast<std::size_t>(bytes_for(size_ % kBlockBits)));
  return {targets_, checksum_.value()};
}

void MaskWriter::flush() {
  const MaskHeader header{.tokens = static_cast<std::uint64_t>(size_)};
  file_.write_at(0, std::as_bytes(std::span(&header, 1)));
  file_.flush();
}

void MaskWriter::commit() {
  flush();
  file_.commit();
}

}  // namespace dos::data
