// SPDX-License-Identifier: Apache-2.0
// Checkpoints of which a read fails: the file is named, and the run goes on from the one before,
// as with --resume auto.
#include <gmock/gmock.h>

#include <cerrno>
#include <filesystem>

#include "base/sanitizer.hpp"
#include "message_of.hpp"
#include "train/disk_run.hpp"

namespace dos::train::failed_resume_test {
namespace {

using storage::Kind;
using storage::Operation;
using test::Mishap;
using testing::AllOf;
using testing::HasSubstr;

class FailedResume : public test::DiskRun {
 protected:
  /// A trainer with states on these disks, if any.
  [[nodiscard]] std::unique_ptr<Trainer> make(const std::filesystem::path& out,
                                              const std::string& disks, const Plan& plan) {
    config_.sched.disks = disks;
    auto made = trainer(out, {plan});
    config_.sched.disks.clear();
    return made;
  }

  /// Whichever read of the newest checkpoint fails.
  void gives_way_to_the_one_before(const std::string& disks) {
    config_.train.stop_after = 3;
    const auto run = scratch_ / "run";
    const auto whole = make(run, disks, {});
    whole->start_fresh();
    whole->run();
    config_.train.stop_after = 4;
    const State expected = straight(4);
    const auto names_file = AllOf(HasSubstr((run / "checkpoints" / "step-00000003").string()),
                                  HasSubstr(".safetensors: "), HasSubstr("Input/output error"));
    // With states on disks there are more reads, and each run takes longer.
    const Index stride = (kIsSanitized ? 10 : 1) * (disks.empty() ? 1 : 4);
    Index failed = 0;
    for (Index k = 0; !HasFailure(); ++k) {
      SCOPED_TRACE(k);
      const auto out = scratch_ / fmt::format("out{}", k);
      const auto resumed = make(out, disks, [&](Index number, const Operation& each) {
        const bool fails = number == k * stride && each.kind == Kind::kRead;
        if (fails) ++failed;
        return Mishap{.error = fails ? EIO : 0};
      });
      const std::string message =
          test::message_of<Error>([&] { resumed->resume(CheckpointReader(run, "3")); });
      if (k == failed) {
        EXPECT_EQ(message, "");
        break;
      }
      EXPECT_THAT(message, names_file);
      resumed->resume(CheckpointReader(run, "2"));
      resumed->run();
      EXPECT_TRUE(saved(out, "last") == expected);
    }
    EXPECT_GT(failed * stride, 50);
  }
};

TEST_F(FailedResume, InMemoryGivesWayToTheOneBefore) {
  gives_way_to_the_one_before("");
}

TEST_F(FailedResume, OntoDisksGivesWayToTheOneBefore) {
  gives_way_to_the_one_before(disks_);
}

}  // namespace
}  // namespace dos::train::failed_resume_test
