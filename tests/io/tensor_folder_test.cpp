// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_folder.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "base/bf16.hpp"
#include "fails_with.hpp"
#include "io/safetensors_writer.hpp"
#include "json_mutations.hpp"
#include "scratch_directory.hpp"

namespace dos::io::tensor_folder_test {
namespace {

using test::fails_with;

constexpr const char* kIndex = R"({"metadata": {"total_size": 40},
    "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})";

void write_floats(const std::filesystem::path& path, const std::string& name,
                  const std::vector<float>& values) {
  SafetensorsWriter writer(path, {{name, DType::kF32, {std::ssize(values)}}});
  writer.write(name, std::as_bytes(std::span(values)));
  static_cast<void>(writer.commit());
}

struct Folder {
  Folder() {
    write_floats(scratch / "one.safetensors", "a", {1, 2, 3});
    write_floats(scratch / "two.safetensors", "b", {4, 5, 6, 7});
    write_index(kIndex);
  }
  void write_index(const std::string& text) const { std::ofstream(scratch / kIndexFile) << text; }
  [[nodiscard]] auto opened() const {
    return [this] { TensorFolder{scratch.path()}; };
  }

  test::ScratchDirectory scratch;
};

std::vector<float> read(const TensorFolder& folder, const std::string& name, Index first,
                        std::size_t count) {
  std::vector<float> values(count);
  folder.read(*folder.find(name), first, values);
  return values;
}

TEST(TensorFolder, ReadsPiecesOfShards) {
  const Folder folder;
  const TensorFolder tensors(folder.scratch.path());
  EXPECT_EQ(std::ssize(tensors.tensors()), 2);
  EXPECT_EQ(tensors.find("c"), nullptr);
  EXPECT_EQ(read(tensors, "a", 0, 3), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(read(tensors, "b", 1, 2), (std::vector<float>{5, 6}));
  EXPECT_TRUE(read(tensors, "b", 4, 0).empty());
}

TEST(TensorFolder, TakesTheSingleFileFirst) {
  const Folder folder;
  write_floats(folder.scratch / kSingleFile, "c", {8});
  const TensorFolder tensors(folder.scratch.path());
  EXPECT_EQ(std::ssize(tensors.tensors()), 1);
  EXPECT_EQ(read(tensors, "c", 0, 1), std::vector<float>{8});
}

/// Longer than a piece that is read at once, and no multiple of it.
TEST(TensorFolder, ReadsLongTensors) {
  const test::ScratchDirectory scratch;
  constexpr Index kCount = 300'001;
  std::vector<BF16> values;
  for (Index i = 0; i < kCount; ++i) values.push_back(to_bf16(static_cast<float>(i % 251)));
  SafetensorsWriter writer(scratch / kSingleFile, {{"x", DType::kBF16, {kCount}}});
  writer.write("x", std::as_bytes(std::span(values)));
  static_cast<void>(writer.commit());
  const TensorFolder folder(scratch.path());
  const std::vector<float> found = read(folder, "x", 1, kCount - 1);
  for (Index i = 1; i < kCount; ++i)
    ASSERT_EQ(found[static_cast<std::size_t>(i - 1)], static_cast<float>(i % 251)) << i;
}

TEST(TensorFolder, NamesWhatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    const test::ScratchDirectory scratch;
    write_floats(scratch / kSingleFile, "x", {0, 1, bad, 3});
    const TensorFolder folder(scratch.path());
    EXPECT_THAT([&] { read(folder, "x", 1, 3); },
                fails_with({"model.safetensors: tensor 'x': element 2 is", "use others"}));
    EXPECT_NO_THROW(read(folder, "x", 0, 2));
  }
}

TEST(TensorFolder, SaysWhatIsMissing) {
  const test::ScratchDirectory scratch;
  EXPECT_THAT([&] { TensorFolder{scratch / "none"}; }, fails_with({"none: no such folder"}));
  EXPECT_THAT([&] { TensorFolder{scratch.path()}; },
              fails_with({"neither model.safetensors nor model.safetensors.index.json"}));
  std::ofstream(scratch / "pytorch_model.bin") << "x";
  EXPECT_THAT([&] { TensorFolder{scratch.path()}; },
              fails_with({"Python's format", "safe_serialization=True"}));
}

struct BadIndex {
  const char* what;
  const char* text;
  const char* message;
};

constexpr BadIndex kBadIndices[] = {
    {"no JSON", "{", "not JSON"},
    {"no map", "{}", "field 'weight_map' is missing"},
    {"map of numbers", R"({"weight_map": {"a": 1}})", "field 'weight_map.a' must be a string"},
    {"a path", R"({"weight_map": {"a": "../one.safetensors"}})",
     "tensor 'a' lies in '../one.safetensors'"},
    {"the folder itself", R"({"weight_map": {"a": ".."}})", "tensor 'a' lies in '..'"},
    {"no name", R"({"weight_map": {"a": ""}})", "tensor 'a' lies in ''"},
    {"a file that is not there", R"({"weight_map": {"a": "three.safetensors"}})",
     "names the file 'three.safetensors', which is not there"},
    {"the wrong file", R"({"weight_map": {"a": "two.safetensors", "b": "two.safetensors"}})",
     "tensor 'a' is not in 'two.safetensors'"},
    {"a tensor that is not there",
     R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors", "c": "two.safetensors"}})",
     "tensor 'c' is not in 'two.safetensors'"},
    {"deep",
     R"({"weight_map": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[)",
     "more than 64 objects and arrays"},
};

TEST(TensorFolder, NamesEveryDamageOfTheIndex) {
  for (const BadIndex& bad : kBadIndices) {
    const Folder folder;
    folder.write_index(bad.text);
    EXPECT_THAT(folder.opened(), fails_with({bad.message})) << bad.what;
  }
}

TEST(TensorFolder, RefusesATensorTwiceAndOneThatTheIndexLeavesOut) {
  const Folder folder;
  SafetensorsWriter writer(folder.scratch / "two.safetensors",
                           {{"b", DType::kU8, {1}}, {"c", DType::kU8, {1}}});
  static const std::byte kByte{};
  writer.write("b", {&kByte, 1});
  writer.write("c", {&kByte, 1});
  static_cast<void>(writer.commit());
  EXPECT_THAT(folder.opened(), fails_with({"two.safetensors: tensor 'c': not in the index"}));
  write_floats(folder.scratch / "two.safetensors", "a", {1});
  EXPECT_THAT(folder.opened(),
              fails_with({"two.safetensors: tensor 'a' is in 'one.safetensors', too"}));
}

TEST(TensorFolder, StandsADamagedIndex) {
  const Folder folder;
  test::expect_stands_damage(kIndex, 500, [&](const std::string& text) {
    folder.write_index(text);
    TensorFolder{folder.scratch.path()};
  });
}

TEST(TensorFolder, SeesAFileThatIsCutMeanwhile) {
  const Folder folder;
  const TensorFolder tensors(folder.scratch.path());
  std::filesystem::resize_file(folder.scratch / "two.safetensors", 70);
  EXPECT_THAT([&] { read(tensors, "b", 0, 4); }, fails_with({"became shorter"}));
}

TEST(TensorFolder, SeesAFileThatIsCutBeforeItIsReadAhead) {
  const Folder folder;
  write_floats(folder.scratch / kSingleFile, "b", std::vector<float>(5000));
  const TensorFolder tensors(folder.scratch.path());
  std::filesystem::resize_file(folder.scratch / kSingleFile, 70);
  storage::Engine engine;
  ReadBuffer buffer(20'000);
  tensors.begin_read(*tensors.find("b"), 0, 5000, buffer, engine);
  ASSERT_TRUE(buffer.is_begun());
  std::vector<float> values(5000);
  EXPECT_THAT([&] { tensors.read(*tensors.find("b"), 0, values, &buffer); },
              fails_with({kSingleFile, "ends before byte", "tensor 'b'", "copy it"}));
}

}  // namespace
}  // namespace dos::io::tensor_folder_test
