// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_manifest.hpp"

#include <cmath>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/json_field.hpp"
#include "base/log.hpp"
#include "io/checkpoint_directory.hpp"
#include "io/plain_name.hpp"

namespace dos::io {
namespace {

using nlohmann::json;

constexpr const char* kRemedy = "the checkpoint is damaged: take another one";

json to_json(const TensorRecord& tensor) {
  return {{"name", tensor.name},
          {"dtype", file_dtype(tensor.dtype)},
          {"shape", tensor.shape},
          {"xxh3", hex_text(tensor.checksum)}};
}

json to_json(const FileRecord& file) {
  require(is_plain_name(file.name), "a file of a checkpoint has a plain name");
  json tensors = json::array();
  for (const TensorRecord& tensor : file.tensors) tensors.push_back(to_json(tensor));
  return {{"name", file.name}, {"tensors", std::move(tensors)}};
}

std::uint64_t hex_word(const JsonField& field) {
  const std::optional<std::uint64_t> word = parse_hex(field.text());
  if (!word) field.fail("must be 16 hexadecimal digits");
  return *word;
}

TensorRecord parse_tensor(const JsonField& field) {
  const JsonField dtype_field = field.member("dtype");
  const std::optional<FileDType> dtype = parse_file_dtype(dtype_field.text());
  if (!dtype) dtype_field.fail("must be one of " + known_file_dtypes());
  return {{field.member("name").text(), *dtype, field.member("shape").indices()},
          hex_word(field.member("xxh3"))};
}

FileRecord parse_file(const JsonField& field) {
  FileRecord file{field.member("name").text(), {}};
  if (!is_plain_name(file.name)) field.member("name").fail("must be a name without '/'");
  for (const JsonField& tensor : field.member("tensors").elements())
    file.tensors.push_back(parse_tensor(tensor));
  return file;
}

const FileRecord& record_of(const SafetensorsFile& file, const CheckpointManifest& manifest) {
  const std::string name = file.path().filename().string();
  for (const FileRecord& record : manifest.files)
    if (record.name == name) return record;
  fail("{}: the checkpoint's manifest lists no file '{}'; {}", file.path().string(), name, kRemedy);
}

constexpr const char* kChecksumKey = "xxh3";

/// Format 1 had no checksum: a document that has one and says 1 was damaged.
void expect_intact(const json& document, Index format, const std::string& path) {
  const JsonField root(document, path, kRemedy);
  if (format < kManifestFormat) {
    expect(!document.contains(kChecksumKey), "{}: format {} has no '{}'; {}", path, format,
           kChecksumKey, kRemedy);
    log::warn("{}: of format {}, without a checksum of its own: damage to it cannot be noticed",
              path, format);
    return;
  }
  const std::uint64_t expected = hex_word(root.member(kChecksumKey));
  const std::uint64_t found = manifest_checksum(document);
  expect(found == expected, "{}: its content has checksum {}, but it says {}; {}", path,
         hex_text(found), hex_text(expected), kRemedy);
}

/// The folder of a run's checkpoint is named after its step.
void expect_folder_of(Index step, const std::filesystem::path& folder, const std::string& path) {
  const std::optional<Index> named = CheckpointStore::step_of_folder(folder);
  expect(!named || *named == step,
         "{}: is of step {}, its folder is named after step {}: rename the folder back, or resume "
         "from another one",
         path, step, named.value_or(0));
}

std::string place_of(const SafetensorsFile& file, const std::string& tensor) {
  return fmt::format("{}: tensor '{}'", file.path().string(), one_line(tensor));
}

}  // namespace

std::uint64_t manifest_checksum(json document) {
  document.erase(kChecksumKey);
  const std::string text = document.dump();
  return checksum_of(std::as_bytes(std::span(text)));
}

void write_manifest(const std::filesystem::path& folder, const CheckpointManifest& manifest) {
  require(manifest.step >= 0 && manifest.samples_consumed >= 0, "counts are not negative");
  require(manifest.architecture.is_object(), "the architecture is a JSON object");
  json loss;
  if (manifest.best_validation_loss) {
    require(std::isfinite(*manifest.best_validation_loss), "the best validation loss is finite");
    loss = *manifest.best_validation_loss;
  }
  json files = json::array();
  for (const FileRecord& file : manifest.files) files.push_back(to_json(file));
  nlohmann::ordered_json document{{"format", kManifestFormat},
                                  {"step", manifest.step},
                                  {"seed", manifest.seed},
                                  {"samples_consumed", manifest.samples_consumed},
                                  {"best_validation_loss", std::move(loss)},
                                  {"configuration", manifest.configuration},
                                  {"tokenizer", manifest.tokenizer},
                                  {"data", manifest.data},
                                  {"architecture", manifest.architecture},
                                  {"files", std::move(files)}};
  const std::filesystem::path path = folder / kManifestName;
  std::string text;
  try {
    document[kChecksumKey] = hex_text(manifest_checksum(document));
    text = document.dump(1) + "\n";
  } catch (const json::exception& error) {
    fail("{}: a text of the configuration is not UTF-8 ({}); rename what it names", path.string(),
         error.what());
  }
  write_durably(path, text);
}

CheckpointManifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kManifestName;
  std::error_code ignored;
  expect(std::filesystem::exists(path, ignored),
         "{}: missing; '{}' is no complete checkpoint, name another", path.string(),
         folder.string());
  const json document = read_json_object(path, kRemedy);
  const JsonField root(document, path.string(), kRemedy);
  const Index format = root.member("format").index();
  expect(format >= 1 && format <= kManifestFormat,
         "{}: format {}, but this program reads formats 1 to {}; use the release that wrote it",
         path.string(), format, kManifestFormat);
  CheckpointManifest manifest;
  manifest.step = root.member("step").index();
  manifest.seed = root.member("seed").word();
  manifest.samples_consumed = root.member("samples_consumed").index();
  const JsonField loss = root.member("best_validation_loss");
  if (!loss.value().is_null()) manifest.best_validation_loss = loss.number();
  manifest.configuration = root.member("configuration").value();
  manifest.tokenizer = root.member("tokenizer").value();
  if (format > 1) manifest.data = root.member("data").value();
  manifest.architecture = root.member("architecture").object();
  for (const JsonField& file : root.member("files").elements())
    manifest.files.push_back(parse_file(file));
  expect_intact(document, format, path.string());
  expect_folder_of(manifest.step, folder, path.string());
  return manifest;
}

void expect_architecture(const std::filesystem::path& folder, const CheckpointManifest& manifest,
                         const json& architecture) {
  const json difference = json::diff(manifest.architecture, architecture);
  if (difference.empty()) return;
  const json::json_pointer key(difference.front().at("path").get<std::string>());
  const auto shown = [&](const json& side) {
    return side.contains(key) ? excerpt(side.at(key)) : std::string("nothing");
  };
  fail(
      "{}: the checkpoint's model has {} = {}, this run's {}; use the configuration it was made "
      "with",
      (folder / kManifestName).string(), key.to_string(), shown(manifest.architecture),
      shown(architecture));
}

void expect_layout(const SafetensorsFile& file, const CheckpointManifest& manifest) {
  const FileRecord& record = record_of(file, manifest);
  std::set<std::string_view> listed;
  for (const TensorRecord& expected : record.tensors) {
    listed.insert(expected.name);
    const std::string place = place_of(file, expected.name);
    const MappedTensor* found = file.find(expected.name);
    expect(found != nullptr, "{}: missing, though the manifest lists it; {}", place, kRemedy);
    expect(found->dtype == expected.dtype, "{}: holds {}, but the manifest says {}; {}", place,
           file_dtype(found->dtype), file_dtype(expected.dtype), kRemedy);
    expect(found->shape == expected.shape, "{}: has shape {}, but the manifest says {}; {}", place,
           shape_text(found->shape), shape_text(expected.shape), kRemedy);
  }
  for (const MappedTensor& tensor : file.tensors())
    expect(listed.contains(tensor.name), "{}: not in the manifest; {}", place_of(file, tensor.name),
           kRemedy);
}

void expect_contents(const SafetensorsFile& file, const CheckpointManifest& manifest) {
  expect_layout(file, manifest);
  for (const TensorRecord& expected : record_of(file, manifest).tensors) {
    const std::uint64_t found = checksum_of(file.at(expected.name).bytes);
    expect(found == expected.checksum, "{}: has checksum {}, but the manifest says {}; {}",
           place_of(file, expected.name), hex_text(found), hex_text(expected.checksum), kRemedy);
  }
}

}  // namespace dos::io
