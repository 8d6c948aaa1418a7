// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <limits>

#include "reference/bounded.hpp"

namespace dos::reference {

/// Causal attention of one sequence, one head at a time, with every probability kept.
class Attention {
 public:
  /// Heads of keys and values, each for as many of queries in a row; how many tokens one attends
  /// to, itself the last. 0: as many as heads, all tokens before it.
  struct Choices {
    Index kv_heads = 0;
    Index window = 0;
  };
  /// qkv[tokens, (heads + 2 kv_heads) * size].
  Attention(Index tokens, Index heads, Index size, const float* qkv)
      : Attention(tokens, heads, size, qkv, Choices{}) {}
  Attention(Index tokens, Index heads, Index size, const float* qkv, const Choices& choices)
      : tokens_(tokens),
        heads_(heads),
        size_(size),
        kv_heads_(choices.kv_heads == 0 ? heads : choices.kv_heads),
        window_(choices.window == 0 ? tokens : choices.window),
        qkv_(qkv) {}

  enum Part { kQuery, kKey, kValue };
  [[nodiscard]] double at(Part part, Index token, Index head, Index i) const {
    return qkv_[index(part, token, head, i)];
  }
  [[nodiscard]] Index index(Part part, Index token, Index head, Index i) const {
    const Index row = (heads_ + 2 * kv_heads_) * size_;
    if (part == kQuery) return token * row + head * size_ + i;
    const Index shared = head * kv_heads_ / heads_;
    const Index before = heads_ + (part == kValue ? kv_heads_ : 0);
    return token * row + (before + shared) * size_ + i;
  }
  /// The first token that one attends to.
  [[nodiscard]] Index first_of(Index row) const { return std::max<Index>(0, row + 1 - window_); }

  [[nodiscard]] double score(Index head, Index row, Index key) const {
    double sum = 0;
    for (Index i = 0; i < size_; ++i) sum += at(kQuery, row, head, i) * at(kKey, key, head, i);
    return sum / std::sqrt(static_cast<double>(size_));
  }
  /// Sum of |terms| of the largest score of a row: what the rounding of its scores scales with.
  [[nodiscard]] double score_magnitude(Index head, Index row) const {
    double largest = 0;
    for (Index key = first_of(row); key <= row; ++key) {
      double sum = 0;
      for (Index i = 0; i < size_; ++i) {
        sum += std::abs(at(kQuery, row, head, i) * at(kKey, key, head, i));
      }
      largest = std::max(largest, sum / std::sqrt(static_cast<double>(size_)));
    }
    return largest;
  }
  [[nodiscard]] double log_sum_exp(Index head, Index row) const {
    double largest = -std::numeric_limits<double>::infinity();
    for (Index key = first_of(row); key <= row; ++key)
      largest = std::max(largest, score(head, row, key));
    double sum = 0;
    for (Index key = first_of(row); key <= row; ++key)
      sum += std::exp(score(head, row, key) - largest);
    return largest + std::log(sum);
  }
  [[nodiscard]] std::vector<double> probabilities(Index head, Index row) const {
    const double normaliser = log_sum_exp(head, row);
    std::vector<double> p;
    for (Index key = 0; key <= row; ++key)
      p.push_back(key < first_of(row) ? 0 : std::exp(score(head, row, key) - normaliser));
    return p;
  }

  /// out[tokens, heads * size].
  [[nodiscard]] Bounded forward() const {
    Bounded out(tokens_ * heads_ * size_);
    for (Index h = 0; h < heads_; ++h) {
      for (Index row = 0; row < tokens_; ++row) {
        const auto p = probabilities(h, row);
        for (Index key = 0; key <= row; ++key) {
          for (Index i = 0; i < size_; ++i) {
            out.add((row * heads_ + h) * size_ + i,
                    p[static_cast<std::size_t>(key)] * at(kValue, key, h, i));
          }
        }
      }
    }
    return out;
  }

  /// dqkv, laid out as qkv. The magnitude of dq and dk takes |dp| + |delta| for dp - delta.
  [[nodiscard]] Bounded backward(const float* dout) const {
    Bounded d(tokens_ * (heads_ + 2 * kv_heads_) * size_);
    for (Index h = 0; h < heads_; ++h) {
      for (Index row = 0; row < tokens_; ++row) backward_row(h, row, dout, d);
    }
    return d;
  }

 private:
  void backward_row(Index h, Index row, const float* dout, Bounded& d) const {
    const double scale = 1.0 / std::sqrt(static_cast<double>(size_));
    const float* g = dout + (row * heads_ + h) * size_;
    const auto p = probabilities(h, row);
    std::vector<double> dp(p.size());
    std::vector<double> dp_magnitude(p.size());
    double delta = 0;
    double delta_magnitude = 0;
    for (Index key = 0; key <= row; ++key) {
      const auto k = static_cast<std::size_t>(key);
      for (Index i = 0; i < size_; ++i) {
        dp[k] += g[i] * at(kValue, key, h, i);
        dp_magnitude[k] += std::abs(g[i] * at(kValue, key, h, i));
        d.add(index(kValue, key, h, i), p[k] * g[i]);
      }
      delta += p[k] * dp[k];
      delta_magnitude += p[k] * dp_magnitude[k];
    }
    for (Index key = 0; key <= row; ++key) {
      const auto k = static_cast<std::size_t>(key);
      const double ds = p[k] * (dp[k] - delta) * scale;
      const double ds_magnitude = p[k] * (dp_magnitude[k] + delta_magnitude) * scale;
      for (Index i = 0; i < size_; ++i) {
        add(d, index(kQuery, row, h, i), ds, ds_magnitude, at(kKey, key, h, i));
        add(d, index(kKey, key, h, i), ds, ds_magnitude, at(kQuery, row, h, i));
      }
    }
  }
  static void add(Bounded& d, Index at, double ds, double ds_magnitude, double factor) {
    d.value[static_cast<std::size_t>(at)] += ds * factor;
    d.magnitude[static_cast<std::size_t>(at)] += ds_magnitude * std::abs(factor);
  }

  Index tokens_;
  Index heads_;
  Index size_;
  Index kv_heads_;
  Index window_;
  const float* qkv_;
};

}  // namespace dos::reference
