// SPDX-License-Identifier: Apache-2.0
#include "nn/initialise.hpp"

#include <map>
#include <vector>

#include "base/random.hpp"

namespace dos::nn {
namespace {

/// Elements of a parameter that lie in a subgroup.
struct Part {
  const shape::ParameterSpec& spec;
  Index first;  ///< in the parameter
  codelets::HandleRange range;
};

void submit_values(rt::Submitter& submitter, std::uint64_t seed, const Part& part,
                   const rt::Handle& out) {
  const shape::Initialisation& init = part.spec.init;
  // The same numbers on every machine: functions of a GPU round in another way.
  const rt::TaskOptions options{.priority = 0, .label = "initialise", .worker = rt::kAnyCpuWorker};
  const bool is_normal = init.deviation > 0;
  if (is_normal || init.bound > 0)
    codelets::submit<codelets::InitRandom>(
        submitter, {.out = out},
        {part.range,
         {.seed = seed,
          .stream = stream_of(part.spec.name),
          .first_index = part.first,
          .spread = is_normal ? init.deviation : init.bound,
          .distribution =
              is_normal ? codelets::Distribution::kNormal : codelets::Distribution::kUniform}},
        options);
  else
    codelets::submit<codelets::Fill>(submitter, {.out = out}, {part.range, init.constant}, options);
}

void submit_rounding(rt::Submitter& submitter, const rt::Handle& values, const rt::Handle& out) {
  codelets::submit<codelets::Round>(submitter, {.x = values, .out = out},
                                    {.priority = 0, .label = "round"});
}

/// A subgroup whose only values are narrower than FP32 has such for as long as its tasks run.
void initialise_rounded(rt::Submitter& submitter, std::uint64_t seed,
                        const std::vector<Part>& parts, const rt::Handle& out) {
  const rt::Handle values(submitter.session(), {.name = "value." + out.name(),
                                                .count = out.count(),
                                                .category = MemoryCategory::kParameters});
  for (const Part& part : parts) submit_values(submitter, seed, part, values);
  submit_rounding(submitter, values, out);
}

}  // namespace

void submit_initialisation(rt::Submitter& submitter, const tensor::ParameterSet& parameters,
                           std::uint64_t seed) {
  submit_initial_values(submitter, parameters, seed,
                        [](const shape::ParameterSpec& /*all*/) { return true; });
  submit_working_parameters(submitter, parameters);
}

void submit_initial_values(rt::Submitter& submitter, const tensor::ParameterSet& parameters,
                           std::uint64_t seed,
                           const std::function<bool(const shape::ParameterSpec&)>& wanted) {
  std::map<Index, std::vector<Part>> rounded;  // by subgroup
  for (const shape::PlacedParameter& parameter : parameters.layout().parameters) {
    if (!wanted(parameter.spec)) continue;
    Index first = 0;
    for (const shape::Piece& piece : shape::pieces_of(parameter)) {
      const Part part{parameter.spec, first, {piece.offset, piece.count}};
      first += piece.count;
      if (!parameters.ownership().owns(piece.subgroup)) continue;
      if (parameters.values().has(piece.subgroup))
        submit_values(submitter, seed, part, parameters.values()[piece.subgroup]);
      else
        rounded[piece.subgroup].push_back(part);
    }
  }
  for (const auto& [subgroup, parts] : rounded)
    initialise_rounded(submitter, seed, parts, parameters.working()[subgroup]);
}

void submit_working_parameters(rt::Submitter& submitter, const tensor::ParameterSet& parameters) {
  if (!parameters.has_working()) return;
  for (Index i = 0; i < std::ssize(parameters.layout().subgroups); ++i)
    if (parameters.ownership().owns(i) && parameters.values().has(i))
      submit_rounding(submitter, parameters.values()[i], parameters.working()[i]);
}

}  // namespace dos::nn
