// SPDX-License-Identifier: Apache-2.0
#include "planner/passes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/real.hpp"

namespace dos::planner {
namespace {

using shape::Refill;
using units::Bytes;
using units::Seconds;

/// FLOP of the products of a token with the parameters that `counts` accepts, by depth.
template <class Counts>
std::vector<units::Flops> product_flops(const shape::Model& model, const Counts& counts) {
  std::vector<units::Flops> flops(static_cast<std::size_t>(model.depths()));
  const std::string head = shape::head_of(model.config);
  for (const shape::ParameterSpec& spec : model.parameters) {
    const bool is_head = spec.name == head;
    // A table that is only looked up costs no product; a tied one is multiplied at the end.
    if ((spec.is_table && !is_head) || !counts(spec)) continue;
    flops[is_head ? flops.size() - 1 : static_cast<std::size_t>(spec.depth)] +=
        units::Flops(2 * real(spec.count()));
  }
  return flops;
}

/// FLOP of a depth's last product, which makes what no backward reads.
std::vector<units::Flops> last_products(const shape::Model& model) {
  std::vector<units::Flops> flops(static_cast<std::size_t>(model.depths()));
  for (const shape::ParameterSpec& spec : model.parameters)
    if (spec.is_matrix() && !spec.is_adapter)
      flops[static_cast<std::size_t>(spec.depth)] = units::Flops(2 * real(spec.count()));
  return flops;
}

Seconds time_of(units::Bytes bytes, units::BytesPerSecond rate) {
  return bytes > units::Bytes{0} ? bytes / rate : Seconds{0};
}

Seconds link_time(const CopyRates& link, units::Bytes in, units::Bytes out) {
  return std::max({time_of(in, link.in), time_of(out, link.out), time_of(in + out, link.both)});
}

/// Each has its part to do, and the last to end counts; one that takes turns has them all do so.
std::optional<DiskRates> disk_rates(const std::vector<ActivationTier>& tiers, double devices) {
  std::optional<DiskRates> rates;
  for (const ActivationTier& each : tiers) {
    const double part = each.part * devices;
    DiskRates here{.write = each.tier->write.value / part, .read = each.tier->read.value / part};
    if (each.tier->both) here.both = each.tier->both->value / part;
    if (!rates) rates = here;
    rates->write = std::min(rates->write, here.write);
    rates->read = std::min(rates->read, here.read);
    // Without a value is less than any.
    rates->both = std::min(rates->both, here.both);
  }
  return rates;
}

Seconds disk_time(const DiskRates& disk, Bytes read, Bytes written) {
  const Seconds reading = time_of(read, disk.read);
  const Seconds writing = time_of(written, disk.write);
  if (!disk.both) return reading + writing;
  return std::max({reading, writing, time_of(read + written, *disk.both)});
}

}  // namespace

std::vector<units::Flops> forward_flops_by_depth(const shape::Model& model) {
  std::vector<units::Flops> flops =
      product_flops(model, [](const shape::ParameterSpec& /*all*/) { return true; });
  // Two products a head, over the tokens that one attends to: 1 .. reach, then always reach.
  const double reach = real(model.config.reach());
  const double keys = reach - reach * reach / (2 * real(model.config.context));
  const units::Flops attention(4 * keys * real(model.config.attention_width()));
  for (Index layer = 1; layer <= model.config.layers; ++layer)
    flops[static_cast<std::size_t>(layer)] += attention;
  return flops;
}

units::Flops forward_flops(const shape::Model& model) {
  units::Flops sum{0};
  for (const units::Flops flops : forward_flops_by_depth(model)) sum += flops;
  return sum;
}

std::vector<double> backward_ratios(const shape::Model& model) {
  const std::vector<units::Flops> forward = forward_flops_by_depth(model);
  const std::vector<units::Flops> frozen =
      product_flops(model, [](const shape::ParameterSpec& spec) { return !spec.trained; });
  std::vector<double> ratios;
  for (std::size_t depth = 0; depth < forward.size(); ++depth) {
    const bool is_reached = static_cast<Index>(depth) >= model.first_trained_depth();
    const double saved = forward[depth].value() > 0 ? frozen[depth] / forward[depth] : 0;
    ratios.push_back(is_reached ? 2.0 - saved : 0);
  }
  return ratios;
}

PassRates pass_rates_of(const perfmodels::Machine& machine, const Deployment& layout, DType type) {
  const double devices = real(layout.devices_per_node());
  const units::BytesPerSecond dram = machine.dram_bandwidth.value / devices;
  const bool has_own_rate = type == DType::kF32 && machine.training_rate_fp32;
  PassRates rates{
      .compute = has_own_rate ? machine.training_rate_fp32->value : machine.training_rate.value,
      .memory = dram,
      .link = std::nullopt,
      .disk = std::nullopt,
      .dram = dram};
  if (machine.gpus.value > 0) {
    // Updates are bound by it.
    rates.memory = machine.gpu_update_rate.value * perfmodels::kCpuUpdateTraffic;
    rates.link =
        CopyRates{.out = machine.d2h.value, .in = machine.h2d.value, .both = machine.both.value};
  } else {
    // The rate is that of the node.
    rates.compute = rates.compute / devices;
  }
  rates.disk = activation_disk_rates(machine, layout);
  return rates;
}

std::optional<DiskRates> activation_disk_rates(const perfmodels::Machine& machine,
                                               const Deployment& layout) {
  return disk_rates(activation_tiers(machine), real(layout.devices_per_node()));
}

std::vector<ActivationTier> activation_tiers(const perfmodels::Machine& machine) {
  Index folders = 0;
  for (const perfmodels::Tier& tier : machine.tiers) folders += tier.activation_folders;
  std::vector<ActivationTier> tiers;
  for (const perfmodels::Tier& tier : machine.tiers)
    if (tier.activation_folders > 0)
      tiers.push_back({&tier, real(tier.activation_folders) / real(folders)});
  if (!tiers.empty() || machine.tiers.empty()) return tiers;
  const auto rate = [](const perfmodels::Tier& tier) { return tier.write.value; };
  return {{&*std::ranges::max_element(machine.tiers, {}, rate), 1}};
}

std::string activation_tier_names(const perfmodels::Machine& machine) {
  std::vector<std::string> names;
  for (const ActivationTier& each : activation_tiers(machine)) names.push_back(each.tier->name);
  return fmt::format("{}", fmt::join(names, " and "));
}

PassModel::PassModel(const shape::Model& model, const PassRates& rates, double tokens, DType type)
    : model_(model),
      reached_(shape::reached_blocks(model.config, model.first_trained_depth())),
      rates_(rates) {
  const double size = real(size_of(type));
  const auto bytes = [&](bool is_cheap) {
    return units::Bytes(
        tokens *
        real(shape::count_block(*model.family, model.config, is_cheap).bytes(size_of(type))));
  };
  made_ = bytes(/*is_cheap=*/false);
  cheap_ = bytes(/*is_cheap=*/true);
  cheap_again_ =
      units::Bytes(tokens * size * real(shape::cheap_traffic(*model.family, model.config))) /
      rates.memory;
  const std::vector<units::Flops> flops = forward_flops_by_depth(model);
  const std::vector<units::Flops> last = last_products(model);
  const std::vector<double> ratios = backward_ratios(model);
  for (std::size_t depth = 0; depth < flops.size(); ++depth) {
    const Seconds forward = flops[depth] * tokens / rates.compute;
    kept_.push_back({.forward = forward,
                     .backward = forward * ratios[depth],
                     .exchange = Seconds(0),
                     .reduction = Seconds(0)});
    products_again_.push_back((flops[depth] - last[depth]) * tokens / rates.compute);
  }
}

void PassModel::exchange(const std::vector<Seconds>& weights,
                         const std::vector<Seconds>& reductions, Index zero, Seconds update) {
  for (std::size_t depth = 0; depth < kept_.size(); ++depth) {
    kept_[depth].exchange = weights[depth];
    kept_[depth].reduction = reductions[depth];
  }
  zero_ = zero;
  update_ = update;
}

shape::ActivationSets PassModel::sets(const shape::ActivationPlan& plan) const {
  return {model_.config, {.training = true, .plan = plan, .reached = reached_}};
}

Seconds PassModel::refill(Refill refill, Index layer) const {
  if (refill == Refill::kNone) return Seconds{0};
  return refill == Refill::kRecompute ? products_again_[static_cast<std::size_t>(layer) + 1]
                                      : cheap_again_;
}

Move PassModel::move(Refill refill, bool back) const {
  Move move;
  if (refill != Refill::kHost && refill != Refill::kDisk) return move;
  if (rates_.link) move.link = made_ / (back ? rates_.link->in : rates_.link->out);
  if (refill == Refill::kDisk && rates_.disk)
    move.disk = made_ / (back ? rates_.disk->read : rates_.disk->write);
  return move;
}

std::vector<LayerWork> PassModel::layers(const shape::ActivationPlan& plan,
                                         const CountedMoves& counted) const {
  std::vector<LayerWork> works = kept_;
  const shape::ActivationSets sets = this->sets(plan);
  for (Index layer = 0; layer < blocks(); ++layer) {
    const Refill how = sets.refill(layer);
    LayerWork& work = works[static_cast<std::size_t>(layer) + 1];
    work.backward += refill(how, layer);
    if (how == Refill::kHost ? !counted.host : !counted.disk) continue;
    work.store = move(how, /*back=*/false);
    work.load = move(how, /*back=*/true);
  }
  return works;
}

PhaseTimes PassModel::times(const shape::ActivationPlan& plan, const CountedMoves& counted) const {
  return bounded(overlapped(layers(plan, counted), zero_, update_), plan, counted);
}

PhaseTimes PassModel::bounded(PhaseTimes times, const shape::ActivationPlan& plan,
                              const CountedMoves& counted) const {
  const shape::ActivationSets sets = this->sets(plan);
  const units::Bytes hosted = made_ * (counted.host ? real(sets.count(Refill::kHost)) : 0);
  const units::Bytes on_disk = made_ * (counted.disk ? real(sets.count(Refill::kDisk)) : 0);
  const units::Bytes moved = hosted + on_disk;
  const bool moves = moved > units::Bytes{0};
  const auto raise = [&](Seconds& pass, Seconds least) {
    const Seconds longer = std::max(Seconds{0}, least - pass);
    pass += longer;
    if (moves) times.moving += longer;
  };
  if (rates_.link)
    raise(times.backward,
          link_time(*rates_.link, moved + traffic_.in * (moves ? 1 : 0), traffic_.out_backward));
  if (!moves) return times;
  const Seconds forward = times.forward;
  if (rates_.link) raise(times.forward, link_time(*rates_.link, traffic_.in, moved));
  // Where a device copies, what is for a disk is written to host memory and read from there.
  const units::Bytes dram = rates_.link ? hosted + on_disk * 2.0 : on_disk;
  raise(times.forward, dram / rates_.dram);
  times.forward_waits += times.forward - forward;
  raise(times.backward, dram / rates_.dram);
  if (rates_.disk && on_disk > units::Bytes{0})
    raise(times.backward,
          disk_time(*rates_.disk, on_disk + disk_traffic_.read, on_disk + disk_traffic_.written) -
              times.forward);
  return times;
}

}  // namespace dos::planner
