// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.hpp"

#include <array>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "codelets/cross_entropy/cross_entropy_codelet.hpp"
#include "models/demand.hpp"
#include "models/family.hpp"
#include "nn/initialise.hpp"
#include "ranks/agreed_error.hpp"
#include "train/diagnosis.hpp"
#include "train/initial_weights.hpp"
#include "train/run_info.hpp"

namespace dos::train {
namespace {

/// The step number under which tasks that belong to no step are recorded.
constexpr Index kNoStep = 0;

/// What a rank gives for the signal that asks to stop when its data are bad, a checkpoint was found
/// to have a parameter that is not finite, or states on a disk are lost.
constexpr Index kBadData = -1;
constexpr Index kBadParameter = -2;
constexpr Index kLostStates = -3;

}  // namespace

Trainer::Trainer(rt::Session& session, TrainerInputs inputs)
    : session_(session),
      inputs_(std::move(inputs)),
      submitter_(session),
      states_(session, inputs_.run, inputs_.disk_storage),
      parameters_(session, inputs_.run.layout, inputs_.run.config.parameter_types(),
                  inputs_.run.share.ownership(), states_.homes()),
      optimizer_(optim::make_optimizer(session, parameters_, inputs_.run.config.optimizer(),
                                       states_.homes(), inputs_.run.ahead)),
      speculation_(*optimizer_, inputs_.run.config.optim),
      results_(session, inputs_.run.config.train.run_ahead),
      model_(std::make_unique<models::Decoder>(
          session, parameters_, inputs_.run.model,
          inputs_.run.config.run_shape(models::lane_workers(session)), states_.activations())),
      policy_(session.scheduler()),
      feed_(inputs_.sources, inputs_.run),
      learning_rate_(inputs_.run.config.learning_rate()),
      checkpoints_(
          {.out = inputs_.out,
           .config = inputs_.run.config,
           .states = states_,
           .exchange = inputs_.exchange,
           .writes = inputs_.run.share.rank == 0,
           .storage = inputs_.storage,
           .description = {.seed = static_cast<std::uint64_t>(inputs_.run.config.train.seed),
                           .configuration = to_json(inputs_.run.config),
                           .tokenizer = inputs_.tokenizer,
                           .data = inputs_.data,
                           .architecture = to_json(inputs_.run.model)}},
          parameters_, *optimizer_),
      progress_(inputs_.run.config.train.steps, inputs_.run.config.train.log_every,
                inputs_.quiet || inputs_.run.share.rank != 0),
      devices_(rt::view_machine(), inputs_.run.layout) {
  submitter_.set_releases(inputs_.releases_activations);
  if (inputs_.exchange == nullptr) return;
  sharding_ = std::make_unique<ranks::Sharding>(submitter_, parameters_, *inputs_.exchange,
                                                inputs_.run.share, inputs_.message_node);
  notes_ = std::make_unique<ranks::StepNotes>(*inputs_.exchange);
  model_->set_listener(sharding_.get());
  optimizer_->set_listener(sharding_.get());
}

Trainer::~Trainer() {
  checkpoints_.writer().settle();
  states_.settle();
  session_.wait_all();
}

void Trainer::expect_all_ranks() const {
  if (inputs_.exchange != nullptr) inputs_.exchange->check();
}

void Trainer::start_fresh() {
  submitter_.set_tag({rt::Phase::kInit, kNoStep});
  states_.with_parameters(/*stores=*/true, [&] {
    nn::submit_initialisation(submitter_, parameters_,
                              static_cast<std::uint64_t>(inputs_.run.config.train.seed));
  });
  if (sharding_) sharding_->publish();
  submitter_.profile().take(kNoStep);
  feed_.start(0, 0);
}

void Trainer::start_from(std::span<const hf::ModelWeights> folders) {
  submitter_.set_tag({rt::Phase::kInit, kNoStep});
  const auto seed = static_cast<std::uint64_t>(inputs_.run.config.train.seed);
  together([&] { load_or_initialise(folders, submitter_, parameters_, seed, states_); });
  submit_given_values();
  feed_.start(0, 0);
}

void Trainer::submit_given_values() {
  submitter_.set_tag({rt::Phase::kInit, kNoStep});
  states_.with_parameters(/*stores=*/false,
                          [&] { nn::submit_working_parameters(submitter_, parameters_); });
  if (sharding_) sharding_->publish();
  submitter_.profile().take(kNoStep);
}

void Trainer::expect_own(const CheckpointReader& checkpoint) {
  together([&] { checkpoint.expect_own(inputs_.run, parameters_, *optimizer_); });
}

CheckpointRead Trainer::resume(const CheckpointReader& checkpoint) {
  const io::CheckpointManifest& manifest = checkpoint.manifest();
  expect_own(checkpoint);
  CheckpointRead read;
  together(
      [&] { read = checkpoint.load(checkpoints_.engine(), parameters_, *optimizer_, states_); });
  submit_given_values();
  start_step_ = manifest.step;
  feed_.start(start_step_, manifest.samples_consumed);
  checkpoints_.continue_from(checkpoint.folder(), manifest);
  return read;
}

void Trainer::together(const std::function<void()>& work) const {
  std::string fault;
  try {
    work();
  } catch (const Error& error) {
    fault = error.what();
  }
  if (fault = ranks::first_text(inputs_.exchange, fault); !fault.empty()) fail_together(fault);
}

TrainResult Trainer::run(io::RunLock* lock, const checkpoint::NodeFolders& nodes) {
  const config::TrainConfig::Train& train = inputs_.run.config.train;
  checkpoints_.start(start_step_, lock, nodes);
  if (writes()) metrics_.emplace(inputs_.out / "metrics.jsonl", start_step_, checkpoints_.runs());
  Index step = start_step_;
  while (step < inputs_.run.config.last_step() && !stops()) {
    if (std::ssize(in_flight_) == train.run_ahead) {
      finish_oldest();
      if (stops()) break;
    }
    const bool is_due = checkpoints_.is_due(++step);
    optimizer_->set_sums(checkpoints_.sums(session_, is_due));
    submit_step(step);
    const bool validates =
        step == train.steps || (train.validate_every != 0 && step % train.validate_every == 0);
    if (is_due && !validates) save(step, Reason::kDue);
    states_.end_round();
    if (validates) validate_and_save(step, is_due);
  }
  drain();
  end_if_states_lost();
  end_if_bad_data(step, data_fault());
  save_last(step);
  states_.settle();
  if (metrics_) metrics_->finish();
  result_.step = step;
  result_.best_validation_loss = checkpoints_.best_validation_loss();
  // One that came after the last step stopped nothing.
  if (step < inputs_.run.config.last_step())
    result_.stopped_by =
        stop_signal_name(notes_ ? static_cast<int>(agreed_signal_) : stop_signal());
  return result_;
}

bool Trainer::stops() const {
  return notes_ ? agreed_signal_ != 0
                : stop_signal() != 0 || !data_fault().empty() ||
                      checkpoints_.bad_parameter().has_value() || !states_.fault().empty();
}

void Trainer::end_if_states_lost() {
  const std::string why = ranks::first_text(inputs_.exchange, states_.fault());
  if (why.empty()) return;
  checkpoints_.settle();
  checkpoints_.share_newest();
  fail_together(fmt::format("{}; training stopped, {}", why, checkpoints_.newest_text()));
}

std::string Trainer::data_fault() const {
  if (feed_.fault()) return *feed_.fault();
  if (inputs_.verification == nullptr) return "";
  return inputs_.verification->fault().value_or("");
}

void Trainer::end_if_bad_data(Index step, const std::string& fault) {
  const std::string why = ranks::first_text(inputs_.exchange, fault);
  if (why.empty()) return;
  save_last(step);
  fail_together(
      fmt::format("{}; training stopped, the checkpoint of step {} is intact", why, step));
}

void Trainer::fail_together(const std::string& message) const {
  if (inputs_.exchange != nullptr) throw ranks::AgreedError(message);
  fail("{}", message);
}

void Trainer::submit_gradients(Index step, const DataFeed::MicroBatches& batches) {
  const Index targets = feed_.targets(step);
  const rt::TaskTag tag = submitter_.tag();
  for (Index i = 0; i < std::ssize(batches); ++i) {
    submitter_.set_tag({tag.phase, tag.step, i});
    bool overwrites = i == 0;
    if (sharding_)
      overwrites = sharding_->begin_micro_batch(overwrites, i == std::ssize(batches) - 1);
    model_->train(submitter_, batches[static_cast<std::size_t>(i)],
                  {.first = overwrites, .loss_scale = 1.0F / static_cast<float>(targets)});
  }
  submitter_.set_tag(tag);
  submit_mean_loss(targets, results_.loss(step), "loss");
}

void Trainer::submit_mean_loss(Index targets, const rt::Handle& mean, const char* label) {
  if (sharding_) return sharding_->submit_mean_loss(model_->losses(), targets, mean, label);
  codelets::submit<codelets::MeanLoss>(
      submitter_, {.mean = mean, .lanes = model_->losses()}, {targets},
      {.priority = 0, .label = label, .worker = rt::kAnyModelWorker});
}

void Trainer::submit_step(Index step) {
  if (recorder_ != nullptr) recorder_->begin_step(step);
  const DataFeed::MicroBatches batches = feed_.take();
  if (inputs_.exchange != nullptr) {
    inputs_.exchange->set_step(step);
    notes_->post(step, own_note());
  }
  submitter_.set_tag({rt::Phase::kReduce, step});
  states_.set_step(step);
  submit_gradients(step, batches);
  speculation_.begin_step();
  optimizer_->submit_step(submitter_, step, learning_rate_.at(step), results_.norm(step));
  PolicyWatch::drop_dead(parameters_, *optimizer_);
  checkpoints_.writer().updates_submitted();
  in_flight_.push_back(step);
}

std::vector<rt::TaskRecord> Trainer::take_records(Index step) {
  const trace::ScopedSpan span(recorder_, "wait", step);
  return submitter_.profile().take(step);
}

void Trainer::finish_oldest() {
  const Index step = in_flight_.front();
  in_flight_.pop_front();
  const std::vector<rt::TaskRecord> records = take_records(step);
  if (recorder_ != nullptr) recorder_->end_step(step);
  StepMetrics metrics{.step = step};
  clock_.measure(records, metrics);
  metrics.devices = devices_.measure(records, metrics.ms_step);
  const double tokens =
      static_cast<double>(feed_.shape().samples_per_step() * inputs_.run.model.context);
  metrics.loss = read_scalar(results_.loss(step));
  metrics.grad_norm = read_scalar(results_.norm(step));
  metrics.lr = learning_rate_.at(step);
  metrics.tokens = feed_.samples_after(step) * inputs_.run.model.context;
  metrics.tokens_per_s = tokens / metrics.ms_step * 1e3;
  if (feed_.has_mask()) metrics.targets = feed_.targets(step);
  metrics.flush = PolicyWatch::flush_of(step - start_step_);
  checkpoints_.step_ended(step, metrics.ms_step / 1e3);
  metrics.checkpoint = checkpoints_.take_ended();
  metrics.disks = states_.take_traffic();
  metrics.speculation = speculation_.see(records, metrics.grad_norm);
  step_s_ = step_s_ == 0 ? metrics.ms_step / 1e3 : (step_s_ + metrics.ms_step / 1e3) / 2;
  if (notes_)
    take_notes(step);
  else
    checkpoints_.see(std::array{own_note()});
  if (writes())
    policy_.warn_of_obstacle(step - start_step_, step == inputs_.run.config.last_step());
  busy_ms_ = metrics.ms_busy;
  if (metrics_) metrics_->write(to_json_line(metrics));
  progress_.step(metrics);
  if (record_sink_) record_sink_(step, records);
  if (!std::isfinite(metrics.loss) || !std::isfinite(metrics.grad_norm))
    fail_divergence(step, std::isfinite(metrics.loss) ? "the gradient norm" : "the loss",
                    [&] { submit_gradients(step, feed_.read(step)); });
  result_.loss = metrics.loss;
  checkpoints_.writer().confirm(step);
}

ranks::StepNote Trainer::own_note() const {
  ranks::StepNote note{.signal = data_fault().empty() ? stop_signal() : kBadData,
                       .busy_ms = busy_ms_,
                       .step_s = step_s_};
  if (checkpoints_.bad_parameter()) note.signal = kBadParameter;
  if (!states_.fault().empty()) note.signal = kLostStates;
  checkpoints_.add_to(note);
  return note;
}

void Trainer::take_notes(Index step) {
  std::vector<double> busy_ms;
  // The same decisions at the same place of every rank's loop: all have the same notes.
  const std::vector<ranks::StepNote> notes = notes_->take();
  checkpoints_.see(notes);
  for (const ranks::StepNote& note : notes) {
    if (agreed_signal_ == 0) agreed_signal_ = note.signal;
    busy_ms.push_back(note.busy_ms);
  }
  const std::optional<std::string> line = straggler_.see(busy_ms);
  if (line && writes()) log::warn("step {}: {}", step, *line);
}

void Trainer::drain() {
  while (!in_flight_.empty()) finish_oldest();
}

void Trainer::submit_validation(const DataFeed::MicroBatches& batches) {
  for (const auto& batch : batches) model_->evaluate(submitter_, batch);
  submit_mean_loss(feed_.validation_targets(), results_.validation_loss(), "validation loss");
}

double Trainer::validate(Index step) {
  const trace::ScopedSpan span(recorder_, "validation", step);
  DataFeed::MicroBatches batches;
  std::string fault;
  try {
    batches = feed_.read_validation();
  } catch (const Error& error) {
    fault = error.what();
  }
  end_if_bad_data(step, fault);
  submitter_.set_tag({rt::Phase::kValidation, kNoStep});
  submit_validation(batches);
  submitter_.profile().take(kNoStep);
  const double loss = read_scalar(results_.validation_loss());
  expect_all_ranks();
  if (metrics_) metrics_->write(validation_json_line(step, loss));
  if (!std::isfinite(loss))
    fail_divergence(step, "the validation loss", [&] { submit_validation(batches); });
  return loss;
}

void Trainer::validate_and_save(Index step, bool save_anyway) {
  drain();
  const double loss = validate(step);
  const bool best = checkpoints_.is_best(loss);
  result_.validation_loss = loss;
  progress_.validation(step, loss, best);
  if (best || save_anyway) save(step, best ? Reason::kBest : Reason::kDue);
}

void Trainer::save(Index step, Reason reason) {
  const trace::ScopedSpan span(recorder_, "checkpoint", step);
  checkpoint::Writer& writer = checkpoints_.writer();
  // One that must end before this can begin may wait for the result of its step.
  while (!writer.has_room() && !in_flight_.empty() && in_flight_.front() <= writer.oldest())
    finish_oldest();
  checkpoints_.begin(step, feed_.samples_after(step), reason);
  if (in_flight_.empty()) writer.confirm(step);
}

void Trainer::save_last(Index step) {
  if (checkpoints_.writer().begun() != step && !checkpoints_.has(step)) save(step, Reason::kLast);
  settle_checkpoints();
  if (!checkpoints_.has(step)) {
    // Nothing has overwritten what it was made of.
    checkpoints_.repeat(step, feed_.samples_after(step));
    checkpoints_.writer().confirm(step);
    settle_checkpoints();
  }
  end_if_states_lost();
  const std::string fault =
      ranks::first_text(inputs_.exchange, checkpoints_.has(step) ? checkpoints_.share(step)
                                                                 : checkpoints_.failure_text(step));
  if (!fault.empty()) fail_together(fault);
}

void Trainer::settle_checkpoints() {
  checkpoints_.settle();
  expect_all_ranks();
  if (const std::optional<Index> step = checkpoints_.bad_parameter())
    fail_divergence(*step, "a parameter", [] {});
}

void Trainer::fail_divergence(Index step, const char* what, const std::function<void()>& replay) {
  states_.end_round();  // of a step that is not yet saved: its updates may wait for slots
  end_if_states_lost();
  checkpoints_.settle();
  checkpoints_.share_newest();
  session_.wait_all();
  submitter_.set_tag({rt::Phase::kReduce, kNoStep});
  const std::optional<std::string> place =
      find_first_bad_tensor(submitter_, parameters_, replay, inputs_.exchange, states_);
  fail_together(fmt::format(
      "step {}: {} is not finite; first bad tensor: {}; training stopped, {}. Lower optim.lr, use "
      "optim.clip or look at the data",
      step, what, place.value_or("none when it is computed again from the present parameters"),
      checkpoints_.newest_text()));
}

}  // namespace dos::train
