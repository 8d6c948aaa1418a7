// SPDX-License-Identifier: Apache-2.0
#include "train/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/bf16.hpp"
#include "ranks/gather.hpp"

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
void clear(const tensor::SubgroupHandles& handles, const shape::Layout& layout) {
  for (Index i = 0; i < std::ssize(layout.subgroups); ++i) {
    if (!handles.has(i)) continue;
    const rt::HostAccess access(handles[i], rt::Mode::kWrite);
    if (handles[i].type() == DType::kBF16)
      std::ranges::fill(access.as<BF16>(), BF16{});
    else
      std::ranges::fill(access.as<float>(), 0.0F);
  }
}

/// What a rank has found.
struct Finding {
  std::string text;
  bool is_origin = true;  ///< else what it was made of was bad before
};

/// The finding of the first rank that has an origin, or else any; on every rank.
std::optional<std::string> first_of_all(const std::optional<Finding>& mine,
                                        ranks::Exchange* exchange) {
  if (exchange == nullptr) return mine ? std::optional(mine->text) : std::nullopt;
  constexpr char kOrigin = 'o';
  constexpr char kFollows = 'f';
  const std::vector<std::string> texts = ranks::gather_texts(
      *exchange, mine ? (mine->is_origin ? kOrigin : kFollows) + mine->text : std::string());
  for (const char wanted : {kOrigin, kFollows})
    for (std::size_t rank = 0; rank < texts.size(); ++rank)
      if (texts[rank].starts_with(wanted))
        return fmt::format("{}, found by rank {}", texts[rank].substr(1), rank);
  return std::nullopt;
}

std::optional<Finding> own_bad_parameter(const tensor::ParameterSet& parameters,
                                         const RunStates& states) {
  std::optional<Index> bad;
  states.in_turn(states.parameters_away(), [&](const auto& is_wanted) {
    for (Index i = 0; i < std::ssize(parameters.layout().subgroups); ++i)
      if (parameters.ownership().owns(i) && is_wanted(i) && !is_finite(parameters.lasting(i)))
        bad = std::min(i, bad.value_or(i));
  });
  if (!bad) return std::nullopt;
  return Finding{.text = fmt::format("parameter {}", parameters.layout().members_of(*bad))};
}

std::optional<Finding> first_bad_output(rt::Submitter& submitter,
                                        const std::function<void()>& replay) {
  std::optional<Finding> found;
  // Of the task about to run: what was bad before it.
  std::set<const rt::Handle*> stale;
  const auto note_stale = [&](const rt::TaskCall& call) {
    stale.clear();
    for (std::size_t i = 0; i < call.buffers.size() && !found; ++i) {
      const rt::Mode mode = call.codelet.mode(static_cast<Index>(i));
      if ((mode == rt::Mode::kRead || mode == rt::Mode::kReadWrite) && !is_finite(*call.buffers[i]))
        stale.insert(call.buffers[i]);
    }
  };
  const auto look_for_bad = [&](const rt::TaskCall& call) {
    for (std::size_t i = 0; i < call.buffers.size() && !found; ++i) {
      const rt::Handle& buffer = *call.buffers[i];
      if (is_output(call.codelet.mode(static_cast<Index>(i))) && !stale.contains(&buffer) &&
          !is_finite(buffer))
        found = Finding{.text = fmt::format("{}, written by {} ({})", buffer.name(),
                                            call.codelet.symbol(), call.options.label),
                        .is_origin = stale.empty()};
    }
  };
  submitter.set_observer({.before = note_stale, .after = look_for_bad});
  replay();
  submitter.set_observer({});
  return found;
}

}  // namespace

std::optional<std::string> find_first_bad_tensor(rt::Submitter& submitter,
                                                 const tensor::ParameterSet& parameters,
                                                 const std::function<void()>& replay,
                                                 ranks::Exchange* exchange,
                                                 const RunStates& states) {
  // All ranks decide alike whether the messages of the replay are exchanged.
  if (auto found = first_of_all(own_bad_parameter(parameters, states), exchange)) return found;
  clear(parameters.gradients(), parameters.layout());
  return first_of_all(first_bad_output(submitter, replay), exchange);
}

}  // namespace dos::train
