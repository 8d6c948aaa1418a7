// SPDX-License-Identifier: Apache-2.0
#include "planner/activation_use.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/real.hpp"

namespace dos::planner {
namespace {

using shape::Refill;
using units::Seconds;

/// What moving to one place takes, each way one block after the other, and what of it shows.
ActivationUse moved(const PassModel& passes, const shape::ActivationPlan& plan, Refill refill) {
  const bool is_host = refill == Refill::kHost;
  ActivationUse use{.where = is_host ? "host" : "disk", .blocks = passes.sets(plan).count(refill)};
  Seconds busy{0};
  for (const bool back : {false, true}) {
    const Move move = passes.move(refill, back);
    busy += std::max(move.link, move.disk) * real(use.blocks);
  }
  const CountedMoves others{.host = !is_host, .disk = is_host};
  const PhaseTimes with = passes.times(plan);
  const PhaseTimes without = passes.times(plan, others);
  use.exposed =
      std::max(Seconds{0}, with.forward + with.backward - without.forward - without.backward);
  use.hidden = std::max(Seconds{0}, busy - use.exposed);
  return use;
}

}  // namespace

const char* class_name(bool is_cheap) {
  return is_cheap ? "norms and activation functions" : "products";
}

std::vector<ActivationUse> activation_uses(const PassModel& passes,
                                           const shape::ActivationPlan& plan) {
  const shape::ActivationSets sets = passes.sets(plan);
  const Index reached = passes.reached();
  const Index recomputed = sets.count(Refill::kRecompute);
  const Index selective = sets.count(Refill::kSelective);
  const Index lost = recomputed + sets.count(Refill::kHost) + sets.count(Refill::kDisk);
  ActivationUse again{.where = "recompute", .blocks = recomputed};
  for (Index layer = 0; layer < passes.blocks(); ++layer)
    if (sets.refill(layer) == Refill::kRecompute)
      again.exposed += passes.refill(Refill::kRecompute, layer);
  std::vector<ActivationUse> uses{
      {.where = "device", .blocks = reached - lost},
      again,
      moved(passes, plan, Refill::kHost),
      moved(passes, plan, Refill::kDisk),
      {.is_cheap = true, .where = "device", .blocks = reached - lost - selective},
      // Where products are computed again, their time is that of all of it.
      {.is_cheap = true,
       .where = "recompute",
       .blocks = lost + selective,
       .exposed = passes.refill(Refill::kSelective, 0) * real(lost + selective - recomputed)}};
  std::erase_if(uses, [](const ActivationUse& use) { return use.blocks == 0; });
  for (ActivationUse& use : uses)
    use.bytes = (use.is_cheap ? passes.cheap() : passes.made()) * real(use.blocks);
  return uses;
}

std::vector<std::string> tensors_of(const shape::Model& model, bool is_cheap) {
  std::vector<std::string> names;
  for (const shape::Activation& each : model.family->block(model.config).kept)
    if (each.is_cheap == is_cheap) names.push_back(each.name);
  return names;
}

std::string activation_text(const std::vector<ActivationUse>& uses) {
  std::string text;
  for (const ActivationUse& use : uses)
    text += fmt::format("  {:<31}{:<10}{:>4} blocks{:>9.2f} GB{:>9.1f} ms hidden{:>9.1f} ms not\n",
                        class_name(use.is_cheap), use.where, use.blocks, use.bytes.value() / 1e9,
                        use.hidden.value() * 1e3, use.exposed.value() * 1e3);
  return text;
}

}  // namespace dos::planner
