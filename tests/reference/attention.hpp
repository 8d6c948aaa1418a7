// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <limits>

#include "reference/bounded.hpp"

namespace dos::reference {

/// Causal attention of one sequence, one head at a time, with every probability kept.
class Attention {
 public:
  /// qkv[tokens, 3 * heads * size].
  Attention(Index tokens, Index heads, Index size, const float* qkv)
      : tokens_(tokens), heads_(heads), size_(size), qkv_(qkv) {}

  enum Part { kQuery, kKey, kValue };
  [[nodiscard]] double at(Part part, Index token, Index head, Index i) const {
    return qkv_[index(part, token, head, i)];
  }
  [[nodiscard]] Index index(Part part, Index token, Index head, Index i) const {
    return (token * 3 + part) * heads_ * size_ + head * size_ + i;
  }

  [[nodiscard]] double score(Index head, Index row, Index key) const {
    double sum = 0;
    for (Index i = 0; i < size_; ++i) sum += at(kQuery, row, head, i) * at(kKey, key, head, i);
    return sum / std::sqrt(static_cast<double>(size_));
  }
  /// Sum of |terms| of the largest score of a row: what the rounding of its scores scales with.
  [[nodiscard]] double score_magnitude(Index head, Index row) const {
    double largest = 0;
    for (Index key = 0; key <= row; ++key) {
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
    for (Index key = 0; key <= row; ++key) largest = std::max(largest, score(head, row, key));
    double sum = 0;
    for (Index key = 0; key <= row; ++key) sum += std::exp(score(head, row, key) - largest);
    return largest + std::log(sum);
  }
  [[nodiscard]] std::vector<double> probabilities(Index head, Index row) const {
    const double normaliser = log_sum_exp(head, row);
    std::vector<double> p;
    for (Index key = 0; key <= row; ++key)
      p.push_back(std::exp(score(head, row, key) - normaliser));
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
    Bounded d(tokens_ * 3 * heads_ * size_);
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
  const float* qkv_;
};

}  // namespace dos::reference
