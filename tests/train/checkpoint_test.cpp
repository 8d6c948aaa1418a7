// SPDX-License-Identifier: Apache-2.0
// Checkpoints of whole trainers: what they hold, and what is refused before anything is changed.
#include "train/checkpoint.hpp"

#include <cstring>
#include <random>

#include "base/file.hpp"
#include "checkpoint/part_reader.hpp"
#include "fails_with.hpp"
#include "io/safetensors.hpp"
#include "sanitized.hpp"
#include "train/checkpoint_states.hpp"
#include "train/run_info.hpp"
#include "train/tiny_trainer.hpp"

namespace dos::train::checkpoint_test {
namespace {

using test::fails_with;
using test::state_of;
using test::values_of;

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
  storage::Engine engine_;
};

TEST_F(CheckpointTest, HoldsEveryTensorWholeByName) {
  const auto trainer = test::make_trainer(session_, config_, out_);
  trainer->start_fresh();
  trainer->run();
  const io::SafetensorsFile model(file(checkpoint::kModelFile));
  const io::SafetensorsFile optimizer(file(checkpoint::kOptimizerFile));
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
  EXPECT_THAT([&] { trainer->resume(reader); }, fails_with({"layers = 2", "1"}));
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
  EXPECT_THAT([&] { reader.load_optimizer(engine_, trainer->parameters(), trainer->optimizer()); },
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
  const io::SafetensorsFile optimizer(file(checkpoint::kOptimizerFile));
  EXPECT_EQ(io::SafetensorsFile(file(checkpoint::kModelFile)).tensors().size(), 28U - 2 - 12);
  EXPECT_EQ(io::SafetensorsFile(file(checkpoint::kFrozenFile)).tensors().size(), 2U + 12);
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
    EXPECT_THAT(
        [&] { reader.load_optimizer(engine_, trainer->parameters(), trainer->optimizer()); },
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
  EXPECT_THAT([&] { reader.load_parameters(engine_, trainer->parameters()); },
              fails_with({checkpoint::kModelFile, "'blocks.0.attention.qkv.weight'", "[48, 16]",
                          "[96, 32]"}));
  EXPECT_THAT(
      [&] { reader.load_optimizer(engine_, trainer->parameters(), trainer->optimizer()); },
      fails_with({checkpoint::kOptimizerFile, "'blocks.0.attention.qkv.weight.first_moment'"}));
  EXPECT_EQ(state_of(*trainer), before);
}

TEST_F(CheckpointTest, AFlippedBitIsRefused) {
  train(1);
  const CheckpointReader reader(out_, "last");
  const auto trainer = test::make_trainer(session_, config_, scratch_ / "other");
  flip_last_byte(checkpoint::kModelFile);
  EXPECT_THAT([&] { reader.load_parameters(engine_, trainer->parameters()); },
              fails_with({checkpoint::kModelFile, "tensor '", "bytes ", "checksum"}));
  flip_last_byte(checkpoint::kOptimizerFile);
  EXPECT_THAT([&] { reader.load_optimizer(engine_, trainer->parameters(), trainer->optimizer()); },
              fails_with({checkpoint::kOptimizerFile, "_moment'", "bytes ", "checksum"}));
}

TEST_F(CheckpointTest, AnAlteredHeaderIsRefused) {
  train(1);
  const CheckpointReader reader(out_, "last");
  const auto trainer = test::make_trainer(session_, config_, scratch_ / "other");
  for (const char* name : {checkpoint::kModelFile, checkpoint::kOptimizerFile}) {
    std::string bytes = read_text(file(name));
    bytes[bytes.find("\"dos\"") + 1] = 'D';
    write_durably(file(name), bytes);
  }
  EXPECT_THAT([&] { reader.load_parameters(engine_, trainer->parameters()); },
              fails_with({checkpoint::kModelFile, "its header has checksum"}));
  EXPECT_THAT([&] { reader.load_optimizer(engine_, trainer->parameters(), trainer->optimizer()); },
              fails_with({checkpoint::kOptimizerFile, "its header has checksum"}));
}

TEST_F(CheckpointTest, AnyAlteredByteIsFoundAndNamed) {
  train(1);
  const io::CheckpointManifest manifest = io::read_manifest(out_ / "checkpoints" / "last");
  EXPECT_NO_THROW(checkpoint::verify(engine_, file("."), manifest));
  std::mt19937_64 random(1);
  for (const char* name : {checkpoint::kModelFile, checkpoint::kOptimizerFile}) {
    const std::string good = read_text(file(name));
    // Of the header as many as of the tensors.
    std::uint64_t header = 0;
    std::memcpy(&header, good.data(), sizeof header);
    const std::size_t begin = sizeof header + header;
    for (int i = 0; i < test::cases(200); ++i) {
      std::string bad = good;
      const std::size_t place =
          i % 2 == 0 ? begin + random() % (bad.size() - begin) : random() % begin;
      bad[place] = static_cast<char>(bad[place] ^ (1 << (random() % 8)));
      write_durably(file(name), bad);
      EXPECT_THAT([&] { checkpoint::verify(engine_, file("."), manifest); }, fails_with({name}))
          << place;
    }
    write_durably(file(name), good);
  }
}

}  // namespace
}  // namespace dos::train::checkpoint_test
