// SPDX-License-Identifier: Apache-2.0
#include "data/prepare.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/mapped_file.hpp"
#include "base/nearest.hpp"
#include "base/units.hpp"
#include "data/dataset.hpp"
#include "data/sentencepiece.hpp"
#include "data/utf8.hpp"

namespace dos::data {
namespace {

constexpr std::size_t kEncodeBytes = 64 * 1024;
constexpr Index kProgressBytes = Index{64} << 20;

struct Document {
  MappedFile file;
  std::string_view train;
  std::string_view val;
};

struct TokenizerAndModel {
  std::unique_ptr<Tokenizer> tokenizer;
  std::string model;  // empty for bytes
};

std::vector<Document> open_documents(const PrepareConfig& config) {
  std::vector<Document> documents;
  for (const auto& path : config.inputs) {
    MappedFile file(path);
    expect(!file.bytes().empty(), "{}: empty file; leave it out", path.string());
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                                file.bytes().size());
    const auto cut = static_cast<std::size_t>(split_position(text, config.val_fraction));
    documents.push_back(
        {.file = std::move(file), .train = text.substr(0, cut), .val = text.substr(cut)});
  }
  const bool some_text = std::ranges::any_of(documents, [](auto& d) { return !d.train.empty(); });
  expect(some_text, "the input is too short to split into training and validation; give more text");
  return documents;
}

TokenizerAndModel make_tokenizer(const PrepareConfig& config,
                                 const std::vector<Document>& documents, const Progress& progress) {
  if (config.tokenizer == kBytes) return {.tokenizer = make_bytes_tokenizer(), .model = {}};
  std::string model;
  if (config.model.empty()) {
    progress(fmt::format("training a {} model of {} pieces", config.model_type, config.vocab_size));
    std::vector<std::string_view> texts;
    for (const Document& document : documents) texts.push_back(document.train);
    model = train_sentencepiece(texts,
                                {.vocabulary = config.vocab_size, .algorithm = config.model_type});
  } else {
    model = read_text(config.model);
  }
  auto tokenizer = make_sentencepiece_tokenizer(model, config.model);
  return {.tokenizer = std::move(tokenizer), .model = std::move(model)};
}

void append_text(std::string_view text, const Tokenizer& tokenizer, TokenWriter& writer,
                 const Progress& progress) {
  if (text.empty()) return;
  Index reported = 0;
  for (std::size_t position = 0; position < text.size();) {
    const std::string_view rest = text.substr(position);
    const std::size_t length = line_part(rest, kEncodeBytes);
    writer.append(tokenizer.encode(rest.substr(0, length)));
    position += length;
    const Index done = static_cast<Index>(position) / kProgressBytes * kProgressBytes;
    if (done > reported) {
      reported = done;
      progress(fmt::format("  {} of {}", format_bytes(done), format_bytes(std::ssize(text))));
    }
  }
  const std::int32_t end = tokenizer.end_of_text();
  writer.append(std::span(&end, 1));
}

/// Puts files in place one after the other; if one fails, those before it are removed again.
class Transaction {
 public:
  Transaction() = default;
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction() {
    std::error_code ignored;
    for (const auto& path : placed_) std::filesystem::remove(path, ignored);
  }

  template <class Writer>
  void commit(Writer& writer, const std::filesystem::path& path) {
    writer.commit();
    placed_.push_back(path);
  }
  void keep() { placed_.clear(); }

 private:
  std::vector<std::filesystem::path> placed_;
};

void create_parents(const std::filesystem::path& path) {
  if (!path.has_parent_path()) return;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  expect(!error, "--output: cannot create the folder {}: {}; choose a writable place",
         path.parent_path().string(), error.message());
}

/// Throws Error when a file that is to be written is one that is to be read, whatever their names.
void expect_no_overwriting(const DatasetPaths& paths, const PrepareConfig& config) {
  const auto expect_other = [&](const std::filesystem::path& input,
                                const std::filesystem::path& output) {
    std::error_code ignored;
    expect(!std::filesystem::equivalent(input, output, ignored),
           "{}: is an input and would be overwritten by {}: choose another --output",
           input.string(), output.string());
  };
  for (const auto& output : {paths.train, paths.val, paths.manifest}) {
    for (const auto& input : config.inputs) expect_other(input, output);
    if (!config.model.empty()) expect_other(config.model, output);
  }
  // PREFIX.model may be --model's own file.
  if (config.tokenizer == kSentencePiece)
    for (const auto& input : config.inputs) expect_other(input, paths.model);
}

/// The manifest names the model, and is JSON.
void expect_utf8_name(const PrepareConfig& config) {
  if (config.tokenizer != kSentencePiece) return;
  expect(is_utf8(config.output.filename().string()),
         "--output {}: its name is not UTF-8, as it must be in the manifest: choose another",
         config.output.string());
}

/// A manifest of an earlier run must not describe the new token files, not even after a crash.
void remove_old_manifest(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return;
  std::filesystem::remove(path, error);
  expect(!error, "{}: cannot replace: {}", path.string(), error.message());
}

bool holds(const std::filesystem::path& path, const std::string& contents) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && read_text(path) == contents;
}

Manifest describe(const DatasetPaths& paths, const TokenizerAndModel& chosen,
                  const std::vector<Document>& documents) {
  Manifest manifest;
  manifest.tokenizer = chosen.tokenizer->kind();
  manifest.vocabulary = chosen.tokenizer->vocabulary();
  if (!chosen.model.empty()) {
    manifest.model_file = paths.model.filename().string();
    manifest.model_bytes = std::ssize(chosen.model);
    manifest.model_hash = hash_of(chosen.model);
  }
  for (const Document& document : documents) {
    manifest.sources.push_back(
        {.path = document.file.path().string(), .bytes = std::ssize(document.file.bytes())});
  }
  return manifest;
}

void check_tokenizer(const std::string& tokenizer) {
  const std::array<std::string, 2> known{kBytes, kSentencePiece};
  expect(std::ranges::find(known, tokenizer) != known.end(),
         "--tokenizer {}: unknown; use bytes or sentencepiece{}", tokenizer,
         did_you_mean(tokenizer, known));
}

}  // namespace

void PrepareConfig::validate() const {
  check_tokenizer(tokenizer);
  const bool trains = vocab_size != 0;
  if (tokenizer == kBytes) {
    expect(!trains && model.empty(),
           "--tokenizer bytes has a fixed vocabulary; drop --vocab-size and --model");
  } else {
    expect(trains || !model.empty(),
           "--tokenizer sentencepiece needs --vocab-size N to train a model or --model FILE");
    expect(!trains || model.empty(),
           "--vocab-size trains a model and --model gives one; use one of the two");
  }
  expect(val_fraction > 0 && val_fraction < 1,
         "--val-fraction {}: must lie between 0 and 1, both excluded", val_fraction);
  expect(!inputs.empty(), "no input; name at least one text file");
}

Index split_position(std::string_view text, double val_fraction) {
  const auto size = static_cast<double>(text.size());
  const auto wanted = static_cast<std::size_t>(size * (1 - val_fraction));
  const std::size_t slack = (text.size() - wanted) / 2;
  // A cut at c needs a newline at c - 1.
  const std::size_t first = wanted > slack ? wanted - slack - 1 : 0;
  const std::size_t newline = text.substr(0, wanted).substr(first).rfind('\n');
  const std::size_t cut =
      newline != std::string_view::npos ? first + newline + 1 : utf8_boundary(text, wanted);
  return static_cast<Index>(cut);
}

PrepareSummary prepare(const PrepareConfig& config, const Progress& progress) {
  config.validate();
  const DatasetPaths paths(config.output);
  expect_utf8_name(config);
  expect_no_overwriting(paths, config);
  const auto documents = open_documents(config);
  create_parents(paths.manifest);
  // Created first: an output that cannot be written is told before hours of work, not after.
  DurableFile manifest_file(paths.manifest);
  const auto chosen = make_tokenizer(config, documents, progress);
  const Tokenizer& tokenizer = *chosen.tokenizer;

  PrepareSummary summary;
  summary.vocabulary = tokenizer.vocabulary();
  TokenWriter train(paths.train, summary.vocabulary);
  TokenWriter val(paths.val, summary.vocabulary);
  for (const Document& document : documents) {
    const Index before = train.size() + val.size();
    append_text(document.train, tokenizer, train, progress);
    append_text(document.val, tokenizer, val, progress);
    const Index bytes = std::ssize(document.file.bytes());
    summary.bytes += bytes;
    progress(fmt::format("{}: {}, {} tokens", document.file.path().string(), format_bytes(bytes),
                         train.size() + val.size() - before));
  }
  summary.train_tokens = train.size();
  summary.val_tokens = val.size();
  Manifest manifest = describe(paths, chosen, documents);
  manifest.train_tokens = summary.train_tokens;
  manifest.val_tokens = summary.val_tokens;
  manifest.train_sums = train.sums();
  manifest.val_sums = val.sums();
  manifest_file.write(to_text(manifest));

  remove_old_manifest(paths.manifest);
  Transaction transaction;
  transaction.commit(train, paths.train);
  transaction.commit(val, paths.val);
  // PREFIX.model may be the very file that --model named: then it is not ours to remove.
  if (!chosen.model.empty() && !holds(paths.model, chosen.model)) {
    DurableFile model_file(paths.model);
    model_file.write(chosen.model);
    transaction.commit(model_file, paths.model);
  }
  transaction.commit(manifest_file, paths.manifest);
  transaction.keep();
  return summary;
}

}  // namespace dos::data
