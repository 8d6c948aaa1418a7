// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/family.hpp"
#include "models/lane.hpp"
#include "nn/loss_head.hpp"
#include "shape/activation_sets.hpp"
#include "tensor/parameter_listener.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::models {

/// Where a micro-batch stands in its step.
struct MicroBatch {
  bool first;        ///< gradients are overwritten, not added to
  float loss_scale;  ///< gradients are those of loss_scale * (summed loss of the micro-batch)
};

/// A decoder-only transformer of any family (family.hpp), with its activation buffers: stem,
/// blocks, a last norm, the vocabulary projection. Submits the tasks of forward and backward, lane
/// by lane. Every method returns at once; the order of submission is the order of the results.
class Decoder {
 public:
  /// Allocates what buffers() counts. The session, `set` and `disk`, which has what `run` moves to
  /// disks, must outlive the object. Throws Error for a family that cannot be trained, sizes out of
  /// range, or a store without room.
  Decoder(rt::Session& session, const tensor::ParameterSet& set, const shape::ModelConfig& config,
          const shape::RunShape& run, tensor::ActivationStore* disk = nullptr);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Forward and backward of tokens[batch, context + 1]: adds to the lanes' losses, leaves
  /// the gradients of what is trained. Backward ends at the lowest depth that has something of it.
  /// Pre: built for training.
  void train(rt::Submitter& submitter, std::span<const std::int32_t> tokens,
             const MicroBatch& micro_batch);

  /// Forward of tokens[batch, context + 1]: adds to the lanes' losses.
  void evaluate(rt::Submitter& submitter, std::span<const std::int32_t> tokens);

  /// Forward of tokens[batch, context + 1], then the logits of token `position` of sequence 0. Row
  /// 0 of the returned buffer begins with them, in the activations' type, once its tasks are done.
  const rt::Handle& predict(rt::Submitter& submitter, std::span<const std::int32_t> tokens,
                            Index position);

  /// `listener` must outlive the model; null: none.
  void set_listener(tensor::ParameterListener* listener) { listener_ = listener; }

  /// Summed loss (nats) of each lane since it was last taken; FP64, one element each.
  [[nodiscard]] std::vector<const rt::Handle*> losses() const;

 private:
  /// Calls a function of the listener, if there is one.
  void tell(void (tensor::ParameterListener::*what)(Index), Index depth) {
    if (listener_ != nullptr) (listener_->*what)(depth);
  }
  void load(rt::Submitter& submitter, std::span<const std::int32_t> tokens);
  void forward(rt::Submitter& submitter, bool trains);
  void backward(rt::Submitter& submitter, const MicroBatch& micro_batch);
  void backward_stem(rt::Submitter& submitter, bool overwrites);
  void backward_block(rt::Submitter& submitter, Index layer, const Lane& lane, bool accumulate);
  /// Whether what products make in a block goes to a store in this micro-batch.
  [[nodiscard]] bool is_moved(Index layer) const;
  void refill(rt::Submitter& submitter, Index layer, const Lane& lane);
  void release_head(rt::Submitter& submitter, const Lane& lane) const;
  void release_block(rt::Submitter& submitter, Index layer, const Lane& lane) const;
  /// Calls f(lane, number of the lane) for each; what it submits is the lane's.
  template <class F>
  void for_each_lane(rt::Submitter& submitter, F&& f) const;
  [[nodiscard]] nn::LossHead::Lane head_lane(const Lane& lane) const;
  [[nodiscard]] codelets::EmbeddingShape embedding_shape(const Lane& lane) const;
  [[nodiscard]] const BlockBuffers& kept(const Lane& lane, Index layer) const;
  [[nodiscard]] Index depths() const { return config_.layers + 1; }

  shape::ModelConfig config_;
  shape::RunShape run_;
  Index first_trained_;  ///< depth
  shape::ActivationSets sets_;
  tensor::ActivationStore* disk_;
  bool uses_disk_ = false;  ///< in the micro-batch that is submitted
  tensor::HostActivations host_;
  std::unique_ptr<rt::Handle> workspace_;
  std::vector<Lane> lanes_;
  Parts parts_;
  nn::LossHead head_;
  tensor::ParameterListener* listener_ = nullptr;
};

}  // namespace dos::models
