// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "checkpoint/listing.hpp"
#include "checkpoint/writer.hpp"
#include "io/checkpoint_directory.hpp"
#include "optim/optimizer.hpp"
#include "rt/handle.hpp"
#include "rt/session.hpp"
#include "rt/submitter.hpp"
#include "shape/cutter.hpp"
#include "shape/family_shape.hpp"
#include "storage/engine.hpp"
#include "tensor/parameter_set.hpp"

namespace dos::test {

inline shape::Layout checkpointed_layout(Index subgroup_params) {
  return shape::cut_into_subgroups(shape::find_family("gpt2").parameters({"gpt2", 2, 24, 2, 8, 61}),
                                   subgroup_params, {});
}

/// Parameters of a model whose steps have drawn gradients, and their checkpoints.
struct CheckpointedTraining {
  CheckpointedTraining(rt::Session& the_session, Index subgroup_params, const std::string& rule,
                       const std::filesystem::path& out, float clip = 1)
      : session(the_session),
        submitter(session),
        parameters(session, checkpointed_layout(subgroup_params)),
        optimizer(optim::make_optimizer(session, parameters, {.rule = rule, .clip = clip})),
        norm(session, {.name = "norm", .type = DType::kF64, .count = 1}),
        store(out, /*keep=*/100),
        engine({}, storage::make_backend()),
        writer({.engine = engine, .exchange = nullptr}, parameters, *optimizer) {}

  /// What became of the checkpoint of a step.
  checkpoint::Outcome step(Index step, double learning_rate, bool asks_for_sums) {
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

  checkpoint::Outcome save(Index step) {
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
  checkpoint::Writer writer;
};

inline void expect_intact(const std::filesystem::path& out, std::size_t count) {
  const std::vector<checkpoint::Listed> all = checkpoint::list_checkpoints(out, /*verifies=*/true);
  EXPECT_EQ(all.size(), count);
  for (const checkpoint::Listed& each : all) EXPECT_EQ(each.fault, "") << each.step;
}

}  // namespace dos::test
