// SPDX-License-Identifier: Apache-2.0
#include "inference/evaluate_model.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/json_text.hpp"
#include "data/dataset.hpp"
#include "platform/blas.hpp"
#include "sched_starpu/policies.hpp"
#include "train/folder_tokenizer.hpp"
#include "train/run_data.hpp"

namespace dos::inference {
namespace {

bool is_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

struct Tokens {
  data::TokenFile file;
  std::optional<data::MaskFile> mask{};  ///< which of them count; none: all
};

Tokens open_tokens(const EvaluateOptions& options, const train::ModelSource& source) {
  if (options.data_prefix.empty()) {
    expect(is_file(options.tokens),
           "--tokens {}: no such file: give a token file, such as PREFIX_val.bin of prepare_data "
           "--output PREFIX",
           options.tokens.string());
    return {data::TokenFile(options.tokens)};
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
  return {std::move(dataset.val), std::move(dataset.val_mask)};
}

}  // namespace

Evaluation evaluate_model(const EvaluateOptions& options,
                          const std::function<void(const Evaluation&, Index all)>& progress) {
  expect(options.data_prefix.empty() != options.tokens.empty(),
         "give either --data PREFIX or --tokens FILE");
  expect(options.batch >= 0, "--batch must not be negative (0: one window for each worker), got {}",
         options.batch);
  const train::ModelSource source(options.source, options.checkpoint);
  const shape::ModelConfig model = with_context(source, options.context, "--context");
  const auto [file, mask] = open_tokens(options, source);
  expect(file.size() >= 2, "{}: holds one token, which nothing predicts: give at least two",
         file.path().string());
  platform::blas::use_one_thread();
  sched_starpu::configure({});
  rt::Session session(
      {.scheduler = options.scheduler, .cpu_workers = -1, .schedulers = sched_starpu::policies()});
  const Index batch = options.batch != 0 ? options.batch : session.lane_workers();
  expect_room(source, evaluation_use(model, options.type, file.size(), batch, session),
              "lower --batch or --context, or raise the limit");
  TrainedModel trained(session, source, options.type);
  const Index all = file.size() - 1;
  return evaluate(trained, model, options.type, file, mask ? &*mask : nullptr, batch,
                  [&](const Evaluation& done) { progress(done, all); });
}

}  // namespace dos::inference
