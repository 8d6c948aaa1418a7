// SPDX-License-Identifier: Apache-2.0
#include "inference/evaluate_model.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/json_text.hpp"
#include "data/dataset.hpp"
#include "data/missing.hpp"
#include "data/text_encoding.hpp"
#include "data/text_input.hpp"
#include "data/verification.hpp"
#include "inference/model_tokenizer.hpp"
#include "platform/blas.hpp"
#include "sched_starpu/policies.hpp"
#include "train/folder_tokenizer.hpp"
#include "train/run_data.hpp"

namespace dos::inference {
namespace {

/// Of what is there and no file, opening it tells more.
bool is_there(const std::filesystem::path& path) {
  return !data::is_missing(path);
}

bool is_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

struct Tokens {
  std::optional<data::TokenFile> file{};  ///< none: they are of the text
  std::vector<std::int32_t> of_text{};
  std::optional<data::MaskFile> mask{};  ///< which of them count; none: all
};

Tokens encode_text(const EvaluateOptions& options, const train::ModelSource& source) {
  expect(is_there(options.text), "--text {}: no such file: give a text, or JSON-lines (*.jsonl)",
         options.text.string());
  const data::TextInput input(options.text, "");
  const auto tokenizer =
      find_tokenizer({.file = options.tokenizer, .data_prefix = {}, .takes_data = false}, source);
  return {.of_text = data::encode_all(input, *tokenizer)};
}

Tokens open_tokens(const EvaluateOptions& options, const train::ModelSource& source) {
  if (!options.text.empty()) return encode_text(options, source);
  if (options.data_prefix.empty()) {
    expect(is_there(options.tokens),
           "--tokens {}: no such file: give a token file, such as PREFIX_val.bin of prepare_data "
           "--output PREFIX",
           options.tokens.string());
    return {.file = data::TokenFile(options.tokens)};
  }
  const data::DatasetPaths paths = data::find_dataset(options.data_prefix);
  for (const std::filesystem::path& path : {paths.train, paths.val})
    expect(is_file(path),
           "--data {}: {} is missing: give the PREFIX that prepare_data --output PREFIX was given",
           options.data_prefix, path.string());
  data::Dataset dataset = data::open_dataset(options.data_prefix);
  const train::CheckpointReader* checkpoint = source.checkpoint();
  if (checkpoint != nullptr && dataset.manifest && checkpoint->manifest().tokenizer.is_object()) {
    const nlohmann::json present = train::describe_tokenizer(dataset.manifest);
    expect(checkpoint->manifest().tokenizer == present,
           "--data {}: its tokenizer is {}, but the model was trained with {}: name a data set of "
           "that tokenizer",
           options.data_prefix, json_text(present), json_text(checkpoint->manifest().tokenizer));
  }
  if (checkpoint == nullptr && dataset.manifest)
    train::expect_tokenizer_of(options.source, options.data_prefix, *dataset.manifest);
  data::expect_validation_split(dataset);
  return {.file = std::move(dataset.val), .mask = std::move(dataset.val_mask)};
}

}  // namespace

Evaluation evaluate_model(const EvaluateOptions& options,
                          const std::function<void(const Evaluation&, Index all)>& progress) {
  const auto given = [](const auto& option) { return option.empty() ? 0 : 1; };
  expect(given(options.data_prefix) + given(options.tokens) + given(options.text) == 1,
         "give one of --data PREFIX, --tokens FILE and --text FILE");
  expect(options.batch >= 0, "--batch must not be negative (0: one window for each worker), got {}",
         options.batch);
  const train::ModelSource source(options.source, options.checkpoint);
  const shape::ModelConfig model = with_context(source, options.context, "--context");
  const Tokens opened = open_tokens(options, source);
  const EvaluatedTokens tokens =
      opened.file ? EvaluatedTokens(*opened.file) : EvaluatedTokens(options.text, opened.of_text);
  expect(tokens.size() >= 2, "{}: holds one token, which nothing predicts: give at least two",
         tokens.name().string());
  platform::blas::use_one_thread();
  sched_starpu::configure({});
  rt::Session session(
      {.scheduler = options.scheduler, .cpu_workers = -1, .schedulers = sched_starpu::policies()});
  const Index batch = options.batch != 0 ? options.batch : session.lane_workers();
  expect_room(source, evaluation_use(model, options.type, tokens.size(), batch, session),
              "lower --batch or --context, or raise the limit");
  TrainedModel trained(session, source, options.type);
  const Index all = tokens.size() - 1;
  return evaluate(trained, model, options.type, tokens, opened.mask ? &*opened.mask : nullptr,
                  batch, [&](const Evaluation& done) { progress(done, all); });
}

}  // namespace dos::inference
