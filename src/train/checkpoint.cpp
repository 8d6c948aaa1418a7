// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.hpp"

#include <cstring>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "io/safetensors.hpp"
#include "io/safetensors_writer.hpp"
#include "optim/optimizer.hpp"
#include "train/run_info.hpp"

namespace dos::train {
namespace {

/// One set of handles and how its tensors are called in a file.
struct TensorGroup {
  const tensor::SubgroupHandles& handles;
  std::string suffix;
};

std::vector<TensorGroup> optimizer_groups(const optim::Optimizer& optimizer) {
  std::vector<TensorGroup> groups;
  for (Index i = 0; i < std::ssize(optimizer.state_names()); ++i)
    groups.push_back({optimizer.state(i),
                      std::string(".") + optimizer.state_names()[static_cast<std::size_t>(i)]});
  return groups;
}

/// "" when the manifest does not say.
std::string rule_of(const io::Manifest& manifest) {
  const nlohmann::json::json_pointer place("/optim/rule");
  const nlohmann::json& configuration = manifest.configuration;
  if (!configuration.is_object() || !configuration.contains(place)) return "";
  const nlohmann::json& rule = configuration.at(place);
  return rule.is_string() ? rule.get<std::string>() : "";
}

io::FileRecord write_file(const std::filesystem::path& folder, const std::string& name,
                          const tensor::Layout& layout, const std::vector<TensorGroup>& groups) {
  std::vector<io::TensorSpec> specs;
  for (const TensorGroup& group : groups)
    for (const tensor::PlacedParameter& parameter : layout.parameters)
      specs.push_back({parameter.spec.name + group.suffix, DType::kF32, parameter.spec.shape()});
  io::SafetensorsWriter writer(folder / name, std::move(specs), {{"format", "dos"}});
  for (const TensorGroup& group : groups)
    for (const tensor::PlacedParameter& parameter : layout.parameters)
      for (const tensor::Piece& piece : tensor::pieces_of(parameter)) {
        const rt::HostAccess access(group.handles[piece.subgroup], rt::Mode::kRead);
        const auto values = access.as<const float>().subspan(static_cast<std::size_t>(piece.offset),
                                                             static_cast<std::size_t>(piece.count));
        writer.write(parameter.spec.name + group.suffix, std::as_bytes(values));
      }
  return {name, writer.commit()};
}

void expect_shape(const io::SafetensorsFile& file, const io::MappedTensor& tensor,
                  const tensor::PlacedParameter& parameter) {
  const std::vector<Index> shape = parameter.spec.shape();
  expect(
      tensor.dtype == DType::kF32 && tensor.shape == shape,
      "{}: tensor '{}' has shape {} and type {}, the model needs {} and {}: use the checkpoint of "
      "this model",
      file.path().string(), tensor.name, io::shape_text(tensor.shape), io::file_dtype(tensor.dtype),
      io::shape_text(shape), io::file_dtype(DType::kF32));
}

/// Reads whole tensors into handles, after everything has been checked.
void read_file(const std::filesystem::path& path, const io::Manifest& manifest,
               const tensor::Layout& layout, const std::vector<TensorGroup>& groups) {
  const io::SafetensorsFile file(path);
  io::expect_contents(file, manifest);
  for (const TensorGroup& group : groups)
    for (const tensor::PlacedParameter& parameter : layout.parameters)
      expect_shape(file, file.at(parameter.spec.name + group.suffix), parameter);
  std::vector<float> values;
  for (const TensorGroup& group : groups)
    for (const tensor::PlacedParameter& parameter : layout.parameters) {
      const io::MappedTensor& tensor = file.at(parameter.spec.name + group.suffix);
      values.resize(static_cast<std::size_t>(parameter.spec.count()));
      std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
      group.handles.write(parameter, values);
    }
}

}  // namespace

std::filesystem::path save_checkpoint(io::CheckpointStore& store, io::Manifest manifest,
                                      const tensor::ParameterSet& parameters,
                                      const optim::Optimizer& optimizer, bool mark_best) {
  io::CheckpointStore::Staging staging = store.begin(manifest.step);
  const tensor::Layout& layout = parameters.layout();
  manifest.files = {
      write_file(staging.path(), kModelFile, layout, {{parameters.values(), ""}}),
      write_file(staging.path(), kOptimizerFile, layout, optimizer_groups(optimizer))};
  io::write_manifest(staging.path(), manifest);
  return staging.commit(mark_best);
}

CheckpointReader::CheckpointReader(const std::filesystem::path& out, const std::string& selector)
    : folder_(io::CheckpointStore(out).resolve(selector)), manifest_(io::read_manifest(folder_)) {}

models::ModelConfig CheckpointReader::model() const {
  return model_from_json(manifest_.architecture, (folder_ / io::kManifestName).string());
}

void CheckpointReader::load_parameters(const tensor::ParameterSet& parameters) const {
  read_file(folder_ / kModelFile, manifest_, parameters.layout(), {{parameters.values(), ""}});
}

void CheckpointReader::load_optimizer(const tensor::ParameterSet& parameters,
                                      const optim::Optimizer& optimizer) const {
  const std::string rule = rule_of(manifest_);
  expect(rule.empty() || rule == optimizer.rule(),
         "{}: the checkpoint holds the states of optim.rule = {}, this run has optim.rule = {}: "
         "resume with the former, or start anew",
         folder_.string(), rule, optimizer.rule());
  read_file(folder_ / kOptimizerFile, manifest_, parameters.layout(), optimizer_groups(optimizer));
}

}  // namespace dos::train
