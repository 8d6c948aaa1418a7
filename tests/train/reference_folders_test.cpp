// SPDX-License-Identifier: Apache-2.0
// Folders that transformers wrote, read by this program: tests/reference/hf_tiny.
#include <gmock/gmock.h>

#include <cstdlib>

#include "base/json.hpp"
#include "hf/config_json.hpp"
#include "hf/model_export.hpp"
#include "hf/model_weights.hpp"
#include "io/safetensors.hpp"
#include "scratch_directory.hpp"
#include "train/run_info.hpp"

namespace dos::train::reference_folders_test {
namespace {

std::filesystem::path reference(const std::string& name) {
  return std::filesystem::path(std::getenv("DOS_SOURCE_DIR")) / "tests/reference/hf_tiny" / name;
}

constexpr const char* kNames[] = {"gpt2", "llama3", "mistral", "qwen2", "qwen3"};

TEST(ReferenceFolders, AreReadAsTheModelsThatTheyAre) {
  for (const char* name : kNames) {
    const nlohmann::json expected = read_json_object(reference(name) / "expected.json", "");
    shape::ModelConfig model = model_from_json(expected.at("model"), "expected.json");
    shape::ModelConfig found = hf::read_config(reference(name));
    // The reference was computed with shorter sequences than the model could take.
    EXPECT_GE(found.context, model.context) << name;
    found.context = model.context;
    // 0 stands for what follows from the others.
    if (model.architecture != "gpt2") {
      model.kv_heads = model.key_heads();
      model.head_dim = model.head_size();
    }
    EXPECT_EQ(found, model) << name;
  }
}

TEST(ReferenceFolders, AreExportedWithTheSameBits) {
  for (const char* name : kNames) {
    const test::ScratchDirectory scratch;
    const shape::ModelConfig model = hf::read_config(reference(name));
    const hf::ModelWeights weights(reference(name), model);
    hf::export_model(scratch / "out", model,
                     [&](const hf::TensorName& tensor, Index first, std::span<float> out) {
                       weights.read(weights.find(tensor.tensor), first, out);
                     },
                     {});
    const io::SafetensorsFile before(reference(name) / "model.safetensors");
    const io::SafetensorsFile after(scratch / "out" / "model.safetensors");
    ASSERT_EQ(after.tensors().size(), before.tensors().size()) << name;
    for (const io::MappedTensor& tensor : before.tensors()) {
      const io::MappedTensor& found = after.at(tensor.name);
      EXPECT_EQ(static_cast<const io::TensorSpec&>(found),
                static_cast<const io::TensorSpec&>(tensor));
      EXPECT_TRUE(std::ranges::equal(found.bytes, tensor.bytes)) << name << " " << tensor.name;
    }
    EXPECT_EQ(hf::read_config(scratch / "out"), model) << name;
  }
}

}  // namespace
}  // namespace dos::train::reference_folders_test
