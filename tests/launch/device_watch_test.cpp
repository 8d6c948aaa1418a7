// SPDX-License-Identifier: Apache-2.0
#include "launch/device_watch.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

#include "fit/memory_advice.hpp"
#include "models/family.hpp"
#include "shape/cutter.hpp"

namespace dos::launch::device_watch_test {
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
                                      {.ready = 3}, 60);
  EXPECT_EQ(text,
            "CUDA 1 has no memory for the next task: 2.00 MiB of 200 MiB are free; ready tasks: "
            "3, of which none has run for 60 s (train.stall_timeout_s)");
  EXPECT_THAT(stall_text({}, {.ready = 3}, 60),
              StartsWith("the run stands still: ready tasks: 3, "));
}

TEST(StallText, SaysThatMessagesWaitWhereNoTaskDoes) {
  EXPECT_EQ(stall_text({{.name = "CUDA 0", .bytes = 100 * kMiB, .free = 0}},
                       {.accesses = {.due = 5, .granted = 3, .ended = 3}}, 60),
            "CUDA 0 has no memory for the next message: 0 B of 100 MiB are free; messages that "
            "wait for memory: 2, of which none has got any for 60 s (train.stall_timeout_s)");
}

constexpr rt::Progress kWaits{.ready = 3, .started = 5, .ended = 5};
constexpr Index kLooks = DeviceWatch::kLooks;
/// Looks come as fast as threads can wait; what is tested counts looks, not time.
constexpr double kImpatient = 1e-4;

/// Devices and tasks for a watch, which says what it has seen and done: look n finds progress(n),
/// from 1 on.
class Scene {
 public:
  explicit Scene(std::function<rt::Progress(Index look)> progress, Index free = kMiB)
      : progress_(std::move(progress)), free_(free) {}

  DeviceWatch::Sources sources() {
    return {.rooms =
                [this] {
                  return std::vector<DeviceRoom>{
                      {.name = "CUDA 0", .bytes = 100 * kMiB, .free = free_}};
                },
            .progress =
                [this] {
                  const std::lock_guard lock(mutex_);
                  ++looks_;
                  changed_.notify_all();
                  return progress_(looks_);
                },
            .is_starved =
                [this] {
                  const std::lock_guard lock(mutex_);
                  return looks_ <= starved_looks_;
                }};
  }
  /// So many looks, from the first on, find that there was no processor.
  void starve(Index looks) { starved_looks_ = looks; }

  /// For the watch to call at the end.
  void end(const std::string& words) {
    const std::lock_guard lock(mutex_);
    words_.push_back(words);
    changed_.notify_all();
  }

  void wait_for_looks(Index looks) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return looks_ >= looks; });
  }
  void wait_for_end() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !words_.empty(); });
  }

  // When the watch is gone, or has said that this is the end.
  [[nodiscard]] Index looks() const { return looks_; }
  [[nodiscard]] const std::vector<std::string>& words() const { return words_; }

 private:
  std::function<rt::Progress(Index look)> progress_;
  Index free_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Index looks_ = 0;
  Index starved_looks_ = 0;
  std::vector<std::string> words_;
};

std::unique_ptr<DeviceWatch> watch(Scene& scene, double patience_s = kImpatient) {
  return std::make_unique<DeviceWatch>(
      patience_s, "use less", [&](const std::string& words) { scene.end(words); }, scene.sources());
}

// The first look has nothing to compare with.
TEST(DeviceWatch, SaysOnceWhatIsFullAndWhatHelpsAfterSoManyLooks) {
  Scene scene([](Index) { return kWaits; });
  auto watched = watch(scene);
  scene.wait_for_end();
  watched.reset();
  EXPECT_EQ(scene.looks(), 1 + kLooks);
  EXPECT_THAT(
      scene.words(),
      testing::ElementsAre(
          "CUDA 0 has no memory for the next task: 1.00 MiB of 100 MiB are free; ready "
          "tasks: 3, of which none has run for 0.0001 s (train.stall_timeout_s)\nuse less"));
}

// A system that has no processor for the program for a minute or more makes no run end.
TEST(DeviceWatch, DoesNotCountLooksWithoutAProcessor) {
  Scene scene([](Index) { return kWaits; });
  scene.starve(2 * kLooks);
  auto watched = watch(scene);
  scene.wait_for_end();
  watched.reset();
  EXPECT_EQ(scene.looks(), 2 * kLooks + 1 + kLooks);
}

TEST(DeviceWatch, BeginsToCountAnewWhenATaskHasEnded) {
  Scene scene([](Index look) {
    rt::Progress now = kWaits;
    if (look > kLooks) now.started = now.ended = 6;
    return now;
  });
  auto watched = watch(scene);
  scene.wait_for_end();
  watched.reset();
  EXPECT_EQ(scene.looks(), 2 * kLooks + 1);
}

TEST(DeviceWatch, IsSilentWhileTasksRunOrEndOrNoneIsReady) {
  const auto runs = [](Index) { return rt::Progress{.ready = 3, .started = 6, .ended = 5}; };
  const auto end = [](Index look) {
    return rt::Progress{.ready = 3, .started = look, .ended = look};
  };
  const auto none = [](Index) { return rt::Progress{.ready = 0, .started = 5, .ended = 5}; };
  for (const std::function<rt::Progress(Index)>& progress :
       {std::function<rt::Progress(Index)>(runs), {end}, {none}}) {
    Scene scene(progress);
    auto watched = watch(scene);
    scene.wait_for_looks(5 * kLooks);
    watched.reset();
    EXPECT_THAT(scene.words(), testing::IsEmpty());
  }
}

TEST(DeviceWatch, EndsAtOnceWhileItWaits) {
  Scene scene([](Index) { return kWaits; });
  auto watched = watch(scene, /*patience_s=*/1e6);
  // Long enough for the thread to begin; were it late, there would be nothing to wake.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto start = std::chrono::steady_clock::now();
  watched.reset();
  // Between looks are 50,000 s.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(scene.looks(), 0);
}

const shape::ModelConfig kModel{"gpt2", 4, 64, 4, 1024, 1000};

std::string advice(const config::TrainConfig& config, bool runs_model,
                   const char* scheduler = "dos") {
  const fit::Room room{
      .host_bytes = Index{1} << 50,
      .workers = 2,
      .cpu_workers = 1,
      .devices = {{.name = "GPU 0", .bytes = Index{8} << 30, .runs_model = runs_model}}};
  return fit::memory_advice(train::make_run(config, kModel), room, scheduler, "runs/a");
}

TEST(MemoryAdvice, NamesWhatTakesLessOfTheDevice) {
  config::TrainConfig config;
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
  config::TrainConfig config;
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

/// Two looks: the second comes after what follows from the first.
[[noreturn]] void abort_watched(Index free) {
  Scene scene([](Index look) { return rt::Progress{.started = look, .ended = look}; }, free);
  const auto watched = watch(scene);
  scene.wait_for_looks(2);
  std::fputs("StarPU's words\n", stderr);
  std::abort();
}

TEST_F(LastWordsDeathTest, AreAWatchsAdviceWhileItSeesAFullDevice) {
  EXPECT_EXIT(abort_watched(/*free=*/6 * kMiB), testing::KilledBySignal(SIGABRT),
              "StarPU's words\ntrain_gpt: error: aborted while .*\nuse less\n");
  // A sixteenth is 6.25 MiB.
  EXPECT_EXIT(abort_watched(/*free=*/7 * kMiB), testing::KilledBySignal(SIGABRT),
              "^StarPU's words\n$");
}

}  // namespace
}  // namespace dos::launch::device_watch_test
