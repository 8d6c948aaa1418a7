// SPDX-License-Identifier: Apache-2.0
#include "storage/fault_text.hpp"

#include <fmt/format.h>

#include <array>
#include <system_error>

namespace dos::storage {
namespace {

const char* verb_of(Kind kind) {
  constexpr std::array kVerbs{"read", "write", "flush"};
  return kVerbs[static_cast<std::size_t>(kind)];
}

std::string cause_of(Index result) {
  if (result == 0) return "nothing is taken";
  return std::generic_category().message(static_cast<int>(-result));
}

}  // namespace

std::string fault_text(const DirectFile& file, Kind kind, const Block& block, Index end,
                       Index result) {
  const std::string path = file.path().string();
  if (kind == Kind::kSync)
    return fmt::format("{}: cannot flush to the device: {}", path, cause_of(result));
  if (result == 0 && kind == Kind::kRead) return fmt::format("{}: ends before byte {}", path, end);
  return fmt::format("{}: cannot {} {} bytes at {}: {}", path, verb_of(kind), block.bytes,
                     block.offset, cause_of(result));
}

}  // namespace dos::storage
