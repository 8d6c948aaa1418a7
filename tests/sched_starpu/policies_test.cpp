// SPDX-License-Identifier: Apache-2.0
// The StarPU policies on CPU workers: order, completeness, learning.
#include "sched_starpu/policies.hpp"

#include <gmock/gmock.h>
#include <starpu.h>

#include <atomic>
#include <numeric>

#include "base/error.hpp"
#include "rt/submitter.hpp"
#include "rt/tasks.hpp"
#include "sched/policy_registry.hpp"

namespace dos::sched_starpu::policies_test {
namespace {

using rt::Handle;
using rt::HandleSpec;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Index kSubgroups = 12;

rt::SessionConfig with(const std::string& scheduler, Index workers) {
  return {.scheduler = scheduler, .cpu_workers = workers, .schedulers = policies()};
}

void add_gradient(const rt::TaskView& task) {
  auto* p = task.pointer<float>(0);
  const auto* g = task.pointer<const float>(1);
  for (Index i = 0; i < task.count(0); ++i) p[i] += g[i];
}

/// An update as the trainer's: states first, then the gradient.
const rt::Codelet& update_codelet() {
  static const rt::Codelet codelet =
      rt::make_codelet<add_gradient>({.symbol = "dos.update.test.f32.v1",
                                      .modes = {rt::Mode::kReadWrite, rt::Mode::kRead},
                                      .tail = {}});
  return codelet;
}

/// Why the policy has no plan where there is no GPU; nothing if it has one.
std::string obstacle_without_gpu(const std::string& policy) {
  sched::Problem problem;
  problem.subgroups = {{.params = 1000}};
  problem.rates.cpu_update = problem.rates.cpu_worker = units::gparams_per_second(1);
  problem.rates.dram = units::gigabytes_per_second(100);
  try {
    sched::make_plan(policy, problem);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class EveryPolicy : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const sched::Policy& policy : sched::policies())
                             names.emplace_back(policy.name);
                           return names;
                         }()),
                         [](const auto& name) {
                           std::string text = name.param;
                           std::ranges::replace(text, '-', '_');
                           return text;
                         });

// Also what a step is: of three, the ends of two are seen.
TEST_P(EveryPolicy, RunsEveryUpdateOnceAndInTheOrderOfItsData) {
  rt::Session session(with(GetParam(), 2));
  EXPECT_EQ(session.scheduler(), GetParam());
  rt::Submitter submitter(session);
  std::vector<std::unique_ptr<Handle>> parameters;
  std::vector<std::unique_ptr<Handle>> gradients;
  for (Index i = 0; i < kSubgroups; ++i) {
    const Index count = 1000 + i;
    parameters.push_back(
        std::make_unique<Handle>(session, HandleSpec{.name = "p", .count = count}));
    gradients.push_back(std::make_unique<Handle>(session, HandleSpec{.name = "g", .count = count}));
    const rt::HostAccess access(*gradients.back(), rt::Mode::kWrite);
    std::ranges::fill(access.as<float>(), static_cast<float>(i + 1));
  }
  for (int step = 0; step < 3; ++step) {
    for (Index i = 0; i < kSubgroups; ++i) {
      const auto place = static_cast<std::size_t>(i);
      const std::vector<const Handle*> buffers{parameters[place].get(), gradients[place].get()};
      submitter.submit(update_codelet(), buffers, 0, {1000, {1000 + i}},
                       {.priority = static_cast<int>(kSubgroups - i)});
    }
    // As the forward pass between two updates does.
    session.wait_all();
  }
  for (Index i = 0; i < kSubgroups; ++i) {
    const rt::HostAccess access(*parameters[static_cast<std::size_t>(i)], rt::Mode::kRead);
    for (const float value : access.as<const float>())
      ASSERT_EQ(value, 3 * static_cast<float>(i + 1));
  }
  const UpdatesReport seen = report();
  // Without a GPU a policy that needs one says so, and the CPU does it all.
  EXPECT_EQ(seen.obstacle, obstacle_without_gpu(GetParam()));
  EXPECT_EQ(obstacle(), seen.obstacle);
  EXPECT_THAT(seen.plan, seen.obstacle.empty() ? HasSubstr("on the CPU") : HasSubstr(""));
  ASSERT_EQ(seen.steps.size(), 2U);
  EXPECT_EQ(seen.steps[1].total.value(), 12 * 1000 + 66);
  EXPECT_EQ(seen.steps[1].executed_gpu.value(), 0);
}

// A task that waits keeps the only worker busy until all others are there.
TEST_P(EveryPolicy, LargerPrioritiesRunEarlierAndEqualOnesInTheirOrder) {
  rt::Session session(with(GetParam(), 1));
  const Handle gate(session, {.name = "gate", .count = 1});
  std::atomic<bool> waiting{false};
  std::atomic<bool> open{false};
  std::vector<int> order;
  const test::Body wait = [&](const rt::TaskView&) {
    waiting = true;
    EXPECT_TRUE(test::eventually([&] { return open.load(); }));
  };
  std::vector<test::Body> notes;
  for (int i = 0; i < 5; ++i)
    notes.emplace_back([&order, i](const rt::TaskView&) { order.push_back(i); });
  std::vector<std::unique_ptr<Handle>> buffers;
  rt::Submitter submitter(session);
  test::submit_body(submitter, wait, {&gate});
  ASSERT_TRUE(test::eventually([&] { return waiting.load(); }));
  const int priorities[] = {0, 3, -2, 3, 5};
  for (std::size_t i = 0; i < notes.size(); ++i) {
    buffers.push_back(std::make_unique<Handle>(session, HandleSpec{.name = "b", .count = 1}));
    test::submit_body(submitter, notes[i], {buffers.back().get()}, {.priority = priorities[i]});
  }
  open = true;
  session.wait_all();
  EXPECT_THAT(order, ElementsAre(4, 1, 3, 0, 2));
}

// Wake-ups: many short tasks on two workers, which go to sleep in between.
TEST_P(EveryPolicy, NoTaskIsForgotten) {
  rt::Session session(with(GetParam(), 2));
  std::vector<std::unique_ptr<Handle>> buffers;
  for (int i = 0; i < 4; ++i)
    buffers.push_back(std::make_unique<Handle>(session, HandleSpec{.name = "b", .count = 1}));
  std::atomic<int> ran{0};
  const test::Body count = [&](const rt::TaskView&) { ++ran; };
  rt::Submitter submitter(session);
  for (int round = 0; round < 50; ++round) {
    for (std::size_t i = 0; i < 20; ++i)
      test::submit_body(submitter, count, {buffers[i % 4].get()},
                        {.priority = static_cast<int>(i)});
    session.wait_all();
  }
  EXPECT_EQ(ran, 1000);
}

// Each of the two ends when both run: a worker that sleeps on would be seen.
TEST_P(EveryPolicy, TwoTasksThatComeTogetherWakeTwoWorkers) {
  rt::Session session(with(GetParam(), 2));
  const Handle first(session, {.name = "first", .count = 1});
  const Handle second(session, {.name = "second", .count = 1});
  std::atomic<int> running{0};
  std::atomic<int> wanted{0};
  const test::Body meet = [&](const rt::TaskView&) {
    ++running;
    EXPECT_TRUE(test::eventually([&] { return running >= wanted; }));
  };
  rt::Submitter submitter(session);
  for (int round = 0; round < 100 && !HasFailure(); ++round) {
    wanted += 2;
    test::submit_body(submitter, meet, {&first});
    test::submit_body(submitter, meet, {&second});
    session.wait_all();
  }
}

// What StarPU runs without asking the scheduler, or without telling it of the end.
TEST_P(EveryPolicy, TasksThatPassTheSchedulerByDoNoHarm) {
  rt::Session session(with(GetParam(), 2));
  std::atomic<int> ran{0};
  starpu_execute_on_each_worker([](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &ran,
                                STARPU_CPU);
  EXPECT_EQ(ran, 2);
  const Handle from(session, {.name = "from", .count = 8});
  const Handle to(session, {.name = "to", .count = 8});
  {
    const rt::HostAccess access(from, rt::Mode::kWrite);
    std::ranges::fill(access.as<float>(), 3.0F);
  }
  ASSERT_EQ(starpu_data_cpy(to.raw(), from.raw(), /*asynchronous=*/1, nullptr, nullptr), 0);
  const rt::HostAccess access(to, rt::Mode::kRead);
  EXPECT_THAT(access.as<float>(), testing::Each(3.0F));
}

void note_worker(void* /*buffers*/[], void* argument) {
  static_cast<std::atomic<unsigned>*>(argument)->fetch_or(
      1U << static_cast<unsigned>(starpu_worker_get_id()));
}

TEST_P(EveryPolicy, TasksRunOnTheWorkersThatTheyNameOnly) {
  rt::Session session(with(GetParam(), 2));
  starpu_codelet codelet{};
  starpu_codelet_init(&codelet);
  codelet.cpu_funcs[0] = note_worker;
  codelet.name = "note worker";
  std::atomic<unsigned> used{0};
  std::uint32_t second_worker = 0b10;
  for (int i = 0; i < 100; ++i) {
    starpu_task* task = starpu_task_create();
    task->cl = &codelet;
    task->cl_arg = &used;
    task->workerids = &second_worker;
    task->workerids_len = 1;
    ASSERT_EQ(starpu_task_submit(task), 0);
  }
  session.wait_all();
  EXPECT_EQ(used, 0b10U);
}

TEST(Policies, AnUpdateWithoutBuffersIsATaskLikeOthers) {
  rt::Session session(with("dos", 1));
  starpu_perfmodel model{};
  model.type = STARPU_HISTORY_BASED;
  model.symbol = "dos.update.nothing.v1";
  std::atomic<unsigned> used{0};
  starpu_codelet codelet{};
  starpu_codelet_init(&codelet);
  codelet.cpu_funcs[0] = note_worker;
  codelet.model = &model;
  starpu_task* task = starpu_task_create();
  task->cl = &codelet;
  task->cl_arg = &used;
  ASSERT_EQ(starpu_task_submit(task), 0);
  session.wait_all();
  EXPECT_EQ(used, 1U);
  EXPECT_THAT(report().steps, IsEmpty());
}

TEST(Policies, TheFirstIsTheDefaultAndDos) {
  rt::Session session({.scheduler = "", .cpu_workers = 1, .schedulers = policies()});
  EXPECT_EQ(session.scheduler(), "dos");
}

TEST(Policies, AreKnownBesideStarPUsOwn) {
  const auto message = test::message_of<Error>([] { const rt::Session session(with("doss", 1)); });
  EXPECT_THAT(message, HasSubstr("did you mean 'dos'?"));
  EXPECT_THAT(message, HasSubstr("lws"));
  EXPECT_THAT(message, HasSubstr("zero-offload"));
}

TEST(Policies, NothingIsReportedWhereAnotherSchedulerRuns) {
  rt::Session session(with("lws", 1));
  EXPECT_THAT(report().plan, IsEmpty());
}

TEST(Policies, TakeWhatTheyAreConfiguredWith) {
  configure({.options = {}, .update_prefix = "other."});
  {
    rt::Session session(with("dos", 1));
    rt::Submitter submitter(session);
    const Handle p(session, {.name = "p", .count = 10});
    const Handle g(session, {.name = "g", .count = 10});
    const std::vector<const Handle*> buffers{&p, &g};
    for (int i = 0; i < 3; ++i) submitter.submit(update_codelet(), buffers, 0, {10, {10}}, {});
    session.wait_all();
    EXPECT_THAT(report().steps, IsEmpty());
  }
  configure({});
}

}  // namespace
}  // namespace dos::sched_starpu::policies_test
