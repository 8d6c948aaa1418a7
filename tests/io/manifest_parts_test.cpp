// SPDX-License-Identifier: Apache-2.0
// Manifests of checkpoints of which each of several folders has a part.
#include <gtest/gtest.h>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/manifest_checkpoint.hpp"

namespace dos::io::manifest_parts_test {
namespace {

using nlohmann::json;
using ManifestParts = test::ManifestCheckpoint;

TEST_F(ManifestParts, OfPartsSaysWhoHasWhat) {
  CheckpointManifest first = manifest;
  first.parts = 3;
  for (Index i = 0; PieceSum & piece : first.files[0].tensors[0].pieces) piece.part = i++ % 2;
  CheckpointManifest third = first;
  third.part = 2;
  write_manifest(scratch.path(), third);
  EXPECT_EQ(read_manifest(scratch.path()), third);
  EXPECT_EQ(parse_manifest(to_text(third), "there"), third);
  EXPECT_EQ(json::parse(read_text(scratch / kManifestName)).at("format"), kManifestFormat);
  EXPECT_EQ(identity_of(first), identity_of(third));
  EXPECT_TRUE(has_pieces_here(first.files[0], first));
  EXPECT_FALSE(has_pieces_here(third.files[0], third));
  EXPECT_EQ(in_one_folder(third), manifest);
  EXPECT_NE(identity_of(manifest), identity_of(third));
  third.samples_consumed += 1;
  EXPECT_NE(identity_of(first), identity_of(third));
}

// So that a release before reads what is in one folder.
TEST_F(ManifestParts, InOneFolderIsAsBeforeThereWereParts) {
  write_manifest(scratch.path(), manifest);
  const json written = json::parse(read_text(scratch / kManifestName));
  EXPECT_EQ(written.at("format"), 3);
  EXPECT_FALSE(written.contains("parts"));
}

TEST_F(ManifestParts, RefusesPartsThatThereAreNot) {
  manifest.parts = 2;
  write_manifest(scratch.path(), manifest);
  const json good = json::parse(read_text(scratch / kManifestName));
  const auto refuses = [&](json bad) {
    bad["xxh3"] = hex_text(manifest_checksum(bad));
    write_durably(scratch / kManifestName, bad.dump());
    EXPECT_THROW(read_manifest(scratch.path()), Error) << bad.dump();
  };
  json bad = good;
  bad["part"] = 2;
  refuses(bad);
  bad["part"] = -1;
  refuses(bad);
  bad = good;
  bad["files"][0]["tensors"][0]["crc32c"][0].push_back(2);
  refuses(bad);
  manifest.part = 2;
  EXPECT_THROW(write_manifest(scratch.path(), manifest), ContractViolation);
}

}  // namespace
}  // namespace dos::io::manifest_parts_test
