// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/memory.hpp"
#include "planner/wire.hpp"
#include "shape/activation_sets.hpp"

namespace dos::planner {

/// Between a device and host memory: each way alone, and the sum of both at once.
struct CopyRates {
  units::BytesPerSecond out;
  units::BytesPerSecond in;
  units::BytesPerSecond both;
};

struct DiskRates {
  units::BytesPerSecond write;
  units::BytesPerSecond read;
  std::optional<units::BytesPerSecond> both{};  ///< at once, their sum; nullopt: they take turns
};

/// What one device has for forward and backward while all of its node work.
struct PassRates {
  units::FlopsPerSecond compute;
  units::BytesPerSecond memory;   ///< its own: norms and activation functions are bound by it
  std::optional<CopyRates> link;  ///< to host memory; nullopt: it computes there
  std::optional<DiskRates> disk;  ///< its part of those for activations; nullopt: there is none
  units::BytesPerSecond dram;     ///< its part of the host's
};

/// A tier that activations are moved to.
struct ActivationTier {
  const perfmodels::Tier* tier;
  double part;  ///< of them; all parts are 1
};
/// Those whose folders a run names, activations spread evenly over these; else the tier that writes
/// fastest. None: the machine has none.
std::vector<ActivationTier> activation_tiers(const perfmodels::Machine& machine);
/// Their names, in words.
std::string activation_tier_names(const perfmodels::Machine& machine);

/// `type`: of the products.
PassRates pass_rates_of(const perfmodels::Machine& machine, const Deployment& layout, DType type);
/// PassRates::disk alone.
std::optional<DiskRates> activation_disk_rates(const perfmodels::Machine& machine,
                                               const Deployment& layout);

/// Whose moves take time, beside all that is computed.
struct CountedMoves {
  bool host = true;
  bool disk = true;
};

/// What a step moves over a device's link beside activations.
struct PassTraffic {
  units::Bytes in{0};            ///< to the device, in each pass: gathered weights
  units::Bytes out_backward{0};  ///< from it: gradients
};

/// What disks of activations have to do beside them from the beginning of forward to the end of
/// backward, of one device.
struct DiskLoad {
  units::Bytes read{0};
  units::Bytes written{0};
};

/// Forward and backward of a micro-batch, by what forward leaves for backward. Blocks whose
/// activations others overwrite are refilled before their backward, as shape::ActivationSets says:
/// what is cheap takes its bytes over the rate of the device's memory, products take their FLOP,
/// those of a block but for its last one; what is moved takes its way (overlapped()), and both
/// passes at least what link and DRAM take for all that goes over them, together what disks do.
class PassModel {
 public:
  /// Of one device alone, whose micro-batch has so many tokens of activations of `type`. `model`
  /// outlives the object.
  PassModel(const shape::Model& model, const PassRates& rates, double tokens, DType type);

  /// Among other ranks: what each depth exchanges with them, in the order of depths, as
  /// overlapped().
  void exchange(const std::vector<units::Seconds>& weights,
                const std::vector<units::Seconds>& reductions, Index zero, units::Seconds update);
  void share_link(const PassTraffic& traffic) { traffic_ = traffic; }
  void share_disks(const DiskLoad& traffic) { disk_traffic_ = traffic; }

  [[nodiscard]] PhaseTimes times(const shape::ActivationPlan& plan,
                                 const CountedMoves& counted = {}) const;
  [[nodiscard]] std::vector<LayerWork> layers(const shape::ActivationPlan& plan,
                                              const CountedMoves& counted = {}) const;

  /// Of a block: what products make of it for all tokens, and the rest.
  [[nodiscard]] units::Bytes made() const { return made_; }
  [[nodiscard]] units::Bytes cheap() const { return cheap_; }
  /// What a block's refill takes.
  [[nodiscard]] units::Seconds refill(shape::Refill refill, Index layer) const;
  /// The way of a block's activations to where they go, or back.
  [[nodiscard]] Move move(shape::Refill refill, bool back) const;
  [[nodiscard]] shape::ActivationSets sets(const shape::ActivationPlan& plan) const;
  /// Whether the host's memory is another than the device's.
  [[nodiscard]] bool has_link() const { return rates_.link.has_value(); }
  [[nodiscard]] Index blocks() const { return model_.config.layers; }
  /// The blocks that backward goes through.
  [[nodiscard]] Index reached() const { return reached_; }

 private:
  [[nodiscard]] PhaseTimes bounded(PhaseTimes times, const shape::ActivationPlan& plan,
                                   const CountedMoves& counted) const;

  const shape::Model& model_;
  Index reached_;
  PassRates rates_;
  units::Bytes made_;
  units::Bytes cheap_;
  units::Seconds cheap_again_;                  ///< norms and activation functions of a block
  std::vector<units::Seconds> products_again_;  ///< by depth: all but the last one
  std::vector<LayerWork> kept_;                 ///< by depth, when all is kept
  Index zero_ = 1;
  units::Seconds update_{0};
  PassTraffic traffic_;
  DiskLoad disk_traffic_;
};

/// FLOP of the forward pass of one token: 2 a parameter of a matrix product, and 2 * context *
/// width of its queries a layer for causal attention (half of the 4 of a full one), with what a
/// window leaves for the context. Backward is twice that;
/// without the products that make gradients of frozen parameters, and without the depths below the
/// first that is trained.
units::Flops forward_flops(const shape::Model& model);

/// The same by depth, from 0 on. A tied table is multiplied in the last one.
std::vector<units::Flops> forward_flops_by_depth(const shape::Model& model);

/// FLOP of backward over those of forward, by depth, when all activations are kept.
std::vector<double> backward_ratios(const shape::Model& model);

}  // namespace dos::planner
