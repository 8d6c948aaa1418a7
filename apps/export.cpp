// SPDX-License-Identifier: Apache-2.0
// export: writes a model that train_gpt trained as a folder that transformers reads.
#include <cstdlib>
#include <exception>
#include <string>

#include "apps/command_line.hpp"
#include "apps/parser.hpp"
#include "apps/program.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/mapped_file.hpp"
#include "base/streams.hpp"
#include "hf/model_export.hpp"
#include "platform/crash_signals.hpp"
#include "train/export_run.hpp"

namespace {

void run(dos::train::ExportRequest& request, const std::string& dtype, const std::string& shard) {
  dos::log::configure("warn");
  if (!dtype.empty()) request.dtype = dtype == "bf16" ? dos::DType::kBF16 : dos::DType::kF32;
  request.shard_bytes = dos::hf::parse_shard_size("--shard-size", shard);
  const dos::train::ExportOutcome outcome = dos::train::export_run(request);
  dos::streams::print("{}: {} as {}\n", request.folder.string(), outcome.source,
                      outcome.dtype == dos::DType::kBF16 ? "bf16" : "fp32");
  for (const std::string& note : outcome.notes) dos::streams::print("{}\n", note);
}

/// What --help and the manual page show beside the options.
dos::apps::Program described() {
  return {.name = "export",
          .examples = {{"export runs/mine tuned",
                        "then, in Python: AutoModelForCausalLM.from_pretrained(\"tuned\")"}}};
}

}  // namespace

int main(int argc, char** argv) {
  dos::train::ExportRequest request;
  std::string dtype;
  std::string shard = "5GB";
  dos::apps::Parser app(
      "Writes a model that train_gpt trained as a folder that transformers reads.");
  app.add_option("source", request.source,
                 "output folder of a train_gpt run, a checkpoint, or a folder with config.json")
      .type_name("FOLDER")
      .required()
      .check(dos::apps::not_empty());
  app.add_option("folder", request.folder, "folder to be written; must not be there yet")
      .type_name("FOLDER")
      .required()
      .check(dos::apps::not_empty());
  app.add_option("--checkpoint", request.checkpoint,
                 "of a run: last (the newest), best (the lowest validation loss), or a step")
      .capture_default_str()
      .check(dos::apps::not_empty());
  app.add_option("--dtype", dtype,
                 "type of the weights, bf16 or fp32; default: what the run computed with")
      .check(dos::apps::one_of({"bf16", "fp32"}));
  app.add_option("--shard-size", shard, "most bytes of tensors in a file")
      .capture_default_str()
      .check(dos::apps::not_empty());
  app.add_flag("--merge", request.merge,
               "of a run with adapters: write the whole model with what they add to it, not the "
               "adapters alone");
  dos::platform::say_at_crash("export");
  if (const auto status = dos::apps::read_command_line(app, described(), argc, argv))
    return *status;
  try {
    dos::end_with_words_when_cut("export");
    run(request, dtype, shard);
    dos::expect_output_written();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    return dos::apps::report_failure("export", error);
  }
}
