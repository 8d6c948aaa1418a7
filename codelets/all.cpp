// SPDX-License-Identifier: Apache-2.0
#include "codelets/all.hpp"

#include "codelets/attention/attention_codelet.hpp"
#include "codelets/collect/collect_codelet.hpp"
#include "codelets/cross_entropy/cross_entropy_codelet.hpp"
#include "codelets/embedding/embedding_codelet.hpp"
#include "codelets/gelu/gelu_codelet.hpp"
#include "codelets/init/init_codelet.hpp"
#include "codelets/layernorm/layernorm_codelet.hpp"
#include "codelets/linear/linear_codelet.hpp"
#include "codelets/reduce/reduce_codelet.hpp"
#include "codelets/swiglu/swiglu_codelet.hpp"
#include "codelets/tokens/tokens_codelet.hpp"
#include "codelets/update/update_codelet.hpp"

namespace dos::codelets {

std::vector<const rt::Codelet*> all_codelets() {
  std::vector<const rt::Codelet*> all{
      &mean_loss_codelet(),    &fill_codelet(),        &init_normal_codelet(), &round_codelet(),
      &combine_norm_codelet(), &load_tokens_codelet(), &pack_codelet(),        &unpack_codelet()};
  for (const DType type : kActivationTypes)
    all.insert(all.end(),
               {&attention_forward_codelet(type),     &attention_backward_codelet(type),
                &cross_entropy_forward_codelet(type), &cross_entropy_forward_backward_codelet(type),
                &embedding_forward_codelet(type),     &gelu_forward_codelet(type),
                &gelu_backward_codelet(type),         &layernorm_forward_codelet(type),
                &layernorm_backward_codelet(type),    &layernorm_backward_last_codelet(type),
                &linear_forward_codelet(type),        &linear_residual_forward_codelet(type),
                &linear_backward_data_codelet(type),  &logits_forward_codelet(type),
                &logits_backward_data_codelet(type),  &sum_of_squares_codelet(type),
                &swiglu_forward_codelet(type),        &swiglu_backward_codelet(type),
                &take_gradient_codelet(type),         &add_gradient_codelet(type)});
  for (const GradientTypes& types : kGradientTypes)
    all.insert(
        all.end(),
        {&embedding_backward_token_codelet(types), &embedding_backward_position_codelet(types),
         &embedding_accumulate_position_codelet(types), &layernorm_backward_weight_codelet(types),
         &linear_backward_weight_codelet(types), &linear_accumulate_weight_codelet(types),
         &bias_backward_codelet(types)});
  for (const UpdateKind& kind : all_update_kinds()) all.push_back(&update_codelet(kind));
  return all;
}

}  // namespace dos::codelets
