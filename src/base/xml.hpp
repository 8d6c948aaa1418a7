// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace dos {

/// Text as XML and HTML want it, between tags and in attributes.
std::string xml_escaped(std::string_view text);

}  // namespace dos
