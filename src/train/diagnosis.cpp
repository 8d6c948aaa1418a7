// SPDX-License-Identifier: Apache-2.0
#include "train/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/bf16.hpp"

namespace dos::train {
namespace {

double to_real(double value) {
  return value;
}
double to_real(BF16 value) {
  return to_float(value);
}

template <class T>
bool all_finite(const rt::Handle& handle) {
  const rt::HostAccess access(handle, rt::Mode::kRead);
  const auto values = access.as<const T>();
  return std::all_of(values.begin(), values.end(),
                     [](T value) { return std::isfinite(to_real(value)); });
}

bool is_finite(const rt::Handle& handle) {
  if (handle.type() == DType::kF32) return all_finite<float>(handle);
  if (handle.type() == DType::kBF16) return all_finite<BF16>(handle);
  if (handle.type() == DType::kF64) return all_finite<double>(handle);
  return true;
}

bool is_output(rt::Mode mode) {
  return mode == rt::Mode::kWrite || mode == rt::Mode::kReadWrite;
}

/// What an earlier step left would be taken for what the replay makes.
void clear(const tensor::SubgroupHandles& handles, const tensor::Layout& layout) {
  for (Index i = 0; i < std::ssize(layout.subgroups); ++i) {
    const rt::HostAccess access(handles[i], rt::Mode::kWrite);
    if (handles[i].type() == DType::kBF16)
      std::ranges::fill(access.as<BF16>(), BF16{});
    else
      std::ranges::fill(access.as<float>(), 0.0F);
  }
}

}  // namespace

std::optional<std::string> first_bad_parameter(const tensor::ParameterSet& parameters) {
  const auto& subgroups = parameters.layout().subgroups;
  for (std::size_t i = 0; i < subgroups.size(); ++i)
    if (parameters.placement().owns(static_cast<Index>(i)) &&
        !is_finite(parameters.values()[static_cast<Index>(i)]))
      return fmt::format("parameter {}", parameters.layout().members_of(static_cast<Index>(i)));
  return std::nullopt;
}

std::optional<std::string> find_first_bad_tensor(rt::Submitter& submitter,
                                                 const tensor::ParameterSet& parameters,
                                                 const std::function<void()>& replay) {
  std::optional<std::string> found = first_bad_parameter(parameters);
  if (found) return found;
  clear(parameters.gradients(), parameters.layout());
  std::set<const rt::Handle*> stale;  // of the task about to run: left bad by what ran before
  const auto note_stale = [&](const rt::TaskCall& call) {
    stale.clear();
    for (std::size_t i = 0; i < call.buffers.size() && !found; ++i)
      if (call.codelet.mode(static_cast<Index>(i)) == rt::Mode::kReadWrite &&
          !is_finite(*call.buffers[i]))
        stale.insert(call.buffers[i]);
  };
  const auto look_for_bad = [&](const rt::TaskCall& call) {
    for (std::size_t i = 0; i < call.buffers.size() && !found; ++i) {
      const rt::Handle& buffer = *call.buffers[i];
      if (is_output(call.codelet.mode(static_cast<Index>(i))) && !stale.contains(&buffer) &&
          !is_finite(buffer))
        found = fmt::format("{}, written by {} ({})", buffer.name(), call.codelet.symbol(),
                            call.options.label);
    }
  };
  submitter.set_observer({.before = note_stale, .after = look_for_bad});
  replay();
  submitter.set_observer({});
  return found;
}

}  // namespace dos::train
