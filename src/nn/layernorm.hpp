// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "nn/parameter_refs.hpp"
#include "nn/parts.hpp"

namespace dos::nn {

/// Layer normalisation with weight[width] and bias[width], named "<name>.weight" and "<name>.bias".
class LayerNorm final : public Norm {
 public:
  LayerNorm(const tensor::ParameterSet& set, std::string name);

  void forward(rt::Submitter& submitter, const codelets::NormShape& shape, const rt::Handle& x,
               const rt::Handle& y, const rt::Handle& statistics,
               const Urgency& urgency) const override;
  void backward(rt::Submitter& submitter, const codelets::NormShape& shape, const rt::Handle& x,
                const rt::Handle& statistics, const Gradients& gradients, bool accumulate,
                const Urgency& urgency) const override;

 private:
  std::string name_;
  codelets::NormRef value_;
  std::optional<codelets::NormRef> gradient_;  ///< none where it is frozen
};

}  // namespace dos::nn
