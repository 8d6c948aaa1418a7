// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/json_field.hpp"

namespace dos::hf {

/// An object of a config.json whose keys are ticked off as they are read: what nobody has read may
/// change the model, and is refused. A key that is null counts as one that is not there. Views the
/// document, which must outlive it.
class JsonKeys {
 public:
  explicit JsonKeys(JsonField object) : object_(std::move(object)) {}

  /// Whether the key is there, be it null.
  [[nodiscard]] bool has(const std::string& key) const { return object_.object().contains(key); }
  /// nullopt for a key that is not there, or null.
  [[nodiscard]] std::optional<JsonField> find(const std::string& key);
  /// Throw Error for a key that is not there, or of another type.
  [[nodiscard]] Index index(const std::string& key);
  [[nodiscard]] double number(const std::string& key);
  /// `otherwise` for a key that is not there. Throw Error for one of another type.
  [[nodiscard]] Index index_or(const std::string& key, Index otherwise);
  [[nodiscard]] double number_or(const std::string& key, double otherwise);
  [[nodiscard]] bool truth_or(const std::string& key, bool otherwise);
  [[nodiscard]] std::string text_or(const std::string& key, const std::string& otherwise);
  /// Throws Error, with the reason, when the key is there and has another value.
  void expect_value(const std::string& key, const nlohmann::json& value, std::string_view why);
  /// Ticks off keys that change nothing of what the model computes.
  void ignore(std::initializer_list<const char*> keys);
  /// Throws Error naming the first key that nobody has read.
  void expect_all_read() const;

 private:
  [[nodiscard]] JsonField required(const std::string& key);

  JsonField object_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace dos::hf
