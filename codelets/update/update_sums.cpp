// SPDX-License-Identifier: Apache-2.0
#include "codelets/update/update_sums.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "codelets/update/rule_info.hpp"

namespace dos::codelets {
namespace {

/// Elements of each array at a time: with two states 96 KiB, which stay in the second cache. A
/// multiple of what a kernel computes at once, so that the last part alone has a rest.
constexpr Index kPart = 8192;

constexpr std::int32_t kNoStep = -1;

std::int32_t as_word(Index value) {
  require(value >= 0 && value <= std::numeric_limits<std::int32_t>::max(), "fits a word");
  return static_cast<std::int32_t>(value);
}

UpdateArrays part_of(const UpdateArrays& all, Index states, Index gradient_bytes, Index first,
                     Index count) {
  UpdateArrays part = all;
  part.count = count;
  part.g = static_cast<const std::byte*>(all.g) + first * gradient_bytes;
  part.p += first;
  for (Index i = 0; i < states; ++i) part.states[i] += first;
  if (!part.in_place()) {
    part.old_p += first;
    for (Index i = 0; i < states; ++i) part.old_states[i] += first;
  }
  if (part.w != nullptr) part.w += first;
  return part;
}

}  // namespace

UpdateSums::UpdateSums(std::int32_t* words)
    : words_(words, static_cast<std::size_t>(UpdateSums::words(words[1], words[2]))) {}

void UpdateSums::prepare(std::span<std::int32_t> words, Index arrays, std::span<const Index> ends) {
  require(std::ssize(words) == UpdateSums::words(arrays, std::ssize(ends)), "words of sums");
  require(std::ranges::is_sorted(ends), "ends of pieces ascend");
  std::ranges::fill(words, 0);
  words[0] = kNoStep;
  words[1] = as_word(arrays);
  words[2] = as_word(std::ssize(ends));
  std::ranges::transform(ends, words.begin() + kHeader, as_word);
}

std::size_t UpdateSums::place(Index array, Index piece) const {
  return static_cast<std::size_t>(kHeader + pieces() * (1 + array) + piece);
}

void UpdateSums::set_step(Index step) {
  words_[0] = as_word(step);
}

void UpdateSums::set(Index array, Index piece, const ContentSum& sum) {
  words_[place(array, piece)] = static_cast<std::int32_t>(sum.crc32c);
  words_[place(words_[1] + array, piece)] = sum.is_finite ? 1 : 0;
}

std::optional<ContentSum> UpdateSums::find(Index step, Index array, Index first, Index end) const {
  if (words_[0] != step || array >= words_[1]) return std::nullopt;
  const auto ends = words_.subspan(kHeader, static_cast<std::size_t>(pieces()));
  const Index piece = std::ranges::lower_bound(ends, end) - ends.begin();
  if (piece == pieces() || this->end(piece) != end) return std::nullopt;
  if ((piece == 0 ? 0 : this->end(piece - 1)) != first) return std::nullopt;
  return ContentSum{.crc32c = static_cast<std::uint32_t>(words_[place(array, piece)]),
                    .is_finite = words_[place(words_[1] + array, piece)] != 0};
}

void add_content(ContentSum& sum, std::span<const float> elements, FiniteCheck check) {
  // So many at a time that the second look finds them in the cache.
  constexpr std::size_t kAtOnce = 4096;
  while (!elements.empty()) {
    const auto some = elements.first(std::min(kAtOnce, elements.size()));
    sum.crc32c = crc32c(std::as_bytes(some), sum.crc32c);
    if (check != nullptr) sum.is_finite = check(some.data(), std::ssize(some)) && sum.is_finite;
    elements = elements.subspan(some.size());
  }
}

ContentSum sum_of_content(std::span<const float> elements, bool looks_at_elements) {
  ContentSum sum;
  simd::dispatch([&]<simd::Isa kIsa>() {
    add_content(sum, elements, looks_at_elements ? &all_finite_cpu<kIsa> : nullptr);
  });
  return sum;
}

void update_with_sums(const UpdateOnCpu& on, const UpdateKind& kind, const StepBytes& rule_step,
                      const UpdateArrays& arrays, Index step, UpdateSums sums) {
  require(sums.pieces() > 0 && sums.end(sums.pieces() - 1) == arrays.count, "pieces of an update");
  const Index states = std::ssize(all_rules()[static_cast<std::size_t>(kind.rule)].states);
  ContentSum open[1 + kMostStates] = {};
  Index piece = 0;
  for (Index first = 0; first < arrays.count; first += kPart) {
    const Index end = std::min(arrays.count, first + kPart);
    on.kernel(rule_step.bytes, part_of(arrays, states, size_of(kind.gradient), first, end - first));
    for (Index from = first; from < end;) {
      const Index to = std::min(end, sums.end(piece));
      for (Index array = 0; array <= states; ++array) {
        const float* elements = array == 0 ? arrays.p : arrays.states[array - 1];
        add_content(open[array], std::span(elements + from, elements + to),
                    array == 0 ? on.check : nullptr);
        if (to == sums.end(piece)) sums.set(array, piece, std::exchange(open[array], {}));
      }
      if (to == sums.end(piece)) ++piece;
      from = to;
    }
  }
  sums.set_step(step);
}

}  // namespace dos::codelets
