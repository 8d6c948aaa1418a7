// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "base/types.hpp"

namespace dos::data {

/// A value as Python's json.dumps(value, ensure_ascii=False, indent=indent) writes it, which chat
/// templates call through their filter `tojson`; indent 0 stands for None: one line. Pre: as
/// parse_ordered_json() makes values.
std::string python_json(const nlohmann::ordered_json& value, Index indent);

}  // namespace dos::data
