// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "base/checksum.hpp"
#include "base/crc32c.hpp"
#include "base/file.hpp"
#include "io/byte_pattern.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/safetensors_writer.hpp"
#include "scratch_directory.hpp"

namespace dos::test {

inline constexpr const char* kFileName = "params.safetensors";

/// A checkpoint of three tensors, one of them empty, and its manifest.
class ManifestCheckpoint : public testing::Test {
 protected:
  void SetUp() override { make_checkpoint(); }

  void make_checkpoint() {
    const std::vector<io::TensorSpec> specs{
        {"w", DType::kF32, {2, 3}}, {"b", DType::kBF16, {3}}, {"none", DType::kU8, {0}}};
    manifest.step = 10;
    manifest.seed = std::numeric_limits<std::uint64_t>::max();
    manifest.samples_consumed = 640;
    manifest.best_validation_loss = 0.1 + 0.2;
    manifest.configuration = {{"train", {{"steps", 100}}}};
    manifest.tokenizer = "bytes";
    manifest.data = {{"train", {{"tokens", 900}}}};
    manifest.architecture = {{"width", 64}, {"layers", 2}};
    manifest.files = {{.name = kFileName, .tensors = write(specs), .header = header()}};
  }

  [[nodiscard]] io::PieceSum header() const {
    const io::SafetensorsFile file(scratch / kFileName);
    const auto bytes = file.bytes().first(
        static_cast<std::size_t>(file.at("w").bytes.data() - file.bytes().data()));
    return {std::ssize(bytes), crc32c(bytes)};
  }

  std::vector<io::TensorRecord> write(const std::vector<io::TensorSpec>& specs, Index salt = 0) {
    io::SafetensorsWriter writer(scratch / kFileName, specs, {{"format", "test"}});
    std::vector<io::TensorRecord> records;
    for (const io::TensorSpec& spec : specs) {
      const auto bytes = byte_pattern(io::byte_size(spec.dtype, spec.shape).value(), salt);
      writer.write(spec.name, bytes);
      records.push_back({{spec}, pieces_of(bytes), {}});
    }
    writer.commit();
    return records;
  }

  /// Two, as of two ranks, where there are bytes for them.
  static std::vector<io::PieceSum> pieces_of(std::span<const std::byte> bytes) {
    std::vector<io::PieceSum> pieces;
    while (!bytes.empty()) {
      const auto some = bytes.first(std::min<std::size_t>(bytes.size(), 5));
      pieces.push_back({std::ssize(some), crc32c(some)});
      bytes = bytes.subspan(some.size());
    }
    return pieces;
  }

  /// What earlier versions wrote: one sum a tensor, and at first none of the manifest.
  void write_as_format(Index number) {
    io::write_manifest(scratch.path(), manifest);
    nlohmann::json old = nlohmann::json::parse(read_text(scratch / io::kManifestName));
    const io::SafetensorsFile file(scratch / kFileName);
    old["format"] = number;
    old["files"][0].erase("header");
    for (nlohmann::json& tensor : old["files"][0]["tensors"]) {
      tensor.erase("crc32c");
      tensor["xxh3"] = hex_text(checksum_of(file.at(tensor["name"].get<std::string>()).bytes));
    }
    old.erase("xxh3");
    if (number == 1)
      old.erase("data");
    else
      old["xxh3"] = hex_text(io::manifest_checksum(old));
    write_durably(scratch / io::kManifestName, old.dump());
  }

  auto layout_of(const std::vector<io::TensorSpec>& specs) {
    write(specs);
    return [this] { io::expect_layout(io::SafetensorsFile(scratch / kFileName), manifest); };
  }

  test::ScratchDirectory scratch;
  io::CheckpointManifest manifest;
};

}  // namespace dos::test
