// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_manifest.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <limits>

#include "base/checksum.hpp"
#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "io/expect_contents.hpp"
#include "io/manifest_checkpoint.hpp"
#include "io/safetensors_writer.hpp"
#include "json_mutations.hpp"
#include "message_of.hpp"
#include "scratch_directory.hpp"

namespace dos::io::checkpoint_manifest_test {
namespace {

using nlohmann::json;
using test::byte_pattern;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::Throws;
using testing::ThrowsMessage;

using test::kFileName;
using ManifestFile = test::ManifestCheckpoint;
using ManifestCheck = test::ManifestCheckpoint;

TEST_F(ManifestFile, RoundTrips) {
  write_manifest(scratch.path(), manifest);
  EXPECT_EQ(read_manifest(scratch.path()), manifest);
}

TEST_F(ManifestFile, RoundTripsWithoutSumsOfHeaders) {
  manifest.files.front().header.reset();
  write_manifest(scratch.path(), manifest);
  EXPECT_EQ(read_manifest(scratch.path()), manifest);
}

TEST_F(ManifestFile, RoundTripsTheSmallest) {
  write_manifest(scratch.path(), CheckpointManifest{});
  const CheckpointManifest read = read_manifest(scratch.path());
  EXPECT_EQ(read, CheckpointManifest{});
  EXPECT_EQ(read.best_validation_loss, std::nullopt);
}

TEST_F(ManifestFile, NamesAMissingOne) {
  EXPECT_THAT([&] { read_manifest(scratch.path()); },
              ThrowsMessage<Error>(AllOf(HasSubstr("manifest.json: missing"),
                                         HasSubstr("no complete checkpoint, name another"))));
}

struct Damage {
  const char* pointer;
  json value;  // discarded: the field is removed
  const char* message;
};

const json kRemoved = json(json::value_t::discarded);

const Damage kDamages[] = {
    {"/format", kRemoved, "field 'format' is missing"},
    {"/format", 5, "format 5, but this program reads formats 1 to 4; use the release that wrote"},
    {"/format", 0, "format 0, but this program reads formats 1 to 4"},
    {"/format", 2, "field 'files[0].tensors[0].xxh3' is missing"},
    {"/xxh3", kRemoved, "field 'xxh3' is missing"},
    {"/xxh3", "0123456789abcdef", "but it says 0123456789abcdef; the checkpoint is damaged"},
    {"/step", 11, "its content has checksum "},
    {"/configuration/train/steps", 101, "its content has checksum "},
    {"/best_validation_loss", kRemoved, "field 'best_validation_loss' is missing"},
    {"/format", "1", "field 'format' must be an integer"},
    {"/step", kRemoved, "field 'step' is missing"},
    {"/step", -1, "field 'step' must be an integer of at least 0"},
    {"/step", 1.5, "field 'step' must be an integer"},
    {"/seed", kRemoved, "field 'seed' is missing"},
    {"/samples_consumed", kRemoved, "field 'samples_consumed' is missing"},
    {"/best_validation_loss", "low", "field 'best_validation_loss' must be a number"},
    {"/configuration", kRemoved, "field 'configuration' is missing"},
    {"/tokenizer", kRemoved, "field 'tokenizer' is missing"},
    {"/data", kRemoved, "field 'data' is missing"},
    {"/architecture", kRemoved, "field 'architecture' is missing"},
    {"/architecture", "gpt2", "field 'architecture' must be an object"},
    {"/files", kRemoved, "field 'files' is missing"},
    {"/files", json::object(), "field 'files' must be an array"},
    {"/files/0/name", kRemoved, "field 'files[0].name' is missing"},
    {"/files/0/name", "../x", "field 'files[0].name' must be a name without '/'"},
    {"/files/0/tensors", kRemoved, "field 'files[0].tensors' is missing"},
    {"/files/0/tensors/1/name", kRemoved, "field 'files[0].tensors[1].name' is missing"},
    {"/files/0/tensors/1/dtype", "F128", "must be one of F64, F32, BF16, I32, U8"},
    {"/files/0/tensors/1/shape/0", "3", "field 'files[0].tensors[1].shape[0]' must be an integer"},
    {"/files/0/tensors/1/crc32c", kRemoved, "field 'files[0].tensors[1].crc32c' is missing"},
    {"/files/0/tensors/1/crc32c", json::array(),
     "field 'files[0].tensors[1].crc32c' must fill the tensor"},
    {"/files/0/tensors/0/crc32c/1", json::array({5}),
     "field 'files[0].tensors[0].crc32c[1]' must hold a number of bytes and a sum of 32 bits"},
    {"/files/0/tensors/0/crc32c/1/0", 6, "field 'files[0].tensors[0].crc32c' must fill the tensor"},
    {"/files/0/tensors/0/crc32c/1/1", 4294967296,
     "field 'files[0].tensors[0].crc32c[1]' must hold a number of bytes and a sum of 32 bits"},
};

TEST_F(ManifestFile, NamesEveryDamagedField) {
  write_manifest(scratch.path(), manifest);
  const json whole = json::parse(read_text(scratch / kManifestName));
  for (const Damage& damage : kDamages) {
    json damaged = whole;
    const json::json_pointer pointer(damage.pointer);
    if (damage.value.is_discarded())
      damaged[pointer.parent_pointer()].erase(pointer.back());
    else
      damaged[pointer] = damage.value;
    write_durably(scratch / kManifestName, damaged.dump());
    EXPECT_THAT([&] { read_manifest(scratch.path()); },
                ThrowsMessage<Error>(AllOf(HasSubstr("manifest.json: "), HasSubstr(damage.message),
                                           HasSubstr("; "), Not(HasSubstr("\n")))));
  }
}

TEST_F(ManifestFile, OneBitOfItIsNoticedOrMeansNothing) {
  write_manifest(scratch.path(), manifest);
  const std::string good = read_text(scratch / kManifestName);
  Index refused = 0;
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    std::ofstream(scratch / kManifestName) << bad;
    try {
      EXPECT_EQ(read_manifest(scratch.path()), manifest) << "bit " << bit << ": " << bad;
    } catch (const Error&) {
      ++refused;
    }
  }
  // All but a few spaces between tokens and digits beyond those of a double.
  EXPECT_GT(refused, 7 * std::ssize(good));
}

TEST_F(ManifestFile, OrderAndSpacesMayChange) {
  write_manifest(scratch.path(), manifest);
  write_durably(scratch / kManifestName, json::parse(read_text(scratch / kManifestName)).dump(7));
  EXPECT_EQ(read_manifest(scratch.path()), manifest);
}

TEST_F(ManifestFile, ReadsEarlierFormats) {
  for (const Index number : {2, 1}) {
    SCOPED_TRACE(number);
    write_as_format(number);
    const CheckpointManifest read = read_manifest(scratch.path());
    for (TensorRecord& tensor : manifest.files[0].tensors) {
      tensor.pieces.clear();
      tensor.xxh3 = checksum_of(SafetensorsFile(scratch / kFileName).at(tensor.name).bytes);
    }
    manifest.files[0].header.reset();
    if (number == 1) manifest.data = nullptr;
    EXPECT_EQ(read, manifest);
    EXPECT_NO_THROW(test::expect_contents(SafetensorsFile(scratch / kFileName), read));
    make_checkpoint();
  }
}

TEST_F(ManifestFile, OfALaterFormatIsKnownByItsChecksum) {
  write_as_format(kManifestFormat + 1);
  EXPECT_THROW(read_manifest(scratch.path()), NewerFormat);
  json damaged = json::parse(read_text(scratch / kManifestName));
  damaged["step"] = 11;
  write_durably(scratch / kManifestName, damaged.dump());
  EXPECT_THAT([&] { read_manifest(scratch.path()); }, Throws<Error>());
  EXPECT_THAT([&] { read_manifest(scratch.path()); }, Not(Throws<NewerFormat>()));
}

TEST_F(ManifestFile, OfAnEarlierFormatHasNoneOfALaterOne) {
  write_as_format(2);
  json damaged = json::parse(read_text(scratch / kManifestName));
  damaged["format"] = 1;
  write_durably(scratch / kManifestName, damaged.dump());
  EXPECT_THAT([&] { read_manifest(scratch.path()); },
              ThrowsMessage<Error>(HasSubstr("format 1 has no 'xxh3'; the checkpoint is damaged")));
}

TEST_F(ManifestFile, TheFolderIsNamedAfterItsStep) {
  for (const char* name : {"step-00000010", "step-00000010.old", "mine", "step-x"}) {
    std::filesystem::create_directory(scratch / name);
    write_manifest(scratch / name, manifest);
    EXPECT_EQ(read_manifest(scratch / name), manifest) << name;
  }
  std::filesystem::rename(scratch / "step-00000010", scratch / "step-00000050");
  std::filesystem::create_directory_symlink("step-00000050", scratch / "last");
  for (const char* name : {"step-00000050", "last"})
    EXPECT_THAT([&] { read_manifest(scratch / name); },
                ThrowsMessage<Error>(HasSubstr("is of step 10, its folder is named after step 50")))
        << name;
}

TEST_F(ManifestFile, RefusesWhatIsNotJson) {
  for (const char* text : {"", "{", "[]", "null", R"({"format":1,"format":1})"}) {
    write_durably(scratch / kManifestName, text);
    EXPECT_THAT(
        [&] { read_manifest(scratch.path()); },
        ThrowsMessage<Error>(AllOf(HasSubstr("manifest.json: "), HasSubstr("take another one"))))
        << text;
  }
}

TEST_F(ManifestFile, StandsDamage) {
  write_manifest(scratch.path(), manifest);
  test::expect_stands_damage(read_text(scratch / kManifestName), 2000,
                             [&](const std::string& text) {
                               std::ofstream(scratch / kManifestName) << text;
                               read_manifest(scratch.path());
                             });
}

TEST_F(ManifestFile, RefusesTextThatIsNotUtf8) {
  manifest.configuration = "\xff";
  EXPECT_THAT([&] { write_manifest(scratch.path(), manifest); },
              ThrowsMessage<Error>(HasSubstr("manifest.json: a text")));
}

TEST_F(ManifestFile, HoldsItsCallerToTheContract) {
  CheckpointManifest bad = manifest;
  bad.best_validation_loss = std::numeric_limits<double>::infinity();
  EXPECT_THROW(write_manifest(scratch.path(), bad), ContractViolation);
  bad = manifest;
  bad.files[0].name = "a/b";
  EXPECT_THROW(write_manifest(scratch.path(), bad), ContractViolation);
  bad = manifest;
  bad.files[0].tensors[0].pieces.pop_back();
  EXPECT_THROW(write_manifest(scratch.path(), bad), ContractViolation);
  bad = manifest;
  bad.step = -1;
  EXPECT_THROW(write_manifest(scratch.path(), bad), ContractViolation);
}

TEST_F(ManifestCheck, AcceptsWhatWasWritten) {
  EXPECT_NO_THROW(test::expect_contents(SafetensorsFile(scratch / kFileName), manifest));
  EXPECT_NO_THROW(expect_architecture(scratch.path(), manifest, manifest.architecture));
}

TEST_F(ManifestCheck, ShowsTheArchitecturesDifference) {
  EXPECT_THAT(
      [&] {
        expect_architecture(scratch.path(), manifest, {{"width", 128}, {"layers", 2}});
      },
      ThrowsMessage<Error>(HasSubstr("has width = 64, this run's 128")));
  EXPECT_THAT(
      [&] {
        expect_architecture(scratch.path(), manifest, {{"layers", 2}});
      },
      ThrowsMessage<Error>(HasSubstr("has width = 64, this run's nothing")));
}

TEST_F(ManifestCheck, NamesAMissingTensor) {
  EXPECT_THAT(layout_of({{"w", DType::kF32, {2, 3}}, {"none", DType::kU8, {0}}}),
              ThrowsMessage<Error>(HasSubstr("params.safetensors: tensor 'b': missing")));
}

TEST_F(ManifestCheck, NamesAnExtraTensor) {
  EXPECT_THAT(
      layout_of({{"w", DType::kF32, {2, 3}},
                 {"b", DType::kBF16, {3}},
                 {"none", DType::kU8, {0}},
                 {"more", DType::kU8, {0}}}),
      ThrowsMessage<Error>(HasSubstr("params.safetensors: tensor 'more': not in the manifest")));
}

TEST_F(ManifestCheck, ShowsBothShapes) {
  EXPECT_THAT(
      layout_of({{"w", DType::kF32, {3, 2}}, {"b", DType::kBF16, {3}}, {"none", DType::kU8, {0}}}),
      ThrowsMessage<Error>(
          HasSubstr("tensor 'w': has shape [3, 2], but the manifest says [2, 3]")));
}

TEST_F(ManifestCheck, ShowsBothTypes) {
  EXPECT_THAT(
      layout_of({{"w", DType::kI32, {2, 3}}, {"b", DType::kBF16, {3}}, {"none", DType::kU8, {0}}}),
      ThrowsMessage<Error>(HasSubstr("tensor 'w': holds I32, but the manifest says F32")));
}

TEST_F(ManifestCheck, NamesAFileItDoesNotList) {
  std::filesystem::rename(scratch / kFileName, scratch / "other.safetensors");
  EXPECT_THAT([&] { expect_layout(SafetensorsFile(scratch / "other.safetensors"), manifest); },
              ThrowsMessage<Error>(HasSubstr("lists no file 'other.safetensors'")));
}

TEST_F(ManifestCheck, FindsAnyFlippedBitOfAHeader) {
  const std::string good = read_text(scratch / kFileName);
  const auto bits = static_cast<std::size_t>(8 * header().bytes);
  Index named = 0;
  for (std::size_t bit = 0; bit < bits; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    std::ofstream(scratch / kFileName) << bad;
    const std::string message = test::message_of<Error>(
        [&] { expect_layout(SafetensorsFile(scratch / kFileName), manifest); });
    EXPECT_THAT(message, HasSubstr(kFileName)) << "bit " << bit << ": " << bad;
    if (message.find("its header has checksum ") != message.npos) ++named;
  }
  EXPECT_GE(named, 20) << "of the metadata, which say nothing of tensors";
}

TEST_F(ManifestCheck, FindsOneFlippedBit) {
  std::string text = read_text(scratch / kFileName);
  text.back() = static_cast<char>(text.back() ^ 1);  // the last byte of 'b'
  write_durably(scratch / kFileName, text);
  const SafetensorsFile file(scratch / kFileName);
  EXPECT_NO_THROW(expect_layout(file, manifest));
  EXPECT_THAT(
      [&] { test::expect_contents(file, manifest); },
      ThrowsMessage<Error>(
          AllOf(HasSubstr("params.safetensors: tensor 'b': bytes 5 to 6 have checksum "),
                HasSubstr(fmt::format("{:08x}", manifest.files[0].tensors[1].pieces[1].crc32c)))));
}

}  // namespace
}  // namespace dos::io::checkpoint_manifest_test
