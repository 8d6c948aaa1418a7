// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace dos {

/// What a document may be at most, far above what any file of this project needs: a damaged or
/// foreign file is refused before it costs memory, time or stack.
struct JsonLimits {
  std::size_t bytes = 100'000'000;  ///< what every reader of safetensors takes for a header
  std::size_t values = 4'000'000;   ///< objects, arrays, and what they hold
  std::size_t depth = 64;           ///< objects and arrays inside each other
};

/// The one reader of JSON from files, and from anybody else. In time proportional to the text (up
/// to the logarithm for names). Throws Error "PLACE: ...; REMEDY", one line, when the text is not
/// JSON, not UTF-8, has a number beyond the range of double, an object with one name twice, or is
/// beyond a limit.
nlohmann::json parse_json(std::string_view text, const std::string& place,
                          const std::string& remedy, const JsonLimits& limits = {});

/// As above, with the names of each object in the order of the text: for what is written again.
/// Throws Error for an integer of more than 64 bits, too, which would be written as a fraction.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& place,
                                          const std::string& remedy);

/// As the first, for a document whose root is an object.
nlohmann::json parse_json_object(std::string_view text, const std::string& place,
                                 const std::string& remedy, const JsonLimits& limits = {});

/// The root object of a file, which is named in errors. Throws Error, also when the file cannot be
/// read.
nlohmann::json read_json_object(const std::filesystem::path& path, const std::string& remedy);

/// The root object of a text that may be damaged; nullopt where the others throw.
std::optional<nlohmann::json> try_parse_json_object(std::string_view text);

/// `name` with control characters escaped, so that a message stays one line.
std::string one_line(std::string_view name);

/// The first characters of a value, for messages.
std::string excerpt(const nlohmann::json& value);

}  // namespace dos
