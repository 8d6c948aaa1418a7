// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_folder.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_field.hpp"
#include "io/plain_name.hpp"

namespace dos::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolderRemedy = "the folder is damaged: copy it or write it again";
/// A piece that is still in a core's cache when it is converted.
constexpr Index kReadBytes = 256 * 1024;

void expect_folder(const fs::path& folder) {
  std::error_code ignored;
  expect(fs::is_directory(folder, ignored),
         "{}: no such folder; name one that save_pretrained() wrote", folder.string());
  const bool has_weights =
      fs::exists(folder / kSingleFile, ignored) || fs::exists(folder / kIndexFile, ignored);
  if (has_weights) return;
  const bool is_pickled = fs::exists(folder / "pytorch_model.bin", ignored) ||
                          fs::exists(folder / "pytorch_model.bin.index.json", ignored);
  fail("{}: neither {} nor {} is there{}", folder.string(), kSingleFile, kIndexFile,
       is_pickled ? ", only weights in Python's format, which may hold programs and is not read: "
                    "convert them with save_pretrained(safe_serialization=True)"
                  : "; name a folder with the weights of a model");
}

bool converted(FileDType dtype, std::span<const std::byte> elements, std::span<float> out) {
  return widen(dtype, elements, out);
}
bool converted(FileDType dtype, std::span<const std::byte> elements, std::span<BF16> out) {
  return round(dtype, elements, out);
}

}  // namespace

std::map<std::string, std::string> parse_index(std::string_view text, const fs::path& path) {
  const nlohmann::json document = parse_json_object(text, path.string(), kFolderRemedy);
  const JsonField map = JsonField(document, path.string(), kFolderRemedy).member("weight_map");
  std::map<std::string, std::string> result;
  for (const auto& item : map.object().items()) {
    const JsonField entry = map.member(item.key());
    const std::string file = entry.text();
    if (!is_plain_name(file))
      fail("{}: tensor '{}' lies in '{}', which is no name of a file in this folder; {}",
           path.string(), one_line(item.key()), one_line(file), kFolderRemedy);
    result.emplace(item.key(), file);
  }
  return result;
}

TensorFolder::TensorFolder(const fs::path& folder) {
  expect_folder(folder);
  std::error_code ignored;
  if (fs::exists(folder / kSingleFile, ignored)) {
    open(folder / kSingleFile);
    return;
  }
  const fs::path path = folder / kIndexFile;
  const std::map<std::string, std::string> index = parse_index(read_text(path), path);
  std::set<std::string> names;
  for (const auto& [tensor, file] : index) names.insert(file);
  for (const std::string& name : names) {
    expect(fs::exists(folder / name, ignored),
           "{}: names the file '{}', which is not there; copy the whole folder", path.string(),
           one_line(name));
    open(folder / name);
  }
  expect_indexed(index, path);
}

TensorFolder::TensorFolder(const fs::path& file, std::string_view without) {
  std::error_code ignored;
  expect(fs::exists(file, ignored), "{}: does not exist; {}", file.string(), without);
  open(file);
}

void TensorFolder::open(const fs::path& path) {
  const std::size_t number = files_.size();
  const InputFile& file = files_.emplace_back(path).input();
  for (StoredTensor& tensor : read_header(file).tensors) {
    const auto [other, is_new] = positions_.emplace(tensor.name, tensors_.size());
    expect(is_new, "{}: tensor '{}' is in '{}', too; {}", path.string(), one_line(tensor.name),
           is_new ? "" : files_[tensors_[other->second].file].input().path().filename().string(),
           kFolderRemedy);
    tensors_.push_back({std::move(tensor), number});
  }
}

void TensorFolder::expect_indexed(const std::map<std::string, std::string>& index,
                                  const fs::path& path) const {
  for (const auto& [name, file] : index) {
    const Tensor* tensor = find(name);
    expect(tensor != nullptr && files_[tensor->file].input().path().filename() == file,
           "{}: tensor '{}' is not in '{}'; {}", path.string(), one_line(name), one_line(file),
           kFolderRemedy);
  }
  for (const Tensor& tensor : tensors_)
    expect(index.contains(tensor.name), "{}: not in the index, {}; {}", place_of(tensor),
           path.filename().string(), kFolderRemedy);
}

const TensorFolder::Tensor* TensorFolder::find(std::string_view name) const {
  const auto found = positions_.find(name);
  return found == positions_.end() ? nullptr : &tensors_[found->second];
}

std::string TensorFolder::place_of(const Tensor& tensor) const {
  return fmt::format("{}: tensor '{}'", files_[tensor.file].input().path().string(),
                     one_line(tensor.name));
}

void TensorFolder::expect_whole(const Tensor& tensor, bool is_whole) const {
  expect(is_whole, "{}: the file became shorter while it was read; {}", place_of(tensor),
         kFolderRemedy);
}

void TensorFolder::read_bytes(const Tensor& tensor, Index offset, std::span<std::byte> out) const {
  require(offset >= 0 && std::ssize(out) <= tensor.end - tensor.begin - offset,
          "bytes inside the tensor");
  const Index read = files_[tensor.file].input().read(tensor.begin + offset, out);
  expect_whole(tensor, read == std::ssize(out));
}

template <class T>
void TensorFolder::expect_finite(bool is_finite, const Tensor& tensor, Index first,
                                 std::span<T> numbers) const {
  if (is_finite) return;
  const auto bad = std::ranges::find_if(numbers, [](T x) { return !std::isfinite(to_float(x)); });
  fail("{}: element {} is {}; the weights are damaged: use others", place_of(tensor),
       first + (bad - numbers.begin()), to_float(*bad));
}

template <class T>
void TensorFolder::read_cached(const Tensor& tensor, Index first, std::span<T> out) const {
  const Index element = tensor.dtype.bits() / 8;
  // Numbers of the same type need no copy.
  const bool is_there = tensor.dtype == (std::is_same_v<T, float> ? DType::kF32 : DType::kBF16);
  const Index raw_bytes = is_there ? 0 : std::min(kReadBytes, std::ssize(out) * element);
  const auto raw = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(raw_bytes));
  while (!out.empty()) {
    const Index count = std::min(std::ssize(out), kReadBytes / element);
    const auto numbers = out.first(static_cast<std::size_t>(count));
    const auto piece = is_there ? std::as_writable_bytes(numbers)
                                : std::span(raw.get(), static_cast<std::size_t>(count * element));
    read_bytes(tensor, first * element, piece);
    const bool is_finite = is_there ? all_finite(std::span<const T>(numbers))
                                    : converted(tensor.dtype, piece, numbers);
    expect_finite(is_finite, tensor, first, numbers);
    first += count;
    out = out.subspan(numbers.size());
  }
}

template <class T>
void TensorFolder::read_begun(const Tensor& tensor, Index first, std::span<T> out,
                              ReadBuffer& begun) const {
  const Index element = tensor.dtype.bits() / 8;
  expect(begun.fault().empty(), "{} (tensor '{}'); {}", begun.fault(), one_line(tensor.name),
         kFolderRemedy);
  const auto piece = begun.bytes(tensor.begin + first * element, std::ssize(out) * element);
  expect_finite(converted(tensor.dtype, piece, out), tensor, first, out);
}

template <class T>
void TensorFolder::read_as(const Tensor& tensor, Index first, std::span<T> out,
                           ReadBuffer* begun) const {
  require(widens_to_float(tensor.dtype), "a tensor of numbers that widen to FP32");
  const Index element = tensor.dtype.bits() / 8;
  require(first >= 0 && std::ssize(out) * element <= tensor.end - tensor.begin - first * element,
          "elements of the tensor");
  if (begun != nullptr && begun->is_begun())
    read_begun(tensor, first, out, *begun);
  else
    read_cached(tensor, first, out);
}

void TensorFolder::begin_read(const Tensor& tensor, Index first, Index count, ReadBuffer& buffer,
                              storage::Engine& engine) const {
  const Index element = tensor.dtype.bits() / 8;
  const WeightFile& file = files_[tensor.file];
  const Index offset = tensor.begin + first * element;
  if (file.is_away(offset, count * element)) file.begin(offset, count * element, buffer, engine);
}

void TensorFolder::read(const Tensor& tensor, Index first, std::span<float> out,
                        ReadBuffer* begun) const {
  read_as(tensor, first, out, begun);
}

void TensorFolder::read(const Tensor& tensor, Index first, std::span<BF16> out,
                        ReadBuffer* begun) const {
  read_as(tensor, first, out, begun);
}

}  // namespace dos::io
