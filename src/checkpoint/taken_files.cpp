// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/taken_files.hpp"

#include "checkpoint/fault_of.hpp"
#include "checkpoint/state_files.hpp"
#include "storage/blocking.hpp"

namespace dos::checkpoint {
namespace {

/// The file's tensors, whose bytes lie side by side.
SummedRange range_of(const FileContents& contents, const io::SafetensorsLayout& layout,
                     std::span<const Extent> pieces, std::span<const codelets::ContentSum> sums) {
  SummedRange range{.begin = layout.tensors()[pieces.front().tensor].begin};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Extent& piece = pieces[i];
    range.pieces.push_back(
        {.tensor = &contents.tensors[piece.tensor].name,
         .tensor_offset = piece.tensor_offset,
         .end = layout.tensors()[piece.tensor].begin + piece.tensor_offset + piece.bytes,
         .sum = {.bytes = piece.bytes, .crc32c = sums[i].crc32c}});
  }
  return range;
}

void add_pieces(std::size_t file, const FileContents& contents, std::span<const Extent> pieces,
                std::span<const codelets::ContentSum> sums, RankReport& report) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    report.pieces.push_back({.file = file,
                             .tensor = pieces[i].tensor,
                             .offset = pieces[i].tensor_offset,
                             .bytes = pieces[i].bytes,
                             .crc32c = sums[i].crc32c});
    if (!sums[i].is_finite && report.bad_tensor.empty())
      report.bad_tensor = contents.tensors[pieces[i].tensor].name;
  }
}

}  // namespace

void TakenFiles::ask(offload::AwayStates* disks) {
  for (const FileContents& file : contents_) {
    const bool is_one = file.subgroup && disks != nullptr && disks->is_on_disk(*file.subgroup);
    versions_.push_back(is_one ? disks->keep(*file.subgroup) : nullptr);
  }
}

TakenFiles::Taken TakenFiles::take(storage::Engine& engine, const storage::Label& label,
                                   const std::filesystem::path& folder,
                                   std::span<const io::SafetensorsLayout> layouts, const Turn& turn,
                                   RankReport& report) {
  Taken taken;
  std::optional<RangeCopy> copy;
  for (std::size_t i = 0; i < versions_.size(); ++i) {
    if (versions_[i] == nullptr) continue;
    has_any_ = true;
    offload::StateVersion& version = *versions_[i];
    report.fault = version.wait();
    if (!report.fault.empty()) return taken;
    if (taken.began == Clock::time_point()) taken.began = Clock::now();
    const io::SafetensorsLayout& layout = layouts[i];
    const std::vector<Extent> pieces = pieces_of(extents_of(contents_[i].tensors));
    bool is_named = false;
    report.fault = fault_of([&] {
      offload::StateFile& file = version.file();
      file.complete(engine, layout.header(), layout.bytes(), label);
      is_named = file.file().link(folder / contents_[i].name);
      if (is_named) return;
      const auto target = storage::DirectFile::create(folder / contents_[i].name, layout.bytes());
      storage::write(engine, target, 0, layout.header(), label);
      if (!copy) copy.emplace(engine, label, turn);
      copy->begin(file.file(), range_of(contents_[i], layout, pieces, version.sums()), target);
      copy->finish();
      storage::sync(engine, target, label);
    });
    if (!report.fault.empty()) return taken;
    add_pieces(i, contents_[i], pieces, version.sums(), report);
    (is_named ? taken.named_bytes : taken.copied_bytes) += layout.bytes();
    // Nobody needs the source of a copy: its disk may have the room.
    if (!is_named) versions_[i].reset();
  }
  return taken;
}

std::vector<const storage::DirectFile*> TakenFiles::named() const {
  std::vector<const storage::DirectFile*> files;
  for (const auto& version : versions_)
    if (version != nullptr) files.push_back(&version->file().file());
  return files;
}

}  // namespace dos::checkpoint
