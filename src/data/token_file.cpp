// SPDX-License-Identifier: Apache-2.0
#include "data/token_file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "data/missing.hpp"

namespace dos::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr const TokenVariant& variant_of(Index vocabulary) {
  return vocabulary <= kNarrowVocabulary ? kNarrowTokens : kWideTokens;
}

/// Tokens a conversion buffer holds: small enough for the cache, large enough for one system call.
constexpr std::size_t kBlock = 16'384;

template <class Stored>
void widen(std::span<const std::byte> stored, std::span<std::int32_t> tokens) {
  const std::byte* from = stored.data();
  for (std::int32_t& token : tokens) {
    Stored narrow;
    std::memcpy(&narrow, from, sizeof narrow);
    token = static_cast<std::int32_t>(narrow);
    from += sizeof narrow;
  }
}

template <class Stored>
Index largest_of(std::span<const std::byte> stored) {
  Stored most = 0;
  for (std::size_t at = 0; at < stored.size(); at += sizeof most) {
    Stored token;
    std::memcpy(&token, stored.data() + at, sizeof token);
    most = std::max(most, token);
  }
  return Index{most};
}

InputFile open(const std::filesystem::path& path) {
  expect(
      !is_missing(path),
      "{}: missing; data.path must be the PREFIX that prepare_data --output PREFIX was given, and "
      "so must each PREFIX:WEIGHT of data.sources",
      path.string());
  return InputFile(path);
}

}  // namespace

TokenHeader token_header(Index vocabulary, Index tokens) {
  require(vocabulary > 0 && tokens >= 0, "a header needs a vocabulary and a number of tokens");
  const TokenVariant& variant = variant_of(vocabulary);
  const auto count = static_cast<std::uint64_t>(tokens);
  TokenHeader header{};
  header[0] = variant.magic;
  header[1] = variant.version;
  header[2] = static_cast<std::int32_t>(static_cast<std::uint32_t>(count));
  header[3] = static_cast<std::int32_t>(count >> 32U);
  return header;
}

TokenFile::TokenFile(const std::filesystem::path& path, Part part) {
  std::vector<Shard> shards;
  add(shards, path, part);
  shards_ = std::make_shared<const std::vector<Shard>>(std::move(shards));
}

TokenFile::TokenFile(std::span<const std::filesystem::path> paths) {
  require(!paths.empty(), "a token file");
  std::vector<Shard> shards;
  for (const std::filesystem::path& path : paths) add(shards, path, Part::kAll);
  shards_ = std::make_shared<const std::vector<Shard>>(std::move(shards));
}

void TokenFile::add(std::vector<Shard>& shards, const std::filesystem::path& path, Part part) {
  InputFile file = open(path);
  const TokenLayout layout = find_layout(file, part);
  if (shards.empty()) token_bytes_ = layout.token_bytes;
  expect(layout.token_bytes == token_bytes_,
         "{}: has tokens of {} bytes, {} such of {}: use files of one corpus", path.string(),
         layout.token_bytes, shards.empty() ? "" : shards.front().file.path().string(),
         token_bytes_);
  shards.push_back({std::move(file), layout, size_});
  size_ += layout.tokens;
}

const TokenFile::Shard& TokenFile::shard_of(Index position) const {
  return *std::prev(std::ranges::upper_bound(*shards_, position, {}, &Shard::first));
}

std::int32_t TokenFile::operator[](Index position) const {
  std::int32_t token;
  read(position, std::span(&token, 1));
  return token;
}

void TokenFile::load(Index first, std::span<std::byte> stored) const {
  const Index width = token_bytes_;
  while (!stored.empty()) {
    const Shard& shard = shard_of(first);
    const Index begin = first - shard.first;
    const Index count = std::min(std::ssize(stored) / width, shard.layout.tokens - begin);
    const auto part = stored.first(static_cast<std::size_t>(count * width));
    const Index found = shard.file.read(shard.layout.first_byte + begin * width, part);
    expect(
        found == std::ssize(part),
        "{}: was cut short while it is in use: {} tokens were there, from {} on they are gone; put "
        "the file back and continue with --resume",
        shard.file.path().string(), shard.layout.tokens, begin + found / width);
    first += count;
    stored = stored.subspan(part.size());
  }
}

void TokenFile::read(Index first, std::span<std::int32_t> out) const {
  require(first >= 0 && first <= size() && std::ssize(out) <= size() - first,
          "tokens outside the token file");
  std::array<std::byte, kBlock * sizeof(std::int32_t)> buffer;
  while (!out.empty()) {
    const auto part = out.first(std::min(kBlock, out.size()));
    const auto stored =
        std::span(buffer).first(part.size() * static_cast<std::size_t>(token_bytes_));
    load(first, stored);
    is_narrow() ? widen<std::uint16_t>(stored, part) : widen<std::uint32_t>(stored, part);
    first += std::ssize(part);
    out = out.subspan(part.size());
  }
}

void TokenFile::expect_inside(Index vocabulary, Index first,
                              std::span<const std::int32_t> tokens) const {
  const auto outside = [vocabulary](std::int32_t token) {
    return static_cast<std::uint32_t>(token) >= static_cast<std::uint64_t>(vocabulary);
  };
  const auto bad = std::ranges::find_if(tokens, outside);
  if (bad == tokens.end()) return;
  const Index position = first + (bad - tokens.begin());
  const Shard& shard = shard_of(position);
  fail(
      "{}: token {} at position {} is outside model.vocab={}; the file is damaged or was prepared "
      "with another tokenizer: copy it again, prepare the text again, or raise model.vocab above "
      "{}",
      shard.file.path().string(), static_cast<std::uint32_t>(*bad), position - shard.first,
      vocabulary, static_cast<std::uint32_t>(*bad));
}

std::optional<TokenSums> TokenFile::check(Index vocabulary, const std::stop_token& stop) const {
  // Large enough for the disk, small enough for the cache.
  constexpr Index kPiece = Index{1} << 18;
  std::vector<std::byte> buffer(static_cast<std::size_t>(kPiece * token_bytes_));
  Checksum checksum;
  Index largest = -1;
  for (Index first = 0; first < size(); first += kPiece) {
    if (stop.stop_requested()) return std::nullopt;
    const Index count = std::min(kPiece, size() - first);
    const auto stored = std::span(buffer).first(static_cast<std::size_t>(count * token_bytes_));
    load(first, stored);
    checksum.update(stored);
    const Index most =
        is_narrow() ? largest_of<std::uint16_t>(stored) : largest_of<std::uint32_t>(stored);
    if (most >= vocabulary) {
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
      is_narrow() ? widen<std::uint16_t>(stored, tokens) : widen<std::uint32_t>(stored, tokens);
      expect_inside(vocabulary, first, tokens);
    }
    largest = std::max(largest, most);
  }
  return TokenSums{largest, checksum.value()};
}

template <class Stored>
void TokenWriter::append_as(std::span<const std::int32_t> tokens) {
  std::array<Stored, kBlock> block;
  for (std::size_t first = 0; first < tokens.size(); first += kBlock) {
    const auto part = tokens.subspan(first, std::min(kBlock, tokens.size() - first));
    std::ranges::transform(part, block.begin(), [](std::int32_t t) { return Stored(t); });
    const auto stored = std::as_bytes(std::span(block).first(part.size()));
    file_.write(stored);
    checksum_.update(stored);
    largest_ = std::max(largest_, Index{std::ranges::max(part)});
  }
}

TokenWriter::TokenWriter(const std::filesystem::path& path, Index vocabulary)
    : path_(path), vocabulary_(vocabulary), file_(path) {
  const TokenHeader header = token_header(vocabulary, 0);
  file_.write(std::as_bytes(std::span(header)));
}

void TokenWriter::append(std::span<const std::int32_t> tokens) {
  const auto bad = std::ranges::find_if(
      tokens, [this](std::int32_t token) { return token < 0 || token >= vocabulary_; });
  expect(bad == tokens.end(),
         "{}: token {} at position {} is outside the vocabulary of {}; write the file with the "
         "vocabulary of the tokenizer that made the tokens",
         path_.string(), bad == tokens.end() ? 0 : *bad, size_ + (bad - tokens.begin()),
         vocabulary_);
  if (variant_of(vocabulary_).token_bytes == kNarrowTokens.token_bytes) {
    append_as<std::uint16_t>(tokens);
  } else {
    append_as<std::uint32_t>(tokens);
  }
  size_ += std::ssize(tokens);
}

void TokenWriter::flush() {
  expect(size_ > 0, "{}: no tokens to write; give more text", path_.string());
  const TokenHeader header = token_header(vocabulary_, size_);
  file_.write_at(0, std::as_bytes(std::span(header)));
  file_.flush();
}

void TokenWriter::commit() {
  flush();
  file_.commit();
}

}  // namespace dos::data
