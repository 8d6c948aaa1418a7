// SPDX-License-Identifier: Apache-2.0
// Where data go back to: a home of the program's choice, with a disk as one that is not the memory
// of the CPU.
// StarPU 1.3 declares these functions as C++.
extern "C" {
#include <starpu_disk.h>
}

#include <gtest/gtest.h>
#include <starpu.h>

#include <array>
#include <fstream>
#include <optional>
#include <vector>

#include "rt/session.hpp"
#include "rt/tasks.hpp"
#include "sched_starpu/returns.hpp"
#include "sched_starpu/runtime_version.hpp"
#include "sched_starpu/update_task.hpp"
#include "scratch_directory.hpp"

namespace dos::sched_starpu::home_test {
namespace {

constexpr std::uint32_t kCount = 1000;
constexpr std::size_t kBytes = kCount * sizeof(float);

enum Buffer : std::size_t { kStates, kGradient, kWorking, kBuffers };

/// An update whose buffers live on a disk and are in the CPU's memory only, as a GPU's are in the
/// GPU's when it has run.
class Home : public testing::Test {
 protected:
  void SetUp() override {
    session_.emplace(rt::SessionConfig{.scheduler = "", .cpu_workers = 1});
    const std::string folder = folder_.path().string();
    disk_ = starpu_disk_register(&starpu_disk_unistd_ops, const_cast<char*>(folder.c_str()),
                                 STARPU_DISK_SIZE_MIN);
    ASSERT_GE(disk_, 0);
    starpu_codelet_init(&codelet_);
    codelet_.nbuffers = kBuffers;
    codelet_.modes[kStates] = STARPU_RW;
    codelet_.modes[kGradient] = STARPU_R;
    codelet_.modes[kWorking] = STARPU_W;
    starpu_task_init(&task_);
    task_.cl = &codelet_;
    for (std::size_t i = 0; i < kBuffers; ++i) {
      const std::string name = std::to_string(i);
      std::ofstream(folder_.path() / name) << std::string(kBytes, '\0');
      void* file =
          starpu_disk_open(static_cast<unsigned>(disk_), const_cast<char*>(name.c_str()), kBytes);
      starpu_vector_data_register(&task_.handles[i], disk_, reinterpret_cast<std::uintptr_t>(file),
                                  kCount, sizeof(float));
      ASSERT_EQ(starpu_data_acquire_on_node(task_.handles[i], STARPU_MAIN_RAM, STARPU_RW), 0);
      starpu_data_release_on_node(task_.handles[i], STARPU_MAIN_RAM);
      files_[i] = file;
    }
  }
  void TearDown() override {
    for (std::size_t i = 0; i < kBuffers; ++i) {
      starpu_data_unregister(task_.handles[i]);
      starpu_disk_close(static_cast<unsigned>(disk_), files_[i], kBytes);
    }
    starpu_task_clean(&task_);
    session_.reset();
  }
  bool is_home(Buffer buffer) const {
    int is_valid = 0;
    starpu_data_query_status(task_.handles[buffer], disk_, nullptr, &is_valid, nullptr);
    return is_valid != 0;
  }
  /// `is_home_then`: which buffers are, once all copies have ended.
  void expect_at_home(bool is_resident, bool model_is_on_host,
                      const std::array<bool, kBuffers>& is_home_then) {
    start_home(&task_, {.model_on_host = model_is_on_host}, is_resident);
    // The last request, and the gradient is no state.
    starpu_data_handle_t gradient = task_.handles[kGradient];
    start_copy(gradient, home_of(gradient));
    for (const Buffer each : {kStates, kGradient, kWorking})
      EXPECT_TRUE(!is_home_then[each] || test::eventually([&] { return is_home(each); })) << each;
    for (const Buffer each : {kStates, kGradient, kWorking})
      EXPECT_EQ(is_home(each), is_home_then[each]) << each;
  }

  test::ScratchDirectory folder_;
  std::optional<rt::Session> session_;
  int disk_ = -1;
  starpu_codelet codelet_{};
  starpu_task task_{};
  std::array<void*, kBuffers> files_{};
};

TEST_F(Home, IsWhereTheProgramHasRegisteredIt) {
  EXPECT_EQ(home_of(task_.handles[kStates]), static_cast<unsigned>(disk_));
  std::vector<float> values(kCount);
  starpu_data_handle_t in_memory = nullptr;
  starpu_vector_data_register(&in_memory, STARPU_MAIN_RAM,
                              reinterpret_cast<std::uintptr_t>(values.data()), kCount,
                              sizeof(float));
  EXPECT_EQ(home_of(in_memory), kCpuMemory);
  starpu_data_unregister(in_memory);
  starpu_data_handle_t anywhere = nullptr;
  starpu_vector_data_register(&anywhere, -1, 0, kCount, sizeof(float));
  EXPECT_EQ(home_of(anywhere), kCpuMemory) << "StarPU allocates it";
  starpu_data_unregister(anywhere);
}

TEST_F(Home, StatesHaveReturnedWhenTheyAreThere) {
  Returns returns;
  returns.add({task_.handles[kStates]}, /*now=*/0, /*seconds=*/1, /*patience=*/4);
  EXPECT_EQ(returns.take_arrived(0), 0);
  EXPECT_EQ(returns.take_arrived(3.9), 0);
  returns.add(start_home(&task_, {}, /*is_resident=*/false), 0, 1, 4);
  EXPECT_TRUE(test::eventually([&] { return is_home(kStates); }));
  EXPECT_EQ(returns.take_arrived(0), 2);
  EXPECT_EQ(returns.take_arrived(0), 0) << "once";
}

TEST_F(Home, StatesThatDoNotComeHomeDoNotKeepAGpuWaiting) {
  Returns returns;
  returns.add({task_.handles[kStates]}, /*now=*/1, /*seconds=*/1, /*patience=*/4);
  returns.add({task_.handles[kStates]}, 1, 1, 4);
  EXPECT_EQ(returns.take_arrived(4.9), 0);
  EXPECT_EQ(returns.take_arrived(5), 1);
  EXPECT_EQ(returns.forget(), 1) << "the link has it after the first";
  EXPECT_EQ(returns.take_arrived(100), 0);
}

TEST_F(Home, StreamedStatesGoThere) {
  EXPECT_FALSE(is_home(kStates));
  expect_at_home(/*is_resident=*/false, /*model_is_on_host=*/false, {true, true, false});
}

TEST_F(Home, ResidentStatesStayWhereTheyAre) {
  expect_at_home(/*is_resident=*/true, /*model_is_on_host=*/false, {false, true, false});
}

TEST_F(Home, WorkingParametersGoWhereTheModelIs) {
  expect_at_home(/*is_resident=*/true, /*model_is_on_host=*/true, {false, true, true});
}

TEST_F(Home, AFlushGoesToTheGivenNodeOnce) {
  starpu_data_handle_t gradient = task_.handles[kGradient];
  EXPECT_EQ(start_flush(gradient, kCpuMemory).value(), 0) << "it is there";
  EXPECT_EQ(start_flush(gradient, static_cast<unsigned>(disk_)).value(), kBytes);
  EXPECT_TRUE(test::eventually([&] { return is_home(kGradient); }));
  EXPECT_EQ(start_flush(gradient, static_cast<unsigned>(disk_)).value(), 0);
}

}  // namespace
}  // namespace dos::sched_starpu::home_test
