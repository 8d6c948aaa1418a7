// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/contents.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace dos::checkpoint {
namespace {

/// One buffer of each owned subgroup, and how the tensors in them are called in a file.
struct TensorGroup {
  std::function<const rt::Handle&(Index subgroup)> buffer;
  std::function<DType(const shape::ParameterSpec&)> type;
  std::string suffix;
  Index array;  ///< as Part::array
};

Index bytes_of(const io::TensorSpec& tensor) {
  return io::byte_size(tensor.dtype, tensor.shape).value();
}

void sort_for_alignment(std::vector<io::TensorSpec>& tensors) {
  std::ranges::stable_sort(tensors, {}, [](const io::TensorSpec& tensor) {
    const Index bytes = bytes_of(tensor);
    const bool fills_pages = bytes % kTensorAlignment == 0;
    return std::tuple(!fills_pages, fills_pages ? 0 : -bytes);
  });
}

/// Adds the extents of a parameter to the parts of its group, by subgroup.
void add_extents(const tensor::ParameterSet& parameters, const TensorGroup& group,
                 const shape::PlacedParameter& parameter, std::size_t tensor,
                 std::map<Index, Part>& parts) {
  const Index size = size_of(group.type(parameter.spec));
  const auto& subgroups = parameters.layout().subgroups;
  Index offset = 0;
  for (const shape::Piece& piece : shape::pieces_of(parameter)) {
    if (parameters.ownership().owns(piece.subgroup)) {
      Part& part = parts[piece.subgroup];
      part.handle = &group.buffer(piece.subgroup);
      part.subgroup = piece.subgroup;
      part.array = group.array;
      // Updates are submitted by depth; what is frozen has none.
      const shape::Subgroup& place = subgroups[static_cast<std::size_t>(piece.subgroup)];
      part.turn = place.trained ? place.depth : std::numeric_limits<Index>::max();
      part.extents.push_back({.tensor = tensor,
                              .tensor_offset = offset * size,
                              .buffer_offset = piece.offset * size,
                              .bytes = piece.count * size});
    }
    offset += piece.count;
  }
}

/// Of the parameters that are trained, of the others, or of all.
enum class Chosen { kAll, kTrained, kFrozen };

FileContents contents_of(const char* name, const tensor::ParameterSet& parameters,
                         const std::vector<TensorGroup>& groups, Chosen chosen) {
  const auto& placed = parameters.layout().parameters;
  const auto has = [&](const shape::PlacedParameter& parameter) {
    return chosen == Chosen::kAll || parameter.spec.trained == (chosen == Chosen::kTrained);
  };
  FileContents contents{.name = name, .tensors = {}, .parts = {}};
  for (const TensorGroup& group : groups)
    for (const shape::PlacedParameter& parameter : placed)
      if (has(parameter))
        contents.tensors.push_back({parameter.spec.name + group.suffix, group.type(parameter.spec),
                                    parameter.spec.shape()});
  sort_for_alignment(contents.tensors);
  std::map<std::string_view, std::size_t> positions;
  for (std::size_t i = 0; i < contents.tensors.size(); ++i)
    positions.emplace(contents.tensors[i].name, i);
  for (const TensorGroup& group : groups) {
    std::map<Index, Part> parts;
    for (const shape::PlacedParameter& parameter : placed)
      if (has(parameter))
        add_extents(parameters, group, parameter, positions.at(parameter.spec.name + group.suffix),
                    parts);
    for (auto& [subgroup, part] : parts) contents.parts.push_back(std::move(part));
  }
  std::ranges::stable_sort(contents.parts, {},
                           [](const Part& part) { return std::tuple(part.turn, part.subgroup); });
  return contents;
}

FileContents values_of(const char* name, const tensor::ParameterSet& parameters, Chosen chosen) {
  const TensorGroup group{
      [&](Index subgroup) -> const rt::Handle& { return parameters.lasting(subgroup); },
      [&](const shape::ParameterSpec& spec) { return parameters.lasting_type(spec.trained); }, "",
      0};
  FileContents contents = contents_of(name, parameters, {group}, chosen);
  contents.must_be_finite = true;
  contents.is_constant = chosen == Chosen::kFrozen;
  return contents;
}

}  // namespace

io::SafetensorsLayout layout_of(const std::filesystem::path& path,
                                const std::vector<io::TensorSpec>& tensors) {
  return {path, tensors, {{"format", "dos"}}, kTensorAlignment};
}

FileContents model_contents(const tensor::ParameterSet& parameters) {
  FileContents contents = values_of(kModelFile, parameters, Chosen::kAll);
  contents.any_precision = true;
  return contents;
}

FileContents optimizer_contents(const tensor::ParameterSet& parameters,
                                const optim::Optimizer& optimizer) {
  std::vector<TensorGroup> groups;
  for (Index i = 0; i < std::ssize(optimizer.state_names()); ++i)
    groups.push_back({[&optimizer, i](Index subgroup) -> const rt::Handle& {
                        return optimizer.state(i)[subgroup];
                      },
                      [](const shape::ParameterSpec& /*any*/) { return DType::kF32; },
                      std::string(".") + optimizer.state_names()[static_cast<std::size_t>(i)],
                      1 + i});
  return contents_of(kOptimizerFile, parameters, groups, Chosen::kTrained);
}

std::vector<FileContents> written_contents(const tensor::ParameterSet& parameters,
                                           const optim::Optimizer& optimizer) {
  std::vector<FileContents> files{values_of(kModelFile, parameters, Chosen::kTrained),
                                  optimizer_contents(parameters, optimizer)};
  FileContents frozen = values_of(kFrozenFile, parameters, Chosen::kFrozen);
  if (!frozen.tensors.empty()) files.push_back(std::move(frozen));
  return files;
}

}  // namespace dos::checkpoint
