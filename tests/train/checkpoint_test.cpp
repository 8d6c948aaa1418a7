// SPDX-License-Identifier: Apache-2.0
// Checkpoints of whole trainers: what they hold, and what is refused before anything is changed.
#include "train/checkpoint.hpp"

#include "base/file.hpp"
#include "fails_with.hpp"
#include "io/safetensors.hpp"
#include "train/run_info.hpp"
#include "train/tiny_trainer.hpp"

namespace dos::train {
namespace {

using test::fails_with;
using testing::EndsWith;

/// All elements of a parameter's values or moments.
std::vector<float> values_of(const tensor::SubgroupHandles& handles,
                             const shape::PlacedParameter& parameter) {
  std::vector<float> values(static_cast<std::size_t>(parameter.spec.count()));
  handles.read(parameter, values);
  return values;
}

std::vector<std::vector<float>> state_of(const Trainer& trainer) {
  std::vector<std::vector<float>> state;
  for (const shape::PlacedParameter& parameter : trainer.parameters().layout().parameters) {
    state.push_back(values_of(trainer.parameters().values(), parameter));
    if (!parameter.spec.trained) continue;
    for (Index i = 0; i < std::ssize(trainer.optimizer().state_names()); ++i)
      state.push_back(values_of(trainer.optimizer().state(i), parameter));
  }
  return state;
}

class CheckpointTest : public testing::Test {
 protected:
  /// A run of `steps` steps into scratch/out.
  std::vector<std::vector<float>> train(Index steps) {
    config_.train.stop_after = steps;
    const auto trainer = test::make_trainer(session_, config_, out_);
    trainer->start_fresh();
    trainer->run();
    return state_of(*trainer);
  }
  [[nodiscard]] std::filesystem::path file(const std::string& name) const {
    return out_ / "checkpoints" / "last" / name;
  }
  void flip_last_byte(const std::string& name) {
    std::string bytes = read_text(file(name));
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_durably(file(name), bytes);
  }

  test::ScratchDirectory scratch_;
  std::filesystem::path out_ = scratch_ / "out";
  config::TrainConfig config_ = test::tiny_config(test::write_tiny_dataset(scratch_));
  rt::Session session_{{.scheduler = "", .cpu_workers = 2}};
};

TEST_F(CheckpointTest, HoldsEveryTensorWholeByName) {
  const auto trainer = test::make_trainer(session_, config_, out_);
  trainer->start_fresh();
  trainer->run();
  const io::SafetensorsFile model(file(kModelFile));
  const io::SafetensorsFile optimizer(file(kOptimizerFile));
  const auto& parameters = trainer->parameters().layout().parameters;
  EXPECT_EQ(model.tensors().size(), parameters.size());
  EXPECT_EQ(optimizer.tensors().size(), 2 * parameters.size());
  for (const shape::PlacedParameter& parameter : parameters) {
    const auto expect_tensor = [&](const io::SafetensorsFile& in, const std::string& name,
                                   const tensor::SubgroupHandles& handles) {
      const io::MappedTensor& tensor = in.at(name);
      EXPECT_EQ(tensor.shape, parameter.spec.shape()) << name;
      const std::vector<float> values = values_of(handles, parameter);
      const auto bytes = std::as_bytes(std::span(values));
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), tensor.bytes.begin(), tensor.bytes.end()))
          << name;
    };
    const std::string& name = parameter.spec.name;
    expect_tensor(model, name, trainer->parameters().values());
    expect_tensor(optimizer, name + ".first_moment", trainer->optimizer().state(0));
    expect_tensor(optimizer, name + ".second_moment", trainer->optimizer().state(1));
  }
}

TEST_F(CheckpointTest, LoadsWhatWasSaved) {
  const auto saved = train(3);
  const CheckpointReader reader(out_, "last");
  EXPECT_EQ(reader.manifest().step, 3);
  EXPECT_EQ(reader.manifest().samples_consumed, 3 * 3);
  EXPECT_EQ(reader.model(), config_.resolve_model(0));
  EXPECT_EQ(reader.manifest().configuration, to_json(config_));
  const auto trainer = test::make_trainer(session_, config_, scratch_ / "other");
  trainer->resume(reader);
  EXPECT_EQ(state_of(*trainer), saved);
}

TEST_F(CheckpointTest, SubgroupsAreNoPartOfACheckpoint) {
  const auto saved = train(2);
  config::TrainConfig other = config_;
  for (const Index size : {256, 100'000}) {
    other.sched.subgroup_params = size;
    const auto trainer = test::make_trainer(session_, other, scratch_ / "other");
    trainer->resume(CheckpointReader(out_, "2"));
    EXPECT_EQ(state_of(*trainer), saved);
  }
}

TEST_F(CheckpointTest, TheStepsAfterItAreThoseOfAStraightRun) {
  const auto straight = train(6);
  out_ = scratch_ / "parts";
  train(4);
  config_.train.stop_after = 0;
  const auto trainer = test::make_trainer(session_, config_, out_);
  trainer->resume(CheckpointReader(out_, "last"));
  const TrainResult result = trainer->run();
  EXPECT_EQ(result.step, 6);
  EXPECT_EQ(state_of(*trainer), straight);
}

TEST_F(CheckpointTest, AnotherModelIsRefused) {
  train(1);
  config::TrainConfig other = config_;
  other.model.layers = 1;
  const auto trainer = test::make_trainer(session_, other, scratch_ / "other");
  trainer->start_fresh();
  const auto before = state_of(*trainer);
  const CheckpointReader reader(out_, "last");
  EXPECT_THAT([&] { trainer->resume(reader); }, fails_with({"/layers = 2", "1"}));
  EXPECT_EQ(state_of(*trainer), before);
}

TEST_F(CheckpointTest, AnotherRuleIsRefused) {
  train(1);
  config::TrainConfig other = config_;
  other.optim.rule = "lion";
  const auto trainer = test::make_trainer(session_, other, scratch_ / "other");
  trainer->start_fresh();
  const auto before = state_of(*trainer);
  const CheckpointReader reader(out_, "last");
  EXPECT_THAT([&] { reader.load_optimizer(trainer->parameters(), trainer->optimizer()); },
              fails_with({"optim.rule = adamw", "optim.rule = lion"}));
  EXPECT_EQ(state_of(*trainer), before);
}

TEST_F(CheckpointTest, EveryRuleResumesToTheSameBits) {
  for (const std::string& rule : optim::known_rules()) {
    SCOPED_TRACE(rule);
    config_.optim.rule = rule;
    out_ = scratch_ / (rule + "-straight");
    const auto straight = train(3);
    out_ = scratch_ / (rule + "-parts");
    train(2);
    config_.train.stop_after = 3;
    const auto trainer = test::make_trainer(session_, config_, out_);
    trainer->resume(CheckpointReader(out_, "last"));
    trainer->run();
    EXPECT_EQ(state_of(*trainer), straight);
  }
}

TEST_F(CheckpointTest, HoldsStatesOfWhatIsTrained) {
  config_.optim.freeze = "blocks.0.*,*_embedding.*";
  const auto straight = train(3);
  const io::SafetensorsFile optimizer(file(kOptimizerFile));
  EXPECT_EQ(io::SafetensorsFile(file(kModelFile)).tensors().size(), 28U) << "all parameters";
  EXPECT_EQ(optimizer.tensors().size(), 2U * (28 - 2 - 12));
  for (const io::MappedTensor& tensor : optimizer.tensors())
    EXPECT_TRUE(tensor.name.starts_with("blocks.1.") || tensor.name.starts_with("final_norm."))
        << tensor.name;
  out_ = scratch_ / "parts";
  train(2);
  config_.train.stop_after = 3;
  // Other patterns that mean the same.
  config_.optim.freeze = "*_embedding.weight,blocks.[!1]*";
  const auto trainer = test::make_trainer(session_, config_, out_);
  trainer->resume(CheckpointReader(out_, "last"));
  trainer->run();
  EXPECT_EQ(state_of(*trainer), straight);
}

TEST_F(CheckpointTest, AnotherSetOfFrozenParametersIsRefused) {
  config_.optim.freeze = "blocks.0.*";
  train(1);
  const CheckpointReader reader(out_, "last");
  for (const auto& [freeze, message] :
       {std::pair{"", "the checkpoint froze 'blocks.0.norm1.weight', this run trains it"},
        {"blocks.0.*,final_norm.*",
         "the checkpoint trained 'final_norm.weight', this run freezes it"}}) {
    config::TrainConfig other = config_;
    other.optim.freeze = freeze;
    const auto trainer = test::make_trainer(session_, other, scratch_ / "other");
    trainer->start_fresh();
    const auto before = state_of(*trainer);
    EXPECT_THAT([&] { reader.load_optimizer(trainer->parameters(), trainer->optimizer()); },
                fails_with({out_.string(), message, "optim.freeze"}));
    EXPECT_EQ(state_of(*trainer), before);
  }
}

TEST_F(CheckpointTest, AWrongShapeIsRefusedBeforeAnythingIsRead) {
  train(1);
  config::TrainConfig other = config_;
  other.model.width = 32;
  const auto trainer = test::make_trainer(session_, other, scratch_ / "other");
  trainer->start_fresh();
  const auto before = state_of(*trainer);
  const CheckpointReader reader(out_, "last");
  EXPECT_THAT([&] { reader.load_parameters(trainer->parameters()); },
              fails_with({kModelFile, "'token_embedding.weight'", "[257, 16]", "[257, 32]"}));
  EXPECT_THAT([&] { reader.load_optimizer(trainer->parameters(), trainer->optimizer()); },
              fails_with({kOptimizerFile, "'token_embedding.weight.first_moment'"}));
  EXPECT_EQ(state_of(*trainer), before);
}

TEST_F(CheckpointTest, AFlippedBitIsRefusedBeforeAnythingIsRead) {
  train(1);
  const CheckpointReader reader(out_, "last");
  const auto trainer = test::make_trainer(session_, config_, scratch_ / "other");
  trainer->start_fresh();
  const auto before = state_of(*trainer);
  flip_last_byte(kModelFile);
  EXPECT_THAT([&] { reader.load_parameters(trainer->parameters()); },
              fails_with({kModelFile, "tensor '", "checksum"}));
  flip_last_byte(kOptimizerFile);
  EXPECT_THAT([&] { reader.load_optimizer(trainer->parameters(), trainer->optimizer()); },
              fails_with({kOptimizerFile, "second_moment'", "checksum"}));
  EXPECT_EQ(state_of(*trainer), before);
}

TEST_F(CheckpointTest, AFailedSaveLeavesNothingAndTheOneBeforeStays) {
  train(1);
  const auto trainer = test::make_trainer(session_, config_, out_);
  trainer->start_fresh();
  io::CheckpointStore store(out_);
  io::CheckpointManifest manifest;
  manifest.step = 2;
  manifest.architecture = to_json(config_.resolve_model(0));
  manifest.configuration = "\xff";  // not UTF-8: the last file cannot be written
  EXPECT_THROW(
      save_checkpoint(store, manifest, {trainer->parameters(), trainer->optimizer()}, true), Error);
  EXPECT_EQ(store.steps(), std::vector<Index>{1});
  EXPECT_FALSE(std::filesystem::exists(store.staging_path(2)));
  EXPECT_THAT(store.last()->string(), EndsWith("step-00000001"));
  EXPECT_FALSE(store.best().has_value());
}

}  // namespace
}  // namespace dos::train
