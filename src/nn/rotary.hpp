// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "codelets/rotary/rotary_codelet.hpp"
#include "nn/lane_shape.hpp"
#include "nn/urgency.hpp"
#include "shape/model_config.hpp"

namespace dos::nn {

/// Rotary position embeddings of queries and keys, in place in qkv; nothing is learned. Of a
/// sequence that goes on, qkv has the rows of all its tokens.
class Rotary {
 public:
  Rotary(std::string name, const shape::ModelConfig& config);

  void forward(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& qkv,
               const Urgency& urgency) const {
    turn(submitter, lane, qkv, /*back=*/false, urgency);
  }
  /// From the gradient of turned queries and keys to that of those before.
  void backward(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& dqkv,
                const Urgency& urgency) const {
    turn(submitter, lane, dqkv, /*back=*/true, urgency);
  }

 private:
  void turn(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& rows, bool back,
            const Urgency& urgency) const;

  std::string name_;
  codelets::RotaryShape shape_;
};

}  // namespace dos::nn
