// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <system_error>

#include "apps/command_line.hpp"
#include "apps/parser.hpp"
#include "apps/program.hpp"
#include "base/error.hpp"
#include "base/mapped_file.hpp"
#include "base/streams.hpp"
#include "data/prepare.hpp"
#include "io/run_folder.hpp"

namespace {

void print_chat(const dos::data::PrepareSummary& summary) {
  const dos::data::ChatCounts& chat = *summary.chat;
  dos::streams::say("prepare_data: {} conversations, {} left out without an answer",
                    chat.conversations, chat.left_out);
  if (chat.windows > 0)
    dos::streams::say("; {} cut at the end of a window, {} windows", chat.cut, chat.windows);
  dos::streams::say("\n");
}

/// What --help and the manual page show beside the options.
dos::apps::Program described() {
  return {.name = "prepare_data",
          .examples = {
              {"prepare_data --tokenizer sentencepiece --vocab-size 4096 --output data/mine *.txt",
               "tokens for train_gpt --set data.path=data/mine"}}};
}

/// Which a run keeps beside run.json, under a name as a data set's.
void expect_no_tokenizer_of_a_run(const std::filesystem::path& prefix) {
  std::error_code ignored;
  const bool is_in_run = std::filesystem::exists(prefix.parent_path() / dos::io::kRunInfo, ignored);
  dos::expect(!is_in_run || prefix.filename() != dos::io::kTokenizerPrefix,
              "--output {}: {} is the folder of a run, which keeps its tokenizer under this name: "
              "choose another",
              prefix.string(), prefix.parent_path().string());
}

int run(int argc, char** argv) {
  dos::data::PrepareConfig config;
  dos::apps::Parser app{"Turns text files into PREFIX_train.bin, PREFIX_val.bin and PREFIX.json"};
  app.add_option(
         "--tokenizer", config.tokenizer,
         "bytes, sentencepiece, or a tokenizer.json, a tokenizer.model, or the folder that has "
         "one of them")
      .required()
      .check(dos::apps::not_empty());
  app.add_option("--end-of-text", config.end_of_text,
                 "of a tokenizer.json: the token that ends a text; default: as "
                 "tokenizer_config.json beside it says, or the one with a usual name")
      .check(dos::apps::not_empty());
  app.add_option("--vocab-size", config.vocab_size, "train a SentencePiece model of N pieces");
  app.add_option("--model-type", config.model_type, "of the model to train: bpe or unigram")
      .capture_default_str()
      .check(dos::apps::not_empty());
  app.add_option("--model", config.model, "use this SentencePiece model")
      .type_name("FILE")
      .check(dos::apps::not_empty());
  app.add_option("--val-fraction", config.val_fraction, "share of every file for validation")
      .capture_default_str();
  app.add_option(
         "--field", config.field,
         "inputs are JSON-lines: the member that holds the text; default: text, for *.jsonl")
      .check(dos::apps::not_empty());
  app.add_option(
         "--chat", config.chat,
         "inputs are JSON-lines of conversations, written with this template: chatml, "
         "llama-2, llama-3, mistral-v1, mistral-v3, mistral or a JSON file; the loss counts "
         "on answers only")
      .check(dos::apps::not_empty());
  app.add_option("--context", config.context,
                 "with --chat: lay whole conversations into windows of N tokens, as model.context");
  app.add_option("--threads", config.threads, "that encode; 0: one a core").capture_default_str();
  app.add_option("--output", config.output, "PREFIX of the files to write")
      .type_name("PREFIX")
      .required()
      .check(dos::apps::not_empty());
  app.add_option("FILE", config.inputs,
                 "text files, one document each, or JSON-lines, one document a line")
      .type_name("FILE")
      .required()
      .check(dos::apps::not_empty());
  if (const auto status = dos::apps::read_command_line(app, described(), argc, argv))
    return *status;
  expect_no_tokenizer_of_a_run(config.output);
  const auto summary = dos::data::prepare(
      config, [](const std::string& line) { dos::streams::say("prepare_data: {}\n", line); });
  const auto tokens = summary.train_tokens + summary.val_tokens;
  dos::streams::say(
      "prepare_data: {} bytes, {} tokens ({} train, {} val), vocabulary {}, {:.2f} bytes "
      "per token\n",
      summary.bytes, tokens, summary.train_tokens, summary.val_tokens, summary.vocabulary,
      static_cast<double>(summary.bytes) / static_cast<double>(tokens));
  if (summary.chat) print_chat(summary);
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    dos::end_with_words_when_cut("prepare_data");
    return run(argc, argv);
  } catch (const std::exception& error) {
    return dos::apps::report_failure("prepare_data", error);
  }
}
