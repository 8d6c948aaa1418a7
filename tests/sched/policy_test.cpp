// SPDX-License-Identifier: Apache-2.0
// Golden plans: what each policy makes of one small machine, and of input that it cannot place.
#include "sched/policy.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.hpp"
#include "problems.hpp"
#include "sched/interleave.hpp"
#include "sched/policy_registry.hpp"
#include "sched/replay.hpp"

namespace dos::sched::policy_test {
namespace {

using testing::HasSubstr;

/// C on the CPU, s streamed, R resident.
std::string drawn(const Plan& plan) {
  std::string text;
  for (const Assignment& each : plan.assignments)
    text += is_on_cpu(each) ? 'C' : is_streamed(each) ? 's' : 'R';
  return text;
}

std::string error_of(const std::string& policy, const Problem& problem,
                     const PolicyOptions& options = {}) {
  try {
    make_plan(policy, problem, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Three on the CPU take as long as one streamed.
Problem slow_link() {
  return test::simple_problem(12, 3, 12);
}

TEST(Policy, GoldenZeroOffload) {
  const Plan plan = make_plan("zero-offload", slow_link());
  EXPECT_EQ(drawn(plan), "CCCCCCCCCCCC");
  EXPECT_NEAR(plan.time.value(), 4, 1e-9);
}

TEST(Policy, GoldenDosStride) {
  // Without a stride: 1 / share = 4 in the optimum.
  EXPECT_EQ(drawn(make_plan("dos-stride", slow_link())), "CCCsCCCsCCCs");
  EXPECT_EQ(drawn(make_plan("dos-stride", slow_link(), {.stride = 5})), "CCCCsCCCCsCC");
  EXPECT_EQ(drawn(make_plan("dos-stride", slow_link(), {.stride = 1})), "ssssssssssss");
  EXPECT_EQ(drawn(make_plan("dos-stride", slow_link(), {.stride = 99})), "CCCCCCCCCCCC");
}

TEST(Policy, GoldenTwinflow) {
  Problem problem = slow_link();
  problem.memory[0].resident = units::gigabytes(37);
  EXPECT_EQ(drawn(make_plan("twinflow", problem)), "RRRCCCCCCCCC");
  EXPECT_EQ(drawn(make_plan("twinflow", problem, {.share = 0.2})), "RRCCCCCCCCCC");
  EXPECT_EQ(drawn(make_plan("twinflow", problem, {.share = 0.0})), "CCCCCCCCCCCC");
  EXPECT_THAT(error_of("twinflow", problem, {.share = 0.5}),
              HasSubstr("the states of 3 of 12 subgroups for ever, 6 are asked for"));
}

TEST(Policy, GoldenGpuOnly) {
  Problem problem = slow_link();
  problem.memory[0].resident = units::gigabytes(24);
  problem.memory[0].update = units::gigabytes(60);
  const Plan plan = make_plan("gpu-only", problem);
  EXPECT_EQ(drawn(plan), "Rsssssssssss");
  // In, update and out of one, and one to spare.
  EXPECT_THAT(plan.window, testing::ElementsAre(4));
}

/// The node of tests/bench/worked_example.toml: 320 subgroups of 16 M parameters, 24 workers of
/// 0.125 Gparam/s, kernel 25 Gparam/s, link 50 GB/s each way, 2 bytes of gradient out and of
/// working parameter in, 23 GB of GPU memory for a window. update_phase simulates, in Gparam/s: all
/// CPU 2.85, stride 2 5.64, 55 % with a window of 8 6.53; bound 6.67. SimGrid shares no DRAM.
Problem simulated_node() {
  Problem problem = test::simple_problem(320, 3, 50);
  for (Subgroup& subgroup : problem.subgroups) subgroup = {16'000'000, 0};
  problem.rates.cpu_workers = 24;
  problem.rates.cpu_worker = units::gparams_per_second(0.125);
  problem.rates.gpus[0].update = units::gparams_per_second(25);
  problem.memory = {{units::gigabytes(23), units::gigabytes(0)}};
  problem.cost.weight = problem.cost.gradient = units::BytesPerParam(2);
  problem.cost.state_buffers = 3;
  problem.rates.task_latency = units::microseconds(5);
  problem.rates.transfer_latency = units::microseconds(10);
  return problem;
}

// Twelve subgroups of one size, nine of them resident: one in four is not, and what is streamed
// does not wait for all residents.
TEST(Policy, SpreadsResidents) {
  const Problem problem = slow_link();
  const units::Bytes nine = problem.held_bytes(0) * 9.0;
  Plan plan = all_cpu(problem);
  spread_residents(problem, plan, {nine});
  spread_streamed(problem, plan, {problem.total() * 0.25});
  const std::string text = drawn(plan);
  EXPECT_EQ(std::ranges::count(text, 'R'), 9);
  EXPECT_EQ(std::ranges::count(text, 's'), 3);
  EXPECT_EQ(text.find("RRRRR"), std::string::npos) << text;
  Plan none = all_cpu(problem);
  spread_residents(problem, none, {nine * 0.1});
  EXPECT_EQ(drawn(none), "CCCCCCCCCCCC") << "no subgroup fits";
}

TEST(Policy, HasWhatAGpuKeepsStayThere) {
  Problem problem = slow_link();
  for (const Index i : {1, 4, 10}) problem.subgroups[static_cast<std::size_t>(i)].kept_on = 0;
  problem.memory = {{.update = units::gigabytes(1000), .resident = units::gigabytes(36)}};
  const PolicyOptions others_move{.residents = false};
  // Nine are left for the policy.
  EXPECT_EQ(drawn(make_plan("zero-offload", problem, others_move)), "CRCCRCCCCCRC");
  EXPECT_EQ(drawn(make_plan("gpu-only", problem, others_move)), "sRssRsssssRs");
  // A share is one of all parameters: three and three of twelve.
  const std::string half = drawn(make_plan("dos", problem, {.share = 0.5, .residents = false}));
  EXPECT_EQ(std::ranges::count(half, 's'), 3) << half;
  const Plan fastest = make_plan("dos", problem, others_move);
  EXPECT_EQ(std::ranges::count(drawn(fastest), 'R'), 3);
  EXPECT_LT(fastest.time.value(), 4 * 9.0 / 12);
  EXPECT_GE(fastest.time.value(), fastest.bound.time.value());
  for (Subgroup& each : problem.subgroups) each.kept_on = 0;
  problem.memory[0].resident = problem.memory[0].update;
  for (const Policy& policy : policies())
    EXPECT_EQ(drawn(make_plan(policy.name, problem)), "RRRRRRRRRRRR") << policy.name;
  problem.subgroups[2].kept_on = 1;
  EXPECT_THAT(error_of("dos", problem), HasSubstr("GPU 1 keeps subgroup 2, this rank has 1"));
}

// Memory for a window is what the GPU does not keep.
TEST(Policy, CountsTheMemoryOfWhatAGpuKeeps) {
  Problem problem = slow_link();
  for (std::size_t i = 0; i < 6; ++i) problem.subgroups[i].kept_on = 0;
  const units::Bytes each = problem.held_bytes(0);
  problem.memory = {{.update = each * 7.5, .resident = each * 6.5}};
  const Plan plan = make_plan("gpu-only", problem, {.residents = false});
  EXPECT_EQ(drawn(plan), "RRRRRRssssss");
  EXPECT_LE(plan.window_memory[0].value(), 1.5 * each.value());
  problem.memory = {{.update = each * 6.5, .resident = each * 6.5}};
  EXPECT_THAT(error_of("gpu-only", problem, {.residents = false}), HasSubstr("GPU 0 has"));
}

// Buffers that are half full take twice the memory of what is in them.
TEST(Policy, CountsTheRoomOfResidents) {
  Problem problem = slow_link();
  const units::Bytes six = problem.held_bytes(0) * 6.0;
  for (Subgroup& each : problem.subgroups) each.room = 2 * each.params;
  for (const auto place : {spread_residents, place_residents, place_largest}) {
    Plan plan = all_cpu(problem);
    place(problem, plan, {six});
    EXPECT_EQ(std::ranges::count(drawn(plan), 'R'), 3);
  }
}

// Their task costs, not their bytes: they neither come and go nor make room for others.
TEST(Policy, LeavesSmallSubgroupsWhereTheyAre) {
  Problem problem = slow_link();
  for (const std::size_t i : {3U, 8U}) problem.subgroups[i].params /= 64;
  const units::Bytes five = problem.held_bytes(0) * 5.5;
  for (const auto place : {spread_residents, place_residents}) {
    Plan plan = all_cpu(problem);
    place(problem, plan, {five});
    spread_streamed(problem, plan, {problem.total()});
    const std::string text = drawn(plan);
    EXPECT_EQ(std::ranges::count(text, 'R'), 7) << text;
    EXPECT_EQ(text[3], 'R') << text;
    EXPECT_EQ(text[8], 'R') << text;
  }
  Plan none = all_cpu(problem);
  spread_residents(problem, none, {units::Bytes(0)});
  spread_streamed(problem, none, {problem.total() * 0.99});
  EXPECT_EQ(drawn(none), "sssCssssCsss");
  EXPECT_EQ(drawn(make_plan("gpu-only", problem, {.residents = false})), "ssssssssssss");
}

// A GPU that updates what another one uses holds its gradient and its working parameter, too.
TEST(Policy, WindowsHoldWhatAnotherGpuUses) {
  Problem problem = slow_link();
  problem.rates.gpus.push_back(problem.rates.gpus[0]);
  problem.cost.weight = problem.cost.gradient = units::BytesPerParam(2);
  for (Subgroup& each : problem.subgroups) each.user = 1;
  problem.memory.assign(2, {.update = problem.held_bytes(0) * 4.1, .resident = {}});
  Plan plan = all_cpu(problem);
  for (std::size_t i = 0; i < plan.assignments.size(); ++i)
    plan.assignments[i] = streamed_to(static_cast<Index>(i % 2));
  const Index most = useful_window(problem, 0, problem.largest());
  ASSERT_GE(most, 4);
  set_windows(problem, plan, {});
  EXPECT_THAT(plan.window, testing::ElementsAre(3, 4)) << "16 bytes a parameter, and 12";
  problem.memory[0].update = problem.held_bytes(0);
  set_windows(problem, plan, {});
  EXPECT_EQ(plan.window[0], 1) << "one is always possible";
}

// While one waits, others come.
TEST(Policy, WindowsHoldWhatWaitsForTheGpu) {
  Problem problem = slow_link();
  const Index at_once = useful_window(problem, 0, problem.largest());
  perfmodels::GpuRates& gpu = problem.rates.gpus[0];
  const units::Params size(static_cast<double>(problem.largest()));
  const units::Seconds slower =
      problem.rates.transfer_latency * static_cast<double>(problem.cost.state_buffers) +
      std::max(size * problem.cost.streamed_in() / gpu.h2d,
               size * problem.cost.streamed_out() / gpu.d2h);
  for (const Index others : {1, 2, 7}) {
    gpu.wait = slower * static_cast<double>(others);
    EXPECT_EQ(useful_window(problem, 0, problem.largest()), at_once + others);
  }
}

TEST(Policy, SpreadsResidentsWhereTheGpuHoldsMost) {
  Problem problem = simulated_node();
  // Two thirds of the states fit; the link brings others while the GPU updates these.
  problem.memory[0].update = problem.memory[0].resident = units::gigabytes(40);
  const Plan plan = make_plan("dos", problem);
  std::vector<Index> streamed;
  for (const Index i : plan.gpu_order(0))
    if (is_streamed(plan.assignments[static_cast<std::size_t>(i)])) streamed.push_back(i);
  ASSERT_FALSE(streamed.empty());
  EXPECT_LT(streamed.front(), 32) << "a tenth of the order";
}

TEST(Policy, GoldenDos) {
  const Plan plan = make_plan("dos", slow_link());
  // Nine on the CPU in 3 s and three streamed in 3 + 1 s of drain, or ten in 3.33 and two in 3.
  EXPECT_EQ(drawn(plan), "CCsCCCCCsCCC");
  EXPECT_NEAR(plan.time.value(), 10.0 / 3, 1e-5);
  EXPECT_NEAR(plan.bound.time.value(), 3, 1e-4);
  Problem roomy = slow_link();
  roomy.memory[0].resident = units::gigabytes(30);
  // Residents at the front; they leave the CPU and the link less to do.
  EXPECT_THAT(drawn(make_plan("dos", roomy)), testing::StartsWith("RR"));
}

TEST(Policy, DosTakesTheShareThatIsAskedFor) {
  EXPECT_EQ(drawn(make_plan("dos", slow_link(), {.share = 0.5})), "sCsCsCsCsCsC");
  EXPECT_EQ(drawn(make_plan("dos", slow_link(), {.stride = 3})), "CsCCsCCsCCsC");
  EXPECT_EQ(drawn(make_plan("dos", slow_link(), {.share = 0.0})), "CCCCCCCCCCCC");
  EXPECT_EQ(drawn(make_plan("dos", slow_link(), {.share = 1.0})), "ssssssssssss");
}

TEST(Policy, SpreadsByParametersNotByCount) {
  Problem problem = slow_link();
  for (std::size_t i = 0; i < problem.subgroups.size(); ++i)
    problem.subgroups[i].params = i % 2 == 0 ? 1'000'000'000 : 200'000'000;
  const Plan plan = make_plan("dos", problem, {.share = 0.5});
  EXPECT_NEAR(plan.gpu_share(problem), 0.5, 0.5 / 7.2);
}

TEST(Policy, AGpuThatCannotHelpGetsNothing) {
  const Plan slow = make_plan("dos", test::simple_problem(4, 10, 1));
  EXPECT_EQ(drawn(slow), "CCCC");
  EXPECT_EQ(slow.reason, "the GPU cannot help: every update on the CPU");
  Problem none = test::simple_problem(4, 1, 12);
  none.rates.gpus.clear();
  none.memory.clear();
  for (const char* policy : {"dos", "dos-stride"}) {
    const Plan plan = make_plan(policy, none);
    EXPECT_EQ(drawn(plan), "CCCC");
    EXPECT_EQ(plan.reason, "there is no GPU: every update on the CPU");
  }
  for (const char* policy : {"zero-offload", "twinflow"})
    EXPECT_EQ(drawn(make_plan(policy, none)), "CCCC");
}

TEST(Policy, OneSubgroup) {
  EXPECT_EQ(drawn(make_plan("dos", test::simple_problem(1, 1, 12))), "C");
  EXPECT_EQ(drawn(make_plan("dos", test::simple_problem(1, 1, 48))), "s");
}

TEST(Policy, SeveralGpusShareTheWork) {
  Problem problem = test::simple_problem(12, 1, 60);
  problem.rates.gpus.push_back(problem.rates.gpus[0]);
  problem.memory.push_back(problem.memory[0]);
  const Plan plan = make_plan("gpu-only", problem);
  EXPECT_EQ(plan.gpu_order(0).size(), 6U);
  EXPECT_EQ(plan.gpu_order(1).size(), 6U);
}

TEST(Policy, WorkingParametersOfEarlyLayersAreReadyEarly) {
  Problem problem = test::simple_problem(40, 3, 48);
  problem.cost.weight = units::BytesPerParam(2);
  const Plan plan = make_plan("dos", problem);
  const Replay replayed = replay(problem, plan);
  EXPECT_LT(replayed.first_ready.value(), 0.1 * replayed.makespan.value());
}

TEST(Policy, AgreesWithASimulationOfStarPu) {
  const Problem problem = simulated_node();
  const auto rate = [&](const std::string& policy, const PolicyOptions& options) {
    return (problem.total() / make_plan(policy, problem, options).time).value() / 1e9;
  };
  const Plan dos = make_plan("dos", problem);
  EXPECT_NEAR((problem.total() / dos.bound.time).value() / 1e9, 6.67, 0.01);
  EXPECT_GE(dos.bound.time / dos.time, 0.95);
  // 5 %: the runtime's own costs are not in the replay.
  EXPECT_NEAR(rate("zero-offload", {}), 2.85, 0.05 * 2.85);
  EXPECT_NEAR(rate("dos-stride", {.stride = 2}), 5.64, 0.05 * 5.64);
  EXPECT_NEAR(rate("dos", {.share = 0.55, .window = 8}), 6.53, 0.05 * 6.53);
}

TEST(Policy, ErrorsSayWhatToDo) {
  const Problem problem = slow_link();
  EXPECT_THAT(error_of("dos-strid", problem),
              HasSubstr("unknown policy 'dos-strid' (did you mean 'dos-stride'?); known: dos, "));
  EXPECT_THAT(error_of("dos", problem, {.share = 1.5}), HasSubstr("sched.share = 1.5 must lie"));
  EXPECT_THAT(error_of("dos", problem, {.share = -0.1}), HasSubstr("sched.share = -0.1 must lie"));
  EXPECT_THAT(error_of("dos", problem, {.stride = 0}), HasSubstr("sched.stride = 0 must be"));
  EXPECT_THAT(error_of("dos", problem, {.window = 0}), HasSubstr("sched.window = 0 must be"));
  EXPECT_THAT(error_of("dos", problem, {.stride = 2, .share = 0.5}), HasSubstr("not both"));
  EXPECT_THAT(error_of("dos-stride", problem, {.published = true}),
              HasSubstr("no [published] rates"));
  Problem small = slow_link();
  small.memory[0].update = units::gigabytes(11);
  EXPECT_THAT(error_of("gpu-only", small),
              HasSubstr("11.000 GB free for states during the update, one subgroup of 1000000000 "
                        "parameters needs 12.000 GB"));
  EXPECT_THAT(error_of("dos", small, {.share = 0.5}),
              HasSubstr("use a smaller sched.subgroup_params or policy zero-offload"));
  Problem full = slow_link();
  full.memory[0].update = units::gigabytes(0);
  EXPECT_THAT(error_of("gpu-only", full), HasSubstr("needs 12.000 GB: use policy zero-offload"));
  EXPECT_EQ(drawn(make_plan("dos", small)), "CCCCCCCCCCCC");
  small.memory[0].update = units::gigabytes(30);
  EXPECT_THAT(error_of("dos-stride", small, {.stride = 2, .window = 5}), HasSubstr("at most 2"));
  Problem none = slow_link();
  none.rates.gpus.clear();
  EXPECT_THAT(error_of("dos", none), HasSubstr("0 GPUs, but memory of 1"));
  none.memory.clear();
  EXPECT_THAT(error_of("gpu-only", none), HasSubstr("needs a GPU"));
  EXPECT_THAT(error_of("dos", none, {.share = 0.5}), HasSubstr("needs a GPU"));
  none.subgroups.clear();
  EXPECT_THAT(error_of("dos", none), HasSubstr("nothing to plan"));
}

TEST(Policy, RatesAndSizesAreChecked) {
  Problem problem = slow_link();
  problem.rates.dram = units::BytesPerSecond(0);
  EXPECT_THAT(error_of("dos", problem), HasSubstr("rate dram = 0 must be positive"));
  problem = slow_link();
  problem.subgroups[3].params = 0;
  EXPECT_THAT(error_of("dos", problem), HasSubstr("subgroup 3 has 0 parameters"));
  problem = slow_link();
  problem.subgroups[3].depth = 1;
  EXPECT_THAT(error_of("dos", problem), HasSubstr("subgroup 3 of depth 1 stands behind depth 2"));
}

TEST(Registry, NamesAreUniqueAndKnown) {
  EXPECT_EQ(std::string(policies().front().name), "dos");
  for (const Policy& policy : policies())
    EXPECT_EQ(find_policy(policy.name).plan, policy.plan) << policy.name;
}

}  // namespace
}  // namespace dos::sched::policy_test
