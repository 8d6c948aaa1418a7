// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "codelets/rotary/rotary_codelet.hpp"
#include "nn/priority.hpp"
#include "shape/model_config.hpp"

namespace dos::nn {

/// Rotary position embeddings of queries and keys, in place in qkv; nothing is learned.
class Rotary {
 public:
  Rotary(std::string name, const shape::ModelConfig& config);

  void forward(rt::Submitter& submitter, Index sequences, const rt::Handle& qkv,
               const Urgency& urgency) const {
    turn(submitter, sequences, qkv, /*back=*/false, urgency);
  }
  /// From the gradient of turned queries and keys to that of those before.
  void backward(rt::Submitter& submitter, Index sequences, const rt::Handle& dqkv,
                const Urgency& urgency) const {
    turn(submitter, sequences, dqkv, /*back=*/true, urgency);
  }

 private:
  void turn(rt::Submitter& submitter, Index sequences, const rt::Handle& rows, bool back,
            const Urgency& urgency) const;

  std::string name_;
  codelets::RotaryShape shape_;
};

}  // namespace dos::nn
