// SPDX-License-Identifier: Apache-2.0
#include "train/folder_tokenizer.hpp"

#include <fmt/format.h>

#include <memory>

#include "base/error.hpp"
#include "base/file.hpp"
#include "data/bpe/byte_level_bpe.hpp"
#include "data/dataset.hpp"
#include "data/missing.hpp"
#include "data/piece_json.hpp"
#include "data/sentencepiece.hpp"
#include "data/tokenizer.hpp"

namespace dos::train {
namespace {

constexpr const char* kPieces = "tokenizer.model";

/// Whether two files give tokens the same numbers: programs write the same tokenizer in several
/// ways. A file that is not read is another one.
bool same_tokens(const std::string& ours, const std::string& theirs) {
  try {
    return ours == theirs || data::same_vocabulary(ours, theirs);
  } catch (const Error&) {
    return false;
  }
}

/// Whether a tokenizer.json holds the pieces of a model of SentencePiece.
bool same_pieces(const std::string& model, const std::string& tokenizer_json) {
  try {
    return data::holds_pieces(tokenizer_json, model);
  } catch (const Error&) {
    return false;
  }
}

/// The tokenizer in the folder; null where there is none that is read here.
std::unique_ptr<data::Tokenizer> read_tokenizer(const std::filesystem::path& folder) {
  try {
    const std::filesystem::path pieces = folder / kPieces;
    if (!data::is_missing(pieces)) return data::open_sentencepiece_tokenizer(pieces);
    const data::TokenizerFile file = data::read_tokenizer_file(folder, "", data::EndOption::kNone);
    return data::make_byte_level_bpe(file.contents, file.end_of_text, file.path);
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

void expect_tokens_within(const std::filesystem::path& folder, Index vocabulary) {
  const std::unique_ptr<data::Tokenizer> found = read_tokenizer(folder);
  if (found == nullptr) return;
  expect(found->vocabulary() <= vocabulary,
         "{}: the tokenizer has {} tokens, the model {}: put the model's own there, or take it out",
         folder.string(), found->vocabulary(), vocabulary);
}

void expect_tokenizer_of(const std::filesystem::path& folder, const std::string& prefix,
                         const data::DatasetManifest& manifest) {
  const bool is_json = manifest.tokenizer == data::kTokenizerJson;
  const std::filesystem::path same = folder / (is_json ? data::kTokenizerJson : kPieces);
  const std::filesystem::path other = folder / (is_json ? kPieces : data::kTokenizerJson);
  const std::filesystem::path found = data::is_missing(same) ? other : same;
  if (data::is_missing(found)) return;
  const auto ours = [&] { return data::read_model(manifest, data::find_dataset(prefix).manifest); };
  bool is_same = false;
  if (found == same && manifest.tokenizer != data::kBytes)
    is_same = same_tokens(ours(), read_text(found));
  else if (found == other && manifest.tokenizer == data::kSentencePiece)
    is_same = same_pieces(ours(), read_text(found));
  expect(is_same,
         "{}: the text of {} was prepared with another tokenizer ({}), whose tokens mean nothing "
         "to the model: prepare it with this one, or take the file away if it is not the model's",
         found.string(), prefix, manifest.tokenizer);
}

}  // namespace dos::train
