// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/types.hpp"
#include "io/safetensors.hpp"

namespace dos::io {

/// Bytes of a tensor that were written by one rank, and their CRC-32C.
struct PieceSum {
  Index bytes = 0;
  std::uint32_t crc32c = 0;
  Index part = 0;  ///< of the checkpoint, that has them

  bool operator==(const PieceSum&) const = default;
};

/// A tensor of a checkpoint and what its bytes are checked with.
struct TensorRecord : TensorSpec {
  std::vector<PieceSum> pieces;         ///< side by side, from its first byte to its last
  std::optional<std::uint64_t> xxh3{};  ///< of all bytes, instead; of formats 1 and 2

  bool operator==(const TensorRecord&) const = default;
};

/// One safetensors file of a checkpoint: its name in the folder and what it holds.
struct FileRecord {
  std::string name;
  std::vector<TensorRecord> tensors;
  std::optional<PieceSum> header{};  ///< all that precedes the tensors; of older manifests none

  bool operator==(const FileRecord&) const = default;
};

/// What a checkpoint says of itself, manifest.json: everything needed to go on except the tensors'
/// bytes. The JSON members belong to their makers and are not looked into.
struct CheckpointManifest {
  Index step = 0;
  /// Key of the counter-based generator: with step and samples_consumed all of its state.
  std::uint64_t seed = 0;
  /// The loader's position: samples that training has consumed.
  Index samples_consumed = 0;
  /// The lowest validation loss so far; none before the first validation.
  std::optional<double> best_validation_loss{};
  nlohmann::json configuration;
  nlohmann::json tokenizer;
  nlohmann::json data;    ///< what it was trained on; null in format 1
  nlohmann::json runs{};  ///< that it comes of; null in older ones
  nlohmann::json architecture = nlohmann::json::object();
  std::vector<FileRecord> files{};
  /// Folders that hold it together, on the disks of as many nodes, and which of them this is: a
  /// file has all bytes of its pieces of this part, and holes elsewhere, or is not there if it has
  /// none of the part.
  Index parts = 1;
  Index part = 0;

  bool operator==(const CheckpointManifest&) const = default;
};

/// A manifest that a later release wrote, whole: not damaged, but not to be passed over either.
class NewerFormat : public Error {
 public:
  using Error::Error;
};

inline constexpr Index kManifestFormat = 4;
inline constexpr const char* kManifestName = "manifest.json";

/// The checksum of a manifest's content, whatever its spaces, line ends and order of keys: xxh3 of
/// the document without its member "xxh3", as compact JSON with sorted keys. Throws nlohmann's
/// exception for text that is not UTF-8.
std::uint64_t manifest_checksum(nlohmann::json document);

/// What the manifests of all parts of a checkpoint have in common, and no other checkpoint's: a
/// checksum of all but which part it is.
std::uint64_t identity_of(const CheckpointManifest& manifest);

/// Of the checkpoint that has all of its bytes in one folder.
CheckpointManifest in_one_folder(CheckpointManifest manifest);

/// Whether pieces of the file are in the part of the checkpoint that the manifest is of.
bool has_pieces_here(const FileRecord& file, const CheckpointManifest& manifest);

/// As bytes for another rank, and back. Throws Error as read_manifest(), with `place` for the path.
std::string to_text(const CheckpointManifest& manifest);
CheckpointManifest parse_manifest(const std::string& text, const std::string& place);

/// Writes FOLDER/manifest.json durably, with its checksum in "xxh3". Pre: pieces fill their
/// tensors, step and samples are not negative, the loss is finite, the architecture is an object,
/// file names are plain names, and parts are among those that there are. Throws Error when it
/// cannot be written.
void write_manifest(const std::filesystem::path& folder, const CheckpointManifest& manifest);

/// Reads FOLDER/manifest.json. Throws Error "FILE: field 'a.b': what; remedy" when it is missing,
/// not JSON, of another format version (NewerFormat when it has its checksum all the same), a field
/// is missing or of another type, or anything is not as it was written; a manifest of format 1 has
/// no checksum of itself and is read with a warning; those of formats 1 and 2 have one sum (xxh3) a
/// tensor. A folder named after another step than the manifest's is refused, too.
CheckpointManifest read_manifest(const std::filesystem::path& folder);

/// Throws Error, naming the first key that differs and both values, unless the checkpoint in
/// `folder` was made by a model of this architecture.
void expect_architecture(const std::filesystem::path& folder, const CheckpointManifest& manifest,
                         const nlohmann::json& architecture);

/// Throws Error, naming the file, and the tensor where it is of one, unless the header of `file` is
/// what was written, with exactly the tensors that the manifest lists for a file of its name, their
/// types and shapes. Reads no tensor.
void expect_layout(const SafetensorsFile& file, const CheckpointManifest& manifest);

/// The manifest's record of a file. Throws Error when it lists none of that name.
const FileRecord& record_of(const std::filesystem::path& file, const CheckpointManifest& manifest);

/// Throws Error, naming file and tensor, unless the bytes of the tensor have the record's sums.
void expect_sums(const std::filesystem::path& file, std::span<const std::byte> bytes,
                 const TensorRecord& expected);

/// Throws Error, naming file, tensor and the place in it, because bytes from `offset` on have
/// another sum than the record's.
[[noreturn]] void fail_piece(const std::filesystem::path& file, const std::string& tensor,
                             Index offset, const PieceSum& expected, std::uint32_t found);

}  // namespace dos::io
