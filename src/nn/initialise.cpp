// SPDX-License-Identifier: Apache-2.0
#include "nn/initialise.hpp"

#include "base/random.hpp"

namespace dos::nn {

void submit_initialisation(rt::Submitter& submitter, const tensor::ParameterSet& parameters,
                           std::uint64_t seed) {
  submit_initial_values(submitter, parameters, seed,
                        [](const shape::ParameterSpec& /*all*/) { return true; });
  submit_working_parameters(submitter, parameters);
}

void submit_initial_values(rt::Submitter& submitter, const tensor::ParameterSet& parameters,
                           std::uint64_t seed,
                           const std::function<bool(const shape::ParameterSpec&)>& wanted) {
  for (const shape::PlacedParameter& parameter : parameters.layout().parameters) {
    if (!wanted(parameter.spec)) continue;
    const shape::Initialisation& init = parameter.spec.init;
    Index first_index = 0;
    for (const shape::Piece& piece : shape::pieces_of(parameter)) {
      const Index first = first_index;
      first_index += piece.count;
      if (!parameters.ownership().owns(piece.subgroup)) continue;
      const rt::Handle& handle = parameters.values()[piece.subgroup];
      const codelets::HandleRange range{piece.offset, piece.count};
      const rt::TaskOptions options{.priority = 0, .label = "initialise"};
      const bool is_normal = init.deviation > 0;
      if (is_normal || init.bound > 0)
        codelets::submit<codelets::InitRandom>(
            submitter, {.out = handle},
            {range,
             {.seed = seed,
              .stream = stream_of(parameter.spec.name),
              .first_index = first,
              .spread = is_normal ? init.deviation : init.bound,
              .distribution =
                  is_normal ? codelets::Distribution::kNormal : codelets::Distribution::kUniform}},
            options);
      else
        codelets::submit<codelets::Fill>(submitter, {.out = handle}, {range, init.constant},
                                         options);
    }
  }
}

void submit_working_parameters(rt::Submitter& submitter, const tensor::ParameterSet& parameters) {
  if (!parameters.has_working()) return;
  for (Index i = 0; i < std::ssize(parameters.layout().subgroups); ++i)
    if (parameters.ownership().owns(i) && parameters.values().has(i))
      codelets::submit<codelets::Round>(
          submitter, {.x = parameters.values()[i], .out = parameters.working()[i]},
          {.priority = 0, .label = "round"});
}

}  // namespace dos::nn
