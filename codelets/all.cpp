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
#include "codelets/linear/low_rank_codelet.hpp"
#include "codelets/reduce/reduce_codelet.hpp"
#include "codelets/rmsnorm/rmsnorm_codelet.hpp"
#include "codelets/rotary/rotary_codelet.hpp"
#include "codelets/swiglu/swiglu_codelet.hpp"
#include "codelets/tokens/tokens_codelet.hpp"
#include "codelets/update/update_codelet.hpp"

namespace dos::codelets {
namespace {

template <class... Operations>
std::vector<const rt::Codelet*> codelets_of_all() {
  std::vector<const rt::Codelet*> all;
  for (const std::span<const rt::Codelet> codelets : {codelets_of<Operations>()...})
    for (const rt::Codelet& codelet : codelets) all.push_back(&codelet);
  return all;
}

}  // namespace

std::vector<const rt::Codelet*> all_codelets() {
  std::vector<const rt::Codelet*> all = codelets_of_all<
      AddGradient, AttentionBackward, AttentionForward, BiasBackward, CombineNorm,
      CrossEntropyForward, CrossEntropyForwardBackward, EmbeddingAccumulatePosition,
      EmbeddingBackwardPosition, EmbeddingBackwardToken, EmbeddingForward, EmbeddingOverwriteToken,
      Fill, GeluBackward, HeadNormBackward, HeadNormBackwardData, HeadNormForward, GeluForward,
      InitRandom, LayerNormBackward, LayerNormBackwardLast, LayerNormBackwardWeight,
      LayerNormForward, LinearAccumulateWeight, LinearAddBackwardData, LinearBackwardData,
      LinearBackwardWeight, LinearForward, LinearForwardRows, LinearResidualForward, LoadTokens,
      LogitsBackwardData, LogitsForward, LowRankAccumulateWeight, LowRankBackwardData,
      LowRankBackwardWeight, LowRankForward, MeanLoss, Pack, ProductForward, ProductForwardRows,
      ProductResidualForward, RmsNormBackward, RmsNormBackwardLast, RmsNormBackwardWeight,
      RmsNormForward, Rotary, Round, SumOfSquares, SwigluBackward, SwigluForward, TakeGradient,
      TellFactor, TokenEmbeddingForward, Unpack>();
  for (const UpdateForm form : kUpdateForms)
    for (const UpdateKind& kind : all_update_kinds()) all.push_back(&update_codelet(kind, form));
  return all;
}

}  // namespace dos::codelets
