// SPDX-License-Identifier: Apache-2.0
#include "fuzz/target.hpp"
#include "hf/config_json.hpp"

/// Any text is refused in one line, or what is written of its model says the same model.
void dos::test::fuzz(std::span<const std::byte> bytes) {
  const shape::ModelConfig model = hf::parse_config(text_of(bytes), "config.json");
  const std::string written = hf::config_json(model, {}).dump();
  shape::ModelConfig again = hf::parse_config(written, "written");
  // Where rotary embeddings are scaled for more tokens than the model has.
  if (model.context <= model.rope_scaling.original_context && again.context >= model.context)
    again.context = model.context;
  if (again != model) broken("another model is written");
}
