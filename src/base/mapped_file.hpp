// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace dos {

class InputFile;

/// A whole file mapped read-only. Throws Error when it cannot be opened or mapped; an empty file
/// maps to an empty span. Reading what others have cut off meanwhile ends the program: see
/// end_with_words_when_cut().
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept;
  [[nodiscard]] const std::filesystem::path& path() const noexcept;
  /// The same file, for what may be damaged: a part that the disk does not give is an Error there.
  [[nodiscard]] const InputFile& file() const noexcept;

 private:
  struct Mapping;
  std::unique_ptr<Mapping> mapping_;
};

/// From now to the end of the process, reading a part of a MappedFile that is not there any more
/// (or that the disk does not give) ends the program with status 1 and "PROGRAM: error: FILE: ...",
/// not with SIGBUS. To be called by main(), after MPI_Init, which may take the signal.
void end_with_words_when_cut(const char* program);

}  // namespace dos
