// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/piece.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_field.hpp"

namespace dos::checkpoint {

using nlohmann::json;

std::vector<Extent> pieces_of(std::span<const Extent> extents) {
  std::vector<Extent> pieces;
  for (const Extent& extent : extents)
    for (Index done = 0; done < extent.bytes; done += kPieceBytes)
      pieces.push_back({.tensor = extent.tensor,
                        .tensor_offset = extent.tensor_offset + done,
                        .buffer_offset = extent.buffer_offset + done,
                        .bytes = std::min(kPieceBytes, extent.bytes - done)});
  return pieces;
}

std::string to_text(const RankReport& report) {
  json pieces = json::array();
  for (const PieceRecord& piece : report.pieces)
    pieces.push_back({piece.file, piece.tensor, piece.offset, piece.bytes, piece.crc32c});
  return json{
      {"fault", report.fault}, {"bad_tensor", report.bad_tensor}, {"pieces", std::move(pieces)}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

RankReport parse_report(std::string_view text, Index part) {
  const std::string place = "a rank's report of its part of a checkpoint";
  const std::string remedy = "start all ranks with the same program";
  const json document = parse_json_object(text, place, remedy);
  const JsonField root(document, place, remedy);
  RankReport report{.fault = root.member("fault").text(),
                    .bad_tensor = root.member("bad_tensor").text(),
                    .pieces = {}};
  for (const JsonField& piece : root.member("pieces").elements()) {
    const std::vector<Index> numbers = piece.indices();
    if (numbers.size() != 5) piece.fail("must hold five numbers");
    report.pieces.push_back({.file = static_cast<std::size_t>(numbers[0]),
                             .tensor = static_cast<std::size_t>(numbers[1]),
                             .offset = numbers[2],
                             .bytes = numbers[3],
                             .crc32c = static_cast<std::uint32_t>(numbers[4]),
                             .part = part});
  }
  return report;
}

std::vector<io::FileRecord> file_records(std::span<const FileContents> files,
                                         std::span<const io::SafetensorsLayout> layouts,
                                         const std::optional<io::FileRecord>& kept,
                                         std::vector<PieceRecord> pieces) {
  std::ranges::sort(pieces);
  auto piece = pieces.begin();
  std::vector<io::FileRecord> records;
  for (std::size_t file = 0; file < files.size(); ++file) {
    if (files[file].is_constant && kept) {
      records.push_back(*kept);
      continue;
    }
    const std::string_view header = layouts[file].header();
    records.push_back(
        {.name = files[file].name,
         .tensors = {},
         .header = io::PieceSum{std::ssize(header), crc32c(std::as_bytes(std::span(header)))}});
    for (std::size_t tensor = 0; tensor < files[file].tensors.size(); ++tensor) {
      const io::TensorSpec& spec = files[file].tensors[tensor];
      io::TensorRecord record{{spec}, {}, {}};
      Index end = 0;
      for (; piece != pieces.end() && piece->file == file && piece->tensor == tensor; ++piece) {
        require(piece->offset == end, "pieces lie side by side");
        record.pieces.push_back({piece->bytes, piece->crc32c, piece->part});
        end += piece->bytes;
      }
      require(end == io::byte_size(spec.dtype, spec.shape), "pieces fill their tensor");
      records.back().tensors.push_back(std::move(record));
    }
  }
  require(piece == pieces.end(), "every piece is of a tensor");
  return records;
}

}  // namespace dos::checkpoint
