// SPDX-License-Identifier: Apache-2.0
#include "data/prepare.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/nearest.hpp"
#include "base/units.hpp"
#include "data/bpe/byte_level_bpe.hpp"
#include "data/chat/chat_encoder.hpp"
#include "data/dataset.hpp"
#include "data/dataset_outputs.hpp"
#include "data/encoding_queue.hpp"
#include "data/missing.hpp"
#include "data/output_lock.hpp"
#include "data/part_output.hpp"
#include "data/replacement.hpp"
#include "data/sentencepiece.hpp"
#include "data/text_encoding.hpp"
#include "data/text_input.hpp"
#include "data/utf8.hpp"

namespace dos::data {
namespace {

constexpr Index kMostThreads = 4096;
/// Makes lines of an input; conversations are not read through it.
constexpr const char* kConversationField = "messages";
constexpr Index kLeastContext = 2;
constexpr Index kProgressBytes = Index{64} << 20;

struct TokenizerAndModel {
  std::unique_ptr<Tokenizer> tokenizer;
  std::string model;  // empty for bytes
  std::optional<PieceTokens> pieces{};
};

std::string names_of(const std::vector<TextInput>& inputs) {
  std::vector<std::string> names;
  for (const TextInput& input : inputs) names.push_back(input.path().string());
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Throws Error naming a line of an input that no training part was cut from, if one is damaged.
void expect_whole_lines(const std::vector<TextInput>& inputs, bool conversations) {
  for (const TextInput& input : inputs) {
    if (!input.has_lines()) continue;
    if (!conversations) input.documents(input.val(), [](const std::string&) {});
    if (conversations)
      input.each_line(input.val(), [](std::string_view line) {
        (void)parse_json_object(line, "the line", "mend the line");
      });
  }
}

std::vector<TextInput> open_inputs(const PrepareConfig& config) {
  std::vector<TextInput> inputs;
  for (const auto& path : config.inputs) {
    inputs.emplace_back(path, config.chat.empty() ? config.field : kConversationField);
    inputs.back().split(config.val_fraction);
  }
  const bool some_text = std::ranges::any_of(inputs, [](auto& i) { return !i.train().empty(); });
  if (!some_text) expect_whole_lines(inputs, !config.chat.empty());
  expect(some_text,
         "{}: the input is too short to split into training and validation; give more text",
         names_of(inputs));
  return inputs;
}

std::string train_model(const PrepareConfig& config, const std::vector<TextInput>& inputs) {
  std::deque<std::string> documents;
  std::vector<std::string_view> texts;
  for (const TextInput& input : inputs) {
    if (input.has_lines())
      input.documents(input.train(), [&](const std::string& document) {
        texts.push_back(documents.emplace_back(document));
      });
    else
      texts.push_back(input.train());
  }
  return train_sentencepiece(texts,
                             {.vocabulary = config.vocab_size, .algorithm = config.model_type});
}

TokenizerAndModel make_tokenizer(const PrepareConfig& config, const std::vector<TextInput>& inputs,
                                 const Progress& progress) {
  if (config.tokenizer == kBytes) return {.tokenizer = make_bytes_tokenizer(), .model = {}};
  if (config.tokenizer != kSentencePiece) {
    TokenizerFile file = read_tokenizer_file(config.tokenizer, config.end_of_text);
    auto tokenizer = make_byte_level_bpe(file.contents, file.end_of_text, file.path);
    return {.tokenizer = std::move(tokenizer), .model = std::move(file.contents)};
  }
  std::string model;
  std::optional<PieceTokens> pieces;
  if (config.model.empty()) {
    progress(fmt::format("training a {} model of {} pieces", config.model_type, config.vocab_size));
    model = train_model(config, inputs);
  } else {
    model = read_text(config.model);
    pieces = read_piece_tokens(model, config.model);
  }
  auto tokenizer = make_sentencepiece_tokenizer(model, config.model, pieces);
  return {.tokenizer = std::move(tokenizer), .model = std::move(model), .pieces = pieces};
}

/// The SentencePiece model that `--tokenizer` names: itself, or tokenizer.model in the folder that
/// it is; "" for none.
std::filesystem::path pieces_of(const PrepareConfig& config) {
  const std::filesystem::path named = config.tokenizer;
  std::error_code ignored;
  if (!std::filesystem::is_directory(named, ignored))
    return named.extension() == ".model" && !is_missing(named) ? named : std::filesystem::path();
  const auto pieces = named / "tokenizer.model";
  return is_missing(pieces) ? std::filesystem::path() : pieces;
}

/// Hands the texts of inputs to the queue; with `chat`, their conversations.
class Encoding {
 public:
  Encoding(const PrepareConfig& config, const Tokenizer& tokenizer, const ChatEncoder* chat,
           Index bytes, const Progress& progress)
      : queue_(config.threads),
        text_(queue_, tokenizer, [this](std::size_t added) { count(added); }),
        chat_(chat),
        bytes_(bytes),
        progress_(progress) {}

  void add(const TextInput& input, std::string_view text, TokenSink& writer) {
    if (text.empty()) return;
    if (chat_ != nullptr)
      add_conversations(input, text, writer);
    else
      text_.add(input, text, writer);
  }
  void then(std::function<void()> written) { queue_.then(std::move(written)); }
  void finish() { queue_.finish(); }

 private:
  void add_conversations(const TextInput& input, std::string_view text, TokenSink& writer) {
    while (const auto line = TextInput::next_line(text)) {
      queue_.add(std::ssize(*line), writer,
                 [this, &input, line = *line](std::size_t, std::vector<std::int32_t>& tokens) {
                   input.each_line(line, [&](std::string_view conversation) {
                     tokens = chat_->encode_line(conversation);
                   });
                   return std::size_t{0};
                 });
      count(line->size());
    }
  }

  void count(std::size_t bytes) {
    const Index before = added_ / kProgressBytes;
    added_ += static_cast<Index>(bytes);
    if (added_ / kProgressBytes == before) return;
    queue_.then([this, done = added_] {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
      const double rate = static_cast<double>(done) / seconds.count() / 1e6;
      progress_(
          fmt::format("  {} of {}, {:.1f} MB/s", format_bytes(done), format_bytes(bytes_), rate));
    });
  }

  EncodingQueue queue_;
  TextEncoding text_;
  const ChatEncoder* chat_;
  Index bytes_;
  const Progress& progress_;
  Index added_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Throws Error when a file that is to be written is one that is to be read, whatever their names.
void expect_no_overwriting(const DatasetPaths& paths, const PrepareConfig& config) {
  const auto expect_other = [&](const std::filesystem::path& input,
                                const std::filesystem::path& output) {
    std::error_code ignored;
    expect(!std::filesystem::equivalent(input, output, ignored),
           "{}: is an input and would be overwritten by {}: choose another --output",
           input.string(), output.string());
  };
  std::vector<std::filesystem::path> outputs{paths.train, paths.val, paths.manifest};
  if (!config.chat.empty()) {
    outputs.insert(outputs.end(), {paths.train_mask, paths.val_mask});
    for (const auto& output : outputs) expect_other(config.chat, output);
  }
  for (const auto& output : outputs) {
    for (const auto& input : config.inputs) expect_other(input, output);
    if (!config.model.empty()) expect_other(config.model, output);
    if (config.tokenizer != kBytes && config.tokenizer != kSentencePiece)
      expect_other(tokenizer_json_of(config.tokenizer), output);
  }
  // PREFIX.model may be the very file that is read.
  if (config.tokenizer != kBytes)
    for (const auto& input : config.inputs) expect_other(input, paths.model);
}

/// The manifest names the model, and is JSON.
void expect_utf8_name(const PrepareConfig& config) {
  if (config.tokenizer == kBytes) return;
  expect(is_utf8(config.output.filename().string()),
         "--output {}: its name is not UTF-8, as it must be in the manifest: choose another",
         config.output.string());
}

bool holds(const std::filesystem::path& path, const std::string& contents) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && read_text(path) == contents;
}

/// The tokenizer's model, written to the device. PREFIX.model may be the very file that --model
/// named: then it is not ours to replace.
std::optional<DurableFile> write_model(const DatasetPaths& paths, const std::string& model) {
  if (model.empty() || holds(paths.model, model)) return std::nullopt;
  std::optional<DurableFile> file(std::in_place, paths.model);
  file->write(model);
  file->flush();
  return file;
}

DatasetManifest describe(const DatasetPaths& paths, const TokenizerAndModel& chosen,
                         const std::vector<TextInput>& inputs) {
  DatasetManifest manifest;
  manifest.tokenizer = chosen.tokenizer->kind();
  manifest.vocabulary = chosen.tokenizer->vocabulary();
  if (!chosen.model.empty()) {
    manifest.model_file = paths.model.filename().string();
    manifest.model_bytes = std::ssize(chosen.model);
    manifest.model_hash = hash_of(chosen.model);
  }
  if (manifest.tokenizer == kTokenizerJson) manifest.end_of_text = chosen.tokenizer->end_of_text();
  manifest.pieces = chosen.pieces;
  for (const TextInput& input : inputs)
    manifest.sources.push_back({.path = input.path().string(), .bytes = input.bytes()});
  return manifest;
}

void check_tokenizer(const std::string& tokenizer) {
  const std::array<std::string, 2> known{kBytes, kSentencePiece};
  expect(std::ranges::find(known, tokenizer) != known.end() || !is_missing(tokenizer),
         "--tokenizer {}: unknown, and no such file or folder; use bytes, sentencepiece, or a "
         "tokenizer.json, a tokenizer.model or their folder{}",
         tokenizer, did_you_mean(tokenizer, known));
}

/// Text in another encoding, which a tokenizer takes as loose bytes. JSON-lines are refused.
void warn_of_other_encodings(const PrepareConfig& config, const std::vector<TextInput>& inputs,
                             const Progress& progress) {
  if (config.tokenizer == kBytes) return;
  for (const TextInput& input : inputs) {
    if (input.has_lines()) continue;
    if (const auto place = input.first_not_utf8())
      progress(fmt::format(
          "warning: {}:{}: not UTF-8: its tokens will not be those of the text; convert the file, "
          "as with iconv --from-code WINDOWS-1252 --to-code UTF-8",
          input.path().string(), input.line_of(*place)));
  }
}

/// Throws Error when a part has no conversation that was written.
void expect_answers(const std::vector<TextInput>& inputs, const PrepareConfig& config,
                    const ChatCounts& train, const ChatCounts& val) {
  const std::string within =
      config.context == 0 ? "" : fmt::format(" in its first {} tokens", config.context);
  expect(train.conversations + val.conversations > 0,
         "{}: none of the {} conversations has an answer{}, all are left out; give some with "
         "messages of the assistant{}",
         names_of(inputs), train.left_out + val.left_out, within,
         config.context == 0 ? "" : ", or raise --context");
  const auto expect_some = [&](const ChatCounts& part, const char* name, const char* other) {
    expect(part.conversations > 0,
           "{}: no conversation of the {} part has an answer{}, {} are left out: all answers are "
           "in the {} part; mix the lines, or change --val-fraction",
           names_of(inputs), name, within, part.left_out, other);
  };
  expect_some(train, "training", "validation");
  expect_some(val, "validation", "training");
}

void encode_inputs(const std::vector<TextInput>& inputs, const PrepareConfig& config,
                   Encoding& encoding, PartOutput& train, PartOutput& val,
                   const Progress& progress) {
  Index told = 0;
  const auto written = [&] { return train.size() + val.size(); };
  for (const TextInput& input : inputs) {
    encoding.add(input, input.train(), train.sink());
    encoding.add(input, input.val(), val.sink());
    encoding.then([&] {
      progress(fmt::format("{}: {}, {} tokens", input.path().string(), format_bytes(input.bytes()),
                           written() - told));
      told = written();
    });
  }
  encoding.finish();
  if (!config.chat.empty()) expect_answers(inputs, config, train.counts(), val.counts());
}

}  // namespace

void PrepareConfig::validate() const {
  check_tokenizer(tokenizer);
  const bool trains = vocab_size != 0;
  if (tokenizer != kSentencePiece) {
    expect(!trains && model.empty(),
           "--tokenizer {} has a fixed vocabulary; drop --vocab-size and --model", tokenizer);
  } else {
    expect(trains || !model.empty(),
           "--tokenizer sentencepiece needs --vocab-size N to train a model or --model FILE");
    expect(!trains || model.empty(),
           "--vocab-size trains a model and --model gives one; use one of the two");
  }
  expect(end_of_text.empty() || (tokenizer != kBytes && tokenizer != kSentencePiece),
         "--end-of-text belongs to a tokenizer.json; drop it");
  expect(chat.empty() || !trains,
         "--vocab-size trains a model on text, which conversations are not; name the model that "
         "they are for with --tokenizer");
  expect(chat.empty() || field.empty(), "--chat reads conversations; drop --field {}", field);
  expect(context == 0 || !chat.empty(), "--context lays conversations into windows; add --chat");
  expect(context == 0 || context >= kLeastContext, "--context {}: must be at least {}", context,
         kLeastContext);
  expect(threads >= 0 && threads <= kMostThreads, "--threads {}: must lie between 0 and {}",
         threads, kMostThreads);
  expect(val_fraction > 0 && val_fraction < 1,
         "--val-fraction {}: must lie between 0 and 1, both excluded", val_fraction);
  expect(!inputs.empty(), "no input; name at least one text file");
}

PrepareSummary prepare(const PrepareConfig& given, const Progress& progress) {
  given.validate();
  PrepareConfig config = given;
  if (const auto pieces = pieces_of(given); !pieces.empty()) {
    config.tokenizer = kSentencePiece;
    config.model = pieces;
    config.validate();
  }
  const DatasetPaths paths(config.output);
  expect_utf8_name(config);
  expect_no_overwriting(paths, config);
  std::optional<ChatData> chat;
  if (!config.chat.empty())
    chat = {.chat_template = find_chat_template(config.chat), .context = config.context};
  const auto inputs = open_inputs(config);
  const OutputLock lock(config.output);
  expect_replaceable(paths, config.tokenizer == kSentencePiece && config.model.empty());
  warn_of_other_encodings(config, inputs, progress);
  // Created first: an output that cannot be written is told before hours of work, not after.
  DurableFile manifest_file(paths.manifest);
  const auto chosen = make_tokenizer(config, inputs, progress);
  expect_replaceable_model(paths, chosen.model);
  auto model_file = write_model(paths, chosen.model);
  const Tokenizer& tokenizer = *chosen.tokenizer;
  std::optional<ChatEncoder> encoder;
  if (chat) encoder.emplace(tokenizer, chat->chat_template);

  PrepareSummary summary;
  summary.vocabulary = tokenizer.vocabulary();
  PartOutput train(paths.train, paths.train_mask, tokenizer, config);
  PartOutput val(paths.val, paths.val_mask, tokenizer, config);
  for (const TextInput& input : inputs) summary.bytes += input.bytes();
  Encoding encoding(config, tokenizer, encoder ? &*encoder : nullptr, summary.bytes, progress);
  encode_inputs(inputs, config, encoding, train, val, progress);
  DatasetManifest manifest = describe(paths, chosen, inputs);
  manifest.chat = chat;
  manifest.train_mask = train.finish(summary);
  manifest.val_mask = val.finish(summary);
  manifest.train_tokens = summary.train_tokens = train.tokens().size();
  manifest.val_tokens = summary.val_tokens = val.tokens().size();
  manifest.train_sums = train.tokens().sums();
  manifest.val_sums = val.tokens().sums();
  manifest_file.write(to_text(manifest));
  manifest_file.flush();
  train.flush();
  val.flush();

  Replacement replacement;
  // First: it refuses what a killed process leaves of an earlier set beside it.
  replacement.commit(manifest_file, paths.manifest);
  train.commit(replacement);
  val.commit(replacement);
  if (model_file) replacement.commit(*model_file, paths.model);
  replacement.keep();
  return summary;
}

}  // namespace dos::data
