// SPDX-License-Identifier: Apache-2.0
#include "hf/model_export.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <set>

#include "base/bf16.hpp"
#include "fails_with.hpp"
#include "file_size_limit.hpp"
#include "hf/folder.hpp"
#include "hf/model_weights.hpp"
#include "io/safetensors.hpp"

namespace dos::hf::model_export_test {
namespace {

using test::fails_with;
using test::ModelFolder;

ReadTensor reader(const ModelWeights& weights) {
  return [&](const TensorName& name, Index first, std::span<float> out) {
    weights.read(weights.find(name.tensor), first, out);
  };
}

/// A folder of every kind and what is exported from it.
struct Exported {
  explicit Exported(const std::string& type, const ExportOptions& options = {}) : from(type) {
    const std::filesystem::path path = from.write();
    model = read_config(path);
    const ModelWeights weights(path, model);
    export_model(target.path() / "out", model, reader(weights), options);
  }
  [[nodiscard]] std::filesystem::path out() const { return target.path() / "out"; }
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(out()))
      names.insert(entry.path().filename().string());
    return names;
  }

  ModelFolder from;
  test::ScratchDirectory target;
  shape::ModelConfig model;
};

/// Of BF16 what the numbers round to.
void expect_same_values(const Exported& exported, DType dtype = DType::kF32) {
  const ModelWeights weights(exported.out(), read_config(exported.out()));
  for (const test::FileTensor& tensor : exported.from.tensors) {
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    weights.read(weights.find(tensor.spec.name), 0, values);
    std::vector<float> expected(values.size());
    std::memcpy(expected.data(), tensor.bytes.data(), tensor.bytes.size());
    if (dtype == DType::kBF16)
      for (float& value : expected) value = to_float(to_bf16(value));
    EXPECT_TRUE(values == expected) << tensor.spec.name;
  }
}

TEST(ModelExport, KeepsTheBitsOfEveryKindInBothTypes) {
  for (const std::string& type : test::all_model_types())
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const Exported exported(type, {.config = {.dtype = dtype, .ends = {3}}});
      expect_same_values(exported, dtype);
      EXPECT_EQ(read_config(exported.out()), exported.model);
      EXPECT_EQ(exported.names(),
                (std::set<std::string>{"config.json", "generation_config.json", io::kSingleFile}));
      const io::SafetensorsFile file(exported.out() / io::kSingleFile);
      EXPECT_EQ(file.metadata().at("format"), "pt");
      EXPECT_TRUE(file.tensors().front().dtype == dtype);
    }
}

TEST(ModelExport, WritesShards) {
  // The token table alone has 11 * 8 * 4 bytes.
  const Exported exported("llama", {.shard_bytes = 400, .files = {{"tokenizer.model", "x"}}});
  expect_same_values(exported);
  const std::set<std::string> names = exported.names();
  EXPECT_THAT(names, testing::IsSupersetOf({"model.safetensors.index.json", "tokenizer.model",
                                            "model-00001-of-00014.safetensors"}));
  EXPECT_FALSE(names.contains(io::kSingleFile));
  for (const std::string& name : names) {
    if (!name.ends_with(".safetensors")) continue;
    Index bytes = 0;
    const io::SafetensorsFile file(exported.out() / name);
    for (const io::MappedTensor& tensor : file.tensors()) bytes += std::ssize(tensor.bytes);
    EXPECT_LE(bytes, 400) << name;
  }
}

TEST(ModelExport, PutsATensorThatIsTooLargeIntoAFileOfItsOwn) {
  const Exported exported("gpt2", {.shard_bytes = 1});
  expect_same_values(exported);
  EXPECT_EQ(exported.names().size(), exported.from.tensors.size() + 3);
}

TEST(ModelExport, RoundsToTheNearest) {
  ModelFolder folder("gpt2");
  const std::vector<float> values(8, 1.0F + 0x1.8p-8F);  // nearer to the larger neighbour
  folder.find("transformer.ln_f.weight") =
      test::float_tensor("transformer.ln_f.weight", {8}, values);
  const std::filesystem::path path = folder.write();
  const test::ScratchDirectory target;
  const ModelWeights weights(path, read_config(path));
  export_model(target / "out", read_config(path), reader(weights),
               {.config = {.dtype = DType::kBF16}});
  const ModelWeights found(target / "out", read_config(path));
  EXPECT_TRUE(found.is_bf16());
  std::vector<float> rounded(8);
  found.read(found.find("transformer.ln_f.weight"), 0, rounded);
  EXPECT_EQ(rounded.front(), 1.0F + 0x1p-7F);
}

TEST(ModelExport, RefusesNumbersBeyondBf16) {
  ModelFolder from("gpt2");
  test::FileTensor& norm = from.find("transformer.ln_f.weight");
  const float largest = 0x1.FEp127F;  // of BF16
  const auto put = [&](float value) {
    std::memcpy(norm.bytes.data() + sizeof(float), &value, sizeof value);
    const std::filesystem::path path = from.write();
    return ModelWeights(path, read_config(path));
  };
  const test::ScratchDirectory target;
  const auto exported = [&](float value, DType dtype, const char* name) {
    const ModelWeights weights = put(value);
    export_model(target / name, read_config(from.scratch.path()), reader(weights),
                 {.config = {.dtype = dtype}});
  };
  EXPECT_NO_THROW(exported(largest, DType::kBF16, "largest"));
  EXPECT_THAT([&] { exported(-3.4e38F, DType::kBF16, "out"); },
              fails_with({"tensor 'transformer.ln_f.weight': has the value -3.4e+38", "BF16",
                          "--dtype fp32"}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(target.path()), {}), 1)
      << "nothing is left";
  EXPECT_NO_THROW(exported(3.4e38F, DType::kF32, "fp32"));
}

TEST(ModelExport, ReplacesNothingAndLeavesNothingHalfWritten) {
  const ModelFolder folder("gpt2");
  const std::filesystem::path path = folder.write();
  const shape::ModelConfig model = read_config(path);
  const ModelWeights weights(path, model);
  const test::ScratchDirectory target;
  std::filesystem::create_directory(target / "out");
  EXPECT_THAT([&] { export_model(target / "out", model, reader(weights), {}); },
              fails_with({"out: is there already"}));
  std::filesystem::remove(target / "out");
  {
    const test::FileSizeLimit limit(1000);
    EXPECT_THAT([&] { export_model(target / "out", model, reader(weights), {}); },
                fails_with({"File too large"}));
  }
  EXPECT_THROW(
      export_model(target / "out", model,
                   [](const TensorName&, Index, std::span<float>) { fail("no more"); }, {}),
      Error);
  EXPECT_TRUE(std::filesystem::is_empty(target.path()));
}

TEST(ShardSize, ReadsUnits) {
  EXPECT_EQ(parse_shard_size("--shard-size", "5GB"), 5'000'000'000);
  EXPECT_EQ(parse_shard_size("--shard-size", "20MB"), 20'000'000);
  EXPECT_EQ(parse_shard_size("--shard-size", "3KB"), 3'000);
  EXPECT_EQ(parse_shard_size("--shard-size", "17"), 17);
  for (const char* bad : {"", "GB", "0", "0GB", "-1", "5 GB", "5TB", "1.5GB",
                          "99999999999999999999", "9223372036854775807GB"})
    EXPECT_THAT([&] { parse_shard_size("--shard-size", bad); },
                fails_with({fmt::format("--shard-size {}: is no size", bad)}))
        << bad;
}

}  // namespace
}  // namespace dos::hf::model_export_test
