// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/step_sums.hpp"

#include <set>

#include "checkpoint/piece.hpp"
#include "codelets/update/update_sums.hpp"

namespace dos::checkpoint {
namespace {

/// Where pieces of a part begin and end, in elements, ascending, without 0, up to the buffer's end.
std::vector<Index> ends_of(const Part& part) {
  constexpr Index kElement = size_of(DType::kF32);
  std::set<Index> ends{part.handle->count()};
  for (const Extent& piece : pieces_of(part.extents)) {
    ends.insert(piece.buffer_offset / kElement);
    ends.insert((piece.buffer_offset + piece.bytes) / kElement);
  }
  ends.erase(0);
  return {ends.begin(), ends.end()};
}

}  // namespace

StepSums::StepSums(rt::Session& session, const tensor::ParameterSet& parameters,
                   const optim::Optimizer& optimizer) {
  using codelets::UpdateSums;
  const auto& subgroups = parameters.layout().subgroups;
  const Index arrays = 1 + std::ssize(optimizer.state_names());
  handles_.resize(subgroups.size());
  for (const Part& part : model_contents(parameters).parts) {
    const auto subgroup = static_cast<std::size_t>(part.subgroup);
    if (!subgroups[subgroup].trained) continue;
    const std::vector<Index> ends = ends_of(part);
    handles_[subgroup] = std::make_unique<rt::Handle>(
        session, rt::HandleSpec{.name = "sums." + subgroups[subgroup].name,
                                .type = DType::kI32,
                                .count = UpdateSums::words(arrays, std::ssize(ends)),
                                .category = MemoryCategory::kData});
    const rt::HostAccess access(*handles_[subgroup], rt::Mode::kWrite);
    UpdateSums::prepare(access.as<std::int32_t>(), arrays, ends);
  }
}

}  // namespace dos::checkpoint
