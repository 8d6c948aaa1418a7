// SPDX-License-Identifier: Apache-2.0
#include "io/json_field.hpp"

#include <limits>
#include <set>
#include <utility>

#include "base/error.hpp"

namespace dos::io {

using nlohmann::json;

JsonField::JsonField(const json& value, std::string place, std::string remedy)
    : value_(&value), place_(std::move(place)), remedy_(std::move(remedy)) {}

void JsonField::fail(std::string_view what) const {
  if (field_.empty()) dos::fail("{}: {}; {}", place_, what, remedy_);
  dos::fail("{}: field '{}' {}; {}", place_, field_, what, remedy_);
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
  if (!value_->is_number_unsigned()) fail("must be an integer of at least 0 that fits 64 bits");
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

std::vector<Index> JsonField::indices() const {
  std::vector<Index> result;
  for (const JsonField& element : elements()) result.push_back(element.index());
  return result;
}

const json& JsonField::object() const {
  if (!value_->is_object()) fail("must be an object");
  return *value_;
}

json parse_json_object(std::string_view text, const std::string& place, const std::string& remedy) {
  constexpr std::size_t kMaxCause = 200;
  std::vector<std::set<std::string>> open_objects;
  const auto check_keys = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key) {
      const auto key = parsed.get<std::string>();
      expect(open_objects.back().insert(key).second, "{}: the name '{}' occurs twice; {}", place,
             one_line(key), remedy);
    }
    return true;
  };
  try {
    json document = json::parse(text.begin(), text.end(), check_keys);
    expect(document.is_object(), "{}: not a JSON object; {}", place, remedy);
    return document;
  } catch (const json::exception& error) {
    const std::string cause = std::string(error.what()).substr(0, kMaxCause);
    fail("{}: not JSON ({}); {}", place, one_line(cause), remedy);
  }
}

std::string one_line(const std::string& name) {
  const std::string quoted = json(name).dump(-1, ' ', false, json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace dos::io
