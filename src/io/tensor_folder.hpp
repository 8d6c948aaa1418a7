// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bf16.hpp"
#include "io/safetensors_header.hpp"
#include "io/weight_file.hpp"

namespace dos::io {

/// Names of the files that a model's folder holds its tensors in: one file, or several and an
/// index.
inline constexpr const char* kSingleFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";

/// {"weight_map": {TENSOR: FILE}} as a map. `path` names the index in errors. Throws Error unless
/// each file's name is one of a file in the index's own folder.
std::map<std::string, std::string> parse_index(std::string_view text,
                                               const std::filesystem::path& path);

/// The tensors of a folder, read piece by piece: no file is mapped, so that what is read costs no
/// memory beyond the caller's. Reading is thread-safe.
class TensorFolder {
 public:
  struct Tensor : StoredTensor {
    std::size_t file = 0;
  };

  /// Opens FOLDER/model.safetensors, or the files of FOLDER/model.safetensors.index.json. Throws
  /// Error when there is none, a header is bad, two files hold a tensor of one name, or the index
  /// and the files do not hold the same tensors.
  explicit TensorFolder(const std::filesystem::path& folder);
  /// Opens one file. Throws Error as above, `without` where there is no such file.
  TensorFolder(const std::filesystem::path& file, std::string_view without);

  /// By file, and in the order of their bytes there.
  [[nodiscard]] std::span<const Tensor> tensors() const noexcept { return tensors_; }
  /// nullptr when there is no such tensor.
  [[nodiscard]] const Tensor* find(std::string_view name) const;
  /// "FILE: tensor 'NAME'", for messages.
  [[nodiscard]] std::string place_of(const Tensor& tensor) const;

  /// Bytes of a tensor from `offset` on. Throws Error when the file has become shorter.
  void read_bytes(const Tensor& tensor, Index offset, std::span<std::byte> out) const;
  /// Elements of a tensor from `first` on, as FP32, or rounded to BF16. Throws Error naming the
  /// tensor when one is NaN or infinite. Pre: widens_to_float(tensor.dtype).
  /// `begun`: by begin_read(), with these elements among others.
  void read(const Tensor& tensor, Index first, std::span<float> out,
            ReadBuffer* begun = nullptr) const;
  void read(const Tensor& tensor, Index first, std::span<BF16> out,
            ReadBuffer* begun = nullptr) const;
  /// Begins to read elements that the system has not in memory, for read(); nothing happens where
  /// it has. As WeightFile::begin().
  void begin_read(const Tensor& tensor, Index first, Index count, ReadBuffer& buffer,
                  storage::Engine& engine) const;

 private:
  template <class T>
  void read_as(const Tensor& tensor, Index first, std::span<T> out, ReadBuffer* begun) const;
  template <class T>
  void read_cached(const Tensor& tensor, Index first, std::span<T> out) const;
  template <class T>
  void read_begun(const Tensor& tensor, Index first, std::span<T> out, ReadBuffer& begun) const;
  void expect_whole(const Tensor& tensor, bool is_whole) const;
  template <class T>
  void expect_finite(bool is_finite, const Tensor& tensor, Index first, std::span<T> numbers) const;
  void open(const std::filesystem::path& path);
  void expect_indexed(const std::map<std::string, std::string>& index,
                      const std::filesystem::path& path) const;

  std::vector<WeightFile> files_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> positions_;
};

}  // namespace dos::io
