// SPDX-License-Identifier: Apache-2.0
// Updates that go ahead of the norm, as plan has them.
#include "planner/ahead_forecast.hpp"

#include <gmock/gmock.h>

#include "base/error.hpp"
#include "message_of.hpp"
#include "planner/plan_report.hpp"
#include "planner/planner.hpp"
#include "requests.hpp"
#include "sched/replay.hpp"

namespace dos::planner::ahead_forecast_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Request asked(SpeculationChoice choice, const std::string& machine = "h100-4x",
              const std::string& model = "llama-7b", Index ranks = 4) {
  Request request = test::request(machine, model, ranks);
  request.settings.speculation = choice;
  // GPU memory for updates, for few residents.
  request.settings.gpu_limit = units::gigabytes(20);
  request.settings.exchange = ExchangeWay::kCollective;
  return request;
}

std::string text_of(const Request& request) {
  const Forecast result = forecast(request);
  return report_text(request, result, sched::replay(result.problem, result.plan, true));
}

TEST(PlanAhead, CountsSecondBanksAndOverlapsThePhases) {
  const Forecast waiting = forecast(asked(SpeculationChoice::kOff));
  const Forecast ahead = forecast(asked(SpeculationChoice::kOn));
  EXPECT_EQ(waiting.ahead.subgroups, 0);
  EXPECT_EQ(ahead.ahead.subgroups, std::ssize(ahead.problem.subgroups));
  const units::Bytes banks = ahead.problem.total() * ahead.problem.cost.state;
  EXPECT_DOUBLE_EQ(ahead.ahead.banks.value(), banks.value());
  EXPECT_DOUBLE_EQ(ahead.host.of(MemoryCategory::kSecondBanks).value(), 4 * banks.value());
  EXPECT_EQ(waiting.host.of(MemoryCategory::kSecondBanks).value(), 0);
  EXPECT_LT(ahead.step, waiting.step);
  EXPECT_GE(ahead.step, ahead.step_bound.time);
  EXPECT_GE(ahead.step, ahead.phases.forward + ahead.phases.backward);
  // No more is hidden than lies beside backward.
  EXPECT_GT(ahead.ahead.hidden(), units::Seconds(0));
  EXPECT_LT(ahead.ahead.hidden(), ahead.phases.backward);
}

TEST(PlanAhead, TakesWhatMemoryIsLeftTheLastLayersFirst) {
  Request request = asked(SpeculationChoice::kAuto);
  const double without = forecast(asked(SpeculationChoice::kOff)).host.total().value();
  const double banks = forecast(request).ahead.banks.value() * 4;
  // States that stay on GPUs have no memory here: fewer do beside second banks.
  request.settings.host_limit = units::Bytes((without + banks) / 4);
  const Forecast some = forecast(request);
  EXPECT_GT(some.ahead.subgroups, 0);
  EXPECT_LT(some.ahead.subgroups, std::ssize(some.problem.subgroups));
  EXPECT_TRUE(some.host.fits());
  EXPECT_LE(some.ahead.banks.value() * 4, 0.75 * banks);
  request.settings.speculation = SpeculationChoice::kOn;
  request.settings.host_limit = units::Bytes(without / 4);
  EXPECT_FALSE(forecast(request).host.fits());
}

TEST(PlanAhead, SaysWhatComesOfIt) {
  EXPECT_THAT(text_of(asked(SpeculationChoice::kAuto)),
              AllOf(HasSubstr("ahead of the norm: updates of"), HasSubstr("are hidden"),
                    HasSubstr("second banks"), HasSubstr("--set optim.speculate=auto")));
  EXPECT_THAT(text_of(asked(SpeculationChoice::kOff)),
              AllOf(Not(HasSubstr("ahead of the norm")), Not(HasSubstr("speculate"))));
  const Request request = asked(SpeculationChoice::kOn);
  EXPECT_THAT(report_json(request, forecast(request)),
              AllOf(HasSubstr("\"hidden_s\""), HasSubstr("\"optim.speculate\": \"on\"")));
}

TEST(PlanAhead, IsTakenByItselfOnlyWhereItGains) {
  for (const double gigabytes : {20.0, 30.0, 60.0})
    for (const Index micro_batch : {1, 4, 16}) {
      SCOPED_TRACE(gigabytes);
      Request request = asked(SpeculationChoice::kOff);
      request.micro_batch = micro_batch;
      request.settings.gpu_limit = units::gigabytes(gigabytes);
      const Forecast waiting = forecast(request);
      EXPECT_EQ(waiting.ahead.hidden(), units::Seconds(0));
      request.settings.speculation = SpeculationChoice::kAuto;
      const Forecast chosen = forecast(request);
      EXPECT_LE(chosen.step, waiting.step);
      EXPECT_GE(chosen.gpu.fits(), waiting.gpu.fits());
    }
}

TEST(PlanAhead, HidesNothingWhereCpusCompute) {
  Request request = asked(SpeculationChoice::kOn, "h100", "gpt2-124m", 1);
  request.machine.gpus.value = 0;
  request.settings.gpu_limit = units::Bytes(0);
  const Forecast ahead = forecast(request);
  EXPECT_GT(ahead.ahead.banks, units::Bytes(0));
  EXPECT_EQ(ahead.ahead.hidden(), units::Seconds(0));
  EXPECT_THAT(text_of(request), HasSubstr("CPUs compute forward and backward"));
  request.settings.speculation = SpeculationChoice::kAuto;
  EXPECT_EQ(forecast(request).ahead.subgroups, 0);
}

TEST(PlanAhead, NeedsWorkingParametersOfTheirOwn) {
  Request request = asked(SpeculationChoice::kOn);
  request.settings.fp32 = true;
  EXPECT_THAT(test::message_of<Error>([&] { forecast(request); }),
              HasSubstr("optim.speculate = on needs train.precision=bf16"));
  request.settings.speculation = SpeculationChoice::kAuto;
  EXPECT_EQ(forecast(request).ahead.subgroups, 0);
}

}  // namespace
}  // namespace dos::planner::ahead_forecast_test
