// SPDX-License-Identifier: Apache-2.0
// Sums that updates leave for the checkpoint of their step: the bytes are read no more for them,
// and a checkpoint with them is what the step made.
#include "checkpoint/step_sums.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <limits>

#include "base/error.hpp"
#include "base/random.hpp"
#include "checkpoint/listing.hpp"
#include "checkpoint/writer.hpp"
#include "scratch_directory.hpp"
#include "shape/cutter.hpp"
#include "shape/family_shape.hpp"

namespace dos::checkpoint::step_sums_test {
namespace {

using End = Outcome::End;

shape::Layout layout(Index subgroup_params) {
  return shape::cut_into_subgroups(shape::find_family("gpt2").parameters({"gpt2", 2, 24, 2, 8, 61}),
                                   subgroup_params, {});
}

/// Parameters of a model whose steps have drawn gradients, and their checkpoints.
struct Training {
  Training(rt::Session& the_session, Index subgroup_params, const std::string& rule,
           const std::filesystem::path& out, float clip = 1)
      : session(the_session),
        submitter(session),
        parameters(session, layout(subgroup_params)),
        optimizer(optim::make_optimizer(session, parameters, {.rule = rule, .clip = clip})),
        norm(session, {.name = "norm", .type = DType::kF64, .count = 1}),
        store(out, /*keep=*/100),
        engine({}, storage::make_backend()),
        writer({.engine = engine, .exchange = nullptr}, parameters, *optimizer) {}

  /// What became of the checkpoint of a step.
  Outcome step(Index step, double learning_rate, bool asks_for_sums) {
    for (Index i = 0; i < std::ssize(parameters.layout().subgroups); ++i) {
      const rt::HostAccess access(parameters.gradients()[i], rt::Mode::kWrite);
      const std::span<float> values = access.as<float>();
      const Philox random(static_cast<std::uint64_t>(i));
      for (std::size_t e = 0; e < values.size(); ++e)
        values[e] = random.normal(e, static_cast<std::uint64_t>(step));
    }
    optimizer->set_sums(asks_for_sums ? writer.sums(session)
                                      : std::span<const std::unique_ptr<rt::Handle>>());
    optimizer->submit_step(submitter, step, learning_rate, norm);
    writer.updates_submitted();
    return save(step);
  }

  Outcome save(Index step) {
    io::CheckpointManifest manifest;
    manifest.step = step;
    writer.begin(store, manifest, /*mark_best=*/false);
    writer.confirm(step);
    writer.settle();
    return writer.take_ended().at(0);
  }

  rt::Session& session;
  rt::Submitter submitter;
  tensor::ParameterSet parameters;
  std::unique_ptr<optim::Optimizer> optimizer;
  rt::Handle norm;
  io::CheckpointStore store;
  storage::Engine engine;
  Writer writer;
};

void expect_intact(const std::filesystem::path& out, std::size_t count) {
  const std::vector<Listed> all = list_checkpoints(out, /*verifies=*/true);
  EXPECT_EQ(all.size(), count);
  for (const Listed& each : all) EXPECT_EQ(each.fault, "") << each.step;
}

TEST(StepSums, AreOfTheStepThatAskedForThem) {
  const test::ScratchDirectory scratch;
  rt::Session session({.scheduler = "", .cpu_workers = 2});
  for (const char* rule : {"adamw", "sgd"})
    // Matrices in many subgroups, in few, and pieces of several tensors in one.
    for (const Index subgroup_params : {100, 1000, 1'000'000}) {
      SCOPED_TRACE(fmt::format("{} {}", rule, subgroup_params));
      const auto out = scratch / fmt::format("{}{}", rule, subgroup_params);
      Training run(session, subgroup_params, rule, out);
      for (Index step = 1; step <= 4; ++step) {
        const bool asks = step != 3;
        const Outcome outcome = run.step(step, 1e-2, asks);
        EXPECT_EQ(outcome.end, End::kCommitted) << outcome.fault;
        EXPECT_GT(outcome.bytes, 0);
        EXPECT_EQ(outcome.summed_bytes, asks ? 0 : outcome.bytes) << step;
      }
      expect_intact(out, 4);
    }
}

TEST(StepSums, AreForgottenWithTheParameters) {
  const test::ScratchDirectory scratch;
  rt::Session session({.scheduler = "", .cpu_workers = 2});
  Training run(session, 1000, "adamw", scratch / "out");
  EXPECT_EQ(run.step(5, 1e-2, true).summed_bytes, 0);
  run.writer.forget();
  run.optimizer->set_sums({});
  // As after loading: the same step, other bytes, no update.
  {
    const rt::HostAccess access(run.parameters.values()[0], rt::Mode::kReadWrite);
    access.as<float>()[0] = 7;
  }
  const Outcome outcome = run.save(5);
  EXPECT_EQ(outcome.summed_bytes, outcome.bytes);
  expect_intact(scratch / "out", 1);
}

TEST(StepSums, KnowWhatIsNotFinite) {
  const test::ScratchDirectory scratch;
  rt::Session session({.scheduler = "", .cpu_workers = 2});
  for (const bool asks : {true, false}) {
    SCOPED_TRACE(asks);
    Training run(session, 1000, "sgd", scratch / fmt::format("out{}", asks), /*clip=*/0);
    // Gradients above 1 overflow.
    const Outcome outcome = run.step(1, std::numeric_limits<float>::max(), asks);
    EXPECT_EQ(outcome.end, End::kDropped);
    EXPECT_NE(outcome.bad_tensor, "");
    EXPECT_EQ(outcome.summed_bytes > 0, !asks);
  }
}

// A device makes no sums: what it has updated is read once more.
TEST(StepSums, OfUpdatesOnADeviceAreMadeLater) {
  ::setenv("STARPU_OPENCL_ON_CPUS", "1", 1);
  if (!rt::has_opencl()) GTEST_SKIP() << "this StarPU was built without OpenCL";
  std::optional<rt::Session> session;
  try {
    session.emplace(rt::SessionConfig{.scheduler = "eager", .cpu_workers = 1, .opencl_workers = 1});
  } catch (const Error& error) {
    GTEST_SKIP() << "no OpenCL device: " << error.what();
  }
  const test::ScratchDirectory scratch;
  Training run(*session, 100, "adamw", scratch / "out");
  for (Index step = 1; step <= 4; ++step)
    EXPECT_EQ(run.step(step, 1e-2, /*asks_for_sums=*/true).end, End::kCommitted);
  expect_intact(scratch / "out", 4);
}

}  // namespace
}  // namespace dos::checkpoint::step_sums_test
