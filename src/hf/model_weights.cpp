// SPDX-License-Identifier: Apache-2.0
#include "hf/model_weights.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "hf/adapter_config.hpp"
#include "hf/config_json.hpp"
#include "shape/family_shape.hpp"

namespace dos::hf {
namespace {

/// What is wrong with a folder's tensors, by kind.
class Mismatches {
 public:
  void add(const char* kind, const std::string& what) { lists_[kind].push_back(what); }

  void expect_none(const std::filesystem::path& folder, const char* description) const {
    if (lists_.empty()) return;
    std::vector<std::string> parts;
    for (const auto& [kind, list] : lists_) parts.push_back(kind + shown(list));
    fail(
        "{}: the tensors are not those of the model in {}: {}; use a folder whose files belong "
        "together",
        folder.string(), description, fmt::join(parts, "; "));
  }

 private:
  static std::string shown(const std::vector<std::string>& list) {
    constexpr std::size_t kShown = 64;
    const auto first = std::span(list).first(std::min(list.size(), kShown));
    std::string text = fmt::format(": {}", fmt::join(first, ", "));
    if (list.size() > kShown) text += fmt::format(" and {} more", list.size() - kShown);
    return text;
  }

  std::map<std::string, std::vector<std::string>> lists_;
};

const io::TensorFolder::Tensor* find_either(const io::TensorFolder& folder,
                                            const std::string& name) {
  if (const auto* found = folder.find(name)) return found;
  return folder.find(without_prefix(name));
}

}  // namespace

ModelWeights::ModelWeights(const std::filesystem::path& folder, const char* description,
                           io::TensorFolder files, std::vector<TensorName> names)
    : folder_(std::move(files)) {
  Mismatches mismatches;
  std::set<std::string_view> used;
  for (TensorName& name : names) {
    const io::TensorFolder::Tensor* stored = find_either(folder_, name.tensor);
    if (stored == nullptr) {
      mismatches.add("missing", name.tensor);
      continue;
    }
    used.insert(stored->name);
    if (stored->shape != name.shape)
      mismatches.add("of another shape",
                     fmt::format("{} {} instead of {}", stored->name, io::shape_text(stored->shape),
                                 io::shape_text(name.shape)));
    if (!io::widens_to_float(stored->dtype))
      mismatches.add("of a type that is not read (F32, F16 and BF16 are)",
                     fmt::format("{} {}", stored->name, stored->dtype.name()));
    tensors_.push_back({std::move(name), stored});
  }
  for (const io::TensorFolder::Tensor& stored : folder_.tensors())
    if (!used.contains(stored.name) && !is_constant(stored.name) && stored.name != kTiedHead)
      mismatches.add("unexpected", one_line(stored.name));
  mismatches.expect_none(folder, description);
  std::ranges::sort(tensors_, {}, [](const Tensor& tensor) {
    return std::pair(tensor.stored->file, tensor.stored->begin);
  });
}

ModelWeights::ModelWeights(const std::filesystem::path& folder, const shape::ModelConfig& model)
    : ModelWeights(folder, kConfigFile, io::TensorFolder(folder), tensor_names(model)) {
  const auto is_head = [](const Tensor& tensor) { return tensor.name.tensor == kTiedHead; };
  if (folder_.find(kTiedHead) != nullptr && std::ranges::none_of(tensors_, is_head))
    for (const Tensor& tensor : tensors_)
      if (tensor.name.parameter == shape::kTokenTable) expect_tied(tensor.name);
}

ModelWeights ModelWeights::of_adapters(const std::filesystem::path& folder,
                                       const shape::ModelConfig& model) {
  return {
      folder, kAdapterConfigFile,
      io::TensorFolder(folder / kAdapterFile, "name a folder that PEFT's save_pretrained() wrote"),
      adapter_tensors(model)};
}

/// The model's logits come from the table: another matrix for them would be lost without a word.
void ModelWeights::expect_tied(const TensorName& table) const {
  constexpr const char* kDiffer =
      "{}: differs from '{}', but config.json says that both are one (tie_word_embeddings); "
      "correct "
      "config.json, or use other weights";
  const io::TensorFolder::Tensor& head = *folder_.find(kTiedHead);
  const io::TensorFolder::Tensor& tokens = *find_either(folder_, table.tensor);
  const bool is_same = head.dtype == tokens.dtype && head.shape == tokens.shape;
  expect(is_same, kDiffer, folder_.place_of(head), tokens.name);
  constexpr Index kPiece = Index{1} << 20;
  std::vector<std::byte> a(kPiece);
  std::vector<std::byte> b(kPiece);
  const Index size = head.end - head.begin;
  for (Index offset = 0; offset < size; offset += kPiece) {
    const auto count = static_cast<std::size_t>(std::min(kPiece, size - offset));
    folder_.read_bytes(head, offset, std::span(a).first(count));
    folder_.read_bytes(tokens, offset, std::span(b).first(count));
    expect(std::ranges::equal(std::span(a).first(count), std::span(b).first(count)), kDiffer,
           folder_.place_of(head), tokens.name);
  }
}

const ModelWeights::Tensor& ModelWeights::find(std::string_view name) const {
  const auto found = std::ranges::find_if(
      tensors_, [&](const Tensor& tensor) { return tensor.name.tensor == name; });
  require(found != tensors_.end(), "a tensor of the model");
  return *found;
}

bool ModelWeights::is_bf16() const {
  return std::ranges::all_of(
      tensors_, [](const Tensor& tensor) { return tensor.stored->dtype == DType::kBF16; });
}

std::string ModelWeights::identity() const {
  Checksum checksum;
  for (const io::TensorFolder::Tensor& tensor : folder_.tensors()) {
    const std::string line =
        fmt::format("{} {} {} {}\n", tensor.name, tensor.dtype.name(), tensor.shape, tensor.begin);
    checksum.update(std::as_bytes(std::span(line)));
  }
  return hex_text(checksum.value());
}

}  // namespace dos::hf
