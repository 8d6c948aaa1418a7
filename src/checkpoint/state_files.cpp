// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/state_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checkpoint/contents.hpp"
#include "checkpoint/piece.hpp"
#include "io/tensor_slice.hpp"
#include "offload/home_plan.hpp"

namespace dos::checkpoint {
namespace {

/// A part of a parameter in a subgroup.
struct Member {
  Index offset = 0;     ///< in the subgroup
  io::TensorSpec part;  ///< named after the parameter
};

std::vector<std::vector<Member>> members_of(const shape::Layout& layout, const StateFiles& files) {
  std::vector<std::vector<Member>> members(layout.subgroups.size());
  for (const shape::PlacedParameter& parameter : layout.parameters) {
    const io::TensorSpec whole{parameter.spec.name, DType::kF32, parameter.spec.shape()};
    const Index row = parameter.spec.is_matrix() ? parameter.spec.columns : 1;
    Index first = 0;
    for (const shape::Piece& piece : shape::pieces_of(parameter)) {
      const Index end = first + piece.count / row;
      if (files.subgroups.contains(piece.subgroup))
        members[static_cast<std::size_t>(piece.subgroup)].push_back(
            {piece.offset, io::part_of(whole, first, end)});
      first = end;
    }
  }
  for (auto& each : members) std::ranges::sort(each, {}, &Member::offset);
  return members;
}

}  // namespace

std::string state_file_name(Index subgroup) {
  return fmt::format("states-{:06}.safetensors", subgroup);
}

std::vector<std::vector<io::TensorSpec>> state_file_tensors(
    const shape::Layout& layout, std::span<const char* const> state_names,
    const StateFiles& files) {
  std::vector<std::string> suffixes;
  if (files.with_parameters) suffixes.emplace_back();
  for (const char* state : state_names) suffixes.push_back(std::string(".") + state);
  const std::vector<std::vector<Member>> members = members_of(layout, files);
  std::vector<std::vector<io::TensorSpec>> tensors(members.size());
  for (const Index index : files.subgroups) {
    const auto subgroup = static_cast<std::size_t>(index);
    const Index padded = offload::padded_bytes(layout.subgroups[subgroup]);
    const Index padding = padded / size_of(DType::kF32) - layout.subgroups[subgroup].count;
    for (const std::string& suffix : suffixes) {
      for (const Member& member : members[subgroup])
        tensors[subgroup].push_back(io::with_suffix(member.part, suffix));
      if (padding > 0) tensors[subgroup].push_back({"padding" + suffix, DType::kF32, {padding}});
    }
  }
  return tensors;
}

std::vector<Extent> extents_of(std::span<const io::TensorSpec> tensors) {
  std::vector<Extent> extents;
  Index offset = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Index bytes = io::byte_size(tensors[i].dtype, tensors[i].shape).value();
    extents.push_back({.tensor = i, .buffer_offset = offset, .bytes = bytes});
    offset += bytes;
  }
  return extents;
}

offload::StateForm form_of(const std::vector<io::TensorSpec>& tensors) {
  offload::StateForm form{.header_bytes = std::ssize(layout_of("states", tensors).header())};
  for (const Extent& piece : pieces_of(extents_of(tensors)))
    form.piece_bytes.push_back(piece.bytes);
  return form;
}

}  // namespace dos::checkpoint
