// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "codelets/simd/isa.hpp"
#include "codelets/update/update.hpp"

namespace dos::codelets {

/// What is known of some FP32 elements.
struct ContentSum {
  std::uint32_t crc32c = 0;  ///< of their bytes (base/crc32c.hpp)
  bool is_finite = true;     ///< all of them, as far as one has looked
};

/// Whether there is no infinity among the elements, and all are numbers.
using FiniteCheck = bool (*)(const float* elements, Index count);
template <simd::Isa>
bool all_finite_cpu(const float* elements, Index count);

/// Adds elements behind those that `sum` is of. `check`: null: does not look at them.
void add_content(ContentSum& sum, std::span<const float> elements, FiniteCheck check);

/// The sum of elements that nobody has made yet, by the best instructions of the processor.
ContentSum sum_of_content(std::span<const float> elements, bool looks_at_elements);

/// Sums of what an update has written, piece by piece, for whoever saves it: made while the bytes
/// are in the cache of the processor that has written them. A buffer of 32-bit words that the
/// update takes in Mode::kReadWrite:
///
///   step, arrays, pieces, ends[pieces], crc32c[arrays][pieces], is_finite[arrays][pieces]
///
/// Arrays are the parameters and then the states; ends of pieces are elements, ascending. Workers
/// that make no sums, those of devices, leave the words as they are: the step says so.
class UpdateSums {
 public:
  /// Words that are needed.
  static Index words(Index arrays, Index pieces) { return kHeader + pieces * (1 + 2 * arrays); }

  /// Over words that prepare() has filled.
  explicit UpdateSums(std::span<std::int32_t> words) : words_(words) {}
  /// Of a buffer whose length it says itself.
  explicit UpdateSums(std::int32_t* words);

  /// Fills words: no sums yet. Pre: ends ascend, and are below 2^31.
  static void prepare(std::span<std::int32_t> words, Index arrays, std::span<const Index> ends);

  [[nodiscard]] Index pieces() const { return words_[2]; }
  [[nodiscard]] Index end(Index piece) const {
    return words_[static_cast<std::size_t>(kHeader + piece)];
  }
  /// The sum of elements first .. end - 1 of an array as the update of `step` has left them;
  /// nullopt when none of exactly these is there.
  [[nodiscard]] std::optional<ContentSum> find(Index step, Index array, Index first,
                                               Index end) const;

  void set_step(Index step);
  void set(Index array, Index piece, const ContentSum& sum);

 private:
  static constexpr Index kHeader = 3;
  [[nodiscard]] std::size_t place(Index array, Index piece) const;

  std::span<std::int32_t> words_;
};

/// What runs an update on a processor.
struct UpdateOnCpu {
  UpdateKernel kernel;
  FiniteCheck check;  ///< of parameters
};

/// Runs an update in parts that stay in the cache, and leaves the sums of what it has written as
/// those of `step`. Not a bit of the arrays differs from an update of the whole. Pre: the pieces
/// are all elements.
void update_with_sums(const UpdateOnCpu& on, const UpdateKind& kind, const StepBytes& rule_step,
                      const UpdateArrays& arrays, Index step, UpdateSums sums);

}  // namespace dos::codelets
