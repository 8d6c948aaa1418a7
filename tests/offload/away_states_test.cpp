// SPDX-License-Identifier: Apache-2.0
#include "offload/away_states.hpp"

#include <gmock/gmock.h>

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "rt/access.hpp"
#include "rt/session.hpp"
#include "rt/tasks.hpp"
#include "scratch_directory.hpp"

namespace dos::offload::away_states_test {
namespace {

constexpr Index kSubgroups = 5;
constexpr Index kSlots = 2;
constexpr Index kParams = 1000;

/// The subgroups that were read, in the order in which that ended.
class Reads final : public storage::Observer {
 public:
  void saw(const storage::Observation& observation) noexcept override {
    if (observation.activity != storage::Activity::kRead) return;
    const std::lock_guard lock(mutex_);
    names_.emplace_back(observation.label.buffer);
  }
  [[nodiscard]] std::vector<std::string> names() const {
    const std::lock_guard lock(mutex_);
    return names_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> names_;
};

/// A value that is written when somebody says so.
class Gradient final : public rt::AccessListener {
 public:
  explicit Gradient(rt::Session& session)
      : handle_(session, {.name = "gradient", .type = DType::kF32, .count = 1}) {}

  [[nodiscard]] const rt::Handle& handle() const { return handle_; }
  void begin() {
    is_granted_ = false;
    rt::request_access(handle_, rt::kHostNode, rt::Mode::kWrite, *this);
    EXPECT_TRUE(test::eventually([&] { return is_granted_.load(); }));
  }
  void end() const { rt::end_access(handle_, rt::kHostNode); }
  void granted(void* /*data*/) noexcept override { is_granted_ = true; }

 private:
  rt::Handle handle_;
  std::atomic<bool> is_granted_ = false;
};

class AwayStatesTest : public testing::Test {
 protected:
  AwayStatesTest() {
    std::vector<StateForm> forms;
    HomePlan plan{.states = 1, .slots = kSlots};
    for (Index i = 0; i < kSubgroups; ++i) {
      layout_.subgroups.push_back({.name = std::to_string(i), .count = kParams, .depth = i});
      plan.away.push_back({.subgroup = i});
      plan.slot_bytes = padded_bytes(layout_.subgroups.back());
      forms.push_back({.piece_bytes = {plan.slot_bytes}});
    }
    const std::array disks{DiskPlace{.folder = scratch_.path()}};
    states_ = std::make_unique<AwayStates>(session_, layout_, plan, disks, std::move(forms));
    for (Index i = 0; i < kSubgroups; ++i) {
      handles_.push_back(
          std::make_unique<rt::Handle>(session_, rt::HandleSpec{.name = std::to_string(i),
                                                                .count = kParams,
                                                                .category = MemoryCategory::kStates,
                                                                .lent = states_->home_of(i).lent}));
      states_->adopt(i, *handles_.back());
      gradients_.push_back(std::make_unique<Gradient>(session_));
    }
    states_->observe(&reads_);
  }
  ~AwayStatesTest() override {
    states_->settle();
    handles_.clear();
  }

  /// A round of updates, each of which waits for its gradient, if there is `last` to tell of it.
  void submit_round(bool tells) {
    for (Index i = 0; i < kSubgroups; ++i) {
      const rt::Handle& gradient = gradient_of(i).handle();
      states_->open(i, tells ? &gradient : nullptr);
      test::submit_body(submitter_, update_,
                        {handles_[static_cast<std::size_t>(i)].get(), &gradient});
      states_->store(i);
    }
    states_->end_round();
  }
  Gradient& gradient_of(Index subgroup) { return *gradients_[static_cast<std::size_t>(subgroup)]; }
  void expect_reads(const std::vector<std::string>& names) {
    EXPECT_TRUE(test::eventually([&] { return reads_.names().size() >= names.size(); }));
    EXPECT_EQ(reads_.names(), names);
  }

  const test::ScratchDirectory scratch_;
  rt::Session session_{{.scheduler = "", .cpu_workers = 1}};
  rt::Submitter submitter_{session_};
  shape::Layout layout_;
  Reads reads_;
  std::vector<std::unique_ptr<Gradient>> gradients_;
  std::unique_ptr<AwayStates> states_;
  std::vector<std::unique_ptr<rt::Handle>> handles_;
  const test::Body update_ = [](const rt::TaskView& task) { ++*task.pointer<float>(0); };
};

TEST_F(AwayStatesTest, AreReadInTheOrderInWhichGradientsAreThere) {
  submit_round(/*tells=*/false);
  states_->settle();
  for (Index i = 0; i < kSubgroups; ++i) gradient_of(i).begin();
  submit_round(/*tells=*/true);
  // Those whose gradients come next.
  EXPECT_TRUE(test::eventually([&] { return reads_.names().size() == 2; }));
  EXPECT_THAT(reads_.names(), testing::UnorderedElementsAre("3", "4"));
  // Slots are held, and none of them for 0 and 1.
  gradient_of(1).end();
  gradient_of(0).end();
  test::sleep_ms(20);
  EXPECT_EQ(reads_.names().size(), 2);
  gradient_of(4).end();
  EXPECT_TRUE(test::eventually([&] { return reads_.names().size() == 5; }));
  // Two that are due and then the last: one slot goes round.
  const std::vector<std::string> names = reads_.names();
  EXPECT_THAT(std::vector(names.begin() + 2, names.end()), testing::ElementsAre("0", "1", "2"));
  gradient_of(2).end();
  gradient_of(3).end();
  states_->settle();
}

TEST_F(AwayStatesTest, AreReadOnceARoundWhereNothingIsToldOfGradients) {
  submit_round(/*tells=*/false);
  states_->settle();
  submit_round(/*tells=*/false);
  states_->settle();
  EXPECT_THAT(reads_.names(), testing::SizeIs(kSubgroups));
}

}  // namespace
}  // namespace dos::offload::away_states_test
