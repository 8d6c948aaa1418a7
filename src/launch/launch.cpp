// SPDX-License-Identifier: Apache-2.0
#include "launch/launch.hpp"
#include "base/json_text.hpp"
#include "base/streams.hpp"
#include "io/run_folder.hpp"
#include "ranks/agreed_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "codelets/all.hpp"
#include "codelets/attention/attention_cudnn.hpp"
#include "codelets/matrix/products.hpp"
#include "config/idle_keys.hpp"
#include "fit/activation_fit.hpp"
#include "fit/device_memory.hpp"
#include "fit/fit.hpp"
#include "fit/memory_advice.hpp"
#include "fit/spare_memory.hpp"
#include "io/checkpoint_levels.hpp"
#include "launch/checkpoint_parts.hpp"
#include "launch/dataset_check.hpp"
#include "launch/device_watch.hpp"
#include "launch/explain.hpp"
#include "launch/handshake.hpp"
#include "launch/launch_report.hpp"
#include "launch/local_folders.hpp"
#include "launch/message_memory.hpp"
#include "launch/output_folder.hpp"
#include "launch/preparation.hpp"
#include "launch/rank_place.hpp"
#include "launch/rank_weights.hpp"
#include "launch/run_room.hpp"
#include "launch/start_state.hpp"
#include "launch/tracing.hpp"
#include "platform/blas.hpp"
#include "ranks/exchange_watch.hpp"
#include "ranks/gather.hpp"
#include "rt/cuda.hpp"
#include "rt/history_model.hpp"
#include "sched_starpu/policies.hpp"
#include "shape/owners.hpp"
#include "storage/fallback.hpp"
#include "train/run_data.hpp"
#include "train/run_info.hpp"
#include "train/run_states.hpp"
#include "train/stop_signal.hpp"
#include "train/trainer.hpp"

namespace dos::launch {
namespace {

/// Throws Error unless StarPU has the workers that are configured.
void expect_workers(const config::TrainConfig& config, const rt::Session& session, bool cuda) {
  const Index workers = session.cpu_workers();
  expect(config.train.workers == 0 || workers == config.train.workers,
         "train.workers = {}, but StarPU can run {} here: lower it, or leave it 0 for one a core",
         config.train.workers, workers);
  const Index opencl_devices = session.opencl_workers();
  expect(config.train.opencl_devices <= 0 || opencl_devices == config.train.opencl_devices,
         "train.opencl_devices = {}, but StarPU finds {} here: lower it, or see clinfo and "
         "STARPU_OPENCL_ON_CPUS",
         config.train.opencl_devices, opencl_devices);
  if (!cuda) return;
  const Index cuda_devices = session.cuda_workers();
  expect(config.train.cuda_devices <= 0 || cuda_devices == config.train.cuda_devices,
         "train.cuda_devices = {}, but StarPU {} here: lower it, or see nvidia-smi and "
         "CUDA_VISIBLE_DEVICES",
         config.train.cuda_devices,
         rt::has_cuda() ? fmt::format("finds {}", cuda_devices)
                        : "was built without CUDA and runs none");
}

/// What ranks change to fit must be the same for all: the smallest micro-batch that one proposes,
/// and of activations as much as one cannot keep.
config::TrainConfig common_fit(config::TrainConfig mine, const shape::ModelConfig& model,
                               ranks::Exchange& exchange) {
  const config::TrainConfig::Train& train = mine.train;
  const Index samples = train.batch * train.accumulate;
  const shape::ActivationPlan own = mine.activation_plan();
  shape::ActivationPlan common;
  bool recomputes = false;
  for (const std::string& text : ranks::gather_texts(
           exchange, fmt::format("{} {} {} {} {} {}", train.batch, train.recompute ? 1 : 0,
                                 own.moved, own.hosted, own.recomputed, own.selective))) {
    std::istringstream proposal(text);
    Index batch = 0;
    bool recomputes_there = false;
    shape::ActivationPlan there;
    proposal >> batch >> recomputes_there >> there.moved >> there.hosted >> there.recomputed >>
        there.selective;
    if (batch < mine.train.batch) mine.train.lanes = std::min(mine.train.lanes, batch);
    mine.train.batch = std::min(mine.train.batch, batch);
    recomputes = recomputes || recomputes_there;
    common = common.with_all_of(there);
  }
  mine.train.recompute = recomputes;
  mine.train.activations = recomputes ? "keep" : shape::activation_plan_text(common, model.layers);
  mine.train.accumulate = samples / mine.train.batch;
  return mine;
}

/// fit_to() of all ranks, and says what it has changed.
train::Run fitted(const train::Run& run, const fit::Room& room, ranks::Exchange* exchange) {
  train::Run result = fit::fit_to(run, room);
  const bool is_open = run.config.train.fit == "auto" || run.config.train.activations == "auto";
  if (exchange != nullptr && is_open) {
    result = run.with(common_fit(result.config, run.model, *exchange));
    // What another rank needs may not fit here: throws.
    config::TrainConfig fixed = result.config;
    fixed.train.fit = "error";
    static_cast<void>(fit::fit_to(run.with(fixed), room));
  }
  const config::TrainConfig::Train& now = result.config.train;
  const bool has_changed =
      now.batch != run.config.train.batch || now.recompute != run.config.train.recompute;
  if (has_changed && run.share.rank == 0)
    log::info("train.fit=auto: train.batch={} train.accumulate={} train.recompute={}", now.batch,
              now.accumulate, now.recompute);
  if (run.config.train.activations == "auto" && run.share.rank == 0)
    log::info("train.activations=auto: {}", fit::describe_activations(result, room));
  return result;
}

/// Where a run happens: its place on the machine, and the other ranks, null when there are none.
struct Company {
  const RankPlace& place;
  ranks::Exchange* exchange;
};

void print_error(const std::string& why) {
  streams::say("train_gpt: error: {}\n", why);
}

/// Ends the program, whose tasks will never end, after the other ranks know.
[[noreturn]] void end_stalled_run(const std::string& why, ranks::Exchange* exchange) {
  print_error(why);
  if (exchange != nullptr && exchange->abandon(why.substr(0, why.find('\n'))))
    // Launchers kill the others when one leaves: not before they have said why.
    std::this_thread::sleep_for(std::chrono::seconds(1));
  std::_Exit(EXIT_FAILURE);
}

/// Ends the program, some of whose messages will never end.
[[noreturn]] void end_hanging_run(const std::string& why) {
  print_error(why);
  std::_Exit(EXIT_FAILURE);
}

/// Tells the other ranks.
void give_up(ranks::Exchange& exchange, const std::string& why) {
  if (!exchange.abandon(why)) end_hanging_run(why);
}

/// Null without devices.
std::unique_ptr<DeviceWatch> start_device_watch(const LaunchOptions& options,
                                                ranks::Exchange* exchange, const train::Run& run,
                                                const rt::Session& session, const fit::Room& room) {
  if (!session.has_devices()) return nullptr;
  return std::make_unique<DeviceWatch>(
      run.config.train.stall_timeout_s,
      fit::memory_advice(run, room, session.scheduler(), options.out),
      [exchange](const std::string& why) { end_stalled_run(why, exchange); });
}

/// What the output folder says of the run before its first step.
void write_description(const LaunchOptions& options, const RankPlace& place,
                       const rt::Session& session, const Preparation& prepared) {
  const train::Run& run = prepared.run;
  prepared.tokenizer.write();
  if (!prepared.weights.empty()) prepared.side_files.write(options.out / train::kFirstFolder);
  nlohmann::json info = train::describe_run(run, session.scheduler(), session.cpu_workers());
  info["ranks"] = run.share.ranks;
  info["placement"] = describe(place);
  if (!prepared.weights.empty()) info["init_from"] = options.init_from.string();
  if (prepared.weights.size() > 1) info["lora_from"] = options.lora_from.string();
  write_durably(options.out / io::kRunInfo, json_text(info, 2) + "\n");
}

void train(const LaunchOptions& options, const Company& company, Preparation prepared,
           rt::Session& session, const fit::Room& room, const data::Verification* verification) {
  const auto& [place, exchange] = company;
  const train::Run& run = prepared.run;
  const TraceTarget traced{.folder = options.trace, .share = run.share, .exchange = exchange};
  const std::unique_ptr<trace::Recorder> recorder =
      start_trace(session, traced, options.trace_steps, run);
  std::optional<MessageTrace> messages;
  if (recorder && exchange != nullptr) messages.emplace(*recorder, *exchange);
  const MessageMemory memory = choose_message_memory(
      run.config.dist.gpu_messages, platform::MpiEnvironment::is_cuda_aware(), rt::devices());
  if (exchange != nullptr && memory.gpu)
    exchange->prepare_thread(
        [device = rt::cuda_device_of(memory.gpu->worker)] { rt::use_cuda_device(device); });
  models::prepare_gpus(run.model, run.config.run_shape(room.lane_workers()));
  const nlohmann::json tokenizer = train::describe_tokenizer(prepared.sources);
  const nlohmann::json identity = train::describe_data(prepared.sources);
  LocalFolders local;
  // Lives longer than the trainer, whose destructor waits for all tasks.
  const auto watch = start_device_watch(options, exchange, run, session, room);
  train::Trainer trainer(session, {.run = run,
                                   .out = options.out,
                                   .sources = std::move(prepared.sources),
                                   .tokenizer = tokenizer,
                                   .data = identity,
                                   .verification = verification,
                                   .quiet = options.quiet,
                                   .exchange = exchange,
                                   .message_node = memory.gpu ? memory.gpu->node : rt::kHostNode,
                                   .releases_activations = fit::needs_dead_activations(run, room)});
  trainer.set_recorder(recorder.get());
  try {
    start(trainer, options, exchange, prepared);
    const bool writes = run.share.rank == 0;
    if (writes) claim_output(options, prepared.checkpoint, prepared.lock);
    local = lock_local_folders(options, run.config, exchange);
    expect_place_for_checkpoints(options, run, local);
    if (writes) {
      write_description(options, place, session, prepared);
      report_start(run, session, memory);
    }
    if (exchange != nullptr) expect_shared_output(options, *exchange);
    take_local_folders(options, run.config, prepared.checkpoint, local, exchange);
    const train::TrainResult result = trainer.run(prepared.lock.get(), local.nodes);
    if (writes && exchange != nullptr) report_messages(*exchange);
    messages.reset();
    if (recorder) finish_trace(*recorder, traced);
    if (!writes) return;
    report_end(run.config, result, options.out);
    if (options.explain) {
      const fit::RunMemory estimate = fit::estimate_run(run, room);
      streams::print("{}{}{}{}", explain(sched_starpu::report()),
                     explain(trainer.speculation().totals()), fit::explain_activations(run, room),
                     fit::device_memory_text(session, estimate.devices));
    }
  } catch (const ranks::AgreedError&) {
    throw;
  } catch (const std::exception& error) {
    // Before the trainer is destroyed, which waits for all of its tasks.
    if (exchange != nullptr) give_up(*exchange, error.what());
    throw;
  }
}

/// Of MPI, this program and two checkpoints under way, and what a run has open at once.
constexpr Index kThreadsOfRun = 14, kFilesOfRun = 64;

void launch_prepared(const LaunchOptions& options, const Company& company, Preparation prepared) {
  const config::TrainConfig& config = prepared.run.config;
  const bool prints = prepared.run.share.rank == 0;
  if (prints)
    for (const std::string& words : config::words_on_idle_keys(config)) log::warn("{}", words);
  expect_traced_steps(options.trace_steps,
                      prepared.checkpoint ? prepared.checkpoint->manifest().step : 0,
                      config.last_step());
  const auto verification = start_verification(options, prepared, company.place);
  platform::blas::use_one_thread();
  codelets::choose_products(config.train.products);
  codelets::choose_attention(config.train.attention,
                             config.train.cuda_devices == 0 ? 0 : rt::least_cuda_capability());
  sched_starpu::configure(
      config.scheduling(prepared.run.share.ranks, measured_link(options.machines, company.place)));
  rt::SessionConfig wanted{.scheduler = options.scheduler,
                           .cpu_workers = config.train.workers == 0 ? -1 : config.train.workers,
                           .opencl_workers = config.train.opencl_devices,
                           .cuda_workers = config.train.cuda_devices,
                           .device_memory = config.gpu_memory_bytes(),
                           .cuda_workspace = models::cuda_workspace_bytes(
                               prepared.run.model, config.parameter_types().working),
                           .measurements = options.dry_run ? "" : options.out / "starpu",
                           .other_threads = kThreadsOfRun,
                           .files = kFilesOfRun,
                           .schedulers = sched_starpu::policies()};
  apply(company.place, config.train.workers, wanted);
  rt::Session session(wanted);
  train::catch_stop_signals_again();
  if (company.exchange != nullptr) keep_from_workers(company.place, company.exchange->thread());
  for (const rt::Codelet* codelet : codelets::all_codelets())
    rt::expect_readable_history(codelet->symbol());
  expect_workers(config, session, /*cuda=*/!plans_gpus(options, config, session));
  const fit::Room room = room_of_rank(options, prepared.run, company.place, session, prints);
  // Nobody allocates before all have looked.
  prepared.run.disk_free = free_on_disks(prepared.run, company.place, company.exchange);
  // A dry run shows what does not fit, too.
  const bool is_open = config.train.fit == "auto" || config.train.activations == "auto";
  if (!options.dry_run || is_open) prepared.run = fitted(prepared.run, room, company.exchange);
  prepared.run = fit::choose_homes(prepared.run, room);
  if (!train::plan_homes(prepared.run, session.workers()).are_all_in_host_memory())
    sched_starpu::expect_states_elsewhere();
  prepared.run = fit::choose_ahead(prepared.run, room, /*may_exceed=*/options.dry_run);
  wait_for_verification(options, prepared, verification.get(), company.exchange);
  if (options.dry_run) {
    if (prints)
      streams::print("precision: {}\n{}", describe_precision(config),
                     fit::memory_report(prepared.run, room));
    return expect_room_on_disks(prepared.run, room, company.place, session.workers());
  }
  fit::expect_room_for_updates(prepared.run, room, session.scheduler());
  if (prints) expect_unused_output(options, prepared.checkpoint);
  const bool is_done =
      prepared.checkpoint && prepared.checkpoint->manifest().step >= config.last_step();
  // What a run was killed before it had copied is brought to its folder.
  const io::CheckpointLevels levels(options.out, options.local_steps);
  if (is_done && !levels.is_local_alone(prepared.checkpoint->folder())) {
    if (prints)
      streams::print("step {} is done already: raise train.steps or train.stop_after to go on\n",
                     prepared.checkpoint->manifest().step);
    return;
  }
  train(options, company, std::move(prepared), session, room, verification.get());
}

/// What the system of a node lacks is said by the first of its ranks.
void say_fallbacks(const platform::RankPosition& position) {
  storage::say_fallbacks_at(
      position.local_rank == 0 ? log::Level::kInfo : log::Level::kDebug,
      position.rank == 0 ? std::string() : fmt::format("rank {}: ", position.rank));
}

void launch_together(LaunchOptions options, const RankPlace& place, ranks::Exchange& exchange) {
  options.out = ranks::gather_texts(exchange, options.out.string()).front();
  agree_on_local_steps(options, &exchange);
  Preparation prepared = prepare_together(options, exchange);
  const config::TrainConfig& config = prepared.run.config;
  const std::vector<double> weights =
      rank_weights(config.dist.weights, options.machines, place,
                   config.train.cuda_devices != 0 && !rt::cuda_bus_ids().empty(), exchange);
  prepared.run = prepared.run.with(
      ranks::share_of(prepared.run.layout, exchange.rank(), weights, config.dist.zero));
  launch_prepared(options, {.place = place, .exchange = &exchange}, std::move(prepared));
}

}  // namespace

void launch(const LaunchOptions& options, platform::MpiEnvironment& mpi) {
  if (!options.trace_steps.empty()) {
    expect(!options.trace.empty(), "--trace-steps needs --trace DIR");
    static_cast<void>(trace::parse_step_range(options.trace_steps));
  }
  expect(!options.new_data || options.resume, "--new-data needs --resume");
  expect(options.init_from.empty() || !options.resume || *options.resume == "auto",
         "--init-from starts a run and --resume {} continues one: leave one out, or give --resume "
         "auto",
         options.resume.value_or(""));
  expect(options.lora_from.empty() || !options.init_from.empty(),
         "--lora-from {} names adapters: give the model that they belong to by --init-from",
         options.lora_from.string());
  // Before there is an exchange: all ranks take part, and nothing else may call MPI then.
  const RankPlace place = find_rank_place();
  say_fallbacks(place.position);
  if (mpi.size() == 1) {
    std::unique_ptr<io::RunLock> lock = lock_output(options);
    LaunchOptions alone = options;
    agree_on_local_steps(alone, nullptr);
    Preparation prepared = prepare(alone, 1);
    prepared.lock = std::move(lock);
    return launch_prepared(alone, {.place = place, .exchange = nullptr}, std::move(prepared));
  }
  ranks::Exchange exchange(mpi, {});
  const ranks::ExchangeWatch watch(exchange, &end_hanging_run);
  try {
    launch_together(options, place, exchange);
  } catch (const ranks::AgreedError&) {
    // All ranks are here, and leave together.
    exchange.close();
    throw;
  } catch (const std::exception& error) {
    give_up(exchange, error.what());
    throw;
  }
  exchange.close();
}

}  // namespace dos::launch
