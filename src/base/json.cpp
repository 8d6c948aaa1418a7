// SPDX-License-Identifier: Apache-2.0
#include "base/json.hpp"

#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"

namespace dos {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// Builds a document from what the parser meets, and stops it at the limits. Documents that keep
/// the order of their names are made of texts that the other kind has been made of: names are not
/// compared, which would take time in proportion to the square of their number.
template <class Json>
class Builder final : public nlohmann::json_sax<Json> {
  using typename nlohmann::json_sax<Json>::number_integer_t;
  using typename nlohmann::json_sax<Json>::number_unsigned_t;
  using typename nlohmann::json_sax<Json>::number_float_t;
  using typename nlohmann::json_sax<Json>::string_t;
  using typename nlohmann::json_sax<Json>::binary_t;

 public:
  Builder(const std::string& place, const std::string& remedy, const JsonLimits& limits)
      : place_(place), remedy_(remedy), limits_(limits) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    if (kIsOrdered && text.find_first_of(".eE") == string_t::npos)
      refuse(fmt::format("the integer {} has more than 64 bits", shortened(text)));
    return add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(std::move(value)); }
  bool start_object(std::size_t /*size*/) override { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    auto& object = open_.back()->template get_ref<typename Json::object_t&>();
    if constexpr (kIsOrdered) {
      member_ = &object.Container::emplace_back(std::move(name), nullptr).second;
    } else {
      const auto [entry, is_new] = object.emplace(name, nullptr);
      if (!is_new) refuse(fmt::format("the name '{}' occurs twice", shortened(name)));
      member_ = &entry->second;
    }
    return true;
  }

  bool parse_error(std::size_t /*position*/, const std::string& /*last*/,
                   const nlohmann::detail::exception& error) override {
    std::string_view cause = error.what();
    const std::size_t label = cause.find("] ");  // "[json.exception.parse_error.101] "
    if (label != std::string_view::npos) cause.remove_prefix(label + 2);
    refuse(fmt::format("not JSON ({})", shortened(cause)));
    return false;
  }

  [[nodiscard]] Json take() { return std::move(root_); }

  [[noreturn]] void refuse(const std::string& what) const {
    fail("{}: {}; {}", place_, what, remedy_);
  }

 private:
  static constexpr bool kIsOrdered = std::is_same_v<Json, ordered_json>;

  static std::string shortened(std::string_view text) {
    constexpr std::size_t kMost = 200;
    return one_line(text.substr(0, kMost));
  }

  Json* put(Json value) {
    if (++values_ > limits_.values)
      refuse(fmt::format("more than {} values, which no such file has", limits_.values));
    Json* place = &root_;
    if (!open_.empty() && open_.back()->is_array())
      place = &open_.back()->emplace_back();
    else if (!open_.empty())
      place = member_;
    *place = std::move(value);
    return place;
  }

  bool add(Json value) {
    put(std::move(value));
    return true;
  }

  bool open(Json value) {
    if (open_.size() >= limits_.depth)
      refuse(
          fmt::format("more than {} objects and arrays inside each other, which no such file has",
                      limits_.depth));
    open_.push_back(put(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& place_;
  const std::string& remedy_;
  const JsonLimits& limits_;
  Json root_;
  std::vector<Json*> open_;  ///< from the root inwards: only the last one grows
  Json* member_ = nullptr;   ///< of the innermost object: what its last name is to hold
  std::size_t values_ = 0;
};

template <class Json>
Json build(std::string_view text, const std::string& place, const std::string& remedy,
           const JsonLimits& limits) {
  Builder<Json> builder(place, remedy, limits);
  if (text.size() > limits.bytes)
    builder.refuse(fmt::format("{} bytes, more than the {} that such a file may have", text.size(),
                               limits.bytes));
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

}  // namespace

json parse_json(std::string_view text, const std::string& place, const std::string& remedy,
                const JsonLimits& limits) {
  return build<json>(text, place, remedy, limits);
}

ordered_json parse_ordered_json(std::string_view text, const std::string& place,
                                const std::string& remedy) {
  parse_json(text, place, remedy);
  return build<ordered_json>(text, place, remedy, {});
}

json parse_json_object(std::string_view text, const std::string& place, const std::string& remedy,
                       const JsonLimits& limits) {
  json document = parse_json(text, place, remedy, limits);
  expect(document.is_object(), "{}: not a JSON object; {}", place, remedy);
  return document;
}

json read_json_object(const std::filesystem::path& path, const std::string& remedy) {
  return parse_json_object(read_text(path), path.string(), remedy);
}

std::optional<json> try_parse_json_object(std::string_view text) {
  try {
    return parse_json_object(text, "", "");
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string one_line(std::string_view name) {
  const std::string quoted = json(name).dump(-1, ' ', false, json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

std::string excerpt(const json& value) {
  constexpr std::size_t kMost = 80;
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

}  // namespace dos
