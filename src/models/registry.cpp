// SPDX-License-Identifier: Apache-2.0
#include "models/registry.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "models/gpt2/gpt2.hpp"

namespace dos::models {
namespace {

constexpr std::array kArchitectures{
    Architecture{"gpt2", &gpt2::parameters, &gpt2::buffers, &gpt2::counts, &gpt2::build},
};

struct Preset {
  std::string name;
  ModelConfig config;
};

/// Small ones for a laptop and byte tokens; the sizes of "Language models are unsupervised
/// multitask learners" (Radford et al., 2019); two of "Language models are few-shot learners"
/// (arXiv 2005.14165, table 2.1; its 24 heads of 128 elements do not make the width of 2048, 16
/// do); the largest of "Efficient large-scale language model training on GPU clusters" (arXiv
/// 2104.04473, table 1; sequences of 2048 tokens, vocabulary 51200).
const std::vector<Preset>& presets() {
  static const std::vector<Preset> list{
      {"tiny", {"gpt2", 2, 64, 2, 64, 257}},
      {"small-3m", {"gpt2", 4, 256, 4, 256, 2048}},
      {"small-11m", {"gpt2", 6, 384, 6, 256, 257}},
      {"gpt2-124m", {"gpt2", 12, 768, 12, 1024, 50257}},
      {"gpt2-355m", {"gpt2", 24, 1024, 16, 1024, 50257}},
      {"gpt2-774m", {"gpt2", 36, 1280, 20, 1024, 50257}},
      {"gpt2-1.5b", {"gpt2", 48, 1600, 25, 1024, 50257}},
      {"gpt3-1.3b", {"gpt2", 24, 2048, 16, 2048, 50257}},
      {"gpt3-175b", {"gpt2", 96, 12288, 96, 2048, 50257}},
      {"gpt-1t", {"gpt2", 128, 25600, 160, 2048, 51200}},
  };
  return list;
}

}  // namespace

const Architecture& find_architecture(const std::string& name) {
  std::vector<std::string> names;
  for (const Architecture& architecture : kArchitectures) {
    if (name == architecture.name) return architecture;
    names.emplace_back(architecture.name);
  }
  fail("unknown model architecture '{}'{}; known: {}", name, did_you_mean(name, names),
       fmt::join(names, ", "));
}

const ModelConfig& find_preset(const std::string& name) {
  for (const Preset& preset : presets())
    if (preset.name == name) return preset.config;
  const std::vector<std::string> names = preset_names();
  fail("unknown model.preset '{}'{}; known: {}", name, did_you_mean(name, names),
       fmt::join(names, ", "));
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return names;
}

}  // namespace dos::models
