// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <numbers>
#include <span>
#include <string>
#include <vector>

#include "reference/rotary.hpp"
#include "shape/model_config.hpp"

namespace dos::reference {

using Doubles = std::vector<double>;

/// GPT-2 and the LLaMA family, one token after the other, all in double precision: what a model is,
/// written down once more, with nothing of how it is computed.
class Decoder {
 public:
  /// Gives a parameter by its name in checkpoints.
  using Parameters = std::function<const Doubles&(const std::string& name)>;

  Decoder(const shape::ModelConfig& model, Parameters parameters)
      : model_(model),
        is_gpt2_(model.architecture == "gpt2"),
        ffn_(model.ffn != 0 ? model.ffn : 4 * model.width),
        parameters_(std::move(parameters)) {}

  /// The mean over tokens[sequences, context + 1] of what each but the first of a sequence costs.
  [[nodiscard]] double loss(std::span<const std::int32_t> tokens) const {
    const auto row = static_cast<std::size_t>(model_.context + 1);
    double sum = 0;
    for (std::size_t first = 0; first < tokens.size(); first += row)
      sum += loss_of_sequence(tokens.subspan(first, row));
    return sum / static_cast<double>(tokens.size() / row * (row - 1));
  }

 private:
  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }

  [[nodiscard]] bool has_bias() const { return is_gpt2_; }

  /// weight[rows, x's size] x, and a bias where there is one.
  [[nodiscard]] Doubles linear(const Doubles& x, const std::string& module, bool has_bias) const {
    const Doubles& weight = parameters_(module + ".weight");
    Doubles y(weight.size() / x.size());
    for (std::size_t row = 0; row < y.size(); ++row) {
      for (std::size_t i = 0; i < x.size(); ++i) y[row] += weight[row * x.size() + i] * x[i];
      if (has_bias) y[row] += parameters_(module + ".bias")[row];
    }
    return y;
  }

  /// Elements `first` .. of x by the root of their mean square, times scales.
  void root_norm(Doubles& x, Index first, Index count, const Doubles& scales, Index scale) const {
    double squares = 0;
    for (Index i = first; i < first + count; ++i) squares += x[at(i)] * x[at(i)];
    const double root = std::sqrt(squares / static_cast<double>(count) + model_.norm_epsilon);
    for (Index i = 0; i < count; ++i) x[at(first + i)] *= scales[at(scale + i)] / root;
  }

  [[nodiscard]] Doubles norm(Doubles x, const std::string& module) const {
    const Doubles& weight = parameters_(module + ".weight");
    if (!is_gpt2_) {
      root_norm(x, 0, model_.width, weight, 0);
      return x;
    }
    const auto count = static_cast<double>(x.size());
    double mean = 0;
    for (const double each : x) mean += each / count;
    double variance = 0;
    for (const double each : x) variance += (each - mean) * (each - mean) / count;
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] =
          (x[i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + parameters_(module + ".bias")[i];
    return x;
  }

  /// Turns element i of a head together with element i + size / 2.
  void turn(Doubles& x, Index first, Index position) const {
    const Index half = model_.head_size() / 2;
    const RotaryScaling scaling{
        .factor = model_.rope_scaling.factor,
        .low_freq_factor = model_.rope_scaling.low_freq_factor,
        .high_freq_factor = model_.rope_scaling.high_freq_factor,
        .original_context = static_cast<double>(model_.rope_scaling.original_context)};
    for (Index i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(position) * rotary_frequency(model_.rope_theta, scaling, i, 2 * half);
      const double low = x[at(first + i)];
      const double high = x[at(first + half + i)];
      x[at(first + i)] = low * std::cos(angle) - high * std::sin(angle);
      x[at(first + half + i)] = high * std::cos(angle) + low * std::sin(angle);
    }
  }

  /// Queries, keys and values of a token.
  [[nodiscard]] Doubles heads_of(const Doubles& x, const std::string& block, Index position) const {
    const Index size = model_.head_size();
    Doubles qkv = linear(x, block + "attention.qkv", has_bias() || model_.qkv_bias);
    for (Index head = 0; head < model_.heads + model_.key_heads(); ++head) {
      const bool is_key = head >= model_.heads;
      if (model_.qk_norm)
        root_norm(qkv, head * size, size, parameters_(block + "attention.head_norm.weight"),
                  is_key ? size : 0);
      if (!is_gpt2_) turn(qkv, head * size, position);
    }
    return qkv;
  }

  /// What token `row` takes of itself and of those before it, of the heads' sizes.
  [[nodiscard]] Doubles attend(const std::vector<Doubles>& qkv, Index row) const {
    const Index size = model_.head_size();
    const Index first = model_.window == 0 ? 0 : std::max<Index>(0, row + 1 - model_.window);
    Doubles out(at(model_.heads * size));
    for (Index head = 0; head < model_.heads; ++head) {
      const Index key = (model_.heads + head * model_.key_heads() / model_.heads) * size;
      const Index value = key + model_.kv_width();
      Doubles scores;
      double largest = -std::numeric_limits<double>::infinity();
      for (Index other = first; other <= row; ++other) {
        double score = 0;
        for (Index i = 0; i < size; ++i)
          score += qkv[at(row)][at(head * size + i)] * qkv[at(other)][at(key + i)];
        scores.push_back(score / std::sqrt(static_cast<double>(size)));
        largest = std::max(largest, scores.back());
      }
      double sum = 0;
      for (double& score : scores) sum += score = std::exp(score - largest);
      for (Index other = first; other <= row; ++other)
        for (Index i = 0; i < size; ++i)
          out[at(head * size + i)] +=
              scores[at(other - first)] / sum * qkv[at(other)][at(value + i)];
    }
    return out;
  }

  [[nodiscard]] Doubles mlp(const Doubles& x, const std::string& block) const {
    Doubles inner = linear(x, block + (is_gpt2_ ? "mlp.up" : "mlp.gate_up"), has_bias());
    for (Index i = 0; i < ffn_; ++i) {
      double& gate = inner[at(i)];
      if (is_gpt2_)
        gate *= 0.5 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) *
                                     (gate + 0.044715 * gate * gate * gate)));
      else
        gate *= inner[at(ffn_ + i)] / (1 + std::exp(-gate));
    }
    inner.resize(at(ffn_));
    return linear(inner, block + "mlp.down", has_bias());
  }

  static void add(const Doubles& more, Doubles& x) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += more[i];
  }

  [[nodiscard]] Doubles embedded(std::int32_t token, Index position) const {
    Doubles x(at(model_.width));
    for (Index i = 0; i < model_.width; ++i) {
      x[at(i)] = parameters_("token_embedding.weight")[at(token * model_.width + i)];
      if (is_gpt2_)
        x[at(i)] += parameters_("position_embedding.weight")[at(position * model_.width + i)];
    }
    return x;
  }

  [[nodiscard]] double loss_of_sequence(std::span<const std::int32_t> tokens) const {
    std::vector<Doubles> stream;
    for (Index t = 0; t < model_.context; ++t) stream.push_back(embedded(tokens[at(t)], t));
    for (Index layer = 0; layer < model_.layers; ++layer) {
      const std::string block = "blocks." + std::to_string(layer) + ".";
      std::vector<Doubles> qkv;
      for (Index t = 0; t < model_.context; ++t)
        qkv.push_back(heads_of(norm(stream[at(t)], block + "norm1"), block, t));
      for (Index t = 0; t < model_.context; ++t) {
        Doubles& x = stream[at(t)];
        add(linear(attend(qkv, t), block + "attention.projection", has_bias()), x);
        add(mlp(norm(x, block + "norm2"), block), x);
      }
    }
    double sum = 0;
    for (Index t = 0; t < model_.context; ++t)
      sum += cost(norm(stream[at(t)], "final_norm"), tokens[at(t + 1)]);
    return sum;
  }

  [[nodiscard]] double cost(const Doubles& x, std::int32_t target) const {
    const Doubles logits =
        linear(x, is_gpt2_ || model_.tied_head ? "token_embedding" : "head", /*has_bias=*/false);
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit - logits[at(target)]);
    return std::log(sum);
  }

  shape::ModelConfig model_;
  bool is_gpt2_;
  Index ffn_;
  Parameters parameters_;
};

}  // namespace dos::reference
