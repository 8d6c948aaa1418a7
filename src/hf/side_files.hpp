// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "hf/config_json.hpp"
#include "hf/model_export.hpp"

namespace dos::hf {

inline constexpr const char* kGenerationFile = "generation_config.json";
inline constexpr const char* kTokenizerConfigFile = "tokenizer_config.json";

/// What a folder holds beside its weights, and what a model that came from it takes along: its
/// tokenizer, chat template, and how text is generated. Copies of files, word for word.
class SideFiles {
 public:
  SideFiles() = default;
  /// Reads those that are there; of a folder without a tokenizer config.json and
  /// generation_config.json alone. Throws Error for what cannot be read, and for those of the two
  /// whose tokens are damaged.
  explicit SideFiles(const std::filesystem::path& folder);
  /// The same of files that were read from `folder`.
  SideFiles(std::filesystem::path folder, std::vector<ExtraFile> files);

  [[nodiscard]] const std::vector<ExtraFile>& files() const { return files_; }
  [[nodiscard]] const std::string* find(std::string_view name) const;

  /// The tokens at which generation ends, of generation_config.json, or of config.json where there
  /// is no such file; empty where it names none.
  [[nodiscard]] const std::vector<Index>& ends() const { return ends_; }
  /// Of config.json.
  [[nodiscard]] const SpecialTokens& tokens() const { return tokens_; }

  /// Writes them into `folder`, in place of what is there.
  void write(const std::filesystem::path& folder) const;

  /// What a model has to take along to a new folder: the tokenizer's files, those of `own` in place
  /// of others of the same name, and generation_config.json. `more` end a text for the model, too,
  /// and `end_text` is how the tokenizer writes the first, where that is known.
  [[nodiscard]] std::vector<ExtraFile> merged(std::vector<ExtraFile> own,
                                              std::span<const Index> more,
                                              const std::optional<std::string>& end_text) const;

 private:
  std::filesystem::path folder_;
  std::vector<ExtraFile> files_;
  std::vector<Index> ends_;
  SpecialTokens tokens_;
};

}  // namespace dos::hf
