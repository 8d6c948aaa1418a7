// SPDX-License-Identifier: Apache-2.0
#include "train/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "codelets/all.hpp"
#include "dist/exchange_watch.hpp"
#include "dist/gather.hpp"
#include "dist/owners.hpp"
#include "platform/blas.hpp"
#include "rt/cuda.hpp"
#include "rt/history_model.hpp"
#include "sched_starpu/policies.hpp"
#include "train/device_memory.hpp"
#include "train/device_watch.hpp"
#include "train/explain.hpp"
#include "train/fit.hpp"
#include "train/handshake.hpp"
#include "train/launch_report.hpp"
#include "train/memory_advice.hpp"
#include "train/message_memory.hpp"
#include "train/output_folder.hpp"
#include "train/preparation.hpp"
#include "train/rank_place.hpp"
#include "train/rank_weights.hpp"
#include "train/run_data.hpp"
#include "train/run_info.hpp"
#include "train/stop_signal.hpp"
#include "train/tracing.hpp"
#include "train/trainer.hpp"
#include "train/verification.hpp"

namespace dos::train {
namespace {

/// Throws Error unless StarPU has the workers that are configured.
void expect_workers(const TrainConfig& config, const rt::Session& session, bool cuda) {
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

/// A dry run may ask for GPUs that are not there.
bool plans_gpus(const LaunchOptions& options, const TrainConfig& config,
                const rt::Session& session) {
  return options.dry_run && config.train.gpu_memory > 0 && config.train.cuda_devices != 0 &&
         session.cuda_workers() == 0;
}

Room planned_room(const TrainConfig& config, const rt::Session& session) {
  Room room = room_of(session);
  const Index gpus = std::max<Index>(1, config.train.cuda_devices);
  for (Index gpu = 0; gpu < gpus; ++gpu)
    room.devices.push_back(
        {.name = fmt::format("GPU {}, planned", gpu), .bytes = config.gpu_memory_bytes()});
  room.workers += gpus;
  return room;
}

/// What ranks change to fit must be the same for all: the smallest micro-batch that one proposes.
TrainConfig common_fit(TrainConfig mine, dist::Exchange& exchange) {
  const TrainConfig::Train& train = mine.train;
  const Index samples = train.batch * train.accumulate;
  for (const std::string& text :
       dist::gather_texts(exchange, fmt::format("{} {}", train.batch, train.recompute ? 1 : 0))) {
    std::istringstream proposal(text);
    Index batch = 0;
    bool recomputes = false;
    proposal >> batch >> recomputes;
    if (batch < mine.train.batch) mine.train.lanes = std::min(mine.train.lanes, batch);
    mine.train.batch = std::min(mine.train.batch, batch);
    mine.train.recompute = mine.train.recompute || recomputes;
  }
  mine.train.accumulate = samples / mine.train.batch;
  return mine;
}

/// fit_to() of all ranks, and says what it has changed.
TrainConfig fitted(const Preparation& run, const Room& room, const RankShare& share,
                   dist::Exchange* exchange) {
  TrainConfig result = fit_to(run.config, run.model, run.layout, room, share);
  if (exchange != nullptr && run.config.train.fit == "auto") {
    result = common_fit(std::move(result), *exchange);
    // What another rank needs may not fit here: throws.
    TrainConfig fixed = result;
    fixed.train.fit = "error";
    static_cast<void>(fit_to(fixed, run.model, run.layout, room, share));
  }
  const TrainConfig::Train& now = result.train;
  const bool has_changed =
      now.batch != run.config.train.batch || now.recompute != run.config.train.recompute;
  if (has_changed && share.rank == 0)
    log::info("train.fit=auto: train.batch={} train.accumulate={} train.recompute={}", now.batch,
              now.accumulate, now.recompute);
  return result;
}

/// Where a run happens: its place on the machine, its part of the work, and the other ranks, null
/// when there are none.
struct Company {
  const RankPlace& place;
  const RankShare& share;
  dist::Exchange* exchange;
};

void print_error(const std::string& why) {
  fmt::print(stderr, "train_gpt: error: {}\n", why);
  std::fflush(stderr);
}

/// Ends the program, whose tasks will never end, after the other ranks know.
[[noreturn]] void end_stalled_run(const std::string& why, dist::Exchange* exchange) {
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
void give_up(dist::Exchange& exchange, const std::string& why) {
  if (!exchange.abandon(why)) end_hanging_run(why);
}

/// Null without devices.
std::unique_ptr<DeviceWatch> start_device_watch(const LaunchOptions& options,
                                                const Company& company, const Preparation& run,
                                                const rt::Session& session, const Room& room) {
  if (!session.has_devices()) return nullptr;
  return std::make_unique<DeviceWatch>(
      run.config.train.stall_timeout_s,
      memory_advice(run.config, run.model, run.layout, room, company.share, session.scheduler(),
                    options.out),
      [exchange = company.exchange](const std::string& why) { end_stalled_run(why, exchange); });
}

void train(const LaunchOptions& options, const Company& company, Preparation run,
           rt::Session& session, const Room& room, const data::Verification* verification) {
  const auto& [place, share, exchange] = company;
  const TraceTarget traced{.folder = options.trace, .share = share, .exchange = exchange};
  const std::unique_ptr<trace::Recorder> recorder =
      start_trace(session, traced, options.trace_steps, run.config, run.model);
  std::optional<MessageTrace> messages;
  if (recorder && exchange != nullptr) messages.emplace(*recorder, *exchange);
  const MessageMemory memory = choose_message_memory(
      run.config.dist.gpu_messages, platform::MpiEnvironment::is_cuda_aware(), rt::devices());
  if (exchange != nullptr && memory.gpu)
    exchange->prepare_thread(
        [device = rt::cuda_device_of(memory.gpu->worker)] { rt::use_cuda_device(device); });
  const nlohmann::json tokenizer = describe_tokenizer(run.dataset.manifest);
  const nlohmann::json identity = describe_data(run.dataset);
  // Lives longer than the trainer, whose destructor waits for all tasks.
  const auto watch = start_device_watch(options, company, run, session, room);
  Trainer trainer(session, {.config = run.config,
                            .model = run.model,
                            .out = options.out,
                            .dataset = std::move(run.dataset),
                            .tokenizer = tokenizer,
                            .data = identity,
                            .verification = verification,
                            .quiet = options.quiet,
                            .share = share,
                            .exchange = exchange,
                            .message_node = memory.gpu ? memory.gpu->node : rt::kHostNode,
                            .releases_activations = needs_dead_activations(
                                run.config, run.model, run.layout, room, share)});
  trainer.set_recorder(recorder.get());
  try {
    run.checkpoint ? trainer.resume(*run.checkpoint) : trainer.start_fresh();
    const bool writes = share.rank == 0;
    if (writes) {
      claim_output(options, run.checkpoint, run.lock);
      run.tokenizer.write();
      nlohmann::json info =
          describe_run(run.config, run.model, session.scheduler(), session.cpu_workers());
      info["ranks"] = share.ranks;
      info["placement"] = describe(place);
      write_durably(options.out / "run.json", info.dump(2) + "\n");
      report_start(run.config, run.model, run.layout, session, share, memory);
    }
    const TrainResult result = trainer.run();
    if (writes && exchange != nullptr) report_messages(*exchange);
    messages.reset();
    if (recorder) finish_trace(*recorder, traced);
    if (!writes) return;
    report_end(run.config, result, options.out);
    if (options.explain) {
      const RunMemory estimate = estimate_run(run.config, run.model, run.layout, room, share);
      fmt::print("{}{}", explain(sched_starpu::report()),
                 device_memory_text(session, estimate.devices));
    }
  } catch (const AgreedError&) {
    throw;
  } catch (const std::exception& error) {
    // Before the trainer is destroyed, which waits for all of its tasks.
    if (exchange != nullptr) give_up(*exchange, error.what());
    throw;
  }
}

void launch_prepared(const LaunchOptions& options, const Company& company, Preparation run) {
  TrainConfig& config = run.config;
  const RankShare& share = company.share;
  const bool prints = share.rank == 0;
  const auto verification = start_verification(options, run, company.place);
  platform::blas::use_one_thread();
  sched_starpu::configure(config.scheduling(share.ranks));
  rt::SessionConfig wanted{.scheduler = options.scheduler,
                           .cpu_workers = config.train.workers == 0 ? -1 : config.train.workers,
                           .opencl_workers = config.train.opencl_devices,
                           .cuda_workers = config.train.cuda_devices,
                           .device_memory = config.gpu_memory_bytes(),
                           .measurements = options.dry_run ? "" : options.out / "starpu",
                           .schedulers = sched_starpu::policies()};
  apply(company.place, config.train.workers, wanted);
  rt::Session session(wanted);
  catch_stop_signals_again();
  if (company.exchange != nullptr) keep_from_workers(company.place, company.exchange->thread());
  for (const rt::Codelet* codelet : codelets::all_codelets())
    rt::expect_readable_history(codelet->symbol());
  const bool plans = plans_gpus(options, config, session);
  expect_workers(config, session, /*cuda=*/!plans);
  Room room = plans ? planned_room(config, session) : room_of(session);
  // The other ranks of the node take as much.
  room.host_bytes /= company.place.position.local_size;
  // Nobody allocates before all have looked.
  if (company.exchange != nullptr) dist::gather_texts(*company.exchange, "");
  // A dry run shows what does not fit, too.
  if (!options.dry_run || config.train.fit == "auto")
    config = fitted(run, room, share, company.exchange);
  wait_for_verification(options, run, verification.get(), company.exchange);
  if (options.dry_run) {
    if (prints)
      fmt::print("precision: {}\n{}", describe_precision(config),
                 memory_report(config, run.model, run.layout, room, share));
    return;
  }
  expect_room_for_updates(config, run.layout, room, share, session.scheduler());
  if (prints) expect_unused_output(options, run.checkpoint);
  if (run.checkpoint && run.checkpoint->manifest().step >= config.last_step()) {
    if (prints)
      fmt::print("step {} is done already: raise train.steps or train.stop_after to go on\n",
                 run.checkpoint->manifest().step);
    return;
  }
  train(options, company, std::move(run), session, room, verification.get());
}

void launch_together(LaunchOptions options, const RankPlace& place, dist::Exchange& exchange) {
  options.out = dist::gather_texts(exchange, options.out.string()).front();
  Preparation run = prepare_together(options, exchange);
  const TrainConfig::Train& train = run.config.train;
  const std::vector<double> weights =
      rank_weights(run.config.dist.weights, options.machines, place,
                   train.cuda_devices != 0 && !rt::cuda_bus_ids().empty(), exchange);
  const RankShare share = share_of(run.layout, exchange.rank(), weights, run.config.dist.zero);
  launch_prepared(options, {.place = place, .share = share, .exchange = &exchange}, std::move(run));
}

}  // namespace

void launch(const LaunchOptions& options, platform::MpiEnvironment& mpi) {
  if (!options.trace_steps.empty()) {
    expect(!options.trace.empty(), "--trace-steps needs --trace DIR");
    static_cast<void>(trace::parse_step_range(options.trace_steps));
  }
  expect(!options.new_data || options.resume, "--new-data needs --resume");
  // Before there is an exchange: all ranks take part, and nothing else may call MPI then.
  const RankPlace place = find_rank_place();
  if (mpi.size() == 1) {
    const RankShare alone;
    std::unique_ptr<io::RunLock> lock = lock_output(options);
    Preparation run = prepare(options, 1);
    run.lock = std::move(lock);
    return launch_prepared(options, {.place = place, .share = alone, .exchange = nullptr},
                           std::move(run));
  }
  dist::Exchange exchange(mpi, {});
  const dist::ExchangeWatch watch(exchange, &end_hanging_run);
  try {
    launch_together(options, place, exchange);
  } catch (const AgreedError&) {
    // All ranks are here, and leave together.
    exchange.close();
    throw;
  } catch (const std::exception& error) {
    give_up(exchange, error.what());
    throw;
  }
  exchange.close();
}

}  // namespace dos::train
