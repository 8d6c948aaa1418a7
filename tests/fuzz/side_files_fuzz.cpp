// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "fuzz/target.hpp"
#include "hf/json_keys.hpp"
#include "hf/side_files.hpp"

namespace {

constexpr dos::Index kEnd = 7;

}  // namespace

/// The first byte chooses which file the rest is. Any text is refused in one line, or what is
/// written of it says what was added and can be read again.
void dos::test::fuzz(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const std::array names{hf::kGenerationFile, hf::kTokenizerConfigFile, hf::kConfigFile};
  const auto which = static_cast<std::size_t>(bytes.front()) % names.size();
  const std::string text(text_of(bytes.subspan(1)));
  const hf::SideFiles side("folder", {{names[which], text}});
  const hf::SideFiles again("written", side.merged({}, std::array{kEnd}, "</s>"));
  if (which == 0 && std::ranges::find(again.ends(), kEnd) == again.ends().end())
    broken("the end of a text is lost");
  if (which == 1 && again.find(names[1])->find("</s>") == std::string::npos)
    broken("the end of a text has another name");
}
