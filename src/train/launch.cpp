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
#include "dist/gather.hpp"
#include "dist/owners.hpp"
#include "models/registry.hpp"
#include "platform/blas.hpp"
#include "platform/topology.hpp"
#include "rt/cuda.hpp"
#include "rt/history_model.hpp"
#include "sched_starpu/policies.hpp"
#include "train/config_file.hpp"
#include "train/estimate.hpp"
#include "train/explain.hpp"
#include "train/handshake.hpp"
#include "train/run_info.hpp"
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
                  const tensor::Layout& layout, const rt::Session& session,
                  const RankShare& share) {
  log::info(
      "model {}: {} layers, width {}, {} heads, context {}, vocabulary {}: {:.1f} M parameters in "
      "{} subgroups, {}",
      model.architecture, model.layers, model.width, model.heads, model.context, model.vocabulary,
      static_cast<double>(layout.parameter_count()) / 1e6, layout.subgroups.size(),
      describe_precision(config));
  log::info("StarPU {}, scheduler {}, {} CPU workers; OpenBLAS kernels: {}", rt::Session::version(),
            session.scheduler(), session.cpu_workers(), platform::blas::core_type());
  if (share.ranks > 1)
    log::info("{} ranks, dist.zero = {}; {}, {}", share.ranks, share.zero,
              platform::MpiEnvironment::library_version(),
              platform::MpiEnvironment::is_cuda_aware()
                  ? "which could send from GPUs: messages go through host memory all the same"
                  : "which does not know GPUs: messages go through host memory");
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

namespace {

/// What a rank has found out on its own before it talks to others.
struct Preparation {
  std::optional<CheckpointReader> checkpoint;
  TrainConfig config;
  data::Dataset dataset;
  models::ModelConfig model;
  tensor::Layout layout;
};

Preparation prepare(const LaunchOptions& options, Index ranks) {
  std::optional<CheckpointReader> checkpoint = find_checkpoint(options);
  TrainConfig config = merge(options, checkpoint);
  config.validate();
  static_cast<void>(dist::parse_weights("dist.weights", config.dist.weights, ranks));
  data::Dataset dataset = data::open_dataset(config.data.path);
  models::ModelConfig model =
      config.resolve_model(dataset.manifest ? dataset.manifest->vocabulary : 0);
  expect_countable(model, config.run_shape(/*workers=*/config.train.batch));
  expect_suitable(dataset, model);
  if (checkpoint)
    io::expect_architecture(checkpoint->folder(), checkpoint->manifest(), to_json(model));
  tensor::Layout layout =
      optim::cut_into_subgroups(models::find_architecture(model.architecture).parameters(model),
                                config.sched.subgroup_params, config.decay_groups());
  return {std::move(checkpoint), std::move(config), std::move(dataset), std::move(model),
          std::move(layout)};
}

/// Prepares on every rank; throws AgreedError on all when one fails, or they differ.
Preparation prepare_together(const LaunchOptions& options, dist::Exchange& exchange) {
  std::optional<Preparation> mine;
  RankStart start;
  try {
    mine.emplace(prepare(options, exchange.ranks()));
    const nlohmann::json checkpoint =
        mine->checkpoint ? nlohmann::json(mine->checkpoint->manifest().step) : nullptr;
    start.agreement = agreement_of(mine->config, mine->model, mine->dataset, checkpoint);
  } catch (const Error& error) {
    start.error = error.what();
  }
  agree(exchange, start);
  exchange.configure({.timeout = dist::Seconds(mine->config.dist.timeout_s),
                      .numbers = std::ssize(mine->layout.subgroups)});
  return std::move(*mine);
}

void expect_devices(const TrainConfig& config, const rt::Session& session) {
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
}

/// Host memory of the run on `rank`, if its node is like this one.
rt::MemoryBytes estimate(const Preparation& run, const rt::Session& session, RankShare share,
                         Index rank) {
  share.rank = rank;
  const TrainConfig& config = run.config;
  return estimate_training(run.model, config.run_shape(session.cpu_workers()), run.layout,
                           config.parameter_types(), config.optimizer(), session.workers(),
                           config.train.run_ahead, share);
}

void print_estimate(const Preparation& run, const rt::Session& session, const RankShare& share) {
  std::vector<rt::MemoryBytes> bytes;
  for (Index rank = 0; rank < share.ranks; ++rank)
    bytes.push_back(estimate(run, session, share, rank));
  fmt::print("precision: {}\nhost memory of {}:\n{}\n", describe_precision(run.config),
             share.ranks == 1 ? "the run" : "rank 0",
             memory_table(bytes.front(), platform::available_memory_bytes()));
  if (share.ranks > 1) fmt::print("host memory by rank: {}\n", totals_by_rank(bytes));
}

void train(const LaunchOptions& options, Preparation run, rt::Session& session,
           const RankShare& share, dist::Exchange* exchange) {
  const std::optional<data::Manifest> manifest = run.dataset.manifest;
  Trainer trainer(session, {.config = run.config,
                            .model = run.model,
                            .out = options.out,
                            .dataset = std::move(run.dataset),
                            .tokenizer = describe_tokenizer(manifest),
                            .quiet = options.quiet,
                            .share = share,
                            .exchange = exchange});
  try {
    run.checkpoint ? trainer.resume(*run.checkpoint) : trainer.start_fresh();
    const bool writes = share.rank == 0;
    if (writes) {
      create_output(options.out);
      keep_tokenizer(run.config.data.path, manifest, options.out);
      nlohmann::json info =
          describe_run(run.config, run.model, session.scheduler(), session.cpu_workers());
      info["ranks"] = share.ranks;
      write_durably(options.out / "run.json", info.dump(2) + "\n");
      report_start(run.config, run.model, run.layout, session, share);
    }
    const TrainResult result = trainer.run();
    if (!writes) return;
    report_end(run.config, result, options.out);
    if (options.explain) fmt::print("{}", explain(sched_starpu::report()));
  } catch (const std::exception& error) {
    // Before the trainer is destroyed, which waits for all of its tasks.
    if (exchange != nullptr) exchange->abandon(error.what());
    throw;
  }
}

void launch_prepared(const LaunchOptions& options, Preparation run, const RankShare& share,
                     dist::Exchange* exchange) {
  const TrainConfig& config = run.config;
  const bool prints = share.rank == 0;
  platform::blas::use_one_thread();
  sched_starpu::configure(config.scheduling());
  rt::Session session({.scheduler = options.scheduler,
                       .cpu_workers = config.train.workers == 0 ? -1 : config.train.workers,
                       .opencl_workers = config.train.opencl_devices,
                       .cuda_workers = config.train.cuda_devices,
                       .schedulers = sched_starpu::policies()});
  for (const rt::Codelet* codelet : codelets::all_codelets())
    rt::expect_readable_history(codelet->symbol());
  expect_devices(config, session);
  if (options.dry_run) {
    if (prints) print_estimate(run, session, share);
    return;
  }
  expect_fits(estimate(run, session, share, share.rank), platform::available_memory_bytes());
  if (prints) expect_unused_output(options, run.checkpoint);
  if (run.checkpoint && run.checkpoint->manifest().step >= config.last_step()) {
    if (prints)
      fmt::print("step {} is done already: raise train.steps or train.stop_after to go on\n",
                 run.checkpoint->manifest().step);
    return;
  }
  train(options, std::move(run), session, share, exchange);
}

void launch_together(LaunchOptions options, dist::Exchange& exchange) {
  options.out = dist::gather_texts(exchange, options.out.string()).front();
  Preparation run = prepare_together(options, exchange);
  const std::vector<double> weights =
      dist::parse_weights("dist.weights", run.config.dist.weights, exchange.ranks());
  const RankShare share = share_of(run.layout, exchange.rank(), weights, run.config.dist.zero);
  launch_prepared(options, std::move(run), share, &exchange);
}

}  // namespace

void launch(const LaunchOptions& options, platform::MpiEnvironment& mpi) {
  if (mpi.size() == 1) return launch_prepared(options, prepare(options, 1), {}, nullptr);
  dist::Exchange exchange(mpi, {});
  try {
    launch_together(options, exchange);
  } catch (const AgreedError&) {
    // All ranks are here, and leave together.
    exchange.close();
    throw;
  } catch (const std::exception& error) {
    exchange.abandon(error.what());
    throw;
  }
  exchange.close();
}

}  // namespace dos::train
