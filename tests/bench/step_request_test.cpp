// SPDX-License-Identifier: Apache-2.0
#include "simulated/step_request.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/error.hpp"
#include "message_of.hpp"

namespace dos::bench::step_request_test {
namespace {

using testing::HasSubstr;

SimulatedStep prepared(StepRequest request) {
  request.settings.exchange = planner::ExchangeWay::kCollective;
  return prepare(request,
                 std::filesystem::path(std::getenv("DOS_SOURCE_DIR")) / "perfmodels/machines");
}

StepRequest request() {
  return {.machine = "a100-4x", .model = "llama-7b", .trace = "trace"};
}

std::string error_of(const StepRequest& request) {
  return test::message_of<Error>([&] { prepared(request); });
}

TEST(PrepareStep, IsTheStepOfOneRank) {
  const SimulatedStep step = prepared(request());
  // 5.949 G parameters over 4 ranks; 32 layers between embeddings and output.
  Index params = 0;
  for (const sched::Subgroup& each : step.task.subgroups) params += each.params;
  EXPECT_NEAR(static_cast<double>(params), 5.949e9 / 4, 1e6);
  ASSERT_EQ(step.task.depths.size(), 34U);
  // Recomputation keeps the input of each layer: 4096 numbers of 2 bytes for each of 2048 tokens.
  EXPECT_EQ(step.task.depths[0].activations, 0);
  EXPECT_EQ(step.task.depths[1].activations, 4096 * 2 * 2048);
  EXPECT_EQ(step.task.depths[33].activations, 0);
  // Twice the products of forward, and forward once more.
  EXPECT_GT(step.task.depths[5].backward, 2 * step.task.depths[5].forward);
  EXPECT_LE(step.node.gpu_memory.value(), 40e9);
}

TEST(PrepareStep, MemoryForStatesComesOnTopOfTheModel) {
  StepRequest little = request();
  little.state_memory = 1;
  StepRequest more = request();
  more.state_memory = 3;
  // 2 GB, and the part of it that the scheduler leaves free.
  EXPECT_NEAR(prepared(more).node.gpu_memory.value() - prepared(little).node.gpu_memory.value(),
              2e9 / 0.97, 1);
}

TEST(PrepareStep, HasStatesWhereATrainingHasThem) {
  StepRequest small = {.machine = "h100", .model = "llama-7b", .trace = "trace"};
  small.disks = {"6:5", "3:2:4"};
  EXPECT_EQ(prepared(small).task.slots, 0) << "the host holds all";
  planner::set_host_limit(small.settings, 40);
  const SimulatedStep step = prepared(small);
  EXPECT_EQ(step.task.slots, 12) << "four workers a disk, and four";
  EXPECT_NEAR((step.on_gpu + step.in_host + step.on_disk).value(), 12 * 5.949e9, 1e7);
  EXPECT_GT(step.on_gpu.value(), 48e9);
  EXPECT_LT(step.in_host.value(), 40e9);
  std::vector<std::size_t> away = step.task.on_disk;
  away.insert(away.end(), step.task.on_gpu.begin(), step.task.on_gpu.end());
  std::ranges::sort(away);
  EXPECT_EQ(std::ranges::adjacent_find(away), away.end()) << "one home each";
  EXPECT_LT(away.back(), step.task.subgroups.size());
  ASSERT_EQ(step.task.disks.size(), 2U);
  EXPECT_DOUBLE_EQ(step.task.disks[0].read, 6e9);
  EXPECT_DOUBLE_EQ(step.task.disks[0].write, 5e9);
  EXPECT_EQ(step.task.disks[0].both, 0) << "they take turns";
  EXPECT_DOUBLE_EQ(step.task.disks[1].both, 4e9);
  small.settings.policy.residents = false;
  EXPECT_TRUE(prepared(small).task.on_gpu.empty());
  for (const char* text : {"6", "6:x", "6:5:4:3", "0:1", "6:-1", "6:inf", ""}) {
    small.disks = {text};
    EXPECT_THAT(error_of(small), HasSubstr(fmt::format("--disk {}: ", text)));
  }
}

TEST(PrepareStep, NamesWhatIsWrong) {
  StepRequest wrong = request();
  wrong.model = "llama-8b";
  EXPECT_THAT(error_of(wrong), HasSubstr("unknown --model 'llama-8b' (did you mean 'llama-"));
  wrong = request();
  wrong.ranks = 2;
  EXPECT_THAT(error_of(wrong), HasSubstr("--ranks 2"));
  wrong = request();
  wrong.micro_batch = 1000;
  EXPECT_THAT(error_of(wrong), HasSubstr("--micro-batch 1000 of llama-7b needs"));
  wrong = request();
  wrong.settings.rule_states = 1;
  EXPECT_THAT(error_of(wrong), HasSubstr("the simulated step is AdamW's"));
  wrong = request();
  wrong.trace = "";
  EXPECT_THAT(error_of(wrong), HasSubstr("--trace"));
}

TEST(StepExchange, CarriesTaskAndResult) {
  const StepTask task = prepared(request()).task;
  EXPECT_EQ(write_message(read_message<StepTask>(write_message(task))), write_message(task));
  const StepResult result = read_message<StepResult>(
      write_message(StepResult{.seconds = {1, 2}, .link_bytes = 3, .plan = "p", .obstacle = ""}));
  EXPECT_EQ(result.seconds, (std::vector<double>{1, 2}));
  EXPECT_EQ(result.link_bytes, 3);
  EXPECT_THROW(read_message<StepResult>(R"({"error": "no GPU"})"), Error);
}

}  // namespace
}  // namespace dos::bench::step_request_test
