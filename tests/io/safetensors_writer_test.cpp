// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors_writer.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"
#include "file_size_limit.hpp"
#include "io/byte_pattern.hpp"
#include "io/safetensors.hpp"
#include "scratch_directory.hpp"

namespace dos::io::safetensors_writer_test {
namespace {

using test::byte_pattern;
using testing::AllOf;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::vector<TensorSpec> kSpecs{{"embedding.weight", DType::kF32, {5, 3}},
                                     {"scalar", DType::kF64, {}},
                                     {"none", DType::kF32, {0}},
                                     {"empty rows", DType::kBF16, {7, 0, 2}},
                                     {"odd", DType::kBF16, {1, 3}},
                                     {"ids", DType::kI32, {1}},
                                     {"bytes", DType::kU8, {13}}};

Index size_in_bytes(const TensorSpec& spec) {
  return byte_size(spec.dtype, spec.shape).value();
}

/// Writes kSpecs, every tensor in pieces of at most `piece` bytes, with byte_pattern(size, number).
void write_all(const std::filesystem::path& path, std::size_t piece) {
  SafetensorsWriter writer(path, kSpecs, {{"format", "pt"}});
  Index number = 0;
  for (const TensorSpec& spec : kSpecs) {
    const auto bytes = byte_pattern(size_in_bytes(spec), number++);
    for (std::size_t done = 0; done < bytes.size(); done += piece)
      writer.write(spec.name, std::span(bytes).subspan(done, std::min(piece, bytes.size() - done)));
  }
  writer.commit();
}

TEST(SafetensorsWriter, RoundTripsInAnyPieces) {
  const test::ScratchDirectory scratch;
  for (const std::size_t piece : {1U, 7U, 12U, 1000U}) {
    const auto path = scratch / "a.safetensors";
    write_all(path, piece);
    const SafetensorsFile file(path);
    ASSERT_EQ(file.tensors().size(), kSpecs.size());
    EXPECT_EQ(file.metadata().at("format"), "pt");
    for (std::size_t i = 0; i < kSpecs.size(); ++i) {
      const MappedTensor& tensor = file.at(kSpecs[i].name);
      EXPECT_EQ(static_cast<const TensorSpec&>(tensor), kSpecs[i]);
      EXPECT_THAT(tensor.bytes,
                  ElementsAreArray(byte_pattern(size_in_bytes(kSpecs[i]), static_cast<Index>(i))));
    }
  }
}

TEST(SafetensorsWriter, AlignsTheData) {
  const test::ScratchDirectory scratch;
  for (int length = 1; length <= 70; ++length) {
    const std::string name(static_cast<std::size_t>(length), 'n');
    SafetensorsWriter writer(scratch / "a", {{name, DType::kU8, {2}}});
    writer.write(name, byte_pattern(2, 0));
    writer.commit();
    EXPECT_EQ(std::filesystem::file_size(scratch / "a") % 64, 2U);
    EXPECT_EQ(SafetensorsFile(scratch / "a").at(name).bytes.size(), 2U);
  }
}

TEST(SafetensorsWriter, WritesAFileWithoutTensors) {
  const test::ScratchDirectory scratch;
  SafetensorsWriter(scratch / "a", {}).commit();
  EXPECT_EQ(std::filesystem::file_size(scratch / "a"), 64U);
  EXPECT_TRUE(SafetensorsFile(scratch / "a").tensors().empty());
}

TEST(SafetensorsWriter, EscapesNames) {
  const test::ScratchDirectory scratch;
  const std::string name = "a \"b\"\n\\ \u00e9";
  SafetensorsWriter writer(scratch / "a", {{name, DType::kU8, {1}}});
  writer.write(name, byte_pattern(1, 0));
  writer.commit();
  EXPECT_NE(SafetensorsFile(scratch / "a").find(name), nullptr);
}

TEST(SafetensorsWriter, LeavesNothingWithoutCommit) {
  const test::ScratchDirectory scratch;
  {
    SafetensorsWriter writer(scratch / "a", kSpecs);
    writer.write(kSpecs[0].name, byte_pattern(4, 0));
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(SafetensorsWriter, ReportsWhatCannotBeWritten) {
  const test::ScratchDirectory scratch;
  const test::FileSizeLimit limit(16);
  EXPECT_THAT([&] { SafetensorsWriter(scratch / "a", kSpecs); },
              ThrowsMessage<Error>(AllOf(HasSubstr("/a: "), HasSubstr("File too large"))));
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(SafetensorsWriter, RefusesTextThatIsNotUtf8) {
  const test::ScratchDirectory scratch;
  EXPECT_THAT(
      [&] {
        SafetensorsWriter(scratch / "a", {{"\xff", DType::kU8, {1}}});
      },
      ThrowsMessage<Error>(HasSubstr("not UTF-8")));
  EXPECT_THAT(
      [&] {
        SafetensorsWriter(scratch / "a", {}, {{"key", "\xff"}});
      },
      ThrowsMessage<Error>(HasSubstr("not UTF-8")));
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(SafetensorsWriter, HoldsItsCallerToTheContract) {
  const test::ScratchDirectory scratch;
  const auto path = scratch / "a";
  const TensorSpec one{"one", DType::kU8, {2}};
  const TensorSpec two{"two", DType::kU8, {2}};
  EXPECT_THROW(SafetensorsWriter(path, {one, one}), ContractViolation);
  EXPECT_THROW(SafetensorsWriter(path, {{"__metadata__", DType::kU8, {}}}), ContractViolation);
  EXPECT_THROW(SafetensorsWriter(path, {{"a", DType::kU8, {-1}}}), ContractViolation);
  EXPECT_THROW(SafetensorsWriter(path, {{"a", DType::kF32, {Index{1} << 62}}}), ContractViolation);
  const TensorSpec half{"a", DType::kU8, {Index{1} << 62}};
  EXPECT_THROW(SafetensorsWriter(path, {half, {"b", DType::kU8, half.shape}}), ContractViolation);
  SafetensorsWriter writer(path, {one, two});
  EXPECT_THROW(writer.write("one", byte_pattern(3, 0)), ContractViolation);
  writer.write("one", byte_pattern(1, 0));
  EXPECT_THROW(writer.write("two", byte_pattern(1, 0)), ContractViolation);
  EXPECT_THROW(writer.commit(), ContractViolation);
  writer.write("one", byte_pattern(1, 0));
  writer.write("two", byte_pattern(2, 0));
  EXPECT_THROW(writer.write("one", byte_pattern(1, 0)), ContractViolation);
}

}  // namespace
}  // namespace dos::io::safetensors_writer_test
