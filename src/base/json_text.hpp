// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace dos {

/// The document as JSON, which is UTF-8: bytes of names and paths that are not become U+FFFD. In
/// one line, or with `indent` spaces a level.
std::string json_text(const nlohmann::json& document, int indent = -1);
std::string json_text(const nlohmann::ordered_json& document, int indent = -1);

}  // namespace dos
