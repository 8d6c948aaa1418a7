// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/contents.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "io/tensor_slice.hpp"

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

/// Elements of a parameter that are one tensor of a file.
struct Section {
  Index first = 0;
  Index end = 0;
};

/// What is left of a parameter when files of their own have `taken` some of it.
std::vector<Section> sections_of(const shape::PlacedParameter& parameter, Index array,
                                 const StateFiles& taken) {
  std::vector<Section> sections;
  Index first = 0;
  bool goes_on = false;
  for (const shape::Piece& piece : shape::pieces_of(parameter)) {
    const bool is_here = !taken.have(piece.subgroup, array);
    if (is_here && !goes_on) sections.push_back({first, first});
    first += piece.count;
    if (is_here) sections.back().end = first;
    goes_on = is_here;
  }
  return sections;
}

io::TensorSpec tensor_of(const TensorGroup& group, const shape::PlacedParameter& parameter,
                         const Section& section) {
  const Index row = parameter.spec.is_matrix() ? parameter.spec.columns : 1;
  return io::with_suffix(
      io::part_of({parameter.spec.name, group.type(parameter.spec), parameter.spec.shape()},
                  section.first / row, section.end / row),
      group.suffix);
}

/// Adds the extents of a section of a parameter, which is this tensor, to the parts of its group,
/// by subgroup.
void add_extents(const tensor::ParameterSet& parameters, const TensorGroup& group,
                 const shape::PlacedParameter& parameter, const Section& section,
                 std::size_t tensor, std::map<Index, Part>& parts) {
  const Index size = size_of(group.type(parameter.spec));
  const auto& subgroups = parameters.layout().subgroups;
  Index offset = 0;
  for (const shape::Piece& piece : shape::pieces_of(parameter)) {
    const bool is_in_it = section.first <= offset && offset < section.end;
    if (is_in_it && parameters.ownership().owns(piece.subgroup)) {
      Part& part = parts[piece.subgroup];
      part.handle = &group.buffer(piece.subgroup);
      part.subgroup = piece.subgroup;
      part.array = group.array;
      // Updates are submitted by depth; what is frozen has none.
      const shape::Subgroup& place = subgroups[static_cast<std::size_t>(piece.subgroup)];
      part.turn = place.trained ? place.depth : std::numeric_limits<Index>::max();
      part.extents.push_back({.tensor = tensor,
                              .tensor_offset = (offset - section.first) * size,
                              .buffer_offset = piece.offset * size,
                              .bytes = piece.count * size});
    }
    offset += piece.count;
  }
}

/// Of the parameters that are trained, of the others, or of all.
enum class Chosen { kAll, kTrained, kFrozen };

FileContents contents_of(const char* name, const tensor::ParameterSet& parameters,
                         const std::vector<TensorGroup>& groups, Chosen chosen,
                         const StateFiles& taken) {
  const auto for_each_section = [&](const TensorGroup& group, const auto& f) {
    for (const shape::PlacedParameter& parameter : parameters.layout().parameters) {
      if (chosen != Chosen::kAll && parameter.spec.trained != (chosen == Chosen::kTrained))
        continue;
      for (const Section& section : sections_of(parameter, group.array, taken))
        f(parameter, section, tensor_of(group, parameter, section));
    }
  };
  FileContents contents{.name = name, .tensors = {}, .parts = {}};
  for (const TensorGroup& group : groups)
    for_each_section(
        group, [&](const auto& /*parameter*/, const Section& /*section*/, io::TensorSpec tensor) {
          contents.tensors.push_back(std::move(tensor));
        });
  sort_for_alignment(contents.tensors);
  std::map<std::string_view, std::size_t> positions;
  for (std::size_t i = 0; i < contents.tensors.size(); ++i)
    positions.emplace(contents.tensors[i].name, i);
  for (const TensorGroup& group : groups) {
    std::map<Index, Part> parts;
    for_each_section(group, [&](const shape::PlacedParameter& parameter, const Section& section,
                                const io::TensorSpec& tensor) {
      add_extents(parameters, group, parameter, section, positions.at(tensor.name), parts);
    });
    for (auto& [subgroup, part] : parts) contents.parts.push_back(std::move(part));
  }
  std::ranges::stable_sort(contents.parts, {},
                           [](const Part& part) { return std::tuple(part.turn, part.subgroup); });
  return contents;
}

FileContents values_of(const char* name, const tensor::ParameterSet& parameters, Chosen chosen,
                       const StateFiles& taken = {}) {
  const TensorGroup group{
      [&](Index subgroup) -> const rt::Handle& { return parameters.lasting(subgroup); },
      [&](const shape::ParameterSpec& spec) { return parameters.lasting_type(spec.trained); }, "",
      0};
  FileContents contents = contents_of(name, parameters, {group}, chosen, taken);
  contents.must_be_finite = true;
  contents.is_constant = chosen == Chosen::kFrozen;
  return contents;
}

FileContents states_of(const tensor::ParameterSet& parameters, const optim::Optimizer& optimizer,
                       const StateFiles& taken) {
  std::vector<TensorGroup> groups;
  for (Index i = 0; i < std::ssize(optimizer.state_names()); ++i)
    groups.push_back({[&optimizer, i](Index subgroup) -> const rt::Handle& {
                        return optimizer.state(i)[subgroup];
                      },
                      [](const shape::ParameterSpec& /*any*/) { return DType::kF32; },
                      std::string(".") + optimizer.state_names()[static_cast<std::size_t>(i)],
                      1 + i});
  return contents_of(kOptimizerFile, parameters, groups, Chosen::kTrained, taken);
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
  return states_of(parameters, optimizer, {});
}

std::vector<FileContents> written_contents(const tensor::ParameterSet& parameters,
                                           const optim::Optimizer& optimizer,
                                           const StateFiles& taken) {
  std::vector<FileContents> files{values_of(kModelFile, parameters, Chosen::kTrained, taken),
                                  states_of(parameters, optimizer, taken),
                                  values_of(kFrozenFile, parameters, Chosen::kFrozen)};
  std::erase_if(files, [](const FileContents& file) { return file.tensors.empty(); });
  std::vector<std::vector<io::TensorSpec>> tensors =
      state_file_tensors(parameters.layout(), optimizer.state_names(), taken);
  for (const Index subgroup : taken.subgroups)
    files.push_back({.name = state_file_name(subgroup),
                     .subgroup = subgroup,
                     .tensors = std::move(tensors[static_cast<std::size_t>(subgroup)]),
                     .parts = {}});
  return files;
}

}  // namespace dos::checkpoint
