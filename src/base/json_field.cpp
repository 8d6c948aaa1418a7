// SPDX-License-Identifier: Apache-2.0
#include "base/json_field.hpp"

#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"

namespace dos {

using nlohmann::json;

JsonField::JsonField(const json& value, std::string place, std::string remedy)
    : value_(&value), place_(std::move(place)), remedy_(std::move(remedy)) {}

void JsonField::fail(std::string_view what) const {
  if (field_.empty()) dos::fail("{}: {}; {}", place_, what, remedy_);
  dos::fail("{}: field '{}' {}; {}", place_, one_line(field_), what, remedy_);
}

JsonField JsonField::member(const std::string& key) const {
  const auto found = object().find(key);
  JsonField result = *this;
  result.field_ = field_.empty() ? key : field_ + "." + key;
  if (found == value_->end()) result.fail("is missing");
  result.value_ = &*found;
  return result;
}

std::vector<JsonField> JsonField::elements() const {
  if (!value_->is_array()) fail("must be an array");
  std::vector<JsonField> result(value_->size(), *this);
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i].value_ = &(*value_)[i];
    result[i].field_ += fmt::format("[{}]", i);
  }
  return result;
}

std::string JsonField::text() const {
  if (!value_->is_string()) fail("must be a string");
  return value_->get<std::string>();
}

std::uint64_t JsonField::word() const {
  // Of what was not read but made, an integer may be signed.
  const bool is_signed = value_->is_number_integer() && !value_->is_number_unsigned();
  if (!value_->is_number_integer() || (is_signed && value_->get<std::int64_t>() < 0))
    fail("must be an integer of at least 0 that fits 64 bits");
  return value_->get<std::uint64_t>();
}

Index JsonField::index() const {
  const std::uint64_t result = word();
  if (result > std::uint64_t{std::numeric_limits<Index>::max()}) fail("must be less than 2^63");
  return static_cast<Index>(result);
}

double JsonField::number() const {
  if (!value_->is_number()) fail("must be a number");
  return value_->get<double>();
}

bool JsonField::truth() const {
  if (!value_->is_boolean()) fail("must be true or false");
  return value_->get<bool>();
}

std::vector<Index> JsonField::indices() const {
  std::vector<Index> result;
  for (const JsonField& element : elements()) result.push_back(element.index());
  return result;
}

const json& JsonField::object() const {
  if (!value_->is_object()) fail("must be an object");
  return *value_;
}

}  // namespace dos
