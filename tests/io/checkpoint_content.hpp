// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "io/checkpoint_directory.hpp"

namespace dos::test {

/// Two files and one in a subfolder, all with the same text.
inline void fill(const std::filesystem::path& folder, const std::string& text) {
  std::filesystem::create_directories(folder / "sub");
  for (const char* name : {"a", "b", "sub/c"}) write_durably(folder / name, text);
}

/// The text of fill(), or "torn" when the three files are not there with the same text.
inline std::string content(const std::filesystem::path& folder) {
  const std::string text = read_text(folder / "a");
  const bool whole = text == read_text(folder / "b") && text == read_text(folder / "sub" / "c");
  return whole ? text : "torn";
}

inline std::filesystem::path save(io::CheckpointStore& store, Index step, const std::string& text,
                                  bool best = false) {
  auto staging = store.begin(step);
  fill(staging.path(), text);
  std::filesystem::path folder = staging.commit(best);
  store.remove_discarded();
  return folder;
}

inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  return names;
}

}  // namespace dos::test
