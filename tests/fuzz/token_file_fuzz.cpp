// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "base/file.hpp"
#include "data/dataset.hpp"
#include "fuzz/target.hpp"

namespace {

/// Lives as long as the process.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("dos-fuzz-" + std::to_string(static_cast<long>(::getpid())))) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  dos::require(file != nullptr, "a file to write");
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
}

void read_all(const dos::data::TokenFile& file) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.size()));
  file.read(0, tokens);
  static_cast<void>(file.check(1000, {}));
}

}  // namespace

/// Any bytes are refused in one line, or as many tokens as the file says can be read. The first
/// byte says how: llm.c's, nanoGPT's, or Megatron's, whose index has the length of the second.
void dos::test::fuzz(std::span<const std::byte> bytes) {
  static const Folder folder;
  if (bytes.size() < 2) return;
  const auto kind = std::to_integer<char>(bytes[0]);
  const auto index = std::to_integer<std::size_t>(bytes[1]);
  const std::string input(text_of(bytes.subspan(2)));
  std::filesystem::remove(folder.path() / "x.idx");
  if (kind == 'm') {
    write(folder.path() / "x.idx", input.substr(0, index));
    write(folder.path() / "x.bin", input.substr(std::min(index, input.size())));
    read_all(data::open_dataset(folder.path() / "x").val);
    return;
  }
  const std::filesystem::path path = folder.path() / (kind == 'n' ? "train.bin" : "x.bin");
  write(path, input);
  read_all(data::TokenFile(path));
}
