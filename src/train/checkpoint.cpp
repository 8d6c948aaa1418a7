// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.hpp"

#include <cstring>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "io/safetensors.hpp"
#include "io/safetensors_writer.hpp"
#include "optim/optimizer.hpp"
#include "ranks/exchange.hpp"
#include "train/run_info.hpp"

namespace dos::train {
namespace {

/// One set of handles and how its tensors are called in a file.
struct TensorGroup {
  const tensor::SubgroupHandles& handles;
  std::string suffix;
  bool is_of_all = true;  ///< else of the parameters that are trained

  [[nodiscard]] bool has(const shape::PlacedParameter& parameter) const {
    return is_of_all || parameter.spec.trained;
  }
};

std::vector<TensorGroup> optimizer_groups(const optim::Optimizer& optimizer) {
  std::vector<TensorGroup> groups;
  for (Index i = 0; i < std::ssize(optimizer.state_names()); ++i)
    groups.push_back({optimizer.state(i),
                      std::string(".") + optimizer.state_names()[static_cast<std::size_t>(i)],
                      /*is_of_all=*/false});
  return groups;
}

/// "" when the manifest does not say.
std::string rule_of(const io::CheckpointManifest& manifest) {
  const nlohmann::json::json_pointer place("/optim/rule");
  const nlohmann::json& configuration = manifest.configuration;
  if (!configuration.is_object() || !configuration.contains(place)) return "";
  const nlohmann::json& rule = configuration.at(place);
  return rule.is_string() ? rule.get<std::string>() : "";
}

/// visit(group, parameter) for each tensor of the groups.
template <class Visit>
void for_each_tensor(const std::vector<TensorGroup>& groups, const shape::Layout& layout,
                     const Visit& visit) {
  for (const TensorGroup& group : groups)
    for (const shape::PlacedParameter& parameter : layout.parameters)
      if (group.has(parameter)) visit(group, parameter);
}

constexpr ranks::MessageName kPiece{ranks::Kind::kCheckpoint, 0, 0};

/// The pieces of every tensor of some groups in one order, for all ranks. Pieces travel one by one
/// from their owners to rank 0, so that it needs room for one.
class Pieces {
 public:
  Pieces(const CheckpointContents& contents, std::vector<TensorGroup> groups)
      : contents_(contents), groups_(std::move(groups)) {}

  [[nodiscard]] const shape::Layout& layout() const { return contents_.parameters.layout(); }
  [[nodiscard]] const std::vector<TensorGroup>& groups() const { return groups_; }

  /// visit(group, parameter, piece) for each piece.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for_each_tensor(groups_, layout(),
                    [&](const TensorGroup& group, const shape::PlacedParameter& parameter) {
                      for (const shape::Piece& piece : shape::pieces_of(parameter))
                        visit(group, parameter, piece);
                    });
  }

  [[nodiscard]] bool owns(const shape::Piece& piece) const {
    return contents_.parameters.ownership().owns(piece.subgroup);
  }

  /// Calls use(bytes) with an owned piece.
  template <class Use>
  static void read(const TensorGroup& group, const shape::Piece& piece, const Use& use) {
    const rt::HostAccess access(group.handles[piece.subgroup], rt::Mode::kRead);
    use(std::as_writable_bytes(access.as<float>().subspan(static_cast<std::size_t>(piece.offset),
                                                          static_cast<std::size_t>(piece.count))));
  }

  void send(const TensorGroup& group, const shape::Piece& piece) const {
    read(group, piece, [&](std::span<std::byte> bytes) {
      contents_.exchange->run(
          {{platform::MpiMessage::Direction::kSend, bytes, /*peer=*/0, kPiece}});
    });
  }

  [[nodiscard]] std::span<const std::byte> receive(const shape::Piece& piece) {
    received_.resize(static_cast<std::size_t>(piece.count));
    const auto bytes = std::as_writable_bytes(std::span(received_));
    contents_.exchange->run({{platform::MpiMessage::Direction::kReceive, bytes,
                              contents_.owners[static_cast<std::size_t>(piece.subgroup)], kPiece}});
    return bytes;
  }

 private:
  const CheckpointContents& contents_;
  std::vector<TensorGroup> groups_;
  std::vector<float> received_;
};

std::vector<TensorGroup> parameter_groups(const tensor::ParameterSet& parameters) {
  return {{parameters.values(), ""}};
}

io::FileRecord write_file(const std::filesystem::path& folder, const std::string& name,
                          Pieces pieces) {
  std::vector<io::TensorSpec> specs;
  for_each_tensor(
      pieces.groups(), pieces.layout(),
      [&](const TensorGroup& group, const shape::PlacedParameter& parameter) {
        specs.push_back({parameter.spec.name + group.suffix, DType::kF32, parameter.spec.shape()});
      });
  io::SafetensorsWriter writer(folder / name, std::move(specs), {{"format", "dos"}});
  pieces.for_each([&](const TensorGroup& group, const shape::PlacedParameter& parameter,
                      const shape::Piece& piece) {
    const std::string tensor = parameter.spec.name + group.suffix;
    if (pieces.owns(piece))
      Pieces::read(group, piece, [&](auto bytes) { writer.write(tensor, bytes); });
    else
      writer.write(tensor, pieces.receive(piece));
  });
  return {name, writer.commit()};
}

/// Reads whole tensors into handles, after everything has been checked.
void read_file(const std::filesystem::path& path, const io::CheckpointManifest& manifest,
               const tensor::ParameterSet& parameters, const std::vector<TensorGroup>& groups) {
  const shape::Layout& layout = parameters.layout();
  const io::SafetensorsFile file(path);
  io::expect_contents(file, manifest);
  const auto tensor_of = [&](const TensorGroup& group,
                             const shape::PlacedParameter& parameter) -> const io::MappedTensor& {
    return file.at(parameter.spec.name + group.suffix);
  };
  for_each_tensor(groups, layout,
                  [&](const TensorGroup& group, const shape::PlacedParameter& parameter) {
                    expect_tensor_of(file, tensor_of(group, parameter), parameter.spec);
                  });
  std::vector<float> values;
  for_each_tensor(groups, layout,
                  [&](const TensorGroup& group, const shape::PlacedParameter& parameter) {
                    const io::MappedTensor& tensor = tensor_of(group, parameter);
                    values.resize(static_cast<std::size_t>(parameter.spec.count()));
                    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
                    group.handles.write(parameter, values, parameters.ownership());
                  });
}

/// Names of the tensors of one of a checkpoint's files.
std::set<std::string_view> tensors_in(const io::CheckpointManifest& manifest,
                                      std::string_view file) {
  std::set<std::string_view> names;
  for (const io::FileRecord& record : manifest.files)
    if (record.name == file)
      for (const io::TensorRecord& tensor : record.tensors) names.insert(tensor.name);
  return names;
}

/// Throws Error unless the checkpoint trained what this run trains.
void expect_same_trained(const std::filesystem::path& folder,
                         const io::CheckpointManifest& manifest, const shape::Layout& layout,
                         const std::vector<TensorGroup>& groups) {
  const std::set<std::string_view> kept = tensors_in(manifest, kOptimizerFile);
  for (const TensorGroup& group : groups)
    for (const shape::PlacedParameter& parameter : layout.parameters) {
      const bool was_trained = kept.contains(parameter.spec.name + group.suffix);
      expect(was_trained == parameter.spec.trained,
             "{}: the checkpoint {} '{}', this run {} it: resume with the optim.freeze of the "
             "checkpoint, or start anew",
             folder.string(), was_trained ? "trained" : "froze", parameter.spec.name,
             parameter.spec.trained ? "trains" : "freezes");
    }
}

}  // namespace

void expect_tensor_of(const io::SafetensorsFile& file, const io::MappedTensor& tensor,
                      const shape::ParameterSpec& parameter) {
  const std::vector<Index> shape = parameter.shape();
  expect(
      tensor.dtype == DType::kF32 && tensor.shape == shape,
      "{}: tensor '{}' has shape {} and type {}, the model needs {} and {}: use the checkpoint of "
      "this model",
      file.path().string(), tensor.name, io::shape_text(tensor.shape), io::file_dtype(tensor.dtype),
      io::shape_text(shape), io::file_dtype(DType::kF32));
}

std::filesystem::path save_checkpoint(io::CheckpointStore& store, io::CheckpointManifest manifest,
                                      const CheckpointContents& contents, bool mark_best) {
  io::CheckpointStore::Staging staging = store.begin(manifest.step);
  manifest.files = {
      write_file(staging.path(), kModelFile, {contents, parameter_groups(contents.parameters)}),
      write_file(staging.path(), kOptimizerFile, {contents, optimizer_groups(contents.optimizer)})};
  io::write_manifest(staging.path(), manifest);
  // What was read after a rank was lost is not what that rank would have made of it.
  if (contents.exchange != nullptr) contents.exchange->check();
  return staging.commit(mark_best);
}

void send_checkpoint(const CheckpointContents& contents) {
  for (const Pieces& pieces : {Pieces(contents, parameter_groups(contents.parameters)),
                               Pieces(contents, optimizer_groups(contents.optimizer))})
    pieces.for_each(
        [&](const TensorGroup& group, const shape::PlacedParameter&, const shape::Piece& piece) {
          if (pieces.owns(piece)) pieces.send(group, piece);
        });
}

CheckpointReader::CheckpointReader(const io::CheckpointStore& store, const std::string& selector)
    : folder_(store.resolve(selector)), manifest_(io::read_manifest(folder_)) {}

shape::ModelConfig CheckpointReader::model() const {
  return model_from_json(manifest_.architecture, (folder_ / io::kManifestName).string());
}

void CheckpointReader::expect_lists(const std::vector<shape::ParameterSpec>& parameters) const {
  std::set<std::string_view> listed;
  for (const io::FileRecord& file : manifest_.files)
    for (const io::TensorRecord& tensor : file.tensors) listed.insert(tensor.name);
  for (const shape::ParameterSpec& spec : parameters)
    expect(listed.contains(spec.name),
           "{}: the model's shape asks for '{}', but the checkpoint has no such tensor: it is "
           "damaged, "
           "use another",
           (folder_ / io::kManifestName).string(), spec.name);
}

void CheckpointReader::load_parameters(const tensor::ParameterSet& parameters) const {
  read_file(folder_ / kModelFile, manifest_, parameters, parameter_groups(parameters));
}

void CheckpointReader::load_optimizer(const tensor::ParameterSet& parameters,
                                      const optim::Optimizer& optimizer) const {
  const std::string rule = rule_of(manifest_);
  expect(rule.empty() || rule == optimizer.rule(),
         "{}: the checkpoint holds the states of optim.rule = {}, this run has optim.rule = {}: "
         "resume with the former, or start anew",
         folder_.string(), rule, optimizer.rule());
  const std::vector<TensorGroup> groups = optimizer_groups(optimizer);
  expect_same_trained(folder_, manifest_, parameters.layout(), groups);
  read_file(folder_ / kOptimizerFile, manifest_, parameters, groups);
}

}  // namespace dos::train
