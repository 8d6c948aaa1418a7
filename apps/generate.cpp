// SPDX-License-Identifier: Apache-2.0
// generate: continues a prompt with a trained model.
#include <cstdlib>
#include <exception>

#include "apps/command_line.hpp"
#include "apps/parser.hpp"
#include "apps/program.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/mapped_file.hpp"
#include "generate/generate_text.hpp"
#include "platform/blas.hpp"
#include "platform/crash_signals.hpp"

namespace {

/// What --help and the manual page show beside the options.
dos::apps::Program described() {
  return {.name = "generate",
          .examples = {{"generate runs/mine --checkpoint best --prompt 'Once' --tokens 200",
                        "continues the text with the checkpoint of the lowest validation loss"}}};
}

}  // namespace

int main(int argc, char** argv) {
  dos::platform::blas::restart_with_better_kernels(argv);
  dos::generate::GenerateOptions options;
  dos::apps::Parser app("Continues a prompt with a trained model.");
  app.add_option("source", options.source,
                 "output folder of a train_gpt run, a checkpoint, or a folder with config.json")
      .type_name("FOLDER")
      .required()
      .check(dos::apps::not_empty());
  const dos::apps::Option prompt =
      app.add_option("--prompt", options.prompt, "text to continue").capture_default_str();
  app.add_option("--prompt-file", options.prompt_file, "file with the text to continue, as it is")
      .type_name("FILE")
      .excludes(prompt)
      .check(dos::apps::not_empty());
  app.add_flag("--chat", options.chats,
               "the prompt is a message to a model trained on conversations: prints its answer");
  app.add_option("--tokens", options.tokens, "tokens to generate").capture_default_str();
  app.add_option("--checkpoint", options.checkpoint,
                 "last (the newest), best (the lowest validation loss), a step, or a path")
      .capture_default_str()
      .check(dos::apps::not_empty());
  app.add_option("--data", options.data_prefix,
                 "data set prefix whose tokenizer to use; default: "
                 "the one of the training run")
      .type_name("PREFIX")
      .check(dos::apps::not_empty());
  app.add_option("--tokenizer", options.tokenizer,
                 "tokenizer.json, or the folder that has it, or a SentencePiece model: for a model "
                 "whose data came without")
      .type_name("FILE")
      .check(dos::apps::not_empty());
  app.add_option("--temperature", options.sampling.temperature, "0: the most likely token")
      .capture_default_str();
  app.add_option("--top-k", options.sampling.top_k, "draw from the k most likely tokens; 0: all")
      .capture_default_str();
  app.add_option("--top-p", options.sampling.top_p,
                 "draw from the tokens that hold this probability")
      .capture_default_str();
  app.add_option("--repetition-penalty", options.sampling.repetition_penalty,
                 "above 1: tokens that are there already become less likely")
      .capture_default_str();
  dos::apps::add_precision(app, options.type);
  app.add_flag("--speed", options.says_speed, "print tokens a second to standard error at the end");
  app.add_option("--seed", options.sampling.seed, "of the draws").capture_default_str();
  dos::platform::say_at_crash("generate");
  if (const auto status = dos::apps::read_command_line(app, described(), argc, argv))
    return *status;
  try {
    dos::log::configure("warn");
    dos::end_with_words_when_cut("generate");
    if (const char* scheduler = std::getenv("STARPU_SCHED")) options.scheduler = scheduler;
    dos::generate::generate_text(options);
    dos::expect_output_written();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    return dos::apps::report_failure("generate", error);
  }
}
