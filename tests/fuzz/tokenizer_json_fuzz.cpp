// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include "data/bpe/byte_level_bpe.hpp"
#include "fuzz/target.hpp"

/// Any text is refused in one line, or is a tokenizer whose parts are the whole.
void dos::test::fuzz(std::span<const std::byte> bytes) {
  const std::string input(text_of(bytes));
  const std::string text = "It's 12  caf\xC3\xA9 e\xCC\x81<s>\n\n" + input.substr(0, 200);
  const auto tokenizer = data::make_byte_level_bpe(input, 0, "x");
  const auto whole = tokenizer->encode(text);
  if (tokenizer->decode(whole).empty() && whole.size() > 1) broken("tokens decode to text");
  std::vector<std::int32_t> tokens;
  std::size_t taken = 0;
  for (const data::TextPart& part : tokenizer->parts(text, 4))
    taken = tokenizer->encode_part(part, taken, tokens);
  if (tokens != whole || taken != 0) broken("parts in order are the whole");
}
