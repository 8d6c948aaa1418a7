// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "io/safetensors.hpp"

namespace dos::io {

/// One safetensors file of a checkpoint: its name in the folder and what it holds.
struct FileRecord {
  std::string name;
  std::vector<TensorRecord> tensors;

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
  std::optional<double> best_validation_loss;
  nlohmann::json configuration;
  nlohmann::json tokenizer;
  nlohmann::json data;  ///< what it was trained on; null in format 1
  nlohmann::json architecture = nlohmann::json::object();
  std::vector<FileRecord> files;

  bool operator==(const CheckpointManifest&) const = default;
};

inline constexpr Index kManifestFormat = 2;
inline constexpr const char* kManifestName = "manifest.json";

/// The checksum of a manifest's content, whatever its spaces, line ends and order of keys: xxh3 of
/// the document without its member "xxh3", as compact JSON with sorted keys. Throws nlohmann's
/// exception for text that is not UTF-8.
std::uint64_t manifest_checksum(nlohmann::json document);

/// Writes FOLDER/manifest.json durably, with its checksum in "xxh3". Pre: step and samples are not
/// negative, the loss is finite, the architecture is an object, file names are plain names. Throws
/// Error when it cannot be written.
void write_manifest(const std::filesystem::path& folder, const CheckpointManifest& manifest);

/// Reads FOLDER/manifest.json. Throws Error "FILE: field 'a.b': what; remedy" when it is missing,
/// not JSON, of another format version, a field is missing or of another type, or anything is not
/// as it was written; a manifest of format 1 has no checksum of itself and is read with a warning.
/// A folder named after another step than the manifest's is refused, too.
CheckpointManifest read_manifest(const std::filesystem::path& folder);

/// Throws Error, naming the first key that differs and both values, unless the checkpoint in
/// `folder` was made by a model of this architecture.
void expect_architecture(const std::filesystem::path& folder, const CheckpointManifest& manifest,
                         const nlohmann::json& architecture);

/// Throws Error, naming file and tensor, unless `file` holds exactly the tensors that the manifest
/// lists for a file of its name, with their types and shapes. Reads no tensor.
void expect_layout(const SafetensorsFile& file, const CheckpointManifest& manifest);

/// expect_layout(), and the checksum of every tensor: reads the whole file.
void expect_contents(const SafetensorsFile& file, const CheckpointManifest& manifest);

}  // namespace dos::io
