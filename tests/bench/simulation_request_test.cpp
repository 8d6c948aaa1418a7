// SPDX-License-Identifier: Apache-2.0
#include "simulated/simulation_request.hpp"

#include <gmock/gmock.h>

#include <cstdlib>

#include "base/error.hpp"
#include "message_of.hpp"
#include "simulated/node_protocol.hpp"

namespace dos::bench::simulation_request_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::filesystem::path machines() {
  return std::filesystem::path(std::getenv("DOS_SOURCE_DIR")) / "perfmodels/machines";
}

Request request(const std::string& machine = "h100") {
  return {.machine = machine, .params = "1G", .subgroup = "8M", .gpu_memory = 2.5};
}

std::string error_of(const Request& request) {
  return test::message_of<Error>([&] { prepare(request, machines()); });
}

TEST(ParseParams, ReadsNumbersAndSuffixes) {
  EXPECT_EQ(parse_params("--params", "1", 1), 1);
  EXPECT_EQ(parse_params("--params", "0", 0), 0);
  EXPECT_EQ(parse_params("--params", "16000000", 1), 16'000'000);
  EXPECT_EQ(parse_params("--params", "16M", 1), 16'000'000);
  EXPECT_EQ(parse_params("--params", "5.12G", 1), 5'120'000'000);
  EXPECT_EQ(parse_params("--params", "5.12e9", 1), 5'120'000'000);
  EXPECT_EQ(parse_params("--params", "3K", 1), 3000);
}

TEST(ParseParams, RefusesWhatIsNoWholeNumberOfParameters) {
  for (const char* text : {"", "x", "0", "-1", "1.5", "16MB", "16 M", "1e300", "inf", "nan"})
    EXPECT_THAT(test::message_of<Error>([&] { parse_params("--params", text, 1); }),
                AllOf(HasSubstr("--params " + std::string(text)), HasSubstr("at least 1")));
}

TEST(MachineOf, FindsTheNodeWithEnoughGpus) {
  EXPECT_EQ(machine_of("h100", 1, machines()).name, "h100");
  EXPECT_EQ(machine_of("h100", 4, machines()).name, "h100-4x");
  EXPECT_EQ(machine_of("h100", 2, machines()).name, "h100-4x");
  EXPECT_EQ(machine_of("h100-4x", 1, machines()).name, "h100-4x");
  EXPECT_THAT(test::message_of<Error>([] { machine_of("h100", 3, machines()); }),
              AllOf(HasSubstr("--gpus 3"), HasSubstr("h100 has 1, h100-4x has 4")));
  EXPECT_THAT(test::message_of<Error>([] { machine_of("cpu-2core", 1, machines()); }),
              HasSubstr("no GPU in it"));
  EXPECT_THAT(test::message_of<Error>([] { machine_of("h1000", 1, machines()); }),
              AllOf(HasSubstr("unknown machine 'h1000'"), HasSubstr("did you mean")));
}

TEST(Prepare, GivesARankItsPartOfTheNode) {
  const UpdatePhase quarter = prepare(request("h100-4x"), machines());
  EXPECT_EQ(quarter.problem.rates.cpu_workers, 24);
  EXPECT_EQ(quarter.problem.gpus(), 1);
  EXPECT_EQ(quarter.problem.subgroups.size(), 125U);
  EXPECT_EQ(quarter.cut.size, 8'000'000);
  Request all = request("h100");
  all.gpus = 4;
  const UpdatePhase whole = prepare(all, machines());
  EXPECT_EQ(whole.problem.rates.cpu_workers, 96);
  EXPECT_EQ(whole.problem.gpus(), 4);
}

// 2.5 GB for states and 4 bytes a parameter for the model are what 97 % of the memory holds.
TEST(Prepare, LeavesRoomForTheModelAndTheReserve) {
  const UpdatePhase phase = prepare(request(), machines());
  EXPECT_DOUBLE_EQ(phase.gpu_memory.value(), (2.5e9 + 4e9) / 0.97);
  EXPECT_DOUBLE_EQ(phase.problem.memory.front().update.value(), 2.5e9);
  Request own = request();
  own.gpu_memory.reset();
  EXPECT_DOUBLE_EQ(prepare(own, machines()).gpu_memory.value(), 80e9);
}

TEST(Prepare, LetsThePlannerChooseTheSizeOfSubgroups) {
  Request free = request();
  free.subgroup = "0";
  const UpdatePhase phase = prepare(free, machines());
  EXPECT_GE(phase.cut.size, 500'000);
  EXPECT_LE(phase.problem.held_bytes(0).value(), 2.5e9);
}

// The small ones beside large ones are few, though small enough to cut all into 200,000.
TEST(Prepare, ChoosesFewSubgroupsOfAHugeModel) {
  Request huge = request();
  huge.params = "100G";
  huge.subgroup = "0";
  huge.gpu_memory = 1120;
  EXPECT_LE(prepare(huge, machines()).problem.subgroups.size(), 2500U);
}

TEST(Prepare, NamesWhatIsWrong) {
  Request none = request();
  none.gpus = 0;
  EXPECT_THAT(error_of(none), HasSubstr("--gpus 0"));
  Request memory = request();
  for (const double wrong : {0.0, -1.0}) {
    memory.gpu_memory = wrong;
    EXPECT_THAT(error_of(memory), AllOf(HasSubstr("--gpu-memory"), HasSubstr("positive")));
  }
  Request steps = request();
  steps.steps = 0;
  EXPECT_THAT(error_of(steps), HasSubstr("--steps 0"));
  steps.steps = 1'000'001;
  EXPECT_THAT(error_of(steps), HasSubstr("--steps 1000001: must be 1 to 1000000"));
  Request subgroup = request();
  subgroup.subgroup = "1";
  EXPECT_THAT(error_of(subgroup), AllOf(HasSubstr("--subgroup 1: makes 1000000000 subgroups"),
                                        HasSubstr("at least 10000")));
  Request params = request();
  params.params = "0";
  EXPECT_THAT(error_of(params), HasSubstr("--params 0"));
  Request stride = request();
  stride.options.stride = 0;
  EXPECT_THAT(error_of(stride), HasSubstr("stride"));
}

TEST(Prepare, RefusesMemoryThatHoldsNoSubgroup) {
  Request small = request();
  small.gpu_memory = 0.01;
  EXPECT_THAT(error_of(small), AllOf(HasSubstr("--gpu-memory: 0.01 GB"), HasSubstr("8000000"),
                                     HasSubstr("0.096 GB"), HasSubstr("--subgroup")));
  small.policy = "zero-offload";
  EXPECT_EQ(error_of(small), "");
  Request model = request("rtx4090");
  model.gpu_memory.reset();
  model.params = "10G";
  EXPECT_THAT(error_of(model), AllOf(HasSubstr("40 GB of each GPU"), HasSubstr("rtx4090")));
}

TEST(Exchange, CarriesTaskAndResult) {
  const NodeTask task{.policy = "dos",
                      .options = {.stride = 2, .share = 0.5, .window = 3, .residents = false},
                      .params = 7,
                      .cut = {.size = 3, .large = 1, .large_params = 4},
                      .gpus = 2,
                      .cpu_workers = 5,
                      .cpu_rate = 1.5,
                      .gpu_rate = 2.5,
                      .steps = 4};
  const NodeTask read = read_message<NodeTask>(write_message(task));
  EXPECT_EQ(write_message(read), write_message(task));
  EXPECT_EQ(read.options.window, 3);
  EXPECT_FALSE(read_message<NodeTask>(write_message(NodeTask{.policy = "lws"})).options.stride);
  const NodeResult result{.steps = {{1.5, 2, 3}}, .plan = "p", .obstacle = "o", .gpu_share = 0.5};
  EXPECT_EQ(write_message(read_message<NodeResult>(write_message(result))), write_message(result));
  EXPECT_EQ(test::message_of<Error>(
                [] { read_message<NodeResult>(failure_message("no \"such\" thing")); }),
            "no \"such\" thing");
}

}  // namespace
}  // namespace dos::bench::simulation_request_test
