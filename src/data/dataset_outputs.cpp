// SPDX-License-Identifier: Apache-2.0
#include "data/dataset_outputs.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <span>
#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "base/file.hpp"
#include "data/mask_file.hpp"
#include "data/missing.hpp"
#include "data/token_header.hpp"

namespace dos::data {
namespace {

/// All manifests begin with it.
constexpr const char* kManifestMark = "{\n  \"format\": \"dos.dataset\"";

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) &&
         std::filesystem::file_size(path, ignored) > 0;
}

bool begins_with(const std::filesystem::path& path, std::string_view mark) {
  std::string start(mark.size(), '\0');
  const Index count = InputFile(path).read(0, std::as_writable_bytes(std::span(start)));
  return count == std::ssize(mark) && start == mark;
}

bool begins_with_header(const std::filesystem::path& path) {
  std::array<std::int32_t, 1> magic{};
  InputFile(path).read(0, std::as_writable_bytes(std::span(magic)));
  return magic[0] == kNarrowTokens.magic || magic[0] == kWideTokens.magic;
}

[[noreturn]] void refuse_model(const std::filesystem::path& model) {
  fail(
      "{}: is there already, and no manifest beside it says that it belongs to a data set: choose "
      "another --output, give the file with --model, or remove it",
      model.string());
}

}  // namespace

void expect_replaceable(const DatasetPaths& paths, bool trains) {
  expect(
      !is_there(paths.manifest) || begins_with(paths.manifest, kManifestMark),
      "{}: is there already and is no data set's manifest: choose another --output, or remove it",
      paths.manifest.string());
  for (const std::filesystem::path& tokens : {paths.train, paths.val})
    expect(!is_there(tokens) || begins_with_header(tokens),
           "{}: is there already and holds no tokens: choose another --output, or remove it",
           tokens.string());
  for (const std::filesystem::path& mask : {paths.train_mask, paths.val_mask})
    expect(!is_there(mask) || begins_with(mask, kMaskMark),
           "{}: is there already and is no mask of tokens: choose another --output, or remove it",
           mask.string());
  if (trains && is_missing(paths.manifest) && is_there(paths.model)) refuse_model(paths.model);
}

void expect_replaceable_model(const DatasetPaths& paths, const std::string& contents) {
  if (contents.empty() || !is_missing(paths.manifest) || !is_there(paths.model)) return;
  if (read_text(paths.model) != contents) refuse_model(paths.model);
}

}  // namespace dos::data
