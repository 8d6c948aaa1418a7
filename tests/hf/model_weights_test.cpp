// SPDX-License-Identifier: Apache-2.0
#include "hf/model_weights.hpp"

#include <gmock/gmock.h>

#include "fails_with.hpp"
#include "hf/folder.hpp"

namespace dos::hf::model_weights_test {
namespace {

using test::fails_with;
using test::float_tensor;
using test::ModelFolder;

auto opened(const ModelFolder& folder) {
  return [&folder] {
    const std::filesystem::path path = folder.write();
    ModelWeights(path, read_config(path));
  };
}

TEST(ModelWeights, ReadsEveryKind) {
  for (const std::string& type : test::all_model_types()) {
    const ModelFolder folder(type);
    const std::filesystem::path path = folder.write();
    const shape::ModelConfig model = read_config(path);
    const ModelWeights weights(path, model);
    const std::vector<TensorName> names = tensor_names(model);
    ASSERT_EQ(weights.tensors().size(), names.size()) << type;
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::vector<float> values(static_cast<std::size_t>(names[i].count()) - 1);
      weights.read(weights.find(names[i].tensor), 1, values);
      for (std::size_t j = 0; j < values.size(); ++j)
        ASSERT_EQ(values[j], test::number_of(i, j + 1)) << names[i].tensor << " " << j;
    }
    EXPECT_FALSE(weights.is_bf16());
  }
}

/// Tensors of the bare decoder have no prefix, and old files hold masks.
TEST(ModelWeights, PassesOverPrefixesAndConstants) {
  for (const char* type : {"gpt2", "llama"}) {
    ModelFolder folder(type);
    for (test::FileTensor& tensor : folder.tensors)
      tensor.spec.name = std::string(without_prefix(tensor.spec.name));
    folder.tensors.push_back(
        test::file_tensor<std::uint8_t>("h.0.attn.bias", DType::kU8, {2}, {1, 0}));
    folder.tensors.push_back(float_tensor("layers.0.self_attn.rotary_emb.inv_freq", {1}, {1}));
    EXPECT_NO_THROW(opened(folder)()) << type;
  }
}

TEST(ModelWeights, TakesATiedHeadThatIsTheTable) {
  ModelFolder folder("gpt2");
  test::FileTensor head = folder.find("transformer.wte.weight");
  head.spec.name = kTiedHead;
  folder.tensors.push_back(head);
  EXPECT_NO_THROW(opened(folder)());
  std::byte& last = folder.find(kTiedHead).bytes.back();
  last ^= std::byte{1};
  EXPECT_THAT(opened(folder),
              fails_with({"tensor 'lm_head.weight': differs from 'transformer.wte.weight'",
                          "tie_word_embeddings"}));
  last ^= std::byte{1};
  folder.find(kTiedHead).spec.shape = {8, 11};
  EXPECT_THAT(opened(folder), fails_with({"tensor 'lm_head.weight': differs"}));
}

TEST(ModelWeights, ListsAllThatDoesNotFitInOneLine) {
  ModelFolder folder("llama");
  folder.remove("model.norm.weight");
  folder.remove("lm_head.weight");
  folder.find("model.layers.0.mlp.down_proj.weight").spec.shape = {12, 8};
  test::FileTensor& table = folder.find("model.embed_tokens.weight");
  table =
      test::file_tensor("model.embed_tokens.weight", DType::kF64, {11, 8}, std::vector<double>(88));
  folder.tensors.push_back(float_tensor("model.layers.2.mlp.up_proj.weight", {1}, {1}));
  EXPECT_THAT(
      opened(folder),
      fails_with(
          {"the tensors are not those of the model in config.json",
           "missing: model.norm.weight, lm_head.weight;",
           "of another shape: model.layers.0.mlp.down_proj.weight [12, 8] instead of [8, 12];",
           "of a type that is not read (F32, F16 and BF16 are): model.embed_tokens.weight F64;",
           "unexpected: model.layers.2.mlp.up_proj.weight;"}));
}

TEST(ModelWeights, CutsLongLists) {
  ModelFolder folder("gpt2");
  folder.tensors = {float_tensor("x", {1}, {1})};
  EXPECT_THAT(opened(folder),
              fails_with({"missing: transformer.wte.weight, ", "transformer.ln_f.bias; "}));
  const ModelFolder whole("gpt2");
  folder.tensors = whole.tensors;
  for (int i = 0; i < 70; ++i)
    folder.tensors.push_back(float_tensor(fmt::format("x{:02}", i), {1}, {1}));
  EXPECT_THAT(opened(folder), fails_with({"unexpected: x00, ", ", x63 and 6 more;"}));
}

TEST(ModelWeights, IsKnownByItsTensors) {
  ModelFolder folder("gpt2");
  const std::filesystem::path path = folder.write();
  const shape::ModelConfig model = read_config(path);
  const std::string identity = ModelWeights(path, model).identity();
  EXPECT_EQ(ModelWeights(path, model).identity(), identity);
  std::swap(folder.tensors.front(), folder.tensors.back());
  folder.write();
  EXPECT_NE(ModelWeights(path, model).identity(), identity);
}

}  // namespace
}  // namespace dos::hf::model_weights_test
