// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/sources.hpp"
#include "data/verification.hpp"
#include "hf/model_weights.hpp"
#include "models/decoder.hpp"
#include "optim/optimizer.hpp"
#include "ranks/gather.hpp"
#include "ranks/sharding.hpp"
#include "ranks/straggler.hpp"
#include "rt/submitter.hpp"
#include "tensor/parameter_set.hpp"
#include "trace/recorder.hpp"
#include "train/checkpoint.hpp"
#include "train/data_feed.hpp"
#include "train/device_shares.hpp"
#include "train/metrics.hpp"
#include "train/policy_watch.hpp"
#include "train/progress_line.hpp"
#include "train/run.hpp"
#include "train/run_checkpoints.hpp"
#include "train/run_states.hpp"
#include "train/speculation.hpp"
#include "train/step_results.hpp"
#include "train/stop_signal.hpp"

namespace dos::train {

/// What a run did.
struct TrainResult {
  Index step = 0;                         ///< the last one
  std::optional<double> loss;             ///< of the last step, if this part of the run had one
  std::optional<double> validation_loss;  ///< the last
  std::optional<double> best_validation_loss;  ///< the lowest, of earlier parts of the run too
  const char* stopped_by = nullptr;            ///< a signal's name
};

/// What the trainer is made of; everything is decided and checked before.
struct TrainerInputs {
  Run run;
  std::filesystem::path out;
  data::Sources sources;
  nlohmann::json tokenizer;                          ///< of the data set, for `generate`
  nlohmann::json data{};                             ///< what the data set is known by
  const data::Verification* verification = nullptr;  ///< reads the data meanwhile; may be null
  bool quiet = false;
  ranks::Exchange* exchange = nullptr;  ///< between them; null for one rank
  int message_node = rt::kHostNode;     ///< Sharding's node
  bool releases_activations = true;     ///< on devices, for updates
  /// What checkpoints are written and read with.
  std::function<std::unique_ptr<storage::Backend>()> storage = &storage::make_backend;
  /// What states on disks are written and read with.
  std::function<std::unique_ptr<storage::Backend>()> disk_storage = &storage::make_backend;
};

/// Trains a model: submits steps as a task graph, at most train.run_ahead of them before the oldest
/// is finished, and writes metrics, validation losses and checkpoints. Of several ranks each trains
/// on its own samples and updates the subgroups that it owns; rank 0 writes.
class Trainer {
 public:
  /// Allocates everything. The session must outlive the trainer. Throws Error when the data do not
  /// suit the model.
  Trainer(rt::Session& session, TrainerInputs inputs);
  ~Trainer();

  /// Random parameters, step 0.
  void start_fresh();
  /// The parameters of folders, random ones of what none of them has, step 0. Throws Error when one
  /// is not finite.
  void start_from(std::span<const hf::ModelWeights> folders);
  /// Throws Error, on all ranks when one finds it, when the checkpoint is of another model, seed or
  /// rule, or trains other parameters.
  void expect_own(const CheckpointReader& checkpoint);
  /// Parameters, moments, step and place in the data of a checkpoint. Throws Error, on all ranks
  /// when one finds it, as expect_own(), or when it is damaged; then another may be tried.
  CheckpointRead resume(const CheckpointReader& checkpoint);

  /// Runs to train.steps, train.stop_after or a signal (to any rank, which stops all after the same
  /// step), and leaves a checkpoint. One that cannot be written meanwhile costs a warning. Throws
  /// Error when the data of a step to come are found to be bad, after the steps before it with
  /// their checkpoint; when a loss, the gradient norm or a parameter that was saved is not finite
  /// (naming step and first bad tensor), the last checkpoint or the metrics cannot be written, or a
  /// rank was lost; the checkpoints written before stay. `lock`, of the folder on rank 0, outlives
  /// the trainer.
  TrainResult run(io::RunLock* lock = nullptr, const checkpoint::NodeFolders& nodes = {});

  [[nodiscard]] const tensor::ParameterSet& parameters() const { return parameters_; }
  [[nodiscard]] const optim::Optimizer& optimizer() const { return *optimizer_; }
  [[nodiscard]] const Speculation& speculation() const { return speculation_; }

  /// Tells the recorder where steps begin and end, what the submitting thread does and what goes
  /// between memory and files. It must outlive the trainer. Null: nobody is told.
  void set_recorder(trace::Recorder* recorder) {
    recorder_ = recorder;
    checkpoints_.set_recorder(recorder);
    states_.set_recorder(recorder);
  }

  /// Receives the task records of each finished step.
  void set_record_sink(std::function<void(Index step, std::span<const rt::TaskRecord>)> sink) {
    record_sink_ = std::move(sink);
  }

  /// Seconds for which a checkpoint waits for those that are under way.
  void set_checkpoint_patience(std::chrono::duration<double> patience) {
    checkpoints_.writer().set_patience(patience);
  }
  /// Seconds for which an update waits for a checkpoint before there is a warning.
  void set_update_patience(std::chrono::duration<double> patience) {
    checkpoints_.writer().set_patience_of_updates(patience);
  }

 private:
  using Reason = RunCheckpoints::Reason;

  void submit_step(Index step);
  /// Submits what makes of given values the parameters that all ranks compute with.
  void submit_given_values();
  /// Does what throws Error on some ranks: then all of them fail with what the first has met.
  void together(const std::function<void()>& work) const;
  void submit_gradients(Index step, const DataFeed::MicroBatches& batches);
  void submit_mean_loss(Index targets, const rt::Handle& mean, const char* label);
  std::vector<rt::TaskRecord> take_records(Index step);
  void finish_oldest();
  void take_notes(Index step);
  /// What this rank tells the others at the beginning of a step.
  [[nodiscard]] ranks::StepNote own_note() const;
  [[nodiscard]] bool stops() const;
  /// What is wrong with this rank's data; "" while nothing is known.
  [[nodiscard]] std::string data_fault() const;
  /// Ends the run, with the checkpoints that it has, if states of any rank are lost. Collective.
  void end_if_states_lost();
  /// Ends the run, with a checkpoint of `step`, if `fault` or that of another rank is not "".
  void end_if_bad_data(Index step, const std::string& fault);
  /// Ends the run of all ranks, which call it together.
  [[noreturn]] void fail_together(const std::string& message) const;
  [[nodiscard]] bool writes() const { return inputs_.run.share.rank == 0; }
  /// Throws Error when a rank was lost: nothing that was made since may be kept.
  void expect_all_ranks() const;
  void drain();
  void submit_validation(const DataFeed::MicroBatches& batches);
  double validate(Index step);
  void validate_and_save(Index step, bool save);
  void save(Index step, Reason reason);
  /// Leaves a checkpoint of the step, the last of this part of the run, in its folder.
  void save_last(Index step);
  void settle_checkpoints();
  [[noreturn]] void fail_divergence(Index step, const char* what,
                                    const std::function<void()>& replay);

  rt::Session& session_;
  TrainerInputs inputs_;
  rt::Submitter submitter_;
  RunStates states_;
  tensor::ParameterSet parameters_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Speculation speculation_;
  StepResults results_;
  std::unique_ptr<models::Decoder> model_;
  std::unique_ptr<ranks::Sharding> sharding_;  ///< of several ranks
  std::unique_ptr<ranks::StepNotes> notes_;
  ranks::StragglerWatch straggler_;
  double busy_ms_ = 0;       ///< within which tasks of the last finished step ran
  Index agreed_signal_ = 0;  ///< that stops all ranks
  PolicyWatch policy_;
  DataFeed feed_;
  optim::LearningRate learning_rate_;
  RunCheckpoints checkpoints_;
  std::optional<MetricsFile> metrics_;
  ProgressLine progress_;
  StepClock clock_;
  DeviceShares devices_;
  std::function<void(Index, std::span<const rt::TaskRecord>)> record_sink_;
  trace::Recorder* recorder_ = nullptr;
  std::deque<Index> in_flight_;
  Index start_step_ = 0;
  double step_s_ = 0;  ///< of the last steps, the newer the more
  TrainResult result_;
};

}  // namespace dos::train
