// SPDX-License-Identifier: Apache-2.0
#include "step_bench.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/units.hpp"
#include "codelets/cross_entropy/cross_entropy_codelet.hpp"
#include "config/plan_model.hpp"
#include "fit/estimate.hpp"
#include "fit/fit.hpp"
#include "models/demand.hpp"
#include "models/family.hpp"
#include "nn/initialise.hpp"
#include "planner/phases.hpp"
#include "rt/cuda.hpp"
#include "rt/cuda_memory.hpp"
#include "sched_starpu/policies.hpp"

namespace dos::bench {
namespace {

/// More than any device has.
constexpr double kUnlimited = 0x1p50;

shape::ModelConfig model_config(const StepOptions& options) {
  shape::ModelConfig config = models::find_preset(options.model);
  if (options.context > 0) config.context = options.context;
  if (options.vocab > 0) config.vocabulary = options.vocab;
  config.validate();
  return config;
}

config::TrainConfig train_config(const StepOptions& options) {
  config::TrainConfig config;
  config.train.batch = options.batch;
  config.train.accumulate = options.accumulate;
  config.train.lanes = options.lanes;
  config.train.recompute = options.recompute;
  config.train.precision = options.precision;
  config.train.gradient_precision = options.gradient_precision;
  config.sched.subgroup_params = options.subgroup_params;
  config.expect_in_domains();
  return config;
}

/// What the model needs of each device, states apart.
planner::MemoryUse estimate(const StepPlan& plan, Index devices, units::Bytes available) {
  const config::TrainConfig& config = plan.run.config;
  return fit::estimate_device(plan.run.model, config.run_shape({.count = devices, .on_gpus = true}),
                              plan.run.layout, config.parameter_types(), /*placement=*/{},
                              config.train.accumulate, devices, available);
}

std::vector<std::int32_t> random_tokens(const shape::ModelConfig& config, Index batch,
                                        Index number) {
  const Philox random(static_cast<std::uint64_t>(number));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(batch * (config.context + 1)));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] =
        static_cast<std::int32_t>(random.uniform(i) * static_cast<double>(config.vocabulary));
  return tokens;
}

}  // namespace

StepPlan plan_of(const StepOptions& options) {
  expect(options.steps > 0 && options.warmup >= 0,
         "--steps must be at least 1 and --warmup 0, they are {} and {}", options.steps,
         options.warmup);
  expect(options.accumulate > 0, "--accumulate {}: must be at least 1", options.accumulate);
  StepPlan plan{.run = train::make_run(train_config(options), model_config(options))};
  if (options.state_memory < 0) return plan;
  expect(options.cuda_devices >= 0, "--state-memory {}: say how many --cuda-devices there are",
         options.state_memory);
  const units::Bytes model =
      estimate(plan, std::max<Index>(1, options.cuda_devices), units::Bytes(kUnlimited)).total();
  const units::Bytes limit =
      (model + units::gigabytes(options.state_memory)) / (1 - sched::kMemoryReserve);
  plan.device_memory = static_cast<Index>(limit.value());
  return plan;
}

void Readings::add(const train::StepMetrics& metrics, const std::vector<rt::TaskRecord>& records,
                   const sched_starpu::StepReport& updates) {
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, double>>{{"ms_step", metrics.ms_step},
                                                             {"ms_forward", metrics.ms_forward},
                                                             {"ms_backward", metrics.ms_backward},
                                                             {"ms_update", metrics.ms_update}})
    times_[name].push_back(value);
  for (const rt::TaskRecord& record : records)
    by_codelet_[record.codelet->symbol()] += (record.end_us - record.start_us) / 1e3;
  planned_ += updates.planned_gpu;
  executed_ += updates.executed_gpu;
  total_ += updates.total;
  ++steps_;
}

void Readings::add_tasks(const std::vector<rt::TaskRecord>& records, bool counted) {
  for (const rt::TaskRecord& record : records) {
    tasks_.emplace_back(record.start_us, record.end_us);
    double& end = counted ? counted_end_us_ : warmup_end_us_;
    end = std::max(end, record.end_us);
  }
}

double Readings::idle_share(Index workers) const {
  double busy_us = 0;
  for (const auto& [start, end] : tasks_)
    busy_us += std::max(0.0, std::min(end, counted_end_us_) - std::max(start, warmup_end_us_));
  return 1 - busy_us / ((counted_end_us_ - warmup_end_us_) * static_cast<double>(workers));
}

std::vector<std::pair<double, std::string>> Readings::by_codelet() const {
  std::vector<std::pair<double, std::string>> list;
  for (const auto& [name, ms] : by_codelet_) list.emplace_back(ms / steps_, name);
  std::sort(list.rbegin(), list.rend());
  return list;
}

TakenMemory::TakenMemory(const rt::Device& device)
    : cuda_device_(rt::cuda_device_of(device.worker)),
      before_(rt::cuda_free_bytes(cuda_device_)),
      least_free_(before_) {
  before_ += rt::used_on(device.node);
}

void TakenMemory::look() {
  least_free_ = std::min(least_free_, rt::cuda_free_bytes(cuda_device_));
}

StepBench::StepBench(rt::Session& session, const StepOptions& options, const StepPlan& plan)
    : options_(options),
      plan_(plan),
      shape_(plan.run.config.run_shape(models::lane_workers(session))),
      session_(session),
      devices_(rt::devices()),
      taken_(devices_.begin(), devices_.end()),
      submitter_(session),
      parameters_(session, plan.run.layout, plan.run.config.parameter_types()),
      optimizer_(session, parameters_, {}),
      results_(session, kRunAhead),
      model_(std::make_unique<models::Decoder>(session, parameters_, plan.run.model, shape_)) {
  models::prepare_gpus(plan.run.model, shape_);
}

Readings StepBench::run() {
  submitter_.set_releases(fit::needs_dead_activations(plan_.run, fit::room_of(session_)));
  nn::submit_initialisation(submitter_, parameters_, 1);
  submitter_.profile().take(0);
  const Index last = options_.warmup + options_.steps;
  for (Index step = 1; step <= last + kRunAhead; ++step) {
    if (step > kRunAhead) finish(step - kRunAhead);
    if (step <= last) submit(step);
  }
  return readings_;
}

std::vector<StepBench::DeviceMemory> StepBench::device_memory() const {
  std::vector<DeviceMemory> list;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const rt::Device& device = devices_[i];
    const planner::MemoryUse use = estimate_of(device);
    DeviceMemory memory{.name = device.name, .rows = {}};
    const Index taken = taken_[i].bytes();
    Index but_states = taken;
    for (const fit::DeviceMemoryRow& row : fit::device_memory(session_, device, use)) {
      memory.rows.push_back({name_of(row.category), row.estimated, row.allocated});
      if (row.category == MemoryCategory::kStatesWithParameters) but_states -= row.allocated;
    }
    memory.rows.push_back({"beside StarPU", 0, taken - rt::used_on(device.node)});
    memory.rows.push_back({"all but states", static_cast<Index>(use.total().value()), but_states});
    list.push_back(std::move(memory));
  }
  return list;
}

double StepBench::tokens() const {
  return static_cast<double>(options_.batch * options_.accumulate * plan_.run.model.context);
}

double StepBench::gflop() const {
  const shape::Model model = shape::model_of(options_.model, plan_.run.model);
  return 3 * tokens() * planner::forward_flops(model).value() / 1e9;
}

double StepBench::parameters() const {
  return static_cast<double>(plan_.run.layout.parameter_count());
}

void StepBench::submit(Index step) {
  const auto all = static_cast<Index>(tokens());
  const rt::TaskTag tag{rt::Phase::kReduce, step};
  for (Index micro = 0; micro < options_.accumulate; ++micro) {
    submitter_.set_tag({tag.phase, step, micro});
    model_->train(
        submitter_,
        random_tokens(plan_.run.model, options_.batch, step * options_.accumulate + micro),
        {.first = micro == 0, .loss_scale = 1.0F / static_cast<float>(all)});
  }
  submitter_.set_tag(tag);
  codelets::submit<codelets::MeanLoss>(submitter_,
                                       {.mean = results_.loss(step), .lanes = model_->losses()},
                                       {all}, {.priority = 0, .label = "loss"});
  optimizer_.submit_step(submitter_, step, 1e-4, results_.norm(step));
}

planner::MemoryUse StepBench::estimate_of(const rt::Device& device) const {
  return estimate(plan_, std::max<Index>(1, session_.cuda_workers()),
                  units::Bytes(static_cast<double>(device.memory_bytes.value_or(Index{1} << 50))));
}

void StepBench::finish(Index step) {
  const auto records = submitter_.profile().take(step);
  train::StepMetrics metrics;
  clock_.measure(records, metrics);
  const double loss = train::read_scalar(results_.loss(step));
  expect(loss > 0 && loss < 1e3, "step {}: the loss is {}: these timings are of no training", step,
         loss);
  last_loss_ = loss;
  for (TakenMemory& taken : taken_) taken.look();
  const bool counted = step > options_.warmup;
  readings_.add_tasks(records, counted);
  const auto updates = sched_starpu::step_report(step);
  if (counted) readings_.add(metrics, records, updates.value_or(sched_starpu::StepReport{}));
}

}  // namespace dos::bench
