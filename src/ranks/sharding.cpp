// SPDX-License-Identifier: Apache-2.0
#include "ranks/sharding.hpp"

#include <algorithm>
#include <utility>

#include "codelets/collect/collect_codelet.hpp"
#include "codelets/cross_entropy/cross_entropy_codelet.hpp"
#include "nn/urgency.hpp"
#include "shape/owners.hpp"

namespace dos::ranks {
namespace {

/// As urgent as the norms that wait for it.
constexpr int kScalarPriority = 1 << 19;

/// Of what a rank updates.
struct Sizes {
  Index largest_owned = 0;
  Index owned = 0;
};

Sizes sizes_of(const shape::Layout& layout, const RankShare& share, Index rank) {
  Sizes sizes;
  for (std::size_t i = 0; i < share.owners.size(); ++i) {
    if (share.owners[i] != rank || !layout.subgroups[i].trained) continue;
    sizes.largest_owned = std::max(sizes.largest_owned, layout.subgroups[i].count);
    ++sizes.owned;
  }
  return sizes;
}

Index receive_buffers(const Sizes& sizes, const RankShare& share) {
  return std::min(shape::kReceiveBuffers, sizes.owned * (share.ranks - 1));
}

std::unique_ptr<rt::Handle> make_scalars(rt::Session& session, const char* name, Index rank,
                                         Index count) {
  return std::make_unique<rt::Handle>(session,
                                      rt::HandleSpec{.name = fmt::format("{}.rank{}", name, rank),
                                                     .type = DType::kF64,
                                                     .count = count,
                                                     .category = MemoryCategory::kData});
}

}  // namespace

Sharding::Sharding(rt::Submitter& submitter, const tensor::ParameterSet& parameters,
                   Exchange& exchange, RankShare share, int node)
    : submitter_(submitter),
      parameters_(parameters),
      share_(std::move(share)),
      slots_(parameters.layout(), shape::kSlotSets),
      gradient_rounds_(share_.owners.size(), 0),
      parameter_rounds_(share_.owners.size(), 0),
      transfers_(exchange),
      model_transfers_(exchange, node) {
  rt::Session& session = submitter.session();
  const Sizes sizes = sizes_of(parameters.layout(), share_, share_.rank);
  for (Index i = 0; i < receive_buffers(sizes, share_); ++i)
    received_.push_back(std::make_unique<rt::Handle>(
        session, rt::HandleSpec{.name = fmt::format("received_gradient{}", i),
                                .type = parameters.gradient_type(),
                                .count = sizes.largest_owned,
                                .category = MemoryCategory::kGradients}));
  for (Index rank = 0; rank < share_.ranks; ++rank) {
    if (rank != share_.rank) others_.push_back(rank);
    sums_.push_back(make_scalars(session, "sums_of_squares", rank,
                                 sizes_of(parameters.layout(), share_, rank).owned));
    losses_.push_back(make_scalars(session, "loss", rank, 1));
  }
}

rt::MemoryBytes Sharding::bytes(const shape::Layout& layout, const RankShare& share,
                                DType gradient_type) {
  const Sizes sizes = sizes_of(layout, share, share.rank);
  rt::MemoryBytes bytes;
  bytes[MemoryCategory::kGradients] =
      receive_buffers(sizes, share) * sizes.largest_owned * size_of(gradient_type);
  bytes[MemoryCategory::kData] = size_of(DType::kF64) * (layout.trained_subgroups() + share.ranks);
  return bytes;
}

const shape::Subgroup& Sharding::subgroup_at(Index subgroup) const {
  return parameters_.layout().subgroups[static_cast<std::size_t>(subgroup)];
}

bool Sharding::is_gathered(Index subgroup) const {
  return share_.zero == 3 && slots_.are_shared(subgroup_at(subgroup).depth);
}

bool Sharding::begin_micro_batch(bool first, bool last) {
  is_first_ = first;
  is_last_ = last;
  return first || share_.zero >= 2;
}

void Sharding::after_backward(Index depth) {
  if (share_.zero == 1 && !is_last_) return;
  const rt::TaskTag tag = submitter_.tag();
  submitter_.set_tag({rt::Phase::kReduce, tag.step});
  // As backward makes them: matrices from the last to the first, then vectors.
  const std::vector<Index>& members = slots_.members(depth);
  std::for_each(members.rbegin(), members.rend(), [&](Index subgroup) {
    if (subgroup_at(subgroup).trained) reduce(subgroup);
  });
  submitter_.set_tag(tag);
}

void Sharding::reduce(Index subgroup) {
  const MessageName name{Kind::kGradient, subgroup,
                         gradient_rounds_[static_cast<std::size_t>(subgroup)]++};
  const rt::Handle& gradient = parameters_.gradients()[subgroup];
  if (!owns(subgroup)) {
    model_transfers_.send(gradient, {owner_of(subgroup)}, name);
    return;
  }
  const shape::Subgroup& place = subgroup_at(subgroup);
  const rt::TaskOptions options{.priority = nn::backward_urgency(place.depth).off_path,
                                .label = place.name.c_str()};
  const rt::Handle& sum = parameters_.sums()[subgroup];
  if (parameters_.has_sums()) {
    if (is_first_ || share_.zero == 1)
      codelets::submit<codelets::TakeGradient>(submitter_, {.sum = sum, .x = gradient}, options);
    else
      codelets::submit<codelets::AddGradient>(submitter_, {.sum = sum, .x = gradient}, options);
  }
  for (Index i = 1; i < share_.ranks; ++i) {
    const rt::Handle& received = *received_[next_received_++ % received_.size()];
    transfers_.receive(received, place.count, (share_.rank + i) % share_.ranks, name);
    codelets::submit<codelets::AddGradient>(submitter_, {.sum = sum, .x = received}, options);
  }
}

void Sharding::share_sums(std::span<const rt::Handle* const> sums) {
  std::vector<std::vector<const rt::Handle*>> by_rank(sums_.size());
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (sums[i] != nullptr) by_rank[static_cast<std::size_t>(share_.owners[i])].push_back(sums[i]);
  const rt::TaskOptions options{.priority = kScalarPriority, .label = "sums of squares"};
  const auto own = static_cast<std::size_t>(share_.rank);
  if (!by_rank[own].empty())
    codelets::submit<codelets::Pack>(submitter_, {.packed = *sums_[own], .scalars = by_rank[own]},
                                     options);
  exchange_scalars(sums_, Kind::kSums, sums_round_++);
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank)
    if (rank != own && !by_rank[rank].empty())
      codelets::submit<codelets::Unpack>(
          submitter_, {.packed = *sums_[rank], .scalars = by_rank[rank]}, options);
}

void Sharding::exchange_scalars(const std::vector<std::unique_ptr<rt::Handle>>& by_rank, Kind kind,
                                Index round) {
  const rt::Handle& mine = *by_rank[static_cast<std::size_t>(share_.rank)];
  if (mine.count() > 0) transfers_.send(mine, others_, {kind, share_.rank, round});
  for (const Index rank : others_) {
    const rt::Handle& theirs = *by_rank[static_cast<std::size_t>(rank)];
    if (theirs.count() > 0) transfers_.receive(theirs, theirs.count(), rank, {kind, rank, round});
  }
}

void Sharding::submit_mean_loss(std::span<const rt::Handle* const> lane_losses, Index targets,
                                const rt::Handle& mean, const char* label) {
  const rt::TaskOptions options{.priority = kScalarPriority, .label = label};
  codelets::submit<codelets::MeanLoss>(
      submitter_, {.mean = *losses_[static_cast<std::size_t>(share_.rank)], .lanes = lane_losses},
      {targets}, options);
  exchange_scalars(losses_, Kind::kLoss, loss_round_++);
  std::vector<const rt::Handle*> parts;
  for (const auto& loss : losses_) parts.push_back(loss.get());
  codelets::submit<codelets::MeanLoss>(submitter_, {.mean = mean, .lanes = parts}, {1}, options);
}

void Sharding::updated(Index subgroup) {
  if (!is_gathered(subgroup)) return send_parameters(subgroup);
  // What of another depth lies in these buffers stays what it is.
  const Index depth = subgroup_at(subgroup).depth;
  const auto resident = resident_.find(slots_.set_of(depth));
  if (resident != resident_.end() && resident->second == depth) resident_.erase(resident);
}

void Sharding::publish() {
  for (Index i = 0; i < std::ssize(share_.owners); ++i) updated(i);
}

void Sharding::gather(Index depth) {
  if (share_.zero != 3 || !slots_.are_shared(depth)) return;
  const auto [resident, is_new] = resident_.try_emplace(slots_.set_of(depth), depth);
  if (!is_new && std::exchange(resident->second, depth) == depth) return;
  for (const Index subgroup : slots_.members(depth)) send_parameters(subgroup);
}

void Sharding::send_parameters(Index subgroup) {
  const MessageName name{Kind::kParameter, subgroup,
                         parameter_rounds_[static_cast<std::size_t>(subgroup)]++};
  const rt::Handle& parameters = parameters_.working()[subgroup];
  if (owns(subgroup))
    model_transfers_.send(parameters, others_, name);
  else
    model_transfers_.receive(parameters, parameters.count(), owner_of(subgroup), name);
}

}  // namespace dos::ranks
