// SPDX-License-Identifier: Apache-2.0
#include "hf/model_export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/bf16.hpp"
#include "base/durable_folder.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "hf/adapter_config.hpp"
#include "hf/side_files.hpp"
#include "io/safetensors_writer.hpp"
#include "io/tensor_folder.hpp"

namespace dos::hf {
namespace {

/// Tensors of one file.
using Shard = std::vector<TensorName>;

io::TensorSpec spec_of(const TensorName& tensor, DType dtype) {
  return {tensor.tensor, dtype, tensor.shape};
}

std::vector<Shard> divide(const std::vector<TensorName>& tensors, DType dtype, Index most) {
  std::vector<Shard> shards(1);
  Index bytes = 0;
  for (const TensorName& tensor : tensors) {
    const Index size = tensor.count() * size_of(dtype);
    if (!shards.back().empty() && bytes + size > most) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(tensor);
    bytes += size;
  }
  return shards;
}

/// Pre: `narrow` is what `values` round to.
void expect_finite(const TensorName& tensor, std::span<const float> values,
                   std::span<const BF16> narrow) {
  for (std::size_t i = 0; i < values.size(); ++i)
    expect(std::isfinite(to_float(narrow[i])) || !std::isfinite(values[i]),
           "tensor '{}': has the value {}, which is beyond what BF16 holds; export it with --dtype "
           "fp32",
           tensor.tensor, values[i]);
}

void write_tensor(io::SafetensorsWriter& writer, const TensorName& tensor, const ReadTensor& read,
                  DType dtype) {
  constexpr Index kPiece = Index{1} << 20;
  std::vector<float> values;
  std::vector<BF16> narrow;
  for (Index first = 0; first < tensor.count(); first += kPiece) {
    values.resize(static_cast<std::size_t>(std::min(kPiece, tensor.count() - first)));
    read(tensor, first, values);
    if (dtype == DType::kBF16) {
      narrow.resize(values.size());
      std::ranges::transform(values, narrow.begin(), &to_bf16);
      expect_finite(tensor, values, narrow);
      writer.write(tensor.tensor, std::as_bytes(std::span(narrow)));
    } else {
      writer.write(tensor.tensor, std::as_bytes(std::span(values)));
    }
  }
}

void write_shard(const std::filesystem::path& path, const Shard& shard, const ReadTensor& read,
                 DType dtype) {
  std::vector<io::TensorSpec> specs;
  for (const TensorName& tensor : shard) specs.push_back(spec_of(tensor, dtype));
  // Without this word transformers refuses the file.
  io::SafetensorsWriter writer(path, std::move(specs), {{"format", "pt"}});
  for (const TensorName& tensor : shard) write_tensor(writer, tensor, read, dtype);
  writer.commit();
}

void write_weights(const std::filesystem::path& folder, const std::vector<TensorName>& tensors,
                   const ReadTensor& read, const ExportOptions& options) {
  const DType dtype = options.config.dtype;
  const std::vector<Shard> shards = divide(tensors, dtype, options.shard_bytes);
  if (shards.size() == 1) return write_shard(folder / io::kSingleFile, tensors, read, dtype);
  Index bytes = 0;
  nlohmann::json map = nlohmann::json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    for (const TensorName& tensor : shards[i]) {
      map[tensor.tensor] = name;
      bytes += tensor.count() * size_of(dtype);
    }
    write_shard(folder / name, shards[i], read, dtype);
  }
  const nlohmann::json index{{"metadata", {{"total_size", bytes}}}, {"weight_map", std::move(map)}};
  write_durably(folder / io::kIndexFile, index.dump(2) + "\n");
}

}  // namespace

void export_model(const std::filesystem::path& folder, const shape::ModelConfig& model,
                  const ReadTensor& read, const ExportOptions& options) {
  const nlohmann::json config = config_json(model, options.config);
  const std::vector<TensorName> tensors = tensor_names(model);
  DurableFolder output(folder);
  write_durably(output.path() / kConfigFile, config.dump(2) + "\n");
  const auto is_generation = [](const ExtraFile& file) { return file.name == kGenerationFile; };
  if (std::ranges::none_of(options.files, is_generation))
    write_durably(output.path() / kGenerationFile, generation_json(options.config).dump(2) + "\n");
  for (const ExtraFile& file : options.files) write_durably(output.path() / file.name, file.text);
  write_weights(output.path(), tensors, read, options);
  output.commit();
}

void export_adapters(const std::filesystem::path& folder, const shape::ModelConfig& model,
                     const ReadTensor& read, DType dtype, const std::string& base) {
  const nlohmann::json config = adapter_json(model, base);
  const std::vector<TensorName> tensors = adapter_tensors(model);
  DurableFolder output(folder);
  write_durably(output.path() / kAdapterConfigFile, config.dump(2) + "\n");
  write_shard(output.path() / kAdapterFile, tensors, read, dtype);
  output.commit();
}

Index parse_shard_size(const std::string& option, const std::string& text) {
  struct Unit {
    std::string_view name;
    Index bytes;
  };
  constexpr std::array kUnits{Unit{"", 1}, Unit{"B", 1}, Unit{"KB", 1'000}, Unit{"MB", 1'000'000},
                              Unit{"GB", 1'000'000'000}};
  Index number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  Index bytes = 0;
  for (const Unit& unit : kUnits)
    if (error == std::errc{} && number > 0 && unit.name == std::string_view(stop, end) &&
        !__builtin_mul_overflow(number, unit.bytes, &bytes))
      return bytes;
  fail("{} {}: is no size of a file; give a whole number and a unit, as in 5GB or 500MB", option,
       text);
}

}  // namespace dos::hf
