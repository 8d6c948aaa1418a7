// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "checkpoint/contents.hpp"
#include "io/checkpoint_manifest.hpp"

namespace dos::checkpoint {

/// Most bytes of a piece: what is summed, written and read at a time.
inline constexpr Index kPieceBytes = Index{4} << 20;

/// The pieces of extents, in their order.
std::vector<Extent> pieces_of(std::span<const Extent> extents);

/// Bytes of a tensor, of one subgroup, that were written, and their sum.
struct PieceRecord {
  std::size_t file = 0;
  std::size_t tensor = 0;
  Index offset = 0;  ///< in the tensor
  Index bytes = 0;
  std::uint32_t crc32c = 0;
  Index part = 0;  ///< of the checkpoint, that the rank writes to

  auto operator<=>(const PieceRecord&) const = default;
};

/// What a rank tells rank 0 when it has written its parts.
struct RankReport {
  std::string fault;       ///< why they are not all there; "": they are, on the device
  std::string bad_tensor;  ///< one with an element that is not finite; "": none
  std::vector<PieceRecord> pieces;
};

/// As bytes for another rank, and back. Throws Error for what to_text() has not made.
std::string to_text(const RankReport& report);
RankReport parse_report(std::string_view text, Index part = 0);

/// The records of a checkpoint's files, each with its layout, of the pieces of all ranks; of the
/// constant file `kept`, if it was not written. Pre: the pieces of each other tensor lie side by
/// side from its first byte to its last, without gaps or overlaps.
std::vector<io::FileRecord> file_records(std::span<const FileContents> files,
                                         std::span<const io::SafetensorsLayout> layouts,
                                         const std::optional<io::FileRecord>& kept,
                                         std::vector<PieceRecord> pieces);

}  // namespace dos::checkpoint
