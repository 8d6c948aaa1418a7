// SPDX-License-Identifier: Apache-2.0
#include "data/megatron_index.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace dos::data {
namespace {

constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);
constexpr std::uint64_t kIndexVersion = 1;
constexpr Index kIndexHeaderBytes = 9 + 8 + 1 + 8 + 8;
constexpr std::uint8_t kInt32 = 4;
constexpr std::uint8_t kUint16 = 8;

/// Reads an array of the file piece by piece.
template <class T>
class Column {
 public:
  Column(const InputFile& file, Index first, Index count)
      : file_(file), next_(first), left_(count) {}

  /// Pre: not all were taken.
  T take() {
    if (at_ == block_.size()) {
      block_.resize(static_cast<std::size_t>(std::min(left_, kBlock)));
      const auto bytes = std::as_writable_bytes(std::span(block_));
      expect(file_.read(next_, bytes) == std::ssize(bytes),
             "{}: was cut short while it is read; copy it again", file_.path().string());
      next_ += std::ssize(bytes);
      left_ -= std::ssize(block_);
      at_ = 0;
    }
    return block_[at_++];
  }

 private:
  static constexpr Index kBlock = 65'536;
  const InputFile& file_;
  Index next_;
  Index left_;
  std::vector<T> block_;
  std::size_t at_ = 0;
};

struct Header {
  std::uint64_t version = 0;
  std::uint8_t type = 0;
  Index sequences = 0;
  Index ends = 0;  ///< documents and one more

  [[nodiscard]] Index bytes() const { return kIndexHeaderBytes + sequences * (4 + 8) + ends * 8; }
};

Header read_header(const InputFile& index) {
  const std::string name = index.path().string();
  std::array<char, kIndexHeaderBytes> bytes{};
  expect(index.read(0, std::as_writable_bytes(std::span(bytes))) == kIndexHeaderBytes &&
             std::string_view(bytes.data(), kIndexMagic.size()) == kIndexMagic,
         "{}: not an index of Megatron-LM; copy it again, or remove it if the .bin beside it is "
         "none of Megatron's",
         name);
  Header header;
  std::uint64_t sequences = 0;
  std::uint64_t ends = 0;
  std::memcpy(&header.version, bytes.data() + 9, 8);
  header.type = static_cast<std::uint8_t>(bytes[17]);
  std::memcpy(&sequences, bytes.data() + 18, 8);
  std::memcpy(&ends, bytes.data() + 26, 8);
  expect(header.version == kIndexVersion,
         "{}: version {} of Megatron's index, this program reads {}; write the data again", name,
         header.version, kIndexVersion);
  expect(
      header.type == kInt32 || header.type == kUint16,
      "{}: tokens of type {}, this program reads {} (int32) and {} (uint16); write the data again "
      "with one of them",
      name, header.type, kInt32, kUint16);
  const auto size = static_cast<std::uint64_t>(index.size());
  expect(sequences > 0 && ends > 1 && sequences <= size / 12 && ends <= size / 8,
         "{}: announces {} sequences and {} ends of documents in {} bytes; copy it again", name,
         sequences, ends, size);
  header.sequences = static_cast<Index>(sequences);
  header.ends = static_cast<Index>(ends);
  // Behind them, some versions write a mode a sequence.
  expect(index.size() == header.bytes() || index.size() == header.bytes() + header.sequences,
         "{}: {} bytes, where {} sequences in {} documents take {}; copy it again", name,
         index.size(), header.sequences, header.ends - 1, header.bytes());
  return header;
}

/// Checks that sequences follow each other; returns the number of tokens.
Index count_tokens(const InputFile& index, const Header& header, Index width) {
  Column<std::int32_t> lengths(index, kIndexHeaderBytes, header.sequences);
  Column<std::int64_t> places(index, kIndexHeaderBytes + 4 * header.sequences, header.sequences);
  Index tokens = 0;
  for (Index i = 0; i < header.sequences; ++i) {
    const std::int32_t length = lengths.take();
    const std::int64_t place = places.take();
    expect(length >= 0 && place == tokens * width,
           "{}: sequence {} of {} tokens starts at byte {}, where byte {} comes next; write the "
           "data again",
           index.path().string(), i, length, place, tokens * width);
    tokens += length;
  }
  return tokens;
}

/// The token at which validation starts: that of the first document behind nine tenths of the
/// tokens, or of the last document.
Index first_of_validation(const InputFile& index, const Header& header, Index tokens) {
  Column<std::int32_t> lengths(index, kIndexHeaderBytes, header.sequences);
  Column<std::int64_t> documents(index, kIndexHeaderBytes + 12 * header.sequences, header.ends);
  Index sequence = 0;
  Index place = 0;
  Index found = 0;
  for (Index i = 0; i < header.ends; ++i) {
    const Index first = documents.take();
    expect(first >= sequence && first <= header.sequences && (i > 0 || first == 0) &&
               (i + 1 < header.ends || first == header.sequences),
           "{}: document {} starts at sequence {} of {}, behind {}; copy it again",
           index.path().string(), i, first, header.sequences, sequence);
    for (; sequence < first; ++sequence) place += lengths.take();
    if (i + 1 < header.ends && place < tokens) found = place;
    if (found >= tokens - tokens / 10) break;
  }
  expect(found > 0,
         "{}: one document, which cannot be divided into training and validation; give "
         "PREFIX_train.bin and PREFIX_val.bin, each with its index",
         index.path().string());
  return found;
}

}  // namespace

TokenLayout read_megatron_index(const InputFile& tokens, Part part) {
  const InputFile index(index_of(tokens.path()));
  const Header header = read_header(index);
  TokenLayout layout{.first_byte = 0, .token_bytes = header.type == kUint16 ? 2 : 4, .tokens = 0};
  layout.tokens = count_tokens(index, header, layout.token_bytes);
  expect(layout.tokens > 0 && tokens.size() == layout.tokens * layout.token_bytes,
         "{}: {} bytes, but {} speaks of {} tokens of {} bytes; copy both again",
         tokens.path().string(), tokens.size(), index.path().filename().string(), layout.tokens,
         layout.token_bytes);
  if (part == Part::kAll) return layout;
  const Index cut = first_of_validation(index, header, layout.tokens);
  if (part == Part::kTrain) {
    layout.tokens = cut;
  } else {
    layout.first_byte = cut * layout.token_bytes;
    layout.tokens -= cut;
  }
  return layout;
}

}  // namespace dos::data
