// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "fuzz/target.hpp"
#include "hf/adapter_config.hpp"

/// Any text is refused in one line, or what is written of its adapters says the same ones.
void dos::test::fuzz(std::span<const std::byte> bytes) {
  shape::AdapterChoice choice = hf::parse_adapter_config(text_of(bytes), "adapter_config.json");
  shape::ModelConfig model{"llama", 1, 8, 2, 4, 5, /*kv_heads=*/1, /*ffn=*/12};
  // Names that the model lacks are refused, too.
  const auto targets_of = [&](const std::string& names) {
    std::vector<std::string> list;
    for (std::size_t at = 0; at <= names.size(); at = names.find(',', at) + 1) {
      list.push_back(names.substr(at, names.find(',', at) - at));
      if (names.find(',', at) == std::string::npos) break;
    }
    return hf::adapter_targets(model, list);
  };
  model.adapters = {.rank = choice.rank,
                    .alpha = choice.alpha,
                    .by_root = choice.rslora,
                    .targets = targets_of(choice.targets)};
  const std::string written = hf::adapter_json(model, "").dump();
  const shape::AdapterChoice again = hf::parse_adapter_config(written, "written");
  if (again.rank != choice.rank || again.alpha != choice.alpha || again.rslora != choice.rslora ||
      targets_of(again.targets) != model.adapters.targets)
    broken("other adapters are written");
}
