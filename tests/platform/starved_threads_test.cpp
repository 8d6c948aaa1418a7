// SPDX-License-Identifier: Apache-2.0
#include "platform/starved_threads.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "scratch_directory.hpp"

namespace dos::platform::starved_threads_test {
namespace {

class Starved : public testing::Test {
 protected:
  /// Thread 7, whose name has what separates fields.
  void thread(const char* state, const char* ran) {
    std::filesystem::create_directories(scratch / "7");
    std::ofstream(scratch / "7" / "stat") << "7 (a R) b) " << state << " 1 2 3\n";
    std::ofstream(scratch / "7" / "schedstat") << ran << "\n";
  }

  test::ScratchDirectory scratch;
  StarvedThreads threads{scratch.path()};
};

TEST_F(Starved, IsAThreadThatCouldRunAndDidNot) {
  thread("R", "1000 5 3");
  EXPECT_FALSE(threads.look()) << "the first look";
  EXPECT_TRUE(threads.look());
  thread("R", "1000 900 3");
  EXPECT_TRUE(threads.look()) << "it has waited";
  thread("R", "1001 900 4");
  EXPECT_FALSE(threads.look()) << "it has run";
  EXPECT_TRUE(threads.look());
}

TEST_F(Starved, IsNoThreadThatWaits) {
  thread("S", "1000 5 3");
  EXPECT_FALSE(threads.look());
  EXPECT_FALSE(threads.look());
  thread("R", "1000 5 3");
  EXPECT_FALSE(threads.look()) << "it was able to run at one look alone";
}

TEST_F(Starved, IsNotToldWhereTheSystemDoesNotTell) {
  EXPECT_FALSE(threads.look());
  thread("R", "");
  EXPECT_FALSE(threads.look());
  EXPECT_FALSE(threads.look());
}

// Threads that are busy are given processors, now and then, by a system that works.
TEST(StarvedThreads, ReadsThoseOfThisProcess) {
  std::atomic<bool> ends = false;
  std::thread busy([&] {
    while (!ends) continue;
  });
  StarvedThreads threads;
  static_cast<void>(threads.look());
  bool runs = false;
  for (int look = 0; look < 1000 && !runs; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    runs = !threads.look();
  }
  ends = true;
  busy.join();
  EXPECT_TRUE(runs);
}

}  // namespace
}  // namespace dos::platform::starved_threads_test
