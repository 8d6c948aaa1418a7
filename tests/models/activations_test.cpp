// SPDX-License-Identifier: Apache-2.0
// However backward has its activations, the bits are those of a run that keeps them all; also where
// a disk fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "base/error.hpp"
#include "message_of.hpp"
#include "models/training_outcome.hpp"
#include "offload/disk_activations.hpp"
#include "rt/device.hpp"
#include "sanitized.hpp"
#include "scratch_directory.hpp"
#include "storage/faulty_backend.hpp"

namespace dos::test::activations_test {
namespace {

using shape::ActivationPlan;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Index kAll = ActivationPlan::kAll;

struct Named {
  const char* name;
  RunOptions options;
};
void PrintTo(const Named& named, std::ostream* out) {
  *out << named.name;
}

RunOptions options_of(const shape::ModelConfig& model) {
  return {.model = model,
          .shape = {.batch = 3, .lanes = 2, .logits_rows = 11},
          .subgroup_params = 1000,
          .optimizer = {.clip = 0.5F},
          .decay = {}};
}

RunOptions gpt2() {
  return options_of({"gpt2", 7, 36, 3, 19, 83});
}

RunOptions qwen() {
  shape::ModelConfig model{"llama", 6, 16, 4, 7, 61, /*kv_heads=*/2, /*ffn=*/21};
  model.tied_head = model.qkv_bias = model.qk_norm = true;
  return options_of(model);
}

RunOptions bf16_with_adapters() {
  RunOptions options = gpt2();
  options.model.adapters = {
      .rank = 2, .alpha = 4, .targets = {{"attention.qkv", {0}}, {"mlp.up", {0}}}};
  options.types = {.working = DType::kBF16};
  return options;
}

RunOptions frozen() {
  RunOptions options = gpt2();
  options.trained.frozen = {"*_embedding.*", "blocks.0.*", "blocks.1.*"};
  return options;
}

std::vector<offload::DiskPlace> two_disks(const ScratchDirectory& folder) {
  std::vector<offload::DiskPlace> disks;
  for (const char* name : {"a", "b"}) {
    disks.push_back({.folder = folder.path() / name});
    std::filesystem::create_directory(disks.back().folder);
  }
  return disks;
}

class Activations : public ::testing::TestWithParam<Named> {
 protected:
  ScratchDirectory folder_;
};

class MovedActivations : public ::testing::Test {
 protected:
  ScratchDirectory folder_;
};

INSTANTIATE_TEST_SUITE_P(Models, Activations,
                         ::testing::Values(Named{"gpt2", gpt2()}, Named{"qwen", qwen()},
                                           Named{"bf16_with_adapters", bf16_with_adapters()},
                                           Named{"frozen", frozen()}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Activations, AreTheSameHoweverBackwardHasThem) {
  const TrainingOutcome kept = train(GetParam().options);
  const std::vector<offload::DiskPlace> disks = two_disks(folder_);
  for (const ActivationPlan& plan :
       {ActivationPlan{.selective = kAll}, ActivationPlan{.selective = 4}, shape::kRecomputeAll,
        ActivationPlan{.recomputed = 3, .selective = 2}, ActivationPlan{.moved = kAll},
        ActivationPlan{.moved = 1}, ActivationPlan{.moved = 4, .selective = kAll},
        ActivationPlan{.moved = 2, .recomputed = 3, .selective = 1}, ActivationPlan{.hosted = kAll},
        ActivationPlan{.hosted = 2, .recomputed = 3, .selective = kAll},
        ActivationPlan{.moved = 2, .hosted = 3, .recomputed = 1}}) {
    SCOPED_TRACE(shape::activation_plan_text(plan, GetParam().options.model.layers));
    for (const Index workers : {1, 3}) {
      // Nothing meets on one worker that does not on three.
      if (kHasThreadSanitizer && workers == 1) continue;
      offload::DiskActivations store(disks);
      RunOptions options = GetParam().options;
      options.shape.activations = plan;
      options.workers = workers;
      options.store = &store;
      EXPECT_TRUE(train(options) == kept) << workers << " workers";
      EXPECT_EQ(store.fault(), "");
      EXPECT_EQ(store.traffic().read_bytes, store.traffic().written_bytes);
    }
  }
}

/// What slots of all micro-batches come to, as each has those of the one before.
Index bytes_of_slots() {
  const shape::ModelConfig c = gpt2().model;
  return 3 * c.context * (c.layers - 3) * 4 * (9 * c.width + c.heads);
}

// All but three blocks' go there and back in each of six micro-batches.
TEST_F(MovedActivations, AreWhatProductsMakeOfBlocksThatShareBuffers) {
  RunOptions options = gpt2();
  offload::DiskActivations store(two_disks(folder_));
  options.shape.activations = {.moved = kAll};
  options.store = &store;
  train(options);
  EXPECT_EQ(store.traffic().written_bytes, 6 * bytes_of_slots());
}

/// Trains with all moved, on a disk to whose operations `plan` happens.
TrainingOutcome train_on(const std::filesystem::path& folder, FaultyBackend::Plan plan,
                         const std::function<void(const offload::DiskActivations&)>& look,
                         std::optional<Index> spare = std::nullopt) {
  const offload::DiskPlace disk{.folder = folder};
  offload::DiskActivations store(
      std::span(&disk, 1),
      std::make_unique<FaultyBackend>(storage::make_backend(), std::move(plan)), spare);
  RunOptions options = gpt2();
  options.shape.activations = {.moved = kAll};
  options.store = &store;
  const TrainingOutcome outcome = train(options);
  store.settle();
  look(store);
  return outcome;
}

// From the next step on blocks are computed again: nothing is written any more.
TEST_F(MovedActivations, StayInMemoryWhereTheDiskTakesNoMore) {
  const TrainingOutcome kept = train(gpt2());
  const Index writes_of_step = 2 * (gpt2().model.layers - 3) * 2 * 5;
  for (const Index from : {0, 1, 17, 60}) {
    Index writes = 0;
    testing::internal::CaptureStdout();
    const TrainingOutcome outcome = train_on(
        folder_.path(),
        [&](Index /*number*/, const storage::Operation& operation) {
          const bool fails = operation.kind == storage::Kind::kWrite && writes++ >= from;
          return Mishap{.error = fails ? ENOSPC : 0};
        },
        [](const offload::DiskActivations& store) {
          EXPECT_FALSE(store.is_usable());
          EXPECT_EQ(store.fault(), "");
        });
    const std::string said = testing::internal::GetCapturedStdout();
    EXPECT_TRUE(outcome == kept) << from;
    EXPECT_LE(writes, (from / writes_of_step + 1) * writes_of_step) << from;
    const std::string warning = "computed again from the next step on";
    const auto first = said.find(warning);
    EXPECT_NE(first, said.npos) << said;
    EXPECT_EQ(said.find(warning, first + 1), said.npos) << "once: " << said;
  }
}

// A step whose write fails goes on: all that it moves comes to memory, if that has room. One lane
// has at least a sequence's slots filled before backward empties the first, whenever others run.
TEST_F(MovedActivations, StayInMemoryAsFarAsTheRunLeavesSome) {
  const TrainingOutcome kept = train(gpt2());
  const Index sequences = 3;
  for (const Index spare : {bytes_of_slots(), bytes_of_slots() / sequences - 1}) {
    SCOPED_TRACE(spare);
    const bool suffices = spare == bytes_of_slots();
    std::string fault;
    const TrainingOutcome outcome = train_on(
        folder_.path(),
        [](Index /*number*/, const storage::Operation& operation) {
          return Mishap{.error = operation.kind == storage::Kind::kWrite ? ENOSPC : 0};
        },
        [&](const offload::DiskActivations& store) { fault = store.fault(); }, spare);
    EXPECT_EQ(outcome == kept, suffices);
    if (suffices)
      EXPECT_EQ(fault, "");
    else
      EXPECT_THAT(fault, AllOf(HasSubstr("is lost: "), HasSubstr("No space left on device"),
                               HasSubstr("of memory that the run leaves"),
                               HasSubstr("raise train.host_memory")));
  }
}

// So nothing is moved that backward does not read.
TEST_F(MovedActivations, AreNoNumbersOnceTheyAreLost) {
  std::set<Index> places;
  const auto note = [&](Index /*number*/, const storage::Operation& operation) {
    if (operation.kind == storage::Kind::kRead) places.insert(operation.offset);
    return Mishap{};
  };
  train_on(folder_.path(), note, [](const offload::DiskActivations&) {});
  EXPECT_EQ(places.size(), (gpt2().model.layers - 3) * 2 * 5)
      << "places of blocks whose buffers are shared, two lanes and five buffers";
  Index number = 0;
  for (const Index place : places) {
    if (!test::tries(number++, Index{3})) continue;
    std::string fault;
    const TrainingOutcome outcome = train_on(
        folder_.path(),
        [&](Index /*number*/, const storage::Operation& operation) {
          const bool fails = operation.kind == storage::Kind::kRead && operation.offset == place;
          return Mishap{.error = fails ? EIO : 0};
        },
        [&](const offload::DiskActivations& store) { fault = store.fault(); });
    EXPECT_THAT(fault, AllOf(HasSubstr("is lost: "), HasSubstr("Input/output error")));
    EXPECT_TRUE(std::ranges::any_of(outcome.scalars, [](double each) {
      return !std::isfinite(each);
    })) << fault;
  }
}

TEST_F(MovedActivations, NeedAFolderWithRoom) {
  const auto refusal = [&](const offload::DiskPlace& disk) {
    return message_of<Error>([&] {
      offload::DiskActivations store(std::span(&disk, 1));
      store.add(200'000, rt::kHostNode);
      store.reserve();
    });
  };
  EXPECT_THAT(refusal({.folder = folder_.path() / "none"}), HasSubstr("is no folder"));
  EXPECT_THAT(refusal({.folder = folder_.path(), .bytes = 100'000}),
              AllOf(HasSubstr("train.activation_disks"), HasSubstr("there is room for 97.7 KiB"),
                    HasSubstr("raise a size")));
}

TEST_F(MovedActivations, WhichAreNotWhatWasWrittenAreLost) {
  Index writes = 0;
  std::string fault;
  const TrainingOutcome outcome = train_on(
      folder_.path(),
      [&](Index /*number*/, const storage::Operation& operation) {
        // After its sum was made.
        if (operation.kind == storage::Kind::kWrite && ++writes == 3)
          operation.memory[5] ^= std::byte{16};
        return Mishap{};
      },
      [&](const offload::DiskActivations& store) { fault = store.fault(); });
  EXPECT_THAT(fault, AllOf(HasSubstr("is lost: "), HasSubstr("CRC-32C")));
  EXPECT_TRUE(std::ranges::any_of(outcome.scalars, [](double each) {
    return !std::isfinite(each);
  })) << fault;
}

}  // namespace
}  // namespace dos::test::activations_test
