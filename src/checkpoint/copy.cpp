// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/copy.hpp"

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "checkpoint/contents.hpp"
#include "io/checkpoint_manifest.hpp"
#include "storage/blocking.hpp"
#include "storage/direct_file.hpp"

namespace dos::checkpoint {
namespace {

std::vector<SummedRange> ranges_of(const io::SafetensorsLayout& layout,
                                   const io::FileRecord& record, Index part) {
  std::vector<SummedRange> ranges;
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    Index offset = 0;
    for (const io::PieceSum& sum : record.tensors[i].pieces) {
      const Index begin = layout.tensors()[i].begin + offset;
      if (sum.part == part) {
        if (ranges.empty() || ranges.back().end() != begin) ranges.push_back({.begin = begin});
        ranges.back().pieces.push_back({.tensor = &record.tensors[i].name,
                                        .tensor_offset = offset,
                                        .end = begin + sum.bytes,
                                        .sum = sum});
      }
      offset += sum.bytes;
    }
  }
  return ranges;
}

/// What copies of the files of one checkpoint have in common.
struct Copying {
  storage::Engine& engine;
  std::filesystem::path source;
  const io::CheckpointManifest& manifest;  ///< of the part that is there
  storage::Label label;
  const Turn& turn;
};

io::SafetensorsLayout layout_of(const std::filesystem::path& path, const io::FileRecord& record) {
  return checkpoint::layout_of(path, {record.tensors.begin(), record.tensors.end()});
}

/// A file of a checkpoint in `staging` that has its header.
storage::DirectFile create_file(storage::Engine& engine,
                                const io::CheckpointStore::Staging& staging,
                                const io::FileRecord& record, const storage::Label& label,
                                const Turn& turn) {
  const io::SafetensorsLayout layout = layout_of(staging.path() / record.name, record);
  storage::DirectFile file = staging.create(record.name, layout.bytes());
  turn(std::ssize(layout.header()));
  storage::write(engine, file, 0, layout.header(), label);
  return file;
}

/// Copies what the part has of a file to the same places of `output`, and flushes it.
void copy_pieces(const Copying& copying, const io::FileRecord& record,
                 const storage::DirectFile& output) {
  const std::filesystem::path source = copying.source / record.name;
  const io::SafetensorsLayout layout = layout_of(source, record);
  const storage::DirectFile input = storage::DirectFile::open(source);
  expect(input.size() == layout.bytes(), "{}: has {} bytes, {} were written", source.string(),
         input.size(), layout.bytes());
  io::expect_layout(io::SafetensorsFile(source), copying.manifest);
  RangeCopy copy(copying.engine, copying.label, copying.turn);
  for (const SummedRange& range : ranges_of(layout, record, copying.manifest.part))
    copy.begin(input, range, output);
  copy.finish();
  storage::sync(copying.engine, output, copying.label);
}

/// copy_pieces() of each file in `target` that the part has any of, but for those of the names
/// `kept`.
void copy_files(const Copying& copying, const std::filesystem::path& target,
                const std::set<std::string>& kept) {
  for (const io::FileRecord& record : copying.manifest.files)
    if (!kept.contains(record.name) && io::has_pieces_here(record, copying.manifest))
      copy_pieces(copying, record, storage::DirectFile::open_to_write(target / record.name));
}

storage::Label label_of(Index step) {
  return {.purpose = storage::Purpose::kCheckpointCopy, .step = step};
}

void expect_pieces(const std::filesystem::path& source, const io::CheckpointManifest& manifest) {
  for (const io::FileRecord& record : manifest.files)
    for (const io::TensorRecord& tensor : record.tensors)
      expect(!tensor.xxh3,
             "{}: an older release wrote it, with one sum a tensor, and it is not copied; the next "
             "checkpoint is",
             source.string());
}

}  // namespace

void copy_checkpoint(storage::Engine& engine, const io::CheckpointStore& from,
                     io::CheckpointStore& to, Index step, bool mark_best, KeptFile& kept,
                     const Turn& turn, const Others& others) {
  const std::filesystem::path source = from.resolve(std::to_string(step));
  const io::CheckpointManifest manifest = io::read_manifest(source);
  expect_pieces(source, manifest);
  const io::CheckpointManifest whole = io::in_one_folder(manifest);
  const Copying copying{engine, source, manifest, label_of(step), turn};
  io::CheckpointStore::Staging staging = to.begin(step);
  std::set<std::string> kept_names;
  for (const io::FileRecord& record : whole.files) {
    if (kept.in(to) == record && kept.link(to, staging.path() / record.name))
      kept_names.insert(record.name);
    else
      // One is open at a time: there may be one a subgroup.
      storage::sync(engine, create_file(engine, staging, record, copying.label, turn),
                    copying.label);
  }
  others(manifest, kept_names, [&] { copy_files(copying, staging.path(), kept_names); });
  io::write_manifest(staging.path(), whole);
  const std::filesystem::path folder = staging.commit(mark_best);
  to.remove_discarded();
  for (const io::FileRecord& record : whole.files)
    if (record.name == kFrozenFile) kept.keep(to, folder / record.name, record);
}

io::CheckpointStore::Staging begin_copy(storage::Engine& engine, io::CheckpointStore& to,
                                        const io::CheckpointManifest& whole) {
  io::CheckpointStore::Staging staging = to.begin(whole.step);
  const storage::Label label = label_of(whole.step);
  for (const io::FileRecord& record : whole.files)
    storage::sync(engine, create_file(engine, staging, record, label, [](Index) {}), label);
  return staging;
}

Index copy_part(storage::Engine& engine, const io::CheckpointStore& from,
                const io::CheckpointStore& to, Index step, std::uint64_t identity,
                const std::set<std::string>& kept, const Turn& turn) {
  const std::filesystem::path source = from.resolve(std::to_string(step));
  const io::CheckpointManifest manifest = io::read_manifest(source);
  expect(io::identity_of(manifest) == identity,
         "{}: is no part of the checkpoint of step {} that other nodes have", source.string(),
         step);
  const Copying copying{engine, source, manifest, label_of(step), turn};
  copy_files(copying, to.staging_path(step), kept);
  return manifest.part;
}

}  // namespace dos::checkpoint
