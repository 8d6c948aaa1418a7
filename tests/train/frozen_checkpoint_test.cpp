// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a run in which some parameters are frozen: these are written once, and every
// checkpoint has them all the same.
#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/bf16.hpp"
#include "base/sanitizer.hpp"
#include "checkpoint/part_reader.hpp"
#include "fails_with.hpp"
#include "io/checkpoint_levels.hpp"
#include "io/safetensors_writer.hpp"
#include "train/checkpoint_run.hpp"

namespace dos::train::frozen_checkpoint_test {
namespace {

namespace fs = std::filesystem;
using storage::Operation;
using test::fails_with;
using test::Mishap;
using test::state_of;
using testing::ElementsAre;

class FrozenCheckpoint : public test::CheckpointRun {
 protected:
  FrozenCheckpoint() { config_.optim.freeze = "*_embedding.*,blocks.0.*"; }

  static fs::path frozen(const fs::path& out, Index step) {
    return io::CheckpointStore(out).resolve(std::to_string(step)) / checkpoint::kFrozenFile;
  }
  /// How many files the run's checkpoints have of what is frozen, whatever their names.
  static Index frozen_files(const fs::path& out) {
    std::vector<fs::path> files;
    for (const Index step : io::CheckpointStore(out).steps()) {
      const fs::path file = frozen(out, step);
      if (std::ranges::none_of(files, [&](const fs::path& f) { return fs::equivalent(f, file); }))
        files.push_back(file);
    }
    return std::ssize(files);
  }
  void verify(const fs::path& out, const std::string& selector) {
    const fs::path folder = io::CheckpointStore(out).resolve(selector);
    checkpoint::verify(engine_, folder, io::read_manifest(folder));
  }

  storage::Engine engine_;
  fs::path out_ = scratch_ / "run";
};

// While the first one is under way the second cannot know that it will be there.
constexpr Index kMostFiles = 2;

TEST_F(FrozenCheckpoint, OfEveryStepIsWhatTheStepMade) {
  EXPECT_EQ(train(out_), straight(kSteps));
  for (Index step = 1; step <= kSteps; ++step) {
    EXPECT_EQ(saved(out_, std::to_string(step)), straight(step)) << step;
    EXPECT_NO_THROW(verify(out_, std::to_string(step))) << step;
  }
  EXPECT_LE(frozen_files(out_), kMostFiles);
  EXPECT_TRUE(fs::equivalent(frozen(out_, kSteps - 1), frozen(out_, kSteps)));
  expect_no_leftovers(out_);
}

TEST_F(FrozenCheckpoint, HoldsWhatForwardReads) {
  for (const bool speculates : {false, true}) {
    config_.train.precision = "bf16";
    config_.optim.speculate = speculates ? "on" : "off";
    fs::remove_all(out_);
    EXPECT_EQ(train(out_), straight(kSteps));
    for (Index step = 1; step <= kSteps; ++step) {
      EXPECT_EQ(saved(out_, std::to_string(step)), straight(step)) << step;
      EXPECT_NO_THROW(verify(out_, std::to_string(step))) << step;
    }
    const io::SafetensorsFile file(frozen(out_, kSteps));
    for (const io::MappedTensor& tensor : file.tensors()) EXPECT_EQ(tensor.dtype, DType::kBF16);
  }
}

// A run may go on in the other precision: what is frozen is rounded, or stays as it is.
TEST_F(FrozenCheckpoint, IsReadInTheOtherPrecision) {
  for (const auto& [first, second] : {std::pair("fp32", "bf16"), {"bf16", "fp32"}}) {
    SCOPED_TRACE(first);
    fs::remove_all(out_);
    config_.train.precision = first;
    State expected = train(out_);
    config_.train.precision = second;
    const auto reader = trainer(scratch_ / "reader");
    reader->resume(CheckpointReader(out_, "last"));
    std::size_t place = 0;  // of the parameter's values
    for (const shape::PlacedParameter& parameter : reader->parameters().layout().parameters) {
      const bool trained = parameter.spec.trained;
      if (!trained && config_.train.precision == "bf16")
        for (float& value : expected[place]) value = to_float(to_bf16(value));
      place += trained ? 1 + reader->optimizer().state_names().size() : 1;
    }
    EXPECT_EQ(state_of(*reader), expected);
  }
}

TEST_F(FrozenCheckpoint, IsWholeWhenThoseBeforeAreGone) {
  config_.train.keep = 1;
  EXPECT_EQ(train(out_), straight(kSteps));
  ASSERT_THAT(io::CheckpointStore(out_).steps(), ElementsAre(kSteps));
  EXPECT_NO_THROW(verify(out_, "last"));
  EXPECT_EQ(saved(out_, "last"), straight(kSteps));
}

// What an earlier process has written is not relied on.
TEST_F(FrozenCheckpoint, ARunThatGoesOnWritesItOnceMore) {
  config_.train.stop_after = 3;
  train(out_);
  config_.train.stop_after = 0;
  const auto made = trainer(out_);
  made->resume(CheckpointReader(out_, "last"));
  made->run();
  EXPECT_EQ(state_of(*made), straight(kSteps));
  EXPECT_EQ(saved(out_, "last"), straight(kSteps));
  EXPECT_FALSE(fs::equivalent(frozen(out_, 3), frozen(out_, 4)));
  EXPECT_EQ(read_text(frozen(out_, 3)), read_text(frozen(out_, 4)));
}

TEST_F(FrozenCheckpoint, ThatIsGivenUpCostsNothingElse) {
  config_.train.steps = 4;
  const State expected = straight(4);
  train(out_, [](Index, const Operation&) { return Mishap{}; });
  const Index operations = operations_;
  const Index dense = kIsSanitized ? 30 : 5;
  for (Index k = 0; k < operations; k += dense) {
    SCOPED_TRACE(k);
    fs::remove_all(out_);
    EXPECT_EQ(
        train(out_, [&](Index number,
                        const Operation&) { return Mishap{.error = number == k ? ENOSPC : 0}; }),
        expected);
    EXPECT_EQ(saved(out_, "last"), expected);
    for (const Index step : io::CheckpointStore(out_).steps())
      EXPECT_NO_THROW(verify(out_, std::to_string(step))) << step;
    expect_no_leftovers(out_);
  }
}

TEST_F(FrozenCheckpoint, DamageIsFoundInEachThatHasTheFile) {
  train(out_);
  const std::string good = read_text(frozen(out_, kSteps));
  std::string bad = good;
  bad.back() = static_cast<char>(bad.back() ^ 1);
  // In place, as a disk does it.
  std::ofstream(frozen(out_, kSteps)) << bad;
  const Index damaged = std::ranges::count_if(io::CheckpointStore(out_).steps(), [&](Index step) {
    return fs::equivalent(frozen(out_, step), frozen(out_, kSteps));
  });
  EXPECT_GE(damaged, 2);
  for (const Index step : io::CheckpointStore(out_).steps()) {
    if (!fs::equivalent(frozen(out_, step), frozen(out_, kSteps))) continue;
    EXPECT_THAT([&] { verify(out_, std::to_string(step)); },
                fails_with({checkpoint::kFrozenFile, "tensor '", "have checksum"}))
        << step;
  }
  EXPECT_THAT([&] { (void)saved(out_, "last"); },
              fails_with({checkpoint::kFrozenFile, "tensor '", "have checksum"}));
}

TEST_F(FrozenCheckpoint, ThatIsMissingAFileIsRefused) {
  train(out_);
  fs::remove(frozen(out_, kSteps));
  EXPECT_THAT([&] { verify(out_, "last"); }, fails_with({checkpoint::kFrozenFile}));
  EXPECT_THAT([&] { (void)saved(out_, "last"); }, fails_with({checkpoint::kFrozenFile}));
}

// As they were written before: all parameters in one file.
TEST_F(FrozenCheckpoint, MayHaveOneFileOfAllParameters) {
  config_.train.checkpoint_every = 0;
  const State state = train(out_);
  const fs::path folder = io::CheckpointStore(out_).resolve("last");
  io::CheckpointManifest manifest = io::read_manifest(folder);
  ASSERT_EQ(manifest.files.size(), 3U);
  ASSERT_EQ(manifest.files[2].name, checkpoint::kFrozenFile);
  io::FileRecord& model = manifest.files[0];
  model.header.reset();
  model.tensors.insert(model.tensors.end(), manifest.files[2].tensors.begin(),
                       manifest.files[2].tensors.end());
  {
    const io::SafetensorsFile trained(folder / checkpoint::kModelFile);
    const io::SafetensorsFile kept(folder / checkpoint::kFrozenFile);
    io::SafetensorsWriter writer(folder / checkpoint::kModelFile,
                                 {model.tensors.begin(), model.tensors.end()});
    for (const io::TensorRecord& tensor : model.tensors)
      writer.write(tensor.name,
                   (trained.find(tensor.name) != nullptr ? trained : kept).at(tensor.name).bytes);
    writer.commit();
  }
  manifest.files.pop_back();
  fs::remove(folder / checkpoint::kFrozenFile);
  io::write_manifest(folder, manifest);
  EXPECT_NO_THROW(verify(out_, "last"));
  EXPECT_EQ(saved(out_, "last"), state);
}

TEST_F(FrozenCheckpoint, IsCopiedToTheSecondLevelOnce) {
  config_.train.checkpoint_local = (scratch_ / "disk").string();
  config_.train.checkpoint_copy_every = 1;
  EXPECT_EQ(train(out_), straight(kSteps));
  const fs::path local = io::local_folder(scratch_ / "disk", out_);
  EXPECT_LE(frozen_files(local), kMostFiles);
  EXPECT_EQ(frozen_files(out_), 1);
  for (const Index step : io::CheckpointStore(out_).steps()) {
    EXPECT_NO_THROW(verify(out_, std::to_string(step))) << step;
    EXPECT_EQ(saved(out_, std::to_string(step)), straight(step)) << step;
  }
  EXPECT_EQ(saved(local, "last"), straight(kSteps));
}

}  // namespace
}  // namespace dos::train::frozen_checkpoint_test
