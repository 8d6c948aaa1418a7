// SPDX-License-Identifier: Apache-2.0
#include "hf/json_keys.hpp"

#include <fmt/format.h>

#include "base/json.hpp"

namespace dos::hf {

std::optional<JsonField> JsonKeys::find(const std::string& key) {
  read_.insert(key);
  const auto found = object_.object().find(key);
  if (found == object_.value().end() || found->is_null()) return std::nullopt;
  return object_.member(key);
}

JsonField JsonKeys::required(const std::string& key) {
  const std::optional<JsonField> found = find(key);
  return found ? *found : object_.member(key);
}

Index JsonKeys::index(const std::string& key) {
  return required(key).index();
}

double JsonKeys::number(const std::string& key) {
  return required(key).number();
}

Index JsonKeys::index_or(const std::string& key, Index otherwise) {
  const std::optional<JsonField> found = find(key);
  return found ? found->index() : otherwise;
}

double JsonKeys::number_or(const std::string& key, double otherwise) {
  const std::optional<JsonField> found = find(key);
  return found ? found->number() : otherwise;
}

bool JsonKeys::truth_or(const std::string& key, bool otherwise) {
  const std::optional<JsonField> found = find(key);
  return found ? found->truth() : otherwise;
}

std::string JsonKeys::text_or(const std::string& key, const std::string& otherwise) {
  const std::optional<JsonField> found = find(key);
  return found ? found->text() : otherwise;
}

void JsonKeys::expect_value(const std::string& key, const nlohmann::json& value,
                            std::string_view why) {
  const std::optional<JsonField> found = find(key);
  if (found && found->value() != value)
    found->fail(
        fmt::format("is {}, but must be {}: {}", excerpt(found->value()), value.dump(), why));
}

void JsonKeys::ignore(std::initializer_list<const char*> keys) {
  for (const char* key : keys) read_.insert(key);
}

void JsonKeys::expect_all_read() const {
  for (const auto& item : object_.object().items())
    if (!item.value().is_null() && !read_.contains(item.key()))
      object_.member(item.key())
          .fail(fmt::format(
              "is {}, and is not known: it may change what the model computes (take it out if "
              "you know that it does not)",
              excerpt(item.value())));
}

}  // namespace dos::hf
