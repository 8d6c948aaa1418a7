// SPDX-License-Identifier: Apache-2.0
#include "nn/rotary.hpp"

#include <utility>

namespace dos::nn {

Rotary::Rotary(std::string name, const shape::ModelConfig& config)
    : name_(std::move(name)),
      shape_{
          .sequences = 0,
          .tokens = 0,
          .heads = config.heads + config.key_heads(),
          .head_size = config.head_size(),
          .stride = config.qkv_width(),
          .speed = {.theta = config.rope_theta,
                    .factor = config.rope_scaling.factor,
                    .low_freq_factor = config.rope_scaling.low_freq_factor,
                    .high_freq_factor = config.rope_scaling.high_freq_factor,
                    .original_context = static_cast<double>(config.rope_scaling.original_context)},
          .back = false} {}

void Rotary::turn(rt::Submitter& submitter, const LaneShape& lane, const rt::Handle& rows,
                  bool back, const Urgency& urgency) const {
  codelets::RotaryShape shape = shape_;
  shape.sequences = lane.sequences;
  shape.tokens = lane.context;
  shape.first = lane.first;
  shape.back = back;
  codelets::submit<codelets::Rotary>(submitter, {.x = rows}, shape,
                                     {.priority = urgency.path, .label = name_.c_str()});
}

}  // namespace dos::nn
