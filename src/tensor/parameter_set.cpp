// SPDX-License-Identifier: Apache-2.0
#include "tensor/parameter_set.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/bf16.hpp"
#include "base/common_sizes.hpp"

namespace dos::tensor {
namespace {

std::size_t to_size(Index value) {
  return static_cast<std::size_t>(value);
}

/// By subgroup, elements for which devices allocate memory; 0: as many as there are.
std::vector<Index> rooms_of(const shape::Layout& layout, const Buffers& buffers, Use use) {
  std::vector<Index> counts(buffers.size());
  if (use != Use::kUpdates) return counts;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i] != kNoBuffer) counts[i] = layout.subgroups[i].count;
  return common_sizes(counts);
}

}  // namespace

SubgroupHandles::SubgroupHandles(rt::Session& session, const shape::Layout& layout,
                                 const std::string& prefix, MemoryCategory category, DType type)
    : SubgroupHandles(session, layout, BufferPlan(layout, {}, {}).states, prefix, category, type) {}

SubgroupHandles::SubgroupHandles(rt::Session& session, const shape::Layout& layout,
                                 const Buffers& buffers, const std::string& prefix,
                                 MemoryCategory category, DType type, StateHomes* homes, Use use) {
  require(buffers.size() == layout.subgroups.size(), "a buffer, or none, a subgroup");
  std::map<Index, std::shared_ptr<rt::Handle>> made;
  const std::vector<Index> rooms = rooms_of(layout, buffers, use);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    std::shared_ptr<rt::Handle>& handle = made[buffers[i]];
    const shape::Subgroup& subgroup = layout.subgroups[i];
    if (handle == nullptr && buffers[i] != kNoBuffer) {
      const auto index = static_cast<Index>(i);
      const StateHomes::Home home = homes == nullptr ? StateHomes::Home() : homes->home_of(index);
      handle =
          std::make_shared<rt::Handle>(session, rt::HandleSpec{.name = prefix + "." + subgroup.name,
                                                               .type = type,
                                                               .count = subgroup.count,
                                                               .category = category,
                                                               .lent = home.lent,
                                                               .kept_on = home.node,
                                                               .room = rooms[i]});
      if (home.is_elsewhere()) homes->adopt(index, *handle);
    }
    require(handle == nullptr || handle->count() == subgroup.count,
            "equal subgroups share a buffer");
    handles_.push_back(handle);
  }
}

void SubgroupHandles::add_bank(rt::Session& session, Index subgroup) {
  const rt::Handle& first = (*this)[subgroup];
  const auto [bank, is_new] = banks_.try_emplace(
      subgroup, std::make_shared<rt::Handle>(session, rt::HandleSpec{.name = first.name() + ".bank",
                                                                     .type = first.type(),
                                                                     .count = first.count(),
                                                                     .category = first.category(),
                                                                     .room = first.room()}));
  require(is_new, "one more bank a subgroup");
  bank->second->stand_for(first);
}

void SubgroupHandles::read(const shape::PlacedParameter& parameter, std::span<float> out) const {
  require(std::ssize(out) == parameter.spec.count(), "room for the whole parameter");
  for (const shape::Piece& piece : shape::pieces_of(parameter)) {
    const rt::Handle& handle = (*this)[piece.subgroup];
    const rt::HostAccess access(handle, rt::Mode::kRead);
    const auto copy = [&](const auto& elements) {
      const auto from = elements.subspan(to_size(piece.offset), to_size(piece.count));
      std::transform(from.begin(), from.end(), out.begin(),
                     [](auto value) { return to_float(value); });
    };
    if (handle.type() == DType::kBF16)
      copy(access.as<const BF16>());
    else
      copy(access.as<const float>());
    out = out.subspan(to_size(piece.count));
  }
}

void SubgroupHandles::write(const shape::PlacedParameter& parameter, std::span<const float> in,
                            const Ownership& ownership) const {
  require(std::ssize(in) == parameter.spec.count(), "the whole parameter is given");
  for (const shape::Piece& piece : shape::pieces_of(parameter)) {
    if (!ownership.owns(piece.subgroup)) {
      in = in.subspan(to_size(piece.count));
      continue;
    }
    require((*this)[piece.subgroup].type() == DType::kF32, "elements of type f32");
    const rt::HostAccess access((*this)[piece.subgroup], rt::Mode::kReadWrite);
    const auto to = access.as<float>().subspan(to_size(piece.offset), to_size(piece.count));
    std::copy_n(in.begin(), piece.count, to.begin());
    in = in.subspan(to_size(piece.count));
  }
}

ParameterSet::ParameterSet(rt::Session& session, shape::Layout layout, const ParameterTypes& types,
                           Ownership ownership, StateHomes* homes)
    : layout_(std::move(layout)),
      ownership_(std::move(ownership)),
      working_type_(types.working),
      gradient_type_(types.gradient),
      values_(session, layout_, BufferPlan(layout_, types, ownership_).values, "value",
              MemoryCategory::kParameters, DType::kF32,
              types.working == DType::kF32 ? nullptr : homes,
              types.working == DType::kF32 ? Use::kModel : Use::kUpdates),
      gradients_(session, layout_, BufferPlan(layout_, types, ownership_).gradients, "gradient",
                 MemoryCategory::kGradients, types.gradient) {
  const BufferPlan plan(layout_, types, ownership_);
  const auto is_used = [](const Buffers& buffers) {
    return std::any_of(buffers.begin(), buffers.end(), [](Index b) { return b != kNoBuffer; });
  };
  if (types.working != DType::kF32)
    working_.emplace(session, layout_, plan.working, "working", MemoryCategory::kWorking,
                     types.working);
  if (is_used(plan.sums))
    sums_.emplace(session, layout_, plan.sums, "gradient_sum", MemoryCategory::kGradients,
                  DType::kF32);
}

rt::MemoryBytes ParameterSet::bytes(const shape::Layout& layout, const ParameterTypes& types,
                                    const Ownership& ownership) {
  const BufferPlan plan(layout, types, ownership);
  const auto size = [&](const Buffers& buffers, DType type) {
    return element_count(layout, buffers) * size_of(type);
  };
  rt::MemoryBytes bytes;
  bytes[MemoryCategory::kParameters] = size(plan.values, DType::kF32);
  if (types.working != DType::kF32)
    bytes[MemoryCategory::kWorking] = size(plan.working, types.working);
  bytes[MemoryCategory::kGradients] =
      size(plan.gradients, types.gradient) + size(plan.sums, DType::kF32);
  return bytes;
}

}  // namespace dos::tensor
