// SPDX-License-Identifier: Apache-2.0
#include "base/xml.hpp"

namespace dos {

std::string xml_escaped(std::string_view text) {
  std::string result;
  for (const char each : text) {
    if (each == '&')
      result += "&amp;";
    else if (each == '<')
      result += "&lt;";
    else if (each == '>')
      result += "&gt;";
    else if (each == '"')
      result += "&quot;";
    else
      result += each;
  }
  return result;
}

}  // namespace dos
