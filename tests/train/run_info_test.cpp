// SPDX-License-Identifier: Apache-2.0
#include "train/run_info.hpp"

#include <gmock/gmock.h>

#include "fails_with.hpp"

namespace dos::train::run_info_test {
namespace {

using test::fails_with;

TEST(ModelJson, ComesBackAsItWas) {
  const shape::ModelConfig gpt2{"gpt2", 2, 64, 2, 8, 257};
  EXPECT_EQ(model_from_json(to_json(gpt2), "m"), gpt2);
  EXPECT_EQ(to_json(gpt2).size(), 6U) << "as every checkpoint has had it";
  const shape::ModelConfig llama{"llama", 2, 64, 4, 8, 257, /*kv_heads=*/2, /*ffn=*/96};
  EXPECT_EQ(model_from_json(to_json(llama), "m"), llama);
  EXPECT_EQ(to_json(llama).size(), 8U) << "what is usual is left out";
  shape::ModelConfig chosen = llama;
  chosen.head_dim = 24;
  chosen.rope_theta = 5e5;
  chosen.rope_scaling = {
      .factor = 8, .low_freq_factor = 1.5, .high_freq_factor = 5, .original_context = 16};
  chosen.norm_epsilon = 1e-6;
  chosen.window = 5;
  chosen.tied_head = chosen.qkv_bias = chosen.qk_norm = true;
  EXPECT_EQ(model_from_json(to_json(chosen), "m"), chosen);
}

TEST(ModelJson, ErrorsNameTheFileAndWhatIsWrong) {
  const nlohmann::json good = to_json({"gpt2", 2, 64, 2, 8, 257});
  const auto with = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json changed = good;
    changed[key] = value;
    return [changed] { model_from_json(changed, "run/manifest.json"); };
  };
  EXPECT_THAT(with("layers", "many"), fails_with({"run/manifest.json: ", "damaged"}));
  for (const char* key : {"layers", "ffn"})
    for (const nlohmann::json& bad : {nlohmann::json("2"), nlohmann::json(1.5), nlohmann::json(-1),
                                      nlohmann::json(true), nlohmann::json(nullptr)})
      EXPECT_THAT(with(key, bad), fails_with({"run/manifest.json: the model's shape",
                                              std::string(key), "must be an integer"}));
  EXPECT_THAT(with("tied_head", 1), fails_with({"tied_head", "must be true or false"}));
  EXPECT_THAT(with("ffn", "wide"), fails_with({"run/manifest.json: ", "damaged"}));
  EXPECT_THAT(with("architecture", "gpt5"), fails_with({"run/manifest.json: ", "'gpt5'", "gpt2"}));
  EXPECT_THAT(with("heads", 3), fails_with({"run/manifest.json: ", "model.heads = 3"}));
  EXPECT_THAT(with("kv_heads", 1), fails_with({"run/manifest.json: ", "model.kv_heads = 1"}));
  EXPECT_THAT(with("rope_theta", "fast"), fails_with({"run/manifest.json: ", "damaged"}));
  EXPECT_THAT(with("rope_scaling", {{"factor", 8}}),
              fails_with({"run/manifest.json: ", "damaged"}));
  EXPECT_THAT(with("window", 4), fails_with({"run/manifest.json: ", "model.window = 4"}));
  EXPECT_THAT(with("ffn", 100), fails_with({"run/manifest.json: ", "model.ffn = 100"}));
}

}  // namespace
}  // namespace dos::train::run_info_test
