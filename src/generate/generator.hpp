// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "data/tokenizer.hpp"
#include "generate/sampler.hpp"
#include "models/decoder.hpp"
#include "rt/submitter.hpp"
#include "tensor/parameter_set.hpp"
#include "train/checkpoint.hpp"

namespace dos::generate {

/// Continues token sequences with a trained model.
class Generator {
 public:
  /// Throws Error, in no time, when the checkpoint lacks tensors of its model, or when the machine
  /// or a limit has too little memory for it.
  static void expect_room(const train::CheckpointReader& checkpoint);

  /// Allocates the model and loads its parameters. The session must outlive the object.
  Generator(rt::Session& session, const train::CheckpointReader& checkpoint);
  ~Generator();

  /// Appends `count` tokens to `tokens` (at least one), each drawn from what the model makes of at
  /// most its context's last tokens; calls `grown` after each. Draws tokens of the tokenizer only,
  /// however large the model's vocabulary is; stops early after its end of text.
  void generate(std::vector<std::int32_t>& tokens, Index count, const Sampler& sampler,
                const data::Tokenizer& tokenizer, const std::function<void()>& grown);

 private:
  rt::Session& session_;
  shape::ModelConfig config_;
  rt::Submitter submitter_;
  tensor::ParameterSet parameters_;
  std::unique_ptr<models::Decoder> model_;
};

}  // namespace dos::generate
