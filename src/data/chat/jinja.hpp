// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "data/chat/chat_template.hpp"

namespace dos::data {

/// What `transformers` calls a folder's template.
inline constexpr const char* kJinjaFile = "chat_template.jinja";

/// The file with which `transformers` writes conversations as a built-in template
/// does, and what stands before an answer; nullopt for any other template.
std::optional<std::string_view> jinja_of(const ChatTemplate& chat);

/// The built-in template whose jinja_of() a file's contents are; nullopt for others: no Jinja is
/// read here.
std::optional<ChatTemplate> template_of_jinja(std::string_view contents);

}  // namespace dos::data
