// SPDX-License-Identifier: Apache-2.0
#include "tensor/parameter_set.hpp"

#include <algorithm>
#include <utility>

namespace dos::tensor {
namespace {

std::size_t to_size(Index value) {
  return static_cast<std::size_t>(value);
}

}  // namespace

SubgroupHandles::SubgroupHandles(rt::Session& session, const Layout& layout,
                                 const std::string& prefix, rt::MemoryCategory category) {
  for (const Subgroup& subgroup : layout.subgroups)
    handles_.push_back(
        std::make_unique<rt::Handle>(session, rt::HandleSpec{.name = prefix + "." + subgroup.name,
                                                             .type = DType::kF32,
                                                             .count = subgroup.count,
                                                             .category = category}));
}

void SubgroupHandles::read(const PlacedParameter& parameter, std::span<float> out) const {
  require(std::ssize(out) == parameter.spec.count(), "room for the whole parameter");
  for (const Piece& piece : pieces_of(parameter)) {
    const rt::HostAccess access((*this)[piece.subgroup], rt::Mode::kRead);
    const auto from = access.as<const float>().subspan(to_size(piece.offset), to_size(piece.count));
    std::copy(from.begin(), from.end(), out.begin());
    out = out.subspan(to_size(piece.count));
  }
}

void SubgroupHandles::write(const PlacedParameter& parameter, std::span<const float> in) const {
  require(std::ssize(in) == parameter.spec.count(), "the whole parameter is given");
  for (const Piece& piece : pieces_of(parameter)) {
    const rt::HostAccess access((*this)[piece.subgroup], rt::Mode::kReadWrite);
    const auto to = access.as<float>().subspan(to_size(piece.offset), to_size(piece.count));
    std::copy_n(in.begin(), piece.count, to.begin());
    in = in.subspan(to_size(piece.count));
  }
}

ParameterSet::ParameterSet(rt::Session& session, Layout layout)
    : layout_(std::move(layout)),
      values_(session, layout_, "value", rt::MemoryCategory::kParameters),
      gradients_(session, layout_, "gradient", rt::MemoryCategory::kGradients) {}

}  // namespace dos::tensor
