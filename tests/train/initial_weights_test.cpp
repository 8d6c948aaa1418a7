// SPDX-License-Identifier: Apache-2.0
#include "train/initial_weights.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <map>

#include "base/bf16.hpp"
#include "base/sanitizer.hpp"
#include "fails_with.hpp"
#include "hf/folder.hpp"
#include "page_cache.hpp"
#include "shape/cutter.hpp"
#include "shape/family_shape.hpp"

namespace dos::train::initial_weights_test {
namespace {

using test::ModelFolder;

shape::Layout layout_of(const shape::ModelConfig& model, Index subgroup_params) {
  return shape::cut_into_subgroups(shape::find_family(model.architecture).parameters(model),
                                   subgroup_params, {});
}

/// Element (row, column) of a parameter, or `row` of a vector, by what the folder holds.
class Expected {
 public:
  explicit Expected(const shape::ModelConfig& model) : names_(hf::tensor_names(model)) {}

  [[nodiscard]] float at(const std::string& parameter, Index row, Index column) const {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const hf::TensorName& name = names_[i];
      const Index rows = name.shape[name.is_transposed ? 1 : 0];
      if (name.parameter != parameter || row < name.first || row >= name.first + rows) continue;
      const Index other = name.shape.size() == 2 ? name.shape[name.is_transposed ? 0 : 1] : 1;
      const Index inside = row - name.first;
      const Index element = name.is_transposed ? column * rows + inside : inside * other + column;
      return test::number_of(i, static_cast<std::size_t>(element));
    }
    ADD_FAILURE() << parameter << " " << row;
    return 0;
  }

 private:
  std::vector<hf::TensorName> names_;
};

void expect_loaded(const tensor::ParameterSet& parameters, const Expected& expected) {
  for (const shape::PlacedParameter& parameter : parameters.layout().parameters) {
    const Index columns = parameter.spec.is_matrix() ? parameter.spec.columns : 1;
    Index element = 0;
    for (const shape::Piece& piece : shape::pieces_of(parameter)) {
      const bool is_owned = parameters.ownership().owns(piece.subgroup);
      const bool has_values = parameters.values().has(piece.subgroup);
      const rt::Handle& handle =
          (has_values ? parameters.values() : parameters.working())[piece.subgroup];
      const rt::HostAccess access(handle, rt::Mode::kRead);
      for (Index i = 0; i < piece.count; ++i, ++element) {
        const auto place = static_cast<std::size_t>(piece.offset + i);
        const float wanted =
            is_owned ? expected.at(parameter.spec.name, element / columns, element % columns) : 0;
        if (has_values)
          ASSERT_EQ(access.as<float>()[place], wanted) << parameter.spec.name << " " << element;
        else
          ASSERT_EQ(access.as<BF16>()[place], to_bf16(wanted))
              << parameter.spec.name << " " << element;
      }
    }
  }
}

class InitialWeights : public testing::Test {
 protected:
  rt::Session session_{{.scheduler = "", .cpu_workers = 1}};
};

TEST_F(InitialWeights, ComeToTheirPlacesHoweverTheModelIsCut) {
  for (const std::string& type : test::all_model_types()) {
    const ModelFolder folder(type);
    const std::filesystem::path path = folder.write();
    const shape::ModelConfig model = hf::read_config(path);
    // Whole matrices, pieces of rows that cut queries from keys in the middle, single rows.
    for (const Index subgroup_params : {1'000'000, 56, 32}) {
      const tensor::ParameterSet parameters(session_, layout_of(model, subgroup_params));
      load_weights(hf::ModelWeights(path, model), parameters);
      expect_loaded(parameters, Expected(model));
    }
  }
}

/// In BF16 what is frozen has nothing but rounded values; here every other depth.
TEST_F(InitialWeights, OfWhatIsFrozenAreRounded) {
  for (const std::string& type : test::all_model_types()) {
    const ModelFolder folder(type);
    const std::filesystem::path path = folder.write();
    const shape::ModelConfig model = hf::read_config(path);
    auto specs = shape::find_family(model.architecture).parameters(model);
    for (std::size_t i = 0; i < specs.size(); ++i) specs[i].trained = specs[i].depth % 2 == 1;
    const tensor::ParameterSet parameters(session_, shape::cut_into_subgroups(specs, 56, {}),
                                          {.working = DType::kBF16});
    const hf::ModelWeights weights(path, model);
    load_weights(weights, parameters);
    expect_loaded(parameters, Expected(model));
  }
}

/// Matrices that are read in several pieces, the last of them smaller, and no multiple of a tile;
/// from the page cache, and from a disk.
TEST_F(InitialWeights, OfLargeMatricesComeToTheirPlaces) {
  nlohmann::json config = test::tiny_hf_config("gpt2");
  config.update({{"n_embd", 420}, {"n_head", 3}, {"n_layer", 1}});
  const ModelFolder folder(config);
  const std::filesystem::path path = folder.write();
  const shape::ModelConfig model = hf::read_config(path);
  for (const bool is_away : {false, true}) {
    const tensor::ParameterSet parameters(session_, layout_of(model, 100'000));
    if (is_away) test::leave_page_cache(path / io::kSingleFile);
    load_weights(hf::ModelWeights(path, model), parameters);
    expect_loaded(parameters, Expected(model));
  }
}

TEST_F(InitialWeights, OfOtherRanksStayAway) {
  for (const std::string& type : test::all_model_types()) {
    const ModelFolder folder(type);
    const std::filesystem::path path = folder.write();
    const shape::ModelConfig model = hf::read_config(path);
    const shape::Layout layout = layout_of(model, 56);
    for (const bool first : {false, true}) {
      tensor::Ownership ownership{.zero = 1, .owned = {}};
      for (std::size_t i = 0; i < layout.subgroups.size(); ++i)
        ownership.owned.push_back((i % 2 == 0) == first);
      const tensor::ParameterSet parameters(session_, layout, {}, ownership);
      load_weights(hf::ModelWeights(path, model), parameters);
      expect_loaded(parameters, Expected(model));
    }
  }
}

TEST_F(InitialWeights, OfAFileThatIsCutMeanwhileAreNotTaken) {
  const ModelFolder folder("gpt2");
  const std::filesystem::path path = folder.write();
  const shape::ModelConfig model = hf::read_config(path);
  const tensor::ParameterSet parameters(session_, layout_of(model, 56));
  const hf::ModelWeights weights(path, model);
  std::filesystem::resize_file(path / io::kSingleFile, 9000);
  EXPECT_THAT([&] { load_weights(weights, parameters); },
              test::fails_with({io::kSingleFile, "tensor '", "copy it or write it again"}));
}

TEST_F(InitialWeights, AreNamedWhenTheyAreNotFinite) {
  for (const char* name : {"transformer.wte.weight", "transformer.h.1.attn.c_attn.weight"}) {
    ModelFolder folder("gpt2");
    const std::uint32_t infinite = 0xFF800000U;
    std::memcpy(folder.find(name).bytes.data() + 12, &infinite, sizeof infinite);
    const std::filesystem::path path = folder.write();
    const shape::ModelConfig model = hf::read_config(path);
    const tensor::ParameterSet parameters(session_, layout_of(model, 56));
    EXPECT_THAT([&] { load_weights(hf::ModelWeights(path, model), parameters); },
                test::fails_with({name, "element 3 is -inf"}));
  }
}

/// In bytes, a line of /proc/self/status that is in kB.
Index status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;
  return 0;
}

/// A folder whose tensors are zeros that no disk holds.
void write_sparse(const std::filesystem::path& folder, const nlohmann::json& config) {
  write_durably(folder / hf::kConfigFile, config.dump());
  nlohmann::json header;
  Index end = 0;
  for (const hf::TensorName& name : hf::tensor_names(hf::read_config(folder))) {
    const Index begin = end;
    end += name.count() * size_of(DType::kBF16);
    header[name.tensor] = {
        {"dtype", "BF16"}, {"shape", name.shape}, {"data_offsets", {begin, end}}};
  }
  const std::string text = header.dump();
  std::ofstream file(folder / io::kSingleFile);
  for (int i = 0; i < 8; ++i) file << static_cast<char>((text.size() >> (8 * i)) & 0xFF);
  file << text;
  file.close();
  std::filesystem::resize_file(folder / io::kSingleFile,
                               8 + text.size() + static_cast<std::size_t>(end));
}

TEST_F(InitialWeights, TakeLittleMemoryBesideTheValues) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer has memory of its own";
  const test::ScratchDirectory scratch;
  // A matrix of the MLP alone has 81 MiB in FP32.
  write_sparse(scratch.path(), {{"model_type", "gpt2"},
                                {"n_layer", 1},
                                {"n_embd", 2304},
                                {"n_head", 4},
                                {"n_positions", 8},
                                {"vocab_size", 8}});
  const shape::ModelConfig model = hf::read_config(scratch.path());
  const tensor::ParameterSet parameters(session_, layout_of(model, 5'000'000));
  const hf::ModelWeights weights(scratch.path(), model);
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak counts from here
  const Index before = status_bytes("VmRSS");
  load_weights(weights, parameters);
  const Index values = parameters.layout().parameter_count() * Index{sizeof(float)};
  EXPECT_GT(status_bytes("VmHWM") - before, values / 2);
  EXPECT_LE(status_bytes("VmHWM") - before, values + (Index{64} << 20));
}

}  // namespace
}  // namespace dos::train::initial_weights_test
