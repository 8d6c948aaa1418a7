// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_manifest.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/checksum.hpp"
#include "base/crc32c.hpp"
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

/// Formats since which a manifest has a checksum of its own, tensors have sums of their pieces, and
/// a checkpoint may be in several folders.
constexpr Index kFirstWithChecksum = 2;
constexpr Index kFirstWithPieces = 3;
constexpr Index kFirstWithParts = 4;

constexpr const char* kRemedy = "the checkpoint is damaged: take another one";
constexpr const char* kHeaderKey = "header";
constexpr const char* kPartsKey = "parts";
constexpr const char* kPartKey = "part";

bool fill(const std::vector<PieceSum>& pieces, const TensorSpec& tensor) {
  Index bytes = 0;
  for (const PieceSum& piece : pieces)
    if (piece.bytes <= 0 || __builtin_add_overflow(bytes, piece.bytes, &bytes)) return false;
  return bytes == byte_size(tensor.dtype, tensor.shape);
}

json to_json(const PieceSum& piece) {
  if (piece.part > 0) return {piece.bytes, piece.crc32c, piece.part};
  return {piece.bytes, piece.crc32c};
}

json to_json(const TensorRecord& tensor) {
  require(fill(tensor.pieces, tensor), "the pieces of a tensor fill it");
  json pieces = json::array();
  for (const PieceSum& piece : tensor.pieces) pieces.push_back(to_json(piece));
  return {{"name", tensor.name},
          {"dtype", file_dtype(tensor.dtype)},
          {"shape", tensor.shape},
          {"crc32c", std::move(pieces)}};
}

json to_json(const FileRecord& file) {
  require(is_plain_name(file.name), "a file of a checkpoint has a plain name");
  json tensors = json::array();
  for (const TensorRecord& tensor : file.tensors) tensors.push_back(to_json(tensor));
  json described{{"name", file.name}, {"tensors", std::move(tensors)}};
  if (file.header) described[kHeaderKey] = to_json(*file.header);
  return described;
}

std::uint64_t hex_word(const JsonField& field) {
  const std::optional<std::uint64_t> word = parse_hex(field.text());
  if (!word) field.fail("must be 16 hexadecimal digits");
  return *word;
}

PieceSum parse_piece(const JsonField& field, Index parts) {
  const std::vector<Index> numbers = field.indices();
  const bool has_part = numbers.size() == 3 && numbers[2] < parts;
  if ((numbers.size() != 2 && !has_part) || numbers[1] > std::numeric_limits<std::uint32_t>::max())
    field.fail("must hold a number of bytes and a sum of 32 bits");
  return {numbers[0], static_cast<std::uint32_t>(numbers[1]), has_part ? numbers[2] : 0};
}

TensorRecord parse_tensor(const JsonField& field, Index format, Index parts) {
  const JsonField dtype_field = field.member("dtype");
  const std::optional<FileDType> dtype = parse_file_dtype(dtype_field.text());
  if (!dtype) dtype_field.fail("must be one of " + known_file_dtypes());
  TensorRecord tensor{
      {field.member("name").text(), *dtype, field.member("shape").indices()}, {}, {}};
  if (format < kFirstWithPieces) {
    tensor.xxh3 = hex_word(field.member("xxh3"));
    return tensor;
  }
  const JsonField pieces = field.member("crc32c");
  for (const JsonField& piece : pieces.elements())
    tensor.pieces.push_back(parse_piece(piece, parts));
  if (!fill(tensor.pieces, tensor)) pieces.fail("must fill the tensor");
  return tensor;
}

FileRecord parse_file(const JsonField& field, Index format, Index parts) {
  FileRecord file{field.member("name").text(), {}};
  if (!is_plain_name(file.name)) field.member("name").fail("must be a name without '/'");
  for (const JsonField& tensor : field.member("tensors").elements())
    file.tensors.push_back(parse_tensor(tensor, format, parts));
  if (field.object().contains(kHeaderKey)) file.header = parse_piece(field.member(kHeaderKey), 1);
  return file;
}

constexpr const char* kChecksumKey = "xxh3";

/// Format 1 had no checksum: a document that has one and says 1 was damaged.
void expect_intact(const json& document, Index format, const std::string& path) {
  const JsonField root(document, path, kRemedy);
  if (format < kFirstWithChecksum) {
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

/// One bit makes another format of one that is known: a later release's has its checksum.
[[noreturn]] void fail_of_format(const json& document, Index format, const std::string& path) {
  const std::string message = fmt::format(
      "{}: format {}, but this program reads formats 1 to {}; use the release that wrote it", path,
      format, kManifestFormat);
  const auto sum = document.find(kChecksumKey);
  const bool is_whole = format > kManifestFormat && sum != document.end() && sum->is_string() &&
                        *sum == hex_text(manifest_checksum(document));
  if (is_whole) throw NewerFormat(message);
  throw Error(message);
}

/// The folder of a run's checkpoint is named after its step.
void expect_folder_of(Index step, const std::filesystem::path& folder, const std::string& path) {
  const std::optional<Index> named = CheckpointStore::step_of_folder(folder);
  expect(!named || *named == step,
         "{}: is of step {}, its folder is named after step {}: rename the folder back, or resume "
         "from another one",
         path, step, named.value_or(0));
}

std::string place_of(const std::filesystem::path& file, const std::string& tensor) {
  return fmt::format("{}: tensor '{}'", file.string(), one_line(tensor));
}

void expect_header(const SafetensorsFile& file, const PieceSum& expected) {
  constexpr Index kMost = Index{kHeaderLengthBytes} + kMaxHeaderBytes;
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(std::min({file.file().size(), expected.bytes, kMost})));
  bytes.resize(static_cast<std::size_t>(file.file().read(0, bytes)));
  const std::uint32_t found = crc32c(bytes);
  expect(found == expected.crc32c,
         "{}: its header has checksum {:08x}, but the manifest says {:08x}; {}",
         file.path().string(), found, expected.crc32c, kRemedy);
}

/// All but the checksum. What is in one folder is written as releases before parts did.
nlohmann::ordered_json document_of(const CheckpointManifest& manifest) {
  require(manifest.step >= 0 && manifest.samples_consumed >= 0, "counts are not negative");
  require(manifest.architecture.is_object(), "the architecture is a JSON object");
  json loss;
  if (manifest.best_validation_loss) {
    require(std::isfinite(*manifest.best_validation_loss), "the best validation loss is finite");
    loss = *manifest.best_validation_loss;
  }
  json files = json::array();
  for (const FileRecord& file : manifest.files) files.push_back(to_json(file));
  require(0 <= manifest.part && manifest.part < manifest.parts, "a part is one of those there are");
  const bool has_parts = manifest.parts > 1;
  nlohmann::ordered_json document{{"format", has_parts ? kFirstWithParts : kFirstWithPieces},
                                  {"step", manifest.step},
                                  {"seed", manifest.seed},
                                  {"samples_consumed", manifest.samples_consumed},
                                  {"best_validation_loss", std::move(loss)},
                                  {"configuration", manifest.configuration},
                                  {"tokenizer", manifest.tokenizer},
                                  {"data", manifest.data},
                                  {"runs", manifest.runs},
                                  {"architecture", manifest.architecture},
                                  {"files", std::move(files)}};
  if (has_parts) {
    document[kPartsKey] = manifest.parts;
    document[kPartKey] = manifest.part;
  }
  return document;
}

/// What `document` says, which `place` holds.
CheckpointManifest parse_document(const json& document, const std::string& place) {
  const JsonField root(document, place, kRemedy);
  const Index format = root.member("format").index();
  if (format < 1 || format > kManifestFormat) fail_of_format(document, format, place);
  CheckpointManifest manifest;
  manifest.step = root.member("step").index();
  manifest.seed = root.member("seed").word();
  manifest.samples_consumed = root.member("samples_consumed").index();
  const JsonField loss = root.member("best_validation_loss");
  if (!loss.value().is_null()) manifest.best_validation_loss = loss.number();
  manifest.configuration = root.member("configuration").value();
  manifest.tokenizer = root.member("tokenizer").value();
  if (format > 1) manifest.data = root.member("data").value();
  manifest.runs = document.value("runs", json());
  manifest.architecture = root.member("architecture").object();
  if (format >= kFirstWithParts) {
    manifest.parts = root.member(kPartsKey).index();
    manifest.part = root.member(kPartKey).index();
    if (manifest.part >= manifest.parts)
      root.member(kPartKey).fail("must be less than the number of parts");
  }
  for (const JsonField& file : root.member("files").elements())
    manifest.files.push_back(parse_file(file, format, manifest.parts));
  return manifest;
}

}  // namespace

std::uint64_t identity_of(const CheckpointManifest& manifest) {
  json document = document_of(manifest);
  document.erase(kPartKey);
  return manifest_checksum(std::move(document));
}

CheckpointManifest in_one_folder(CheckpointManifest manifest) {
  manifest.parts = 1;
  manifest.part = 0;
  for (FileRecord& file : manifest.files)
    for (TensorRecord& tensor : file.tensors)
      for (PieceSum& piece : tensor.pieces) piece.part = 0;
  return manifest;
}

bool has_pieces_here(const FileRecord& file, const CheckpointManifest& manifest) {
  const auto is_here = [&](const PieceSum& piece) { return piece.part == manifest.part; };
  return manifest.parts == 1 || std::ranges::any_of(file.tensors, [&](const TensorRecord& tensor) {
           return std::ranges::any_of(tensor.pieces, is_here);
         });
}

std::string to_text(const CheckpointManifest& manifest) {
  return document_of(manifest).dump(-1, ' ', false, json::error_handler_t::replace);
}

CheckpointManifest parse_manifest(const std::string& text, const std::string& place) {
  return parse_document(parse_json_object(text, place, kRemedy), place);
}

std::uint64_t manifest_checksum(json document) {
  document.erase(kChecksumKey);
  const std::string text = document.dump();
  return checksum_of(std::as_bytes(std::span(text)));
}

void write_manifest(const std::filesystem::path& folder, const CheckpointManifest& manifest) {
  nlohmann::ordered_json document = document_of(manifest);
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
  std::error_code cause;
  const bool is_there = std::filesystem::exists(path, cause);
  expect(!cause, "{}: cannot be read: {}; check the folder's permissions", path.string(),
         cause.message());
  expect(is_there, "{}: missing; '{}' is no complete checkpoint, name another", path.string(),
         folder.string());
  const json document = read_json_object(path, kRemedy);
  CheckpointManifest manifest = parse_document(document, path.string());
  expect_intact(document, document.at("format").get<Index>(), path.string());
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
  std::string name = key.to_string().substr(1);
  std::ranges::replace(name, '/', '.');
  const bool is_of_data = name == "vocabulary";
  fail("{}: the checkpoint's model has {} = {}, this run's {}; use the {} it was made with",
       (folder / kManifestName).string(), name, shown(manifest.architecture), shown(architecture),
       is_of_data ? "data set (or the model.vocab, where none says it)" : "configuration");
}

const FileRecord& record_of(const std::filesystem::path& file, const CheckpointManifest& manifest) {
  const std::string name = file.filename().string();
  for (const FileRecord& record : manifest.files)
    if (record.name == name) return record;
  fail("{}: the checkpoint's manifest lists no file '{}'; {}", file.string(), name, kRemedy);
}

void expect_sums(const std::filesystem::path& file, std::span<const std::byte> bytes,
                 const TensorRecord& expected) {
  if (expected.xxh3) {
    const std::uint64_t found = checksum_of(bytes);
    expect(found == *expected.xxh3, "{}: has checksum {}, but the manifest says {}; {}",
           place_of(file, expected.name), hex_text(found), hex_text(*expected.xxh3), kRemedy);
    return;
  }
  Index offset = 0;
  for (const PieceSum& piece : expected.pieces) {
    const std::uint32_t found = crc32c(
        bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(piece.bytes)));
    if (found != piece.crc32c) fail_piece(file, expected.name, offset, piece, found);
    offset += piece.bytes;
  }
}

void fail_piece(const std::filesystem::path& file, const std::string& tensor, Index offset,
                const PieceSum& expected, std::uint32_t found) {
  fail("{}: bytes {} to {} have checksum {:08x}, but the manifest says {:08x}; {}",
       place_of(file, tensor), offset, offset + expected.bytes, found, expected.crc32c, kRemedy);
}

void expect_layout(const SafetensorsFile& file, const CheckpointManifest& manifest) {
  const FileRecord& record = record_of(file.path(), manifest);
  std::set<std::string_view> listed;
  for (const TensorRecord& expected : record.tensors) {
    listed.insert(expected.name);
    const std::string place = place_of(file.path(), expected.name);
    const MappedTensor* found = file.find(expected.name);
    expect(found != nullptr, "{}: missing, though the manifest lists it; {}", place, kRemedy);
    expect(found->dtype == expected.dtype, "{}: holds {}, but the manifest says {}; {}", place,
           file_dtype(found->dtype), file_dtype(expected.dtype), kRemedy);
    expect(found->shape == expected.shape, "{}: has shape {}, but the manifest says {}; {}", place,
           shape_text(found->shape), shape_text(expected.shape), kRemedy);
  }
  for (const MappedTensor& tensor : file.tensors())
    expect(listed.contains(tensor.name), "{}: not in the manifest; {}",
           place_of(file.path(), tensor.name), kRemedy);
  if (record.header) expect_header(file, *record.header);
}

}  // namespace dos::io
