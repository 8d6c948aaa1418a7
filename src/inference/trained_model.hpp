// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "models/demand.hpp"
#include "rt/submitter.hpp"
#include "shape/model_config.hpp"
#include "tensor/parameter_set.hpp"
#include "train/model_source.hpp"

namespace dos::inference {

/// How a trained model is run.
struct Use {
  shape::ModelConfig model;  ///< the source's; context is that of this use
  shape::RunShape run;       ///< training is false; type is also that of working parameters
  std::optional<models::ContinuationShape> continued{};  ///< one sequence grows, in place of a run
  Index workers = 1;                                     ///< that have work space of their own
};

/// The source's model with sequences of `context` tokens; 0: its own. Throws Error naming `option`
/// when it has no positions for them.
shape::ModelConfig with_context(const train::ModelSource& source, Index context,
                                const char* option);

/// Throws Error, in no time, when the source lacks tensors of its model, or when the machine or a
/// limit has too little memory for the use. `remedy` says what takes less, after "use a machine
/// with more, ".
void expect_room(const train::ModelSource& source, const Use& use, const std::string& remedy);

/// The parameters of a trained model, for forward passes: frozen, and in BF16 nothing but the
/// working parameters.
class TrainedModel {
 public:
  /// Allocates and loads them, rounded where `working` is BF16. The session must outlive the
  /// object. Throws Error as ModelSource::load() does.
  TrainedModel(rt::Session& session, const train::ModelSource& source, DType working = DType::kF32);
  ~TrainedModel();
  TrainedModel(const TrainedModel&) = delete;
  TrainedModel& operator=(const TrainedModel&) = delete;

  [[nodiscard]] rt::Session& session() const { return session_; }
  [[nodiscard]] rt::Submitter& submitter() { return submitter_; }
  [[nodiscard]] const tensor::ParameterSet& parameters() const { return parameters_; }

 private:
  rt::Session& session_;
  rt::Submitter submitter_;
  tensor::ParameterSet parameters_;
};

}  // namespace dos::inference
