// SPDX-License-Identifier: Apache-2.0
#include "nn/initialise.hpp"

#include "base/random.hpp"

namespace dos::nn {

void submit_initialisation(rt::Submitter& submitter, const tensor::ParameterSet& parameters,
                           std::uint64_t seed) {
  for (const shape::PlacedParameter& parameter : parameters.layout().parameters) {
    const shape::Initialisation& init = parameter.spec.init;
    Index first_index = 0;
    for (const shape::Piece& piece : shape::pieces_of(parameter)) {
      const Index first = first_index;
      first_index += piece.count;
      if (!parameters.ownership().owns(piece.subgroup)) continue;
      const rt::Handle& handle = parameters.values()[piece.subgroup];
      const codelets::HandleRange range{piece.offset, piece.count};
      const rt::TaskOptions options{.priority = 0, .label = "initialise"};
      if (init.deviation > 0)
        codelets::submit<codelets::InitNormal>(submitter, {.out = handle},
                                               {range,
                                                {.seed = seed,
                                                 .stream = stream_of(parameter.spec.name),
                                                 .first_index = first,
                                                 .deviation = init.deviation}},
                                               options);
      else
        codelets::submit<codelets::Fill>(submitter, {.out = handle}, {range, init.constant},
                                         options);
    }
  }
  submit_working_parameters(submitter, parameters);
}

void submit_working_parameters(rt::Submitter& submitter, const tensor::ParameterSet& parameters) {
  if (!parameters.has_working()) return;
  for (Index i = 0; i < std::ssize(parameters.layout().subgroups); ++i)
    if (parameters.ownership().owns(i))
      codelets::submit<codelets::Round>(
          submitter, {.x = parameters.values()[i], .out = parameters.working()[i]},
          {.priority = 0, .label = "round"});
}

}  // namespace dos::nn
