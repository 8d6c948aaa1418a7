// SPDX-License-Identifier: Apache-2.0
#include "nn/initialise.hpp"

#include "base/random.hpp"

namespace dos::nn {

void submit_initialisation(rt::Submitter& submitter, const tensor::ParameterSet& parameters,
                           std::uint64_t seed) {
  for (const tensor::PlacedParameter& parameter : parameters.layout().parameters) {
    const tensor::Initialisation& init = parameter.spec.init;
    Index first_index = 0;
    for (const tensor::Piece& piece : tensor::pieces_of(parameter)) {
      const Index first = first_index;
      first_index += piece.count;
      if (!parameters.placement().owns(piece.subgroup)) continue;
      const rt::Handle& handle = parameters.values()[piece.subgroup];
      const codelets::HandleRange range{piece.offset, piece.count};
      const rt::TaskOptions options{.priority = 0, .label = "initialise"};
      if (init.deviation > 0)
        codelets::submit_init_normal(submitter, handle, range,
                                     {.seed = seed,
                                      .stream = stream_of(parameter.spec.name),
                                      .first_index = first,
                                      .deviation = init.deviation},
                                     options);
      else
        codelets::submit_fill(submitter, handle, range, init.constant, options);
    }
  }
  submit_working_parameters(submitter, parameters);
}

void submit_working_parameters(rt::Submitter& submitter, const tensor::ParameterSet& parameters) {
  if (!parameters.has_working()) return;
  for (Index i = 0; i < std::ssize(parameters.layout().subgroups); ++i)
    if (parameters.placement().owns(i))
      codelets::submit_round(submitter, parameters.values()[i], parameters.working()[i],
                             {.priority = 0, .label = "round"});
}

}  // namespace dos::nn
