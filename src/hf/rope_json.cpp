// SPDX-License-Identifier: Apache-2.0
#include "hf/rope_json.hpp"

#include <fmt/format.h>

#include "base/json.hpp"

namespace dos::hf {
namespace {

/// One of the objects. `theta` is what the file says elsewhere.
Rope read_object(const JsonField& object, double theta) {
  JsonKeys keys{object};
  Rope rope;
  rope.theta = keys.number_or("rope_theta", theta);
  const std::string old_type = keys.text_or("type", "default");
  const std::string type = keys.text_or("rope_type", old_type);
  if (type != "default" && type != "llama3")
    object.fail(fmt::format("has the type '{}', known: default, llama3", one_line(type)));
  if (keys.find("type") && old_type != type)
    object.fail(fmt::format("has the types '{}' and '{}'", one_line(type), one_line(old_type)));
  keys.expect_value("partial_rotary_factor", 1.0, "all of a head turns here");
  if (type == "llama3") {
    rope.scaling = {.factor = keys.number("factor"),
                    .low_freq_factor = keys.number("low_freq_factor"),
                    .high_freq_factor = keys.number("high_freq_factor"),
                    .original_context = keys.index("original_max_position_embeddings")};
    // Without a factor the others change nothing.
    if (rope.scaling.factor == 1) rope.scaling = {};
  }
  keys.expect_all_read();
  return rope;
}

}  // namespace

Rope read_rope(JsonKeys& keys) {
  keys.expect_value("partial_rotary_factor", 1.0, "all of a head turns here");
  Rope rope;
  const std::optional<JsonField> theta = keys.find("rope_theta");
  if (theta) rope.theta = theta->number();
  const std::optional<JsonField> scaling = keys.find("rope_scaling");
  const std::optional<JsonField> parameters = keys.find("rope_parameters");
  if (scaling && parameters && scaling->value() != parameters->value())
    parameters->fail("is there beside rope_scaling, which says otherwise");
  if (scaling || parameters) {
    const JsonField& object = parameters ? *parameters : *scaling;
    const Rope found = read_object(object, rope.theta);
    if (theta && found.theta != rope.theta)
      object.fail(fmt::format("has rope_theta = {}, but beside it rope_theta = {}", found.theta,
                              rope.theta));
    rope = found;
  }
  return rope;
}

void write_rope(const Rope& rope, nlohmann::json& config) {
  config["rope_theta"] = rope.theta;
  config["rope_scaling"] = nullptr;
  if (rope.scaling == shape::RopeScaling{}) return;
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", rope.scaling.factor},
                            {"low_freq_factor", rope.scaling.low_freq_factor},
                            {"high_freq_factor", rope.scaling.high_freq_factor},
                            {"original_max_position_embeddings", rope.scaling.original_context}};
}

}  // namespace dos::hf
