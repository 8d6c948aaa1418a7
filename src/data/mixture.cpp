// SPDX-License-Identifier: Apache-2.0
#include "data/mixture.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"

namespace dos::data {
namespace {

std::uint64_t round_key(std::uint64_t seed, Index round) {
  static const std::uint64_t stream = stream_of("data.mixture");
  const auto words = Philox(seed).block(static_cast<std::uint64_t>(round), stream);
  return std::uint64_t{words[0]} << 32U | words[1];
}

/// kRound divided in proportion to the weights: each rounded down, what is left to the largest
/// remainders, of equal ones to the first.
std::vector<Index> divide(const std::vector<Mixture::Part>& parts) {
  // In units of the largest weight, so that no sum is infinite.
  const double unit = std::ranges::max_element(parts, {}, &Mixture::Part::weight)->weight;
  double sum = 0;
  for (const auto& part : parts) sum += part.weight / unit;
  std::vector<Index> shares;
  std::vector<std::pair<double, std::size_t>> remainders;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double exact = static_cast<double>(Mixture::kRound) * (parts[i].weight / unit / sum);
    shares.push_back(static_cast<Index>(std::floor(exact)));
    remainders.emplace_back(exact - std::floor(exact), i);
  }
  std::ranges::stable_sort(remainders, [](auto& a, auto& b) { return a.first > b.first; });
  Index left = Mixture::kRound - std::accumulate(shares.begin(), shares.end(), Index{0});
  for (auto next = remainders.begin(); left > 0; ++next, --left) ++shares[next->second];
  return shares;
}

}  // namespace

Mixture::Mixture(std::vector<Part> parts, std::uint64_t seed)
    : parts_(std::move(parts)), seed_(seed) {
  require(!parts_.empty(), "a mixture of nothing");
  const std::vector<Index> shares = divide(parts_);
  first_.push_back(0);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    expect(shares[i] > 0,
           "data.sources: the weight {} of {} is less than one sample in {}; raise it or leave the "
           "source out",
           parts_[i].weight, parts_[i].name, kRound);
    first_.push_back(first_.back() + shares[i]);
  }
}

std::vector<Index> Mixture::shares() const {
  std::vector<Index> result;
  for (std::size_t i = 0; i + 1 < first_.size(); ++i) result.push_back(first_[i + 1] - first_[i]);
  return result;
}

Mixture::Place Mixture::place_of(Index index) const {
  require(index >= 0, "negative sample index");
  if (parts_.size() == 1) return {parts_.front().loader, index};
  const Index round = index / kRound;
  const Index slot = Permutation(kRound, round_key(seed_, round))(index % kRound);
  const auto behind = std::ranges::upper_bound(first_, slot);
  const auto part = static_cast<std::size_t>(behind - first_.begin()) - 1;
  const Index share = first_[part + 1] - first_[part];
  return {parts_[part].loader, round * share + slot - first_[part]};
}

void Mixture::sample(Index index, std::span<std::int32_t> out) const {
  const Place place = place_of(index);
  place.loader.sample(place.index, out);
}

bool Mixture::has_mask() const {
  return std::ranges::any_of(parts_, [](const Part& part) { return part.loader.has_mask(); });
}

Index Mixture::targets(Index first, Index count) const {
  if (!has_mask()) return count * parts_.front().loader.context();
  Index targets = 0;
  for (Index index = first; index < first + count; ++index) {
    const Place place = place_of(index);
    targets += place.loader.targets(place.index);
  }
  return targets;
}

std::vector<std::int32_t> Mixture::micro_batch(const BatchShape& shape,
                                               const BatchPosition& position) const {
  return read_micro_batch(parts_.front().loader.context(), shape, position,
                          [this](Index index, auto out) { sample(index, out); });
}

}  // namespace dos::data
