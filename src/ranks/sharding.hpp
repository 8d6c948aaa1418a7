// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "ranks/handle_transfer.hpp"
#include "ranks/share.hpp"
#include "rt/submitter.hpp"
#include "tensor/parameter_listener.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::ranks {

/// The tasks and messages between the ranks of a training (docs/distributed.md): gradients go to
/// the rank that owns their subgroup and are added there, sums of squares and losses go to all,
/// parameters go from their owner to all. Everything is ordered by the handles, nothing waits.
///
/// Ranks add in a fixed order: the owner's own gradient, then those of the ranks behind it, from
/// rank 0 on again behind the last. So the bits depend on the number of ranks and dist.weights, and
/// on nothing else of them.
class Sharding final : public tensor::ParameterListener {
 public:
  /// All references must outlive the object, and all ranks make the same calls. `node`: the memory
  /// out of which gradients go and into which parameters come, as HandleTransfers has it; what is
  /// added on CPUs arrives in host memory.
  Sharding(rt::Submitter& submitter, const tensor::ParameterSet& parameters, Exchange& exchange,
           RankShare share, int node = rt::kHostNode);
  /// Waits until everything that was submitted has arrived.
  ~Sharding() override = default;

  /// Bytes that the constructor registers.
  static rt::MemoryBytes bytes(const shape::Layout& layout, const RankShare& share,
                               DType gradient_type);

  /// Says which micro-batch of the step is submitted next. Returns whether its gradients overwrite
  /// what is there.
  bool begin_micro_batch(bool first, bool last);
  void before_forward(Index depth) override { gather(depth); }
  void before_backward(Index depth) override { gather(depth); }
  void after_backward(Index depth) override;
  void share_sums(std::span<const rt::Handle* const> sums) override;
  void updated(Index subgroup) override;

  /// Brings all parameters to the ranks that keep them: when they did not come from an update.
  void publish();
  /// mean (FP64 [1]) = (sum of the lanes' losses of all ranks) / targets, on every rank.
  void submit_mean_loss(std::span<const rt::Handle* const> lane_losses, Index targets,
                        const rt::Handle& mean, const char* label);

 private:
  void gather(Index depth);
  void send_parameters(Index subgroup);
  void reduce(Index subgroup);
  void exchange_scalars(const std::vector<std::unique_ptr<rt::Handle>>& by_rank, Kind kind,
                        Index round);
  [[nodiscard]] bool is_gathered(Index subgroup) const;
  [[nodiscard]] bool owns(Index subgroup) const { return owner_of(subgroup) == share_.rank; }
  [[nodiscard]] Index owner_of(Index subgroup) const {
    return share_.owners[static_cast<std::size_t>(subgroup)];
  }
  [[nodiscard]] const shape::Subgroup& subgroup_at(Index subgroup) const;

  rt::Submitter& submitter_;
  const tensor::ParameterSet& parameters_;
  RankShare share_;
  tensor::Slots slots_;
  std::vector<Index> others_;                          ///< ranks
  std::vector<std::unique_ptr<rt::Handle>> received_;  ///< gradients of other ranks, in turn
  std::size_t next_received_ = 0;
  std::vector<std::unique_ptr<rt::Handle>> sums_;    ///< FP64, of a rank's subgroups, by rank
  std::vector<std::unique_ptr<rt::Handle>> losses_;  ///< FP64 [1], by rank
  std::map<Index, Index> resident_;                  ///< depth by set of shared buffers
  bool is_first_ = true;
  bool is_last_ = true;
  std::vector<Index> gradient_rounds_;   ///< by subgroup
  std::vector<Index> parameter_rounds_;  ///< by subgroup
  Index sums_round_ = 0;
  Index loss_round_ = 0;
  // Last: they end before the handles.
  HandleTransfers transfers_;        ///< through host memory
  HandleTransfers model_transfers_;  ///< of what forward reads and backward writes
};

}  // namespace dos::ranks
