// SPDX-License-Identifier: Apache-2.0
#include "generate/generate_text.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/streams.hpp"
#include "data/chat/jinja.hpp"
#include "data/dataset.hpp"
#include "data/utf8.hpp"
#include "generate/chat_prompt.hpp"
#include "generate/generator.hpp"
#include "inference/model_tokenizer.hpp"
#include "platform/blas.hpp"
#include "sched_starpu/policies.hpp"
#include "train/model_source.hpp"
#include "train/run_data.hpp"

namespace dos::generate {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

/// How conversations were written that the model was trained on: as the manifest says of the data
/// set that was named, or of the run's own tokenizer, or as a folder's Jinja does where that is one
/// of ours; nullopt where none says it.
std::optional<data::ChatTemplate> chat_template_of(const GenerateOptions& options,
                                                   const train::ModelSource& source) {
  if (options.data_prefix.empty() && source.checkpoint() == nullptr) {
    const auto side = source.side_files();
    const std::string* jinja = side.find(data::kJinjaFile);
    return jinja != nullptr ? data::template_of_jinja(*jinja) : std::nullopt;
  }
  const fs::path manifest =
      options.data_prefix.empty()
          ? data::DatasetPaths(source.run() / train::kTokenizerPrefix).manifest
          : data::find_dataset(options.data_prefix).manifest;
  if (!options.chats && !fs::exists(manifest)) return std::nullopt;
  const data::DatasetManifest read = data::read_manifest(manifest);
  expect(!options.chats || read.chat.has_value(),
         "{}: the model was not trained on conversations, so there is no chat template: leave "
         "--chat out",
         manifest.string());
  if (!read.chat) return std::nullopt;
  return read.chat->chat_template;
}

/// The tokens to continue, with what tells where that ends.
Prompt make_prompt(const GenerateOptions& options, const train::ModelSource& source,
                   const data::Tokenizer& tokenizer) {
  const bool from_file = !options.prompt_file.empty();
  const std::string prompt = from_file ? read_text(options.prompt_file) : options.prompt;
  const std::string place = from_file ? options.prompt_file.string() + ":" : "--prompt";
  expect(!prompt.empty(), "{} is empty: give at least one character", place);
  const std::optional<data::ChatTemplate> chat = chat_template_of(options, source);
  expect(!options.chats || chat.has_value(),
         "--chat: {} does not say how conversations are written in a way that is known here: name "
         "the data set that was made with prepare_data --chat with --data",
         source.folder().string());
  if (options.chats) return make_chat_prompt(*chat, tokenizer, prompt);
  Prompt made{.tokens = tokenizer.encode(prompt), .ends = {}};
  expect(!made.tokens.empty(), "{} has no tokens in the {} tokenizer: give a word", place,
         tokenizer.kind());
  const auto begin = tokenizer.begin_of_text();
  made.tokens.insert(made.tokens.begin(), begin.begin(), begin.end());
  // A folder names its ends; of a run the template's own tokenizer is known to be there.
  const bool is_runs = source.checkpoint() != nullptr && options.tokenizer.empty();
  made.ends = ends_of(tokenizer, is_runs && chat ? &*chat : nullptr);
  return made;
}

/// The tokens at which generation ends: for a folder those that it names, as for transformers; for
/// what was trained here, and for conversations, the prompt's, too. Without any, those alone.
std::vector<Index> all_ends(const GenerateOptions& options, const train::ModelSource& source,
                            const Prompt& prompt) {
  std::vector<Index> ends = source.side_files().ends();
  if (source.checkpoint() != nullptr || options.chats || ends.empty())
    ends.insert(ends.end(), prompt.ends.begin(), prompt.ends.end());
  return ends;
}

/// Bytes at the end of `text` that may still change: part of a UTF-8 sequence, or the replacement
/// character that a tokenizer puts there for one.
std::size_t unfinished_tail(std::string_view text) {
  std::size_t tail = 0;
  while (text.ends_with(kReplacement)) {
    text.remove_suffix(kReplacement.size());
    tail += kReplacement.size();
  }
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) break;
    if (byte < 0xc0) continue;
    const std::size_t length = byte >= 0xf0 ? 4 : (byte >= 0xe0 ? 3 : 2);
    return back < length ? tail + back : tail;
  }
  return tail;
}

/// `text` with replacement characters for what is not UTF-8, as many as decoders write.
std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = data::utf8_character(text);
    result += length > 0 ? text.substr(0, length) : kReplacement;
    text.remove_prefix(length > 0 ? length : data::utf8_wrong(text));
  }
  return result;
}

/// Prints a growing text as far as it is final: whole characters, always UTF-8.
class TextPrinter {
 public:
  void show(std::string_view text) {
    const std::size_t until = text.size() - unfinished_tail(text);
    if (until <= printed_) return;
    write(printable(text.substr(printed_, until - printed_)));
    printed_ = until;
  }
  void finish() { write("\n"); }

 private:
  static void write(const std::string& text) {
    streams::write_output(text);
    expect_output_written();
  }
  std::size_t printed_ = 0;
};

}  // namespace

void generate_text(const GenerateOptions& options) {
  expect(options.tokens > 0, "--tokens must be at least 1, got {}", options.tokens);
  const Sampler sampler(options.sampling);
  const train::ModelSource model(options.source, options.checkpoint);
  const auto found = inference::find_tokenizer(
      {.file = options.tokenizer, .data_prefix = options.data_prefix}, model);
  const data::Tokenizer& tokenizer = *found;
  const Prompt prompt = make_prompt(options, model, tokenizer);
  std::vector<std::int32_t> tokens = prompt.tokens;
  const inference::Use use =
      Generator::use(model, std::ssize(tokens), options.tokens, options.type);
  inference::expect_room(model, use,
                         options.type == DType::kF32
                             ? "compute in half of it with --precision bf16, or lower --tokens"
                             : "lower --tokens, or raise the limit");

  platform::blas::use_one_thread();
  sched_starpu::configure({});
  rt::Session session(
      {.scheduler = options.scheduler, .cpu_workers = -1, .schedulers = sched_starpu::policies()});
  Generator generator(session, model, use);
  TextPrinter printer;
  const auto before = std::ssize(tokens);
  // Of a conversation the answer alone is printed.
  const auto shown = static_cast<std::size_t>(options.chats ? before : 0);
  const auto show = [&] { printer.show(tokenizer.decode(std::span(tokens).subspan(shown))); };
  show();
  const auto start = std::chrono::steady_clock::now();
  generator.generate(tokens, options.tokens, sampler, tokenizer.vocabulary(),
                     all_ends(options, model, prompt), show);
  printer.finish();
  if (!options.says_speed) return;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const auto made = std::ssize(tokens) - before;
  streams::say("generate: {} tokens in {:.2f} s, {:.1f} tokens/s\n", made, seconds.count(),
               static_cast<double>(made) / seconds.count());
}

}  // namespace dos::generate
