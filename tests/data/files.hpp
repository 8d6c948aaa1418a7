// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "data/token_file.hpp"
#include "fails_with.hpp"

namespace dos::test {

inline void write_tokens(const std::filesystem::path& path, Index vocabulary,
                         const std::vector<std::int32_t>& tokens) {
  data::TokenWriter writer(path, vocabulary);
  writer.append(tokens);
  writer.commit();
}

/// A file of the tokens 0 .. count - 1: each token is its own position.
inline data::TokenFile counting_file(const std::filesystem::path& path, Index count) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i);
  write_tokens(path, count, tokens);
  return data::TokenFile(path);
}

inline std::vector<std::int32_t> tokens_of(const data::TokenFile& file) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.size()));
  file.read(0, tokens);
  return tokens;
}

/// The names in a folder, sorted.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace dos::test
