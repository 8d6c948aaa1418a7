// SPDX-License-Identifier: Apache-2.0
#include "data/token_layout.hpp"

#include <array>
#include <span>

#include "base/error.hpp"
#include "data/megatron_index.hpp"
#include "data/missing.hpp"
#include "data/token_header.hpp"

namespace dos::data {
namespace {

/// As llm.c writes it.
TokenLayout read_token_header(const InputFile& file, const TokenHeader& header) {
  const std::string name = file.path().string();
  const TokenVariant& variant = header[0] == kNarrowTokens.magic ? kNarrowTokens : kWideTokens;
  expect(header[1] == variant.version,
         "{}: token file version {} of magic number {}, expected {}; write it again with "
         "prepare_data",
         name, header[1], header[0], variant.version);
  const Index tokens = Index{header[3]} * (Index{1} << 32) + static_cast<std::uint32_t>(header[2]);
  const Index stored = (file.size() - kTokenHeaderBytes) / variant.token_bytes;
  expect(tokens != 0, "{}: holds no tokens; write it again with prepare_data", name);
  expect(tokens >= 0 && tokens <= stored,
         "{}: truncated: the header announces {} tokens, the file holds {}; copy or write it again",
         name, tokens, stored);
  const Index extra = file.size() - kTokenHeaderBytes - tokens * variant.token_bytes;
  expect(extra == 0,
         "{}: {} bytes follow the {} tokens that the header announces; copy or write it again",
         name, extra, tokens);
  return {.first_byte = kTokenHeaderBytes, .token_bytes = variant.token_bytes, .tokens = tokens};
}

bool has_magic(const TokenHeader& header) {
  return header[0] == kNarrowTokens.magic || header[0] == kWideTokens.magic;
}

TokenLayout bare_layout(const InputFile& file) {
  constexpr Index kWidth = 2;
  expect(file.size() % kWidth == 0,
         "{}: {} bytes, no whole number of bare 16-bit tokens, as nanoGPT writes them; copy it "
         "again",
         file.path().string(), file.size());
  return {.first_byte = 0, .token_bytes = kWidth, .tokens = file.size() / kWidth};
}

}  // namespace

bool may_be_bare(const std::filesystem::path& path) {
  return path.filename() == kBareTrain || path.filename() == kBareVal;
}

std::filesystem::path index_of(const std::filesystem::path& path) {
  return std::filesystem::path(path).replace_extension(".idx");
}

TokenLayout find_layout(const InputFile& file, Part part) {
  const std::string name = file.path().string();
  expect(file.size() > 0, "{}: empty file; write it again with prepare_data", name);
  if (!is_missing(index_of(file.path()))) return read_megatron_index(file, part);
  require(part == Part::kAll, "only an index divides a file");
  TokenHeader header{};
  const Index found = file.read(0, std::as_writable_bytes(std::span(header)));
  if (may_be_bare(file.path()) && (found < kTokenHeaderBytes || !has_magic(header)))
    return bare_layout(file);
  expect(file.size() >= kTokenHeaderBytes,
         "{}: {} bytes, too short for the {}-byte header of a token file; write it again with "
         "prepare_data",
         name, file.size(), kTokenHeaderBytes);
  expect(found == kTokenHeaderBytes, "{}: was cut short; copy or write it again", name);
  expect(has_magic(header),
         "{}: not a token file (magic number {}, expected {} or {}); prepare the text with "
         "prepare_data, or name the folder of nanoGPT's {} and {}",
         name, header[0], kNarrowTokens.magic, kWideTokens.magic, kBareTrain, kBareVal);
  return read_token_header(file, header);
}

}  // namespace dos::data
