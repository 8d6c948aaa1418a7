// SPDX-License-Identifier: Apache-2.0
#include "fuzz/target.hpp"
#include "hf/config_json.hpp"

/// Any text is refused in one line, or what is written of its model says the same model.
void dos::test::fuzz(std::span<const std::byte> bytes) {
  const shape::ModelConfig model = hf::parse_config(text_of(bytes), "config.json");
  const std::string written = hf::config_json(model, {}).dump();
  if (hf::parse_config(written, "written") != model) broken("another model is written");
}
