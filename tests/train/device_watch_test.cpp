// SPDX-License-Identifier: Apache-2.0
#include "train/device_watch.hpp"

#include <gmock/gmock.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "models/registry.hpp"
#include "optim/subgroups.hpp"
#include "train/memory_advice.hpp"

namespace dos::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr Index kMiB = Index{1} << 20;

TEST(StallText, NamesTheFullestDevice) {
  const std::string text = stall_text({{.name = "CUDA 0", .bytes = 100 * kMiB, .free = 50 * kMiB},
                                       {.name = "CUDA 1", .bytes = 200 * kMiB, .free = 2 * kMiB},
                                       {.name = "CUDA 2", .bytes = 4 * kMiB, .free = 4 * kMiB}},
                                      3, 60);
  EXPECT_EQ(text,
            "CUDA 1 has no memory for the next task: 2.00 MiB of 200 MiB are free; ready tasks: "
            "3, of which none has run for 60 s (train.stall_timeout_s)");
  EXPECT_THAT(stall_text({}, 3, 60), StartsWith("the run stands still: ready tasks: 3, "));
}

const models::ModelConfig kModel{"gpt2", 4, 64, 4, 1024, 1000};

std::string advice(const TrainConfig& config, bool runs_model, const char* scheduler = "dos") {
  const tensor::Layout layout =
      optim::cut_into_subgroups(models::find_architecture(kModel.architecture).parameters(kModel),
                                config.sched.subgroup_params, {});
  const Room room{
      .host_bytes = Index{1} << 50,
      .workers = 2,
      .cpu_workers = 1,
      .devices = {{.name = "GPU 0", .bytes = Index{8} << 30, .runs_model = runs_model}}};
  return memory_advice(config, kModel, layout, room, {}, scheduler, "runs/a");
}

TEST(MemoryAdvice, NamesWhatTakesLessOfTheDevice) {
  TrainConfig config;
  config.train.batch = 6;
  EXPECT_THAT(
      advice(config, true),
      AllOf(StartsWith("use train.recompute=true ("), HasSubstr("train.batch=3 with train.acc"),
            HasSubstr("train.precision=bf16 ("), HasSubstr("sched.subgroup_params below"),
            HasSubstr("sched.window=1"), HasSubstr("sched.resident=false"),
            HasSubstr("train.gpu_memory"), HasSubstr("estimate for GPU 0:\n  weights"),
            HasSubstr("8.00 GiB"), HasSubstr("continue with --out runs/a --resume")));
}

TEST(MemoryAdvice, LeavesOutWhatIsSetAlready) {
  TrainConfig config;
  config.train.batch = 1;
  config.train.recompute = true;
  config.train.precision = "bf16";
  config.train.gradient_precision = "bf16";
  config.sched.window = 1;
  config.sched.resident = false;
  EXPECT_THAT(advice(config, true),
              AllOf(StartsWith("use a sched.subgroup_params below"), Not(HasSubstr("sched.window")),
                    Not(HasSubstr("sched.resident")), HasSubstr("estimate for GPU 0:\n  weights")));
}

// Activations are on the host: what forward and backward take is no matter.
TEST(MemoryAdvice, OfADeviceThatOnlyUpdates) {
  EXPECT_THAT(advice({}, false),
              AllOf(StartsWith("use a sched.subgroup_params below"),
                    HasSubstr("estimate for GPU 0:\n  largest update"), HasSubstr("available"),
                    Not(HasSubstr("train.recompute")), Not(HasSubstr("train.gpu_memory"))));
}

// It puts what does not fit where it does not fit; our options are nothing to it.
TEST(MemoryAdvice, OfARunUnderAnotherScheduler) {
  EXPECT_THAT(advice({}, false, "eager"),
              AllOf(HasSubstr("STARPU_SCHED=dos"), Not(HasSubstr("sched.window")),
                    Not(HasSubstr("sched.resident"))));
  EXPECT_THAT(advice({}, false, "zero-offload"), Not(HasSubstr("STARPU_SCHED")));
}

class LastWordsDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

[[noreturn]] void abort_with_words(bool on) {
  LastWords words("use train.recompute=true\n");
  words.apply(true);
  words.apply(on);
  std::fputs("StarPU's words\n", stderr);
  std::abort();
}

TEST_F(LastWordsDeathTest, AreSaidBehindWhatWasSaidBefore) {
  EXPECT_EXIT(abort_with_words(true), testing::KilledBySignal(SIGABRT),
              "StarPU's words\nuse train.recompute=true\n");
}

TEST_F(LastWordsDeathTest, AreNotSaidWhereTheyDoNotApply) {
  EXPECT_EXIT(abort_with_words(false), testing::KilledBySignal(SIGABRT), "^StarPU's words\n$");
}

TEST_F(LastWordsDeathTest, EndWithTheObject) {
  EXPECT_EXIT(
      {
        {
          LastWords words("use train.recompute=true\n");
          words.apply(true);
        }
        std::fputs("StarPU's words\n", stderr);
        std::abort();
      },
      testing::KilledBySignal(SIGABRT), "^StarPU's words\n$");
}

}  // namespace
}  // namespace dos::train
