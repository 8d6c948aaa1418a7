// SPDX-License-Identifier: Apache-2.0
#include "train/launch.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "codelets/all.hpp"
#include "codelets/matrix/gemm_bf16.hpp"
#include "data/dataset.hpp"
#include "models/registry.hpp"
#include "platform/blas.hpp"
#include "platform/topology.hpp"
#include "rt/cuda.hpp"
#include "rt/history_model.hpp"
#include "sched_starpu/policies.hpp"
#include "train/config_file.hpp"
#include "train/estimate.hpp"
#include "train/explain.hpp"
#include "train/run_info.hpp"
#include "train/tracing.hpp"
#include "train/trainer.hpp"

namespace dos::train {
namespace {

/// The checkpoint to continue from, if any. "auto" takes the last one if there is one.
std::optional<CheckpointReader> find_checkpoint(const LaunchOptions& options) {
  if (!options.resume) return std::nullopt;
  const bool automatic = *options.resume == "auto";
  if (automatic && !io::CheckpointStore(options.out).last()) return std::nullopt;
  return CheckpointReader(options.out, automatic ? "last" : *options.resume);
}

TrainConfig merge(const LaunchOptions& options, const std::optional<CheckpointReader>& checkpoint) {
  TrainConfig config;
  if (checkpoint) {
    from_json(checkpoint->manifest().configuration,
              (checkpoint->folder() / io::kManifestName).string(), config);
    // It ended that part of the run, not this one.
    config.train.stop_after = TrainConfig().train.stop_after;
  }
  if (!options.config_file.empty()) read_config_file(options.config_file, config);
  for (const std::string& assignment : options.assignments) set_from_text(assignment, config);
  return config;
}

/// Refuses an output folder that holds another run than the one to be continued.
void expect_unused_output(const LaunchOptions& options,
                          const std::optional<CheckpointReader>& checkpoint) {
  const io::CheckpointStore store(options.out);
  if (checkpoint ? store.owns(checkpoint->folder()) : options.resume == "auto") return;
  const bool used = std::filesystem::exists(options.out / "metrics.jsonl") || store.last();
  expect(!used, "--out {} already holds a run: continue it with --resume, or choose another folder",
         options.out.string());
}

void create_output(const std::filesystem::path& out) {
  std::error_code error;
  std::filesystem::create_directories(out, error);
  expect(!error, "--out {}: cannot create the folder: {}; choose a writable place", out.string(),
         error.message());
}

/// Throws Error unless both token files are long enough for the model. prepare_data has checked the
/// tokens of its files; those of others are checked here, before days of training.
void expect_suitable(const data::Dataset& dataset, const models::ModelConfig& model) {
  for (const data::TokenFile* file : {&dataset.train, &dataset.val}) {
    const data::Loader loader(
        data::TokenFile(file->path()),
        {.context = model.context, .vocabulary = model.vocabulary, .seed = 0, .shuffle = false});
    if (dataset.manifest) continue;
    std::vector<std::int32_t> sample(static_cast<std::size_t>(model.context) + 1);
    for (Index window = 0; window < loader.windows(); ++window) loader.sample(window, sample);
  }
}

nlohmann::json describe_tokenizer(const std::optional<data::Manifest>& dataset) {
  if (!dataset) return nullptr;
  return {{"kind", dataset->tokenizer},
          {"vocabulary", dataset->vocabulary},
          {"model_hash", dataset->model_hash}};
}

/// Copies the data set's tokenizer into the output folder, so that the run can be used when the
/// data set is gone.
void keep_tokenizer(const std::string& prefix, const std::optional<data::Manifest>& dataset,
                    const std::filesystem::path& out) {
  if (!dataset) return;
  const data::DatasetPaths target(out / kTokenizerPrefix);
  data::Manifest manifest = *dataset;
  if (!manifest.model_file.empty()) {
    write_durably(target.model, read_text(data::DatasetPaths(prefix).model));
    manifest.model_file = target.model.filename().string();
  }
  write_durably(target.manifest, data::to_text(manifest));
}

/// "fp32", "bf16 with fp32 gradients" or "bf16 with bf16 gradients".
std::string describe_precision(const TrainConfig& config) {
  const TrainConfig::Train& train = config.train;
  if (config.parameter_types().working == DType::kF32) return train.precision;
  return fmt::format("{} with {} gradients", train.precision, train.gradient_precision);
}

void report_start(const TrainConfig& config, const models::ModelConfig& model,
                  const tensor::Layout& layout, const rt::Session& session) {
  log::info(
      "model {}: {} layers, width {}, {} heads, context {}, vocabulary {}: {:.1f} M parameters in "
      "{} subgroups, {}",
      model.architecture, model.layers, model.width, model.heads, model.context, model.vocabulary,
      static_cast<double>(layout.parameter_count()) / 1e6, layout.subgroups.size(),
      describe_precision(config));
  log::info("StarPU {}, scheduler {}, {} CPU workers; OpenBLAS kernels: {}", rt::Session::version(),
            session.scheduler(), session.cpu_workers(), platform::blas::core_type());
  if (config.parameter_types().working == DType::kBF16)
    log::info("BF16 products: {}", codelets::bf16_products());
}

void report_end(const TrainConfig& config, const TrainResult& result,
                const std::filesystem::path& out) {
  const auto shown = [](const std::optional<double>& loss) {
    return loss ? fmt::format("{:.9g}", *loss) : std::string("none");
  };
  fmt::print("step {}  training loss {}  validation loss {}  best {}\n", result.step,
             shown(result.loss), shown(result.validation_loss), shown(result.best_validation_loss));
  if (result.stopped_by != nullptr)
    fmt::print("stopped by {} after step {} of {}; continue with --out {} --resume\n",
               result.stopped_by, result.step, config.train.steps, out.string());
}

}  // namespace

TrainConfig merge_configuration(const LaunchOptions& options) {
  return merge(options, find_checkpoint(options));
}

void launch(const LaunchOptions& options) {
  const std::optional<CheckpointReader> checkpoint = find_checkpoint(options);
  if (!options.trace_steps.empty()) {
    expect(!options.trace.empty(), "--trace-steps needs --trace DIR");
    static_cast<void>(trace::parse_step_range(options.trace_steps));
  }
  const TrainConfig config = merge(options, checkpoint);
  config.validate();
  data::Dataset dataset = data::open_dataset(config.data.path);
  const models::ModelConfig model =
      config.resolve_model(dataset.manifest ? dataset.manifest->vocabulary : 0);
  expect_countable(model, config.run_shape(/*workers=*/config.train.batch));
  expect_suitable(dataset, model);
  if (checkpoint)
    io::expect_architecture(checkpoint->folder(), checkpoint->manifest(), to_json(model));
  const tensor::Layout layout =
      optim::cut_into_subgroups(models::find_architecture(model.architecture).parameters(model),
                                config.sched.subgroup_params, config.decay_groups());

  platform::blas::use_one_thread();
  sched_starpu::configure(config.scheduling());
  rt::Session session({.scheduler = options.scheduler,
                       .cpu_workers = config.train.workers == 0 ? -1 : config.train.workers,
                       .opencl_workers = config.train.opencl_devices,
                       .cuda_workers = config.train.cuda_devices,
                       .schedulers = sched_starpu::policies()});
  for (const rt::Codelet* codelet : codelets::all_codelets())
    rt::expect_readable_history(codelet->symbol());
  const Index workers = session.cpu_workers();
  expect(config.train.workers == 0 || workers == config.train.workers,
         "train.workers = {}, but StarPU can run {} here: lower it, or leave it 0 for one a core",
         config.train.workers, workers);
  const Index opencl_devices = session.opencl_workers();
  expect(config.train.opencl_devices <= 0 || opencl_devices == config.train.opencl_devices,
         "train.opencl_devices = {}, but StarPU finds {} here: lower it, or see clinfo and "
         "STARPU_OPENCL_ON_CPUS",
         config.train.opencl_devices, opencl_devices);
  const Index cuda_devices = session.cuda_workers();
  expect(config.train.cuda_devices <= 0 || cuda_devices == config.train.cuda_devices,
         "train.cuda_devices = {}, but StarPU {} here: lower it, or see nvidia-smi and "
         "CUDA_VISIBLE_DEVICES",
         config.train.cuda_devices,
         rt::has_cuda() ? fmt::format("finds {}", cuda_devices)
                        : "was built without CUDA and runs none");
  const rt::MemoryBytes bytes =
      estimate_training(model, config.run_shape(workers), layout, config.parameter_types(),
                        config.optimizer(), session.workers(), config.train.run_ahead);
  if (options.dry_run) {
    fmt::print("precision: {}\nhost memory of the run:\n{}\n", describe_precision(config),
               memory_table(bytes, platform::available_memory_bytes()));
    return;
  }
  expect_fits(bytes, platform::available_memory_bytes());
  expect_unused_output(options, checkpoint);
  if (checkpoint && checkpoint->manifest().step >= config.last_step()) {
    fmt::print("step {} is done already: raise train.steps or train.stop_after to go on\n",
               checkpoint->manifest().step);
    return;
  }
  const std::optional<data::Manifest> manifest = dataset.manifest;
  const std::unique_ptr<trace::Recorder> recorder =
      start_trace(session, options.trace, options.trace_steps, model);
  Trainer trainer(session, {.config = config,
                            .model = model,
                            .out = options.out,
                            .dataset = std::move(dataset),
                            .tokenizer = describe_tokenizer(manifest),
                            .quiet = options.quiet});
  trainer.set_recorder(recorder.get());
  checkpoint ? trainer.resume(*checkpoint) : trainer.start_fresh();
  create_output(options.out);
  keep_tokenizer(config.data.path, manifest, options.out);
  write_durably(options.out / "run.json",
                describe_run(config, model, session.scheduler(), workers).dump(2) + "\n");
  report_start(config, model, layout, session);
  report_end(config, trainer.run(), options.out);
  if (recorder) finish_trace(*recorder, options.trace);
  if (options.explain) fmt::print("{}", explain(sched_starpu::report()));
}

}  // namespace dos::train
