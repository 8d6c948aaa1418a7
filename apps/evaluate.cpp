// SPDX-License-Identifier: Apache-2.0
// evaluate: the loss of a trained model on tokens.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/command_line.hpp"
#include "apps/parser.hpp"
#include "apps/program.hpp"
#include "base/file.hpp"
#include "base/json_text.hpp"
#include "base/log.hpp"
#include "base/mapped_file.hpp"
#include "base/streams.hpp"
#include "inference/evaluate_model.hpp"
#include "platform/blas.hpp"
#include "platform/crash_signals.hpp"

namespace {

/// Says on standard error how far it is, every few seconds.
class Progress {
 public:
  void show(const dos::inference::Evaluation& done, dos::Index all) {
    constexpr std::chrono::seconds kPause{2};
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < kPause || done.seen == all) return;
    last_ = now;
    dos::streams::say("evaluate: {} of {} tokens, loss {:.4f}\n", done.seen, all, done.mean());
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void run(const dos::inference::EvaluateOptions& options, bool as_json) {
  Progress progress;
  const dos::inference::Evaluation result = dos::inference::evaluate_model(
      options,
      [&](const dos::inference::Evaluation& done, dos::Index all) { progress.show(done, all); });
  const double loss = result.mean();
  if (as_json) {
    const nlohmann::json fields{
        {"loss", loss}, {"perplexity", std::exp(loss)}, {"tokens", result.tokens}};
    dos::streams::print("{}\n", dos::json_text(fields));
    return;
  }
  dos::streams::print("loss {:.6f} nats a token, perplexity {:.6g}, {} tokens\n", loss,
                      std::exp(loss), result.tokens);
}

/// What --help and the manual page show beside the options.
dos::apps::Program described() {
  return {.name = "evaluate",
          .examples = {{"evaluate runs/mine --checkpoint best --data data/mine",
                        "loss and perplexity of all validation text"},
                       {"evaluate runs/mine --text new.txt", "of a text"}}};
}

}  // namespace

int main(int argc, char** argv) {
  dos::platform::blas::restart_with_better_kernels(argv);
  dos::inference::EvaluateOptions options;
  bool as_json = false;
  dos::apps::Parser app(
      "Says the loss of a trained model on tokens, each predicted from those before it.");
  app.add_option("source", options.source,
                 "output folder of a train_gpt run, a checkpoint, or a folder with config.json")
      .type_name("FOLDER")
      .required()
      .check(dos::apps::not_empty());
  const dos::apps::Option data =
      app.add_option("--data", options.data_prefix,
                     "data set prefix, whose whole validation split is evaluated")
          .type_name("PREFIX")
          .check(dos::apps::not_empty());
  const dos::apps::Option tokens =
      app.add_option("--tokens", options.tokens, "token file, as of prepare_data")
          .type_name("FILE")
          .excludes(data)
          .check(dos::apps::not_empty());
  const dos::apps::Option text =
      app.add_option("--text", options.text,
                     "text, one document, or a file *.jsonl with one a line, in its member 'text'; "
                     "the model's tokenizer encodes it")
          .type_name("FILE")
          .excludes(data)
          .excludes(tokens)
          .check(dos::apps::not_empty());
  app.add_option("--tokenizer", options.tokenizer,
                 "of --text: tokenizer.json, or the folder that has it, or a SentencePiece model: "
                 "for a model whose data came without")
      .type_name("FILE")
      .needs(text)
      .check(dos::apps::not_empty());
  app.add_option("--context", options.context, "tokens of a window; 0: as many as the model's")
      .capture_default_str();
  app.add_option(
         "--checkpoint", options.checkpoint,
         "of a run: last (the newest), best (the lowest validation loss), a step, or a path")
      .capture_default_str()
      .check(dos::apps::not_empty());
  app.add_option("--batch", options.batch, "windows at a time; 0: one for each worker")
      .capture_default_str();
  dos::apps::add_precision(app, options.type);
  app.add_flag("--json", as_json, "print one JSON object: loss, perplexity, tokens");
  dos::platform::say_at_crash("evaluate");
  if (const auto status = dos::apps::read_command_line(app, described(), argc, argv))
    return *status;
  try {
    dos::log::configure("warn");
    dos::end_with_words_when_cut("evaluate");
    if (const char* scheduler = std::getenv("STARPU_SCHED")) options.scheduler = scheduler;
    run(options, as_json);
    dos::expect_output_written();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    return dos::apps::report_failure("evaluate", error);
  }
}
