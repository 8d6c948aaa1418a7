// SPDX-License-Identifier: Apache-2.0
#include "inference/model_tokenizer.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json_text.hpp"
#include "data/bpe/byte_level_bpe.hpp"
#include "data/dataset.hpp"
#include "data/sentencepiece.hpp"
#include "train/folder_tokenizer.hpp"
#include "train/run_data.hpp"

namespace dos::inference {
namespace {

namespace fs = std::filesystem;

using TokenizerPtr = std::unique_ptr<data::Tokenizer>;

const char* or_data(const TokenizerChoice& choice) {
  return choice.takes_data ? ", or a data set made by prepare_data with --data" : "";
}

/// The tokenizer of a tokenizer.json, or of a SentencePiece model.
TokenizerPtr read_tokenizer(const fs::path& path, const nlohmann::json& trained) {
  const bool is_pieces = path.extension() == ".model";
  const data::TokenizerFile file =
      is_pieces ? data::TokenizerFile{.path = path, .contents = read_text(path)}
                : data::read_tokenizer_file(path, "", data::EndOption::kNone);
  auto tokenizer = is_pieces
                       ? data::open_sentencepiece_tokenizer(file.path)
                       : data::make_byte_level_bpe(file.contents, file.end_of_text, file.path);
  const std::string hash = data::hash_of(file.contents);
  expect(
      !trained.is_object() || trained.value("model_hash", "") == hash,
      "{}: another tokenizer than the one that the model was trained with, {}: leave --tokenizer "
      "out",
      file.path.string(), json_text(trained));
  return tokenizer;
}

/// That of the data set with these files, if it is what the model was trained with.
TokenizerPtr make_tokenizer_of(const data::DatasetPaths& paths, const nlohmann::json& trained,
                               bool is_own) {
  const data::DatasetManifest manifest = data::read_manifest(paths.manifest);
  const nlohmann::json present = train::describe_tokenizer(manifest);
  expect(!trained.is_object() || trained == present,
         "{}: describes tokenizer {}, but the model was trained with {}: name the data set it was "
         "trained on with --data{}",
         paths.manifest.string(), json_text(present), json_text(trained),
         is_own ? "" : ", or leave that out");
  return data::make_tokenizer(manifest, paths.manifest);
}

/// The tokenizer that lies beside the weights of a Hugging Face folder: of the two that some
/// models have, SentencePiece's own file is the exact one.
TokenizerPtr folder_tokenizer(const fs::path& folder, const TokenizerChoice& choice) {
  const fs::path pieces = folder / "tokenizer.model";
  if (fs::is_regular_file(pieces)) return read_tokenizer(pieces, {});
  expect(fs::is_regular_file(folder / data::kTokenizerJson),
         "{}: has no tokenizer.model and no tokenizer.json: name one of them with --tokenizer{}",
         folder.string(), or_data(choice));
  return read_tokenizer(folder, {});
}

TokenizerPtr find_unchecked(const TokenizerChoice& choice, const train::ModelSource& source) {
  const nlohmann::json trained =
      source.checkpoint() != nullptr ? source.checkpoint()->manifest().tokenizer : nlohmann::json();
  if (!choice.file.empty()) return read_tokenizer(choice.file, trained);
  if (!choice.data_prefix.empty()) {
    const data::DatasetPaths paths = data::find_dataset(choice.data_prefix);
    if (source.checkpoint() == nullptr)
      train::expect_tokenizer_of(source.folder(), choice.data_prefix,
                                 data::read_manifest(paths.manifest));
    return make_tokenizer_of(paths, trained, /*is_own=*/false);
  }
  if (source.checkpoint() == nullptr) return folder_tokenizer(source.folder(), choice);
  const data::DatasetPaths paths(source.run() / train::kTokenizerPrefix);
  expect(
      fs::exists(paths.manifest),
      "{}: the run has no tokenizer of its own, or is not around this checkpoint ({} is missing): "
      "name a tokenizer.json with --tokenizer{}",
      source.checkpoint()->folder().string(), paths.manifest.string(), or_data(choice));
  return make_tokenizer_of(paths, trained, /*is_own=*/true);
}

}  // namespace

std::unique_ptr<data::Tokenizer> find_tokenizer(const TokenizerChoice& choice,
                                                const train::ModelSource& source) {
  TokenizerPtr tokenizer = find_unchecked(choice, source);
  expect(tokenizer->vocabulary() <= source.model().vocabulary,
         "{}: the tokenizer has {} tokens, the model {}: name the {}", source.folder().string(),
         tokenizer->vocabulary(), source.model().vocabulary,
         source.checkpoint() != nullptr && choice.takes_data
             ? "data set it was trained on with --data"
             : "model's own with --tokenizer");
  return tokenizer;
}

}  // namespace dos::inference
