// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "codelets/cross_entropy/cross_entropy_codelet.hpp"
#include "io/safetensors.hpp"
#include "models/decoder.hpp"
#include "nn/initialise.hpp"
#include "optim/elementwise.hpp"
#include "platform/blas.hpp"
#include "shape/cutter.hpp"
#include "shape/trained_groups.hpp"

namespace dos::test {

inline std::vector<float> floats_of(const io::MappedTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

/// tokens[sequences, context + 1] of a model's vocabulary; others for another step.
inline std::vector<std::int32_t> random_tokens(const shape::ModelConfig& model, Index sequences,
                                               std::uint64_t step = 0) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(sequences * (model.context + 1)));
  const Philox random(7);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] =
        static_cast<std::int32_t>(random.uniform(i, step) * static_cast<double>(model.vocabulary));
  return tokens;
}

struct RunOptions {
  shape::ModelConfig model;
  shape::RunShape shape;
  Index subgroup_params = 5'000'000;
  Index workers = 2;
  std::string scheduler = "lws";
  optim::OptimizerOptions optimizer;
  shape::DecayGroups decay;
  tensor::ParameterTypes types = {};  ///< the working type is that of the activations too
  Index cuda_workers = 0;             ///< if there are any, they run what they can
  Index opencl_workers = 0;
  rt::Schedulers schedulers = {};
  shape::TrainedGroups trained = {};
  tensor::ActivationStore* store = nullptr;  ///< outlives the run

  [[nodiscard]] shape::Layout layout() const {
    std::vector<shape::ParameterSpec> parameters =
        shape::find_family(model.architecture).parameters(model);
    shape::mark_trained(trained, parameters);
    return shape::cut_into_subgroups(parameters, subgroup_params, decay);
  }
};

/// A model with parameters and optimizer, in a session of its own.
class TrainingRun {
 public:
  explicit TrainingRun(const RunOptions& options)
      : options_(with_activations(options)),
        session_({.scheduler = options.scheduler,
                  .cpu_workers = options.workers,
                  .opencl_workers = options.opencl_workers,
                  .cuda_workers = options.cuda_workers,
                  .schedulers = options.schedulers}),
        submitter_(session_),
        parameters_(session_, options.layout(), options.types),
        optimizer_(session_, parameters_, options.optimizer),
        loss_(session_, {.name = "loss", .type = DType::kF64, .count = 1}),
        norm_(session_, {.name = "norm", .type = DType::kF64, .count = 1}),
        model_(std::make_unique<models::Decoder>(session_, parameters_, options_.model,
                                                 options_.shape, options.store)) {
    platform::blas::use_one_thread();
    submitter_.keep_from_cpus(options.cuda_workers > 0);
  }

  [[nodiscard]] const RunOptions& options() const { return options_; }
  [[nodiscard]] rt::Session& session() { return session_; }
  [[nodiscard]] rt::Submitter& submitter() { return submitter_; }
  [[nodiscard]] const tensor::ParameterSet& parameters() const { return parameters_; }
  [[nodiscard]] const optim::Optimizer& optimizer() const { return optimizer_; }
  [[nodiscard]] const shape::Layout& layout() const { return parameters_.layout(); }

  void initialise(std::uint64_t seed) { nn::submit_initialisation(submitter_, parameters_, seed); }

  void load(const io::SafetensorsFile& weights) {
    for (const shape::PlacedParameter& parameter : layout().parameters)
      parameters_.values().write(parameter, floats_of(weights.at(parameter.spec.name)));
    nn::submit_working_parameters(submitter_, parameters_);
  }

  /// The mean loss of tokens[n * batch, context + 1], n micro-batches; leaves its gradients.
  double gradients(std::span<const std::int32_t> tokens) {
    submit_gradients(tokens);
    return take_mean_loss(trained_tokens(tokens));
  }
  /// The same, and nobody waits for the loss.
  void submit_gradients(std::span<const std::int32_t> tokens) {
    const Index trained = trained_tokens(tokens);
    bool first = true;
    for_each_micro_batch(tokens, [&](std::span<const std::int32_t> micro_batch) {
      model_->train(submitter_, micro_batch,
                    {.first = first, .loss_scale = 1.0F / static_cast<float>(trained)});
      first = false;
    });
  }

  /// The mean loss of tokens[n * batch, context + 1].
  double evaluate(std::span<const std::int32_t> tokens) {
    for_each_micro_batch(tokens, [&](std::span<const std::int32_t> micro_batch) {
      model_->evaluate(submitter_, micro_batch);
    });
    return take_mean_loss(trained_tokens(tokens));
  }

  /// The logits of one token of the first sequence.
  std::vector<float> predict(std::span<const std::int32_t> tokens, Index position) {
    const rt::HostAccess logits(model_->predict(submitter_, tokens, position), rt::Mode::kRead);
    const auto row =
        logits.as<const float>().first(static_cast<std::size_t>(options_.model.vocabulary));
    return {row.begin(), row.end()};
  }

  /// The logits[sequences, context, vocabulary] of tokens[sequences, context + 1].
  std::vector<float> logits(std::span<const std::int32_t> tokens) {
    const auto row = static_cast<std::size_t>(options_.model.context + 1);
    std::vector<float> all;
    for (std::size_t first = 0; first < tokens.size(); first += row) {
      // predict() looks at the first sequence of a batch: the others are zeros.
      std::vector<std::int32_t> batch(static_cast<std::size_t>(options_.shape.batch) * row);
      std::ranges::copy(tokens.subspan(first, row), batch.begin());
      for (Index position = 0; position < options_.model.context; ++position) {
        const std::vector<float> logits = predict(batch, position);
        all.insert(all.end(), logits.begin(), logits.end());
      }
    }
    return all;
  }

  /// Updates with the gradients that are there; returns their norm before clipping.
  double update(Index step, double learning_rate) {
    optimizer_.submit_step(submitter_, step, learning_rate, norm_);
    return rt::HostAccess(norm_, rt::Mode::kRead).as<const double>()[0];
  }

  [[nodiscard]] std::vector<float> read(const tensor::SubgroupHandles& handles,
                                        const std::string& name) const {
    const shape::PlacedParameter& parameter = layout().find(name);
    std::vector<float> values(static_cast<std::size_t>(parameter.spec.count()));
    handles.read(parameter, values);
    return values;
  }

  /// What lasts of a parameter.
  [[nodiscard]] std::vector<float> value(const std::string& name) const {
    const bool has_values = parameters_.values().has(layout().find(name).first_subgroup);
    return read(has_values ? parameters_.values() : parameters_.working(), name);
  }

  /// Values, gradients and moments of every parameter, one after the other.
  [[nodiscard]] std::vector<float> everything() const {
    std::vector<float> all;
    for (const shape::PlacedParameter& parameter : layout().parameters) {
      const std::vector<float> values = value(parameter.spec.name);
      all.insert(all.end(), values.begin(), values.end());
    }
    for (const tensor::SubgroupHandles* handles :
         {&parameters_.gradients(), &optimizer_.state(0), &optimizer_.state(1)})
      append(*handles, all);
    return all;
  }
  [[nodiscard]] std::vector<float> all_gradients() const {
    std::vector<float> all;
    append(parameters_.gradients(), all);
    return all;
  }

 private:
  void append(const tensor::SubgroupHandles& handles, std::vector<float>& all) const {
    for (const shape::PlacedParameter& parameter : layout().parameters) {
      if (!parameter.spec.trained) continue;
      const std::vector<float> values = read(handles, parameter.spec.name);
      all.insert(all.end(), values.begin(), values.end());
    }
  }

  static RunOptions with_activations(RunOptions options) {
    options.shape.type = options.types.working;
    return options;
  }

  /// Targets that count.
  [[nodiscard]] Index trained_tokens(std::span<const std::int32_t> tokens) const {
    Index count = 0;
    for (Index i = 0; i < std::ssize(tokens); ++i)
      if (i % (options_.model.context + 1) != 0 && tokens[static_cast<std::size_t>(i)] >= 0)
        ++count;
    return count;
  }

  template <class F>
  void for_each_micro_batch(std::span<const std::int32_t> tokens, F&& f) {
    const auto size = static_cast<std::size_t>(options_.shape.batch * (options_.model.context + 1));
    for (; !tokens.empty(); tokens = tokens.subspan(size)) f(tokens.first(size));
  }

  double take_mean_loss(Index tokens) {
    codelets::submit<codelets::MeanLoss>(submitter_, {.mean = loss_, .lanes = model_->losses()},
                                         {tokens}, {.worker = rt::kAnyModelWorker});
    return rt::HostAccess(loss_, rt::Mode::kRead).as<const double>()[0];
  }

  RunOptions options_;
  rt::Session session_;
  rt::Submitter submitter_;
  tensor::ParameterSet parameters_;
  optim::ElementwiseOptimizer optimizer_;
  rt::Handle loss_;
  rt::Handle norm_;
  std::unique_ptr<models::Decoder> model_;
};

}  // namespace dos::test
