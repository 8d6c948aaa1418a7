// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/config.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::rt {
class Submitter;
}

namespace dos::models {

/// Where a micro-batch stands in its step.
struct MicroBatch {
  bool first;        ///< gradients are overwritten, not added to
  float loss_scale;  ///< gradients are those of loss_scale * (summed loss of the micro-batch)
};

/// Told where the submission of a pass stands, at each depth (tensor::ParameterSpec::depth): for
/// parameters that are elsewhere until then, and gradients that go elsewhere.
class DepthListener {
 public:
  virtual ~DepthListener() = default;
  /// Tasks that read the depth's parameters come next.
  virtual void before_forward(Index depth) = 0;
  virtual void before_backward(Index depth) = 0;
  /// No task of this micro-batch that writes the depth's gradients comes any more. Those of depth 0
  /// may be written from the beginning of backward on (a tied head).
  virtual void after_backward(Index depth) = 0;
};

/// A model with its activation buffers: submits the tasks of forward and backward. Every method
/// returns at once; the order of submission is the order of the results.
class Model {
 public:
  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  virtual ~Model() = default;

  /// Forward and backward of tokens[batch, context + 1]: adds to the lanes' losses, leaves
  /// gradients.
  virtual void train(rt::Submitter& submitter, std::span<const std::int32_t> tokens,
                     const MicroBatch& micro_batch) = 0;

  /// Forward of tokens[batch, context + 1]: adds to the lanes' losses.
  virtual void evaluate(rt::Submitter& submitter, std::span<const std::int32_t> tokens) = 0;

  /// Forward of tokens[batch, context + 1], then the logits of token `position` of sequence 0. Row
  /// 0 of the returned buffer begins with them, in the activations' type, once its tasks are done.
  virtual const rt::Handle& predict(rt::Submitter& submitter, std::span<const std::int32_t> tokens,
                                    Index position) = 0;

  /// `listener` must outlive the model; null: none.
  void set_listener(DepthListener* listener) { listener_ = listener; }

  /// Summed loss (nats) of each lane since it was last taken; FP64, one element each.
  [[nodiscard]] virtual std::vector<const rt::Handle*> losses() const = 0;

 protected:
  /// Calls a function of the listener, if there is one.
  void tell(void (DepthListener::*what)(Index), Index depth) {
    if (listener_ != nullptr) (listener_->*what)(depth);
  }

 private:
  DepthListener* listener_ = nullptr;
};

/// One model family: everything the rest of the program needs to know of it.
struct Architecture {
  const char* name;
  /// Its parameters, in the order in which forward uses them.
  std::vector<tensor::ParameterSpec> (*parameters)(const ModelConfig&);
  /// Bytes of activations, work space and token buffers that build() will register.
  rt::MemoryBytes (*buffers)(const ModelConfig&, const RunShape&, const WorkerCount&);
  RunCounts (*counts)(const ModelConfig&, const RunShape&, const tensor::Layout&);
  std::unique_ptr<Model> (*build)(rt::Session&, const tensor::ParameterSet&, const ModelConfig&,
                                  const RunShape&);
};

}  // namespace dos::models
