// SPDX-License-Identifier: Apache-2.0
#include "data/token_file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "data/missing.hpp"

namespace dos::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

using Header = std::array<std::int32_t, 256>;

struct Variant {
  std::int32_t magic;
  std::int32_t version;
  Index token_bytes;
};

constexpr Variant kNarrow{.magic = 20240520, .version = 1, .token_bytes = 2};
constexpr Variant kWide{.magic = 20240801, .version = 7, .token_bytes = 4};

constexpr const Variant& variant_of(Index vocabulary) {
  return vocabulary <= kNarrowVocabulary ? kNarrow : kWide;
}

/// Tokens a conversion buffer holds: small enough for the cache, large enough for one system call.
constexpr std::size_t kBlock = 16'384;

template <class Stored>
void append_as(DurableFile& file, std::span<const std::int32_t> tokens) {
  std::array<Stored, kBlock> block;
  for (std::size_t first = 0; first < tokens.size(); first += kBlock) {
    const auto part = tokens.subspan(first, std::min(kBlock, tokens.size() - first));
    std::ranges::transform(part, block.begin(), [](std::int32_t t) { return Stored(t); });
    file.write(std::as_bytes(std::span(block).first(part.size())));
  }
}

template <class Stored>
std::int32_t load(const std::byte* from) {
  Stored token;
  std::memcpy(&token, from, sizeof token);
  return static_cast<std::int32_t>(token);
}

MappedFile open(const std::filesystem::path& path) {
  expect(!is_missing(path),
         "{}: missing; data.path must be the PREFIX that prepare_data --output PREFIX was given",
         path.string());
  return MappedFile(path);
}

}  // namespace

Header token_header(Index vocabulary, Index tokens) {
  require(vocabulary > 0 && tokens >= 0, "a header needs a vocabulary and a number of tokens");
  const Variant& variant = variant_of(vocabulary);
  const auto count = static_cast<std::uint64_t>(tokens);
  Header header{};
  header[0] = variant.magic;
  header[1] = variant.version;
  header[2] = static_cast<std::int32_t>(static_cast<std::uint32_t>(count));
  header[3] = static_cast<std::int32_t>(count >> 32U);
  return header;
}

TokenFile::TokenFile(const std::filesystem::path& path) : file_(open(path)) {
  const std::string name = path.string();
  const Index bytes = std::ssize(file_.bytes());
  expect(bytes > 0, "{}: empty file; write it again with prepare_data", name);
  Header header;
  expect(bytes >= kTokenHeaderBytes,
         "{}: {} bytes, too short for the {}-byte header of a token file; write it again with "
         "prepare_data",
         name, bytes, kTokenHeaderBytes);
  std::memcpy(header.data(), file_.bytes().data(), sizeof header);
  expect(header[0] == kNarrow.magic || header[0] == kWide.magic,
         "{}: not a token file (magic number {}, expected {} or {}); prepare the text with "
         "prepare_data",
         name, header[0], kNarrow.magic, kWide.magic);
  const Variant& variant = header[0] == kNarrow.magic ? kNarrow : kWide;
  narrow_ = variant.token_bytes == kNarrow.token_bytes;
  expect(header[1] == variant.version,
         "{}: token file version {} of magic number {}, expected {}; write it again with "
         "prepare_data",
         name, header[1], header[0], variant.version);
  size_ = Index{header[3]} * (Index{1} << 32) + static_cast<std::uint32_t>(header[2]);
  const Index stored = (bytes - kTokenHeaderBytes) / variant.token_bytes;
  expect(size_ != 0, "{}: holds no tokens; write it again with prepare_data", name);
  expect(size_ >= 0 && size_ <= stored,
         "{}: truncated: the header announces {} tokens, the file holds {}; copy or write it again",
         name, size_, stored);
  const Index extra = bytes - kTokenHeaderBytes - size_ * variant.token_bytes;
  expect(extra == 0,
         "{}: {} bytes follow the {} tokens that the header announces; copy or write it again",
         name, extra, size_);
}

std::int32_t TokenFile::operator[](Index position) const {
  std::int32_t token;
  read(position, std::span(&token, 1));
  return token;
}

void TokenFile::read(Index first, std::span<std::int32_t> out) const {
  require(first >= 0 && first <= size_ && std::ssize(out) <= size_ - first,
          "tokens outside the token file");
  const std::byte* from = file_.bytes().data() + kTokenHeaderBytes;
  const Index width = narrow_ ? kNarrow.token_bytes : kWide.token_bytes;
  from += first * width;
  for (std::int32_t& token : out) {
    token = narrow_ ? load<std::uint16_t>(from) : load<std::uint32_t>(from);
    from += width;
  }
}

TokenWriter::TokenWriter(const std::filesystem::path& path, Index vocabulary)
    : path_(path), vocabulary_(vocabulary), file_(path) {
  const Header header = token_header(vocabulary, 0);
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
  if (variant_of(vocabulary_).token_bytes == kNarrow.token_bytes) {
    append_as<std::uint16_t>(file_, tokens);
  } else {
    append_as<std::uint32_t>(file_, tokens);
  }
  size_ += std::ssize(tokens);
}

void TokenWriter::commit() {
  expect(size_ > 0, "{}: no tokens to write; give more text", path_.string());
  const Header header = token_header(vocabulary_, size_);
  file_.write_at(0, std::as_bytes(std::span(header)));
  file_.commit();
}

}  // namespace dos::data
