// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "data/missing.hpp"
#include "data/sentencepiece.hpp"

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

}  // namespace

DatasetPaths::DatasetPaths(const std::filesystem::path& prefix)
    : train(with_suffix(prefix, "_train.bin")),
      val(with_suffix(prefix, "_val.bin")),
      manifest(with_suffix(prefix, ".json")),
      model(with_suffix(prefix, ".model")) {
  expect(prefix.has_filename(),
         "'{}' is no dataset PREFIX; give a folder and the start of the file names, such as "
         "data/shakespeare",
         prefix.string());
}

Dataset open_dataset(const std::filesystem::path& prefix) {
  const DatasetPaths paths(prefix);
  Dataset dataset{
      .train = TokenFile(paths.train), .val = TokenFile(paths.val), .manifest = std::nullopt};
  if (!is_missing(paths.manifest)) {
    dataset.manifest = read_manifest(paths.manifest);
    check_count(paths.manifest, dataset.train, dataset.manifest->train_tokens);
    check_count(paths.manifest, dataset.val, dataset.manifest->val_tokens);
  }
  return dataset;
}

std::unique_ptr<Tokenizer> make_tokenizer(const Manifest& manifest,
                                          const std::filesystem::path& path) {
  std::unique_ptr<Tokenizer> tokenizer;
  if (manifest.tokenizer == kBytes) {
    tokenizer = make_bytes_tokenizer();
  } else {
    const auto file = path.parent_path() / manifest.model_file;
    expect(!is_missing(file),
           "{}: missing, though {} names it; put the model back or write the dataset again with "
           "prepare_data",
           file.string(), path.string());
    const std::string model = read_text(file);
    expect(std::ssize(model) == manifest.model_bytes && hash_of(model) == manifest.model_hash,
           "{}: not the model that {} was written with; put that model back or write the dataset "
           "again with prepare_data",
           file.string(), path.string());
    tokenizer = make_sentencepiece_tokenizer(model, file);
  }
  expect(tokenizer->vocabulary() == manifest.vocabulary,
         "{}: 'vocabulary' is {}, its {} tokenizer has {}; write the dataset again with "
         "prepare_data",
         path.string(), manifest.vocabulary, manifest.tokenizer, tokenizer->vocabulary());
  return tokenizer;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& prefix) {
  const DatasetPaths paths(prefix);
  return make_tokenizer(read_manifest(paths.manifest), paths.manifest);
}

}  // namespace dos::data
