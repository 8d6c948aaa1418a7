// SPDX-License-Identifier: Apache-2.0
// A checkpoint of which any byte was altered, left out or added is found to be damaged, and the
// file is named.
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>

#include "base/crc32c.hpp"
#include "base/file.hpp"
#include "base/random.hpp"
#include "checkpoint/contents.hpp"
#include "checkpoint/part_reader.hpp"
#include "checkpoint/piece.hpp"
#include "checkpoint/state_files.hpp"
#include "fails_with.hpp"
#include "io/expect_contents.hpp"
#include "io/safetensors.hpp"
#include "message_of.hpp"
#include "sanitized.hpp"
#include "scratch_directory.hpp"
#include "shape/cutter.hpp"
#include "shape/family_shape.hpp"

namespace dos::checkpoint::damage_test {
namespace {

/// A checkpoint of whole tensors, some of them of a page, and of a subgroup's states in a file of
/// their own, in slices.
class Damage : public testing::Test {
 protected:
  Damage() {
    const shape::Layout layout = shape::cut_into_subgroups(
        shape::find_family("gpt2").parameters({"gpt2", 1, 8, 1, 4, 33}), 100, {});
    constexpr const char* kStates[] = {"first_moment", "second_moment"};
    const auto states =
        state_file_tensors(layout, kStates, {.subgroups = {0}, .with_parameters = true});
    add(kModelFile, {{"page", DType::kF32, {64, 16}}, {"b", DType::kF32, {3, 5}}});
    add(kOptimizerFile, {{"b.first_moment", DType::kF32, {3, 5}}});
    add(kFrozenFile, {{"c", DType::kBF16, {7}}});
    add(state_file_name(0), states.at(0));
    manifest_.architecture = nlohmann::json::object();
    manifest_.files = file_records(files_, layouts_, std::nullopt, std::move(pieces_));
  }

  void add(const std::string& name, std::vector<io::TensorSpec> tensors) {
    const std::filesystem::path path = scratch_ / name;
    const io::SafetensorsLayout layout = layout_of(path, tensors);
    const Index header = std::ssize(layout.header());
    std::string text(static_cast<std::size_t>(layout.bytes()), '\0');
    std::memcpy(text.data(), layout.header().data(), layout.header().size());
    const Philox random(files_.size());
    for (std::size_t i = layout.header().size(); i < text.size(); ++i)
      text[i] = static_cast<char>(static_cast<unsigned char>(random.uniform(i, 0) * 256));
    const auto bytes = std::as_bytes(std::span(text));
    for (const Extent& piece : pieces_of(extents_of(tensors)))
      pieces_.push_back(
          {.file = files_.size(),
           .tensor = piece.tensor,
           .offset = piece.tensor_offset,
           .bytes = piece.bytes,
           .crc32c = crc32c(bytes.subspan(static_cast<std::size_t>(header + piece.buffer_offset),
                                          static_cast<std::size_t>(piece.bytes)))});
    write_durably(path, text);
    files_.push_back({.name = name, .tensors = std::move(tensors), .parts = {}});
    layouts_.push_back(layout);
  }

  /// What is wrong with the checkpoint; "": nothing.
  std::string fault() {
    return test::message_of<Error>([&] { verify(engine_, scratch_.path(), manifest_); });
  }
  /// What is wrong with a file, by one of the two ways of reading it.
  std::string fault_of(const io::FileRecord& file, bool is_mapped) {
    return test::message_of<Error>([&] {
      if (is_mapped)
        test::expect_contents(io::SafetensorsFile(scratch_ / file.name), manifest_);
      else
        verify(engine_, scratch_.path(), manifest_, file);
    });
  }

  test::ScratchDirectory scratch_;
  storage::Engine engine_;
  io::CheckpointManifest manifest_;
  std::vector<FileContents> files_;
  std::vector<io::SafetensorsLayout> layouts_;
  std::vector<PieceRecord> pieces_;
};

TEST_F(Damage, OfNoneIsFoundWhereNoneIs) {
  EXPECT_EQ(fault(), "");
  // Slices of tensors, and what fills their pages.
  EXPECT_GT(manifest_.files.back().tensors.size(), 3U);
}

TEST_F(Damage, OfAnyByteIsFound) {
  for (const io::FileRecord& file : manifest_.files) {
    const std::string good = read_text(scratch_ / file.name);
    std::fstream written(scratch_ / file.name, std::ios::in | std::ios::out | std::ios::binary);
    const auto put = [&](std::size_t place, char byte) {
      written.seekp(static_cast<std::streamoff>(place)).put(byte).flush();
    };
    for (std::size_t i = 0; i < good.size(); ++i) {
      if (!test::tries(i, std::size_t{61})) continue;
      put(i, static_cast<char>(good[i] ^ (1 << (i % 8))));
      // The engine takes as long as a disk.
      for (const bool is_mapped : {true, false})
        if (is_mapped || i % 41 == 0) {
          ASSERT_THAT(fault_of(file, is_mapped), testing::HasSubstr(file.name)) << "byte " << i;
        }
      put(i, good[i]);
    }
    for (const bool is_mapped : {true, false}) ASSERT_EQ(fault_of(file, is_mapped), "");
  }
}

TEST_F(Damage, OfTheLengthIsFound) {
  for (const io::FileRecord& file : manifest_.files) {
    const std::filesystem::path path = scratch_ / file.name;
    const auto size = std::filesystem::file_size(path);
    const std::string good = read_text(path);
    for (const std::uintmax_t other : {size + 1, size + 4096, size - 1, std::uintmax_t{0}}) {
      std::filesystem::resize_file(path, other);
      EXPECT_THAT(fault(), testing::HasSubstr(file.name)) << other << " for " << size;
      write_durably(path, good);
    }
    std::filesystem::remove(path);
    EXPECT_THAT(fault(), testing::HasSubstr(file.name));
    write_durably(path, good);
  }
  EXPECT_EQ(fault(), "");
}

}  // namespace
}  // namespace dos::checkpoint::damage_test
