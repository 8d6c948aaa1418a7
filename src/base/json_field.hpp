// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace dos {

/// A value inside a JSON document read from a file, with the words that name it in errors:
/// "PLACE: field 'a.b[2]' is missing; REMEDY". Views the document, which must outlive it.
/// Every accessor throws Error when the value is not of the type asked for.
class JsonField {
 public:
  JsonField(const nlohmann::json& value, std::string place, std::string remedy);

  [[nodiscard]] JsonField member(const std::string& key) const;
  [[nodiscard]] std::vector<JsonField> elements() const;

  [[nodiscard]] std::string text() const;
  /// Throws for negative numbers, fractions and what does not fit.
  [[nodiscard]] Index index() const;
  [[nodiscard]] std::uint64_t word() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] bool truth() const;
  [[nodiscard]] std::vector<Index> indices() const;
  [[nodiscard]] const nlohmann::json& object() const;
  [[nodiscard]] const nlohmann::json& value() const noexcept { return *value_; }

  [[noreturn]] void fail(std::string_view what) const;

 private:
  const nlohmann::json* value_;
  std::string place_;
  std::string remedy_;
  std::string field_;
};

}  // namespace dos
