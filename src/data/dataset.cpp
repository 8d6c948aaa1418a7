// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "data/bpe/byte_level_bpe.hpp"
#include "data/missing.hpp"
#include "data/sentencepiece.hpp"
#include "data/token_shards.hpp"

namespace dos::data {
namespace {

std::filesystem::path with_suffix(std::filesystem::path prefix, const char* suffix) {
  prefix += suffix;
  return prefix;
}

void check_count(const std::filesystem::path& manifest, const TokenFile& file, Index announced) {
  expect(file.size() == announced,
         "{}: announces {} tokens in {}, which holds {}; the files are of different runs, write "
         "the dataset again with prepare_data",
         manifest.string(), announced, file.path().filename().string(), file.size());
}

/// PREFIX_train.bin, or the first of several files.
std::filesystem::path split_file(const std::filesystem::path& prefix, const char* split) {
  auto file = with_suffix(prefix, (std::string(split) + ".bin").c_str());
  if (!is_missing(file)) return file;
  const auto shards = find_shards(with_suffix(prefix, split));
  return shards.empty() ? file : shards.front();
}

TokenFile open_split(const std::filesystem::path& prefix, const char* split,
                     const std::filesystem::path& file, Part part) {
  if (prefix.has_filename() && part == Part::kAll) {
    const auto shards = find_shards(with_suffix(prefix, split));
    if (!shards.empty() && shards.front() == file) return TokenFile(shards);
  }
  return TokenFile(file, part);
}

MaskFile open_mask(const std::filesystem::path& path, const TokenFile& tokens) {
  MaskFile mask(path);
  expect(mask.size() == tokens.size(),
         "{}: says of {} tokens which count, but {} holds {}; the files are of different runs, "
         "write the dataset again with prepare_data",
         path.string(), mask.size(), tokens.path().filename().string(), tokens.size());
  return mask;
}

}  // namespace

DatasetPaths::DatasetPaths(const std::filesystem::path& prefix)
    : train(with_suffix(prefix, "_train.bin")),
      val(with_suffix(prefix, "_val.bin")),
      train_mask(with_suffix(prefix, "_train.mask")),
      val_mask(with_suffix(prefix, "_val.mask")),
      manifest(with_suffix(prefix, ".json")),
      model(with_suffix(prefix, ".model")) {
  expect(prefix.has_filename() && prefix.filename() != "." && prefix.filename() != "..",
         "'{}' is no dataset PREFIX; give a folder and the start of the file names, such as "
         "data/shakespeare",
         prefix.string());
}

DatasetPaths find_dataset(const std::filesystem::path& prefix) {
  if (!is_missing(prefix / kBareTrain) &&
      (!prefix.has_filename() || is_missing(with_suffix(prefix, "_train.bin")))) {
    DatasetPaths paths;
    paths.train = prefix / kBareTrain;
    paths.val = prefix / kBareVal;
    paths.train_mask = prefix / "train.mask";
    paths.val_mask = prefix / "val.mask";
    paths.manifest = prefix / "dataset.json";
    paths.model = prefix / "dataset.model";
    return paths;
  }
  DatasetPaths paths(prefix);
  const auto both = with_suffix(prefix, ".bin");
  if (is_missing(paths.train) && !is_missing(index_of(both))) {
    paths.train = paths.val = both;
    return paths;
  }
  paths.train = split_file(prefix, "_train");
  paths.val = split_file(prefix, "_val");
  return paths;
}

Dataset open_dataset(const std::filesystem::path& prefix) {
  const DatasetPaths paths = find_dataset(prefix);
  const bool is_one = paths.train == paths.val;
  Dataset dataset{
      .train = open_split(prefix, "_train", paths.train, is_one ? Part::kTrain : Part::kAll),
      .val = open_split(prefix, "_val", paths.val, is_one ? Part::kValidation : Part::kAll),
      .manifest = std::nullopt};
  if (!is_missing(paths.manifest)) {
    dataset.manifest = read_manifest(paths.manifest);
    check_count(paths.manifest, dataset.train, dataset.manifest->train_tokens);
    check_count(paths.manifest, dataset.val, dataset.manifest->val_tokens);
  }
  const bool has_masks = dataset.manifest && dataset.manifest->train_mask;
  for (const auto& mask : {paths.train_mask, paths.val_mask})
    expect(has_masks || mask.empty() || is_missing(mask),
           "{}: says which tokens count, but {} does not speak of it: the files are of different "
           "runs, write the dataset again with prepare_data or take the mask away",
           mask.string(), paths.manifest.string());
  if (has_masks) {
    dataset.train_mask.emplace(open_mask(paths.train_mask, dataset.train));
    dataset.val_mask.emplace(open_mask(paths.val_mask, dataset.val));
  }
  return dataset;
}

bool TokenFileIdentity::matches(const TokenFileIdentity& other) const {
  const bool same_tokens =
      checksum && other.checksum ? *checksum == *other.checksum : ends == other.ends;
  return tokens == other.tokens && same_tokens && mask == other.mask;
}

TokenFileIdentity identify(const TokenFile& file, const std::optional<TokenSums>& sums,
                           const std::optional<MaskSums>& mask) {
  constexpr Index kMost = 4096;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(std::min(kMost, file.size())));
  Checksum ends;
  for (const Index first : {Index{0}, file.size() - std::ssize(tokens)}) {
    file.read(first, tokens);
    ends.update(std::as_bytes(std::span(tokens)));
  }
  TokenFileIdentity identity{.tokens = file.size(), .ends = ends.value(), .checksum = {}};
  if (sums) identity.checksum = sums->checksum;
  if (mask) identity.mask = mask->checksum;
  return identity;
}

std::string read_model(const DatasetManifest& manifest, const std::filesystem::path& path) {
  if (manifest.tokenizer == kBytes) return "";
  const auto file = path.parent_path() / manifest.model_file;
  expect(!is_missing(file),
         "{}: missing, though {} names it; put the model back or write the dataset again with "
         "prepare_data",
         file.string(), path.string());
  std::string model = read_text(file);
  expect(std::ssize(model) == manifest.model_bytes && hash_of(model) == manifest.model_hash,
         "{}: not the model that {} was written with; put that model back or write the dataset "
         "again with prepare_data",
         file.string(), path.string());
  return model;
}

std::unique_ptr<Tokenizer> make_tokenizer(const DatasetManifest& manifest,
                                          const std::filesystem::path& path) {
  const std::string model = read_model(manifest, path);
  const auto file = path.parent_path() / manifest.model_file;
  std::unique_ptr<Tokenizer> tokenizer;
  if (manifest.tokenizer == kBytes)
    tokenizer = make_bytes_tokenizer();
  else if (manifest.tokenizer == kSentencePiece)
    tokenizer = make_sentencepiece_tokenizer(model, file, manifest.pieces);
  else
    tokenizer = make_byte_level_bpe(model, manifest.end_of_text, file);
  expect(tokenizer->vocabulary() == manifest.vocabulary,
         "{}: 'vocabulary' is {}, its {} tokenizer has {}; write the dataset again with "
         "prepare_data",
         path.string(), manifest.vocabulary, manifest.tokenizer, tokenizer->vocabulary());
  return tokenizer;
}

}  // namespace dos::data
