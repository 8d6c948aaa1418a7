// SPDX-License-Identifier: Apache-2.0
#include "train/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace dos::train {
namespace {

template <class T>
bool all_finite(const rt::Handle& handle) {
  const rt::HostAccess access(handle, rt::Mode::kRead);
  const auto values = access.as<const T>();
  return std::all_of(values.begin(), values.end(), [](T value) { return std::isfinite(value); });
}

bool is_finite(const rt::Handle& handle) {
  if (handle.type() == DType::kF32) return all_finite<float>(handle);
  if (handle.type() == DType::kF64) return all_finite<double>(handle);
  return true;
}

}  // namespace

std::optional<std::string> first_bad_parameter(const tensor::ParameterSet& parameters) {
  const auto& subgroups = parameters.layout().subgroups;
  for (std::size_t i = 0; i < subgroups.size(); ++i)
    if (!is_finite(parameters.values()[static_cast<Index>(i)]))
      return fmt::format("parameter {}", parameters.layout().members_of(static_cast<Index>(i)));
  return std::nullopt;
}

std::optional<std::string> find_first_bad_tensor(rt::Submitter& submitter,
                                                 const tensor::ParameterSet& parameters,
                                                 const std::function<void()>& replay) {
  std::optional<std::string> found = first_bad_parameter(parameters);
  if (found) return found;
  submitter.set_observer([&](const rt::TaskCall& call) {
    if (found) return;
    for (std::size_t i = 0; i < call.buffers.size() && !found; ++i) {
      const rt::Mode mode = call.codelet.mode(static_cast<Index>(i));
      const rt::Handle& buffer = *call.buffers[i];
      const bool written = mode == rt::Mode::kWrite || mode == rt::Mode::kReadWrite;
      if (written && !is_finite(buffer))
        found = fmt::format("{}, written by {} ({})", buffer.name(), call.codelet.symbol(),
                            call.options.label);
    }
  });
  replay();
  submitter.set_observer({});
  return found;
}

}  // namespace dos::train
