// SPDX-License-Identifier: Apache-2.0
#include "codelets/all.hpp"

#include "codelets/attention/attention_codelet.hpp"
#include "codelets/cross_entropy/cross_entropy_codelet.hpp"
#include "codelets/embedding/embedding_codelet.hpp"
#include "codelets/gelu/gelu_codelet.hpp"
#include "codelets/init/init_codelet.hpp"
#include "codelets/layernorm/layernorm_codelet.hpp"
#include "codelets/linear/linear_codelet.hpp"
#include "codelets/reduce/reduce_codelet.hpp"
#include "codelets/tokens/tokens_codelet.hpp"
#include "codelets/update/update_codelet.hpp"

namespace dos::codelets {

std::vector<const rt::Codelet*> all_codelets() {
  std::vector<const rt::Codelet*> all{
      &attention_forward_codelet(),
      &attention_backward_codelet(),
      &cross_entropy_forward_codelet(),
      &cross_entropy_forward_backward_codelet(),
      &mean_loss_codelet(),
      &embedding_forward_codelet(),
      &embedding_backward_token_codelet(),
      &embedding_backward_position_codelet(),
      &embedding_accumulate_position_codelet(),
      &gelu_forward_codelet(),
      &gelu_backward_codelet(),
      &fill_codelet(),
      &init_normal_codelet(),
      &layernorm_forward_codelet(),
      &layernorm_backward_codelet(),
      &layernorm_backward_last_codelet(),
      &layernorm_backward_weight_codelet(),
      &linear_forward_codelet(),
      &linear_residual_forward_codelet(),
      &linear_backward_data_codelet(),
      &linear_backward_weight_codelet(),
      &linear_accumulate_weight_codelet(),
      &bias_backward_codelet(),
      &logits_forward_codelet(),
      &logits_backward_data_codelet(),
      &sum_of_squares_codelet(),
      &combine_norm_codelet(),
      &load_tokens_codelet(),
  };
  for (const UpdateKind& kind : all_update_kinds()) all.push_back(&update_codelet(kind));
  return all;
}

}  // namespace dos::codelets
