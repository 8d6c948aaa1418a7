// SPDX-License-Identifier: Apache-2.0
#include "tensor/parameter_set.hpp"

#include <algorithm>
#include <utility>

#include "base/bf16.hpp"

namespace dos::tensor {
namespace {

std::size_t to_size(Index value) {
  return static_cast<std::size_t>(value);
}

}  // namespace

SubgroupHandles::SubgroupHandles(rt::Session& session, const Layout& layout,
                                 const std::string& prefix, rt::MemoryCategory category,
                                 DType type) {
  for (const Subgroup& subgroup : layout.subgroups)
    handles_.push_back(
        std::make_unique<rt::Handle>(session, rt::HandleSpec{.name = prefix + "." + subgroup.name,
                                                             .type = type,
                                                             .count = subgroup.count,
                                                             .category = category}));
}

void SubgroupHandles::read(const PlacedParameter& parameter, std::span<float> out) const {
  require(std::ssize(out) == parameter.spec.count(), "room for the whole parameter");
  for (const Piece& piece : pieces_of(parameter)) {
    const rt::Handle& handle = (*this)[piece.subgroup];
    const rt::HostAccess access(handle, rt::Mode::kRead);
    const auto copy = [&](const auto& elements) {
      const auto from = elements.subspan(to_size(piece.offset), to_size(piece.count));
      std::transform(from.begin(), from.end(), out.begin(),
                     [](auto value) { return to_float(value); });
    };
    if (handle.type() == DType::kBF16)
      copy(access.as<const BF16>());
    else
      copy(access.as<const float>());
    out = out.subspan(to_size(piece.count));
  }
}

void SubgroupHandles::write(const PlacedParameter& parameter, std::span<const float> in) const {
  require(std::ssize(in) == parameter.spec.count(), "the whole parameter is given");
  for (const Piece& piece : pieces_of(parameter)) {
    require((*this)[piece.subgroup].type() == DType::kF32, "elements of type f32");
    const rt::HostAccess access((*this)[piece.subgroup], rt::Mode::kReadWrite);
    const auto to = access.as<float>().subspan(to_size(piece.offset), to_size(piece.count));
    std::copy_n(in.begin(), piece.count, to.begin());
    in = in.subspan(to_size(piece.count));
  }
}

ParameterSet::ParameterSet(rt::Session& session, Layout layout, const ParameterTypes& types)
    : layout_(std::move(layout)),
      values_(session, layout_, "value", rt::MemoryCategory::kParameters),
      gradients_(session, layout_, "gradient", rt::MemoryCategory::kGradients, types.gradient) {
  if (types.working != DType::kF32)
    working_.emplace(session, layout_, "working", rt::MemoryCategory::kWorking, types.working);
}

rt::MemoryBytes ParameterSet::bytes(const Layout& layout, const ParameterTypes& types) {
  const Index count = layout.parameter_count();
  const Index working = types.working == DType::kF32 ? 0 : size_of(types.working);
  rt::MemoryBytes bytes;
  bytes[rt::MemoryCategory::kParameters] = size_of(DType::kF32) * count;
  bytes[rt::MemoryCategory::kWorking] = working * count;
  bytes[rt::MemoryCategory::kGradients] = size_of(types.gradient) * count;
  return bytes;
}

}  // namespace dos::tensor
