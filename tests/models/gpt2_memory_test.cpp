// SPDX-License-Identifier: Apache-2.0
// What is said to be needed before anything is allocated is what is registered, to the byte.
#include <gtest/gtest.h>

#include <algorithm>

#include "fit/estimate.hpp"
#include "models/decoder.hpp"
#include "models/demand.hpp"
#include "models/family.hpp"
#include "optim/elementwise.hpp"
#include "platform/blas.hpp"
#include "shape/cutter.hpp"
#include "train/step_results.hpp"

namespace dos::test::gpt2_memory_test {
namespace {

using shape::ModelConfig;
using shape::RunShape;

const shape::ModelConfig kSmall{"gpt2", 3, 24, 3, 17, 61};
const shape::ModelConfig kOneLayer{"gpt2", 1, 8, 1, 1, 2};

/// The formula of docs/memory.md, written down again: bytes of one lane.
Index activations_of_lane(const shape::ModelConfig& c, const shape::RunShape& shape,
                          Index sequences) {
  const Index n = sequences * c.context;
  const Index layers = c.layers;
  // Blocks that do not keep it share the buffers of two, of three where some are moved; on the host
  // each of those that are moved to its memory has one.
  const shape::ActivationPlan& plan = shape.activations;
  const auto sets_of = [&](Index without) {
    if (!shape.training) return Index{1};
    const Index shared = std::min(without, layers);
    return layers - shared + std::min<Index>(plan.moved + plan.hosted > 0 ? 3 : 2, shared);
  };
  const Index without = plan.moved + plan.hosted + plan.recomputed;
  Index sets = sets_of(without);
  if (shape.training)
    for (Index block = plan.moved; block < plan.moved + plan.hosted; ++block)
      if (block + 3 < std::min(without, layers)) ++sets;
  // Both norms' outputs and statistics, and GELU's output.
  const Index cheap = sets_of(without + plan.selective);
  const Index forward = (layers + 1) * c.width + (sets * 9 + cheap * 6) * c.width + c.width;
  const Index wide = sets * c.heads + cheap * 4 + 2;
  const Index one_layer = 2 * c.width + 12 * c.width;
  const Index backward = !shape.training ? 0 : layers == 1 ? one_layer : one_layer + 12 * c.width;
  const Index size = shape.type == DType::kBF16 ? 2 : 4;
  const Index logits = std::min(n, shape.logits_rows) * ((c.vocabulary + 63) / 64 * 64);
  return size * (n * (forward + backward) + logits) + 4 * n * wide;
}

struct Case {
  const char* what;
  shape::ModelConfig model;
  shape::RunShape shape;
  Index workers;
  float clip;
  Index subgroup_params;
  Index run_ahead;
  DType gradient = DType::kF32;

  [[nodiscard]] tensor::ParameterTypes types() const { return {shape.type, gradient}; }
};

constexpr shape::ActivationPlan kAllKept;
constexpr shape::ActivationPlan kSelective{.selective = shape::ActivationPlan::kAll};
constexpr shape::ActivationPlan kMixed{.moved = 2, .recomputed = 1, .selective = 2};

/// Has room for everything, and forgets it.
class Nowhere final : public tensor::ActivationStore {
 public:
  Index add(Index /*bytes*/, int /*node*/) override { return slots_++; }
  void reserve() override {}
  [[nodiscard]] bool is_usable() const override { return true; }
  void store(Index /*slot*/, const rt::Handle& /*buffer*/) override {}
  void load(Index /*slot*/, const rt::Handle& /*buffer*/) override {}

 private:
  Index slots_ = 0;
};

const Case kCases[] = {
    {"one lane", kSmall, {1, 1, kAllKept, true, 512}, 1, 1.0F, 5'000'000, 2},
    {"uneven lanes", kSmall, {5, 3, kAllKept, true, 512}, 2, 1.0F, 600, 2},
    {"recompute", kSmall, {4, 2, shape::kRecomputeAll, true, 512}, 2, 1.0F, 600, 1},
    {"recompute in one layer", kOneLayer, {3, 3, shape::kRecomputeAll, true, 1}, 2, 1.0F, 40, 2},
    {"no clipping", kSmall, {2, 1, kAllKept, true, 7}, 2, 0.0F, 250, 3},
    {"one token", kOneLayer, {1, 1, kAllKept, true, 512}, 1, 0.0F, 100, 1},
    {"no training", kSmall, {4, 2, kAllKept, false, 30}, 2, 1.0F, 600, 2},
    {"no training, recompute", kSmall, {4, 1, shape::kRecomputeAll, false, 30}, 1, 1.0F, 600, 2},
    {"BF16", kSmall, {5, 3, kAllKept, true, 512, DType::kBF16}, 2, 1.0F, 600, 2},
    {"heads of 160", {"gpt2", 1, 320, 2, 17, 61}, {2, 1, kAllKept, true, 512}, 2, 1.0F, 600'000, 2},
    {"BF16 gradients",
     kSmall,
     {4, 2, shape::kRecomputeAll, true, 7, DType::kBF16},
     2,
     0.0F,
     250,
     2,
     DType::kBF16},
    {"selective", kSmall, {4, 2, kSelective, true, 512}, 2, 1.0F, 600, 1},
    {"mixed", {"gpt2", 9, 24, 3, 17, 61}, {3, 2, kMixed, true, 512}, 2, 1.0F, 600, 1},
    {"all on the host",
     {"gpt2", 6, 24, 3, 17, 61},
     {3, 2, {.hosted = 9}, true, 512},
     2,
     1.0F,
     600,
     1},
    {"some on the host",
     {"gpt2", 9, 24, 3, 17, 61},
     {3, 2, {1, 3, 2, 1}, true, 512},
     2,
     1.0F,
     600,
     1},
    {"all moved", {"gpt2", 6, 24, 3, 17, 61}, {3, 2, {.moved = 9}, true, 512}, 2, 1.0F, 600, 1},
};

shape::Layout layout_of(const Case& c) {
  return shape::cut_into_subgroups(shape::gpt2().parameters(c.model), c.subgroup_params, {});
}

void expect_equal(const rt::MemoryBytes& got, const rt::MemoryBytes& expected) {
  for (const MemoryCategory category : kBufferCategories)
    EXPECT_EQ(got[category], expected[category]) << name_of(category);
}

TEST(Gpt2Memory, TheLedgerCountsWhatWasEstimated) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.what);
    rt::Session session({.scheduler = "", .cpu_workers = c.workers});
    const optim::OptimizerOptions options{.clip = c.clip};
    {
      tensor::ParameterSet parameters(session, layout_of(c), c.types());
      const Index handles_before = std::ssize(session.handles());
      const rt::MemoryBytes before_model = session.memory().now();
      Nowhere store;
      const auto model =
          std::make_unique<models::Decoder>(session, parameters, c.model, c.shape, &store);
      rt::MemoryBytes of_model = session.memory().now();
      for (const MemoryCategory category : kBufferCategories)
        of_model[category] -= before_model[category];
      EXPECT_EQ(std::ssize(session.handles()) - handles_before,
                models::counts(c.model, c.shape, parameters.layout()).buffers);
      expect_equal(of_model, models::buffers(c.model, c.shape, {.all = c.workers}));

      const optim::ElementwiseOptimizer optimizer(session, parameters, options);
      const train::StepResults results(session, c.run_ahead);
      expect_equal(session.memory().now(),
                   fit::estimate_training(c.model, c.shape, parameters.layout(), c.types(), options,
                                          {.all = c.workers}, c.run_ahead));
    }
    EXPECT_EQ(session.memory().now().total(), 0);
  }
}

// Recomputation repeats nothing of the blocks whose activations are kept.
TEST(Gpt2Memory, AMicroBatchHasTheTasksThatAreCounted) {
  platform::blas::use_one_thread();
  for (const Case& c : kCases) {
    if (!c.shape.training) continue;
    SCOPED_TRACE(c.what);
    rt::Session session({.scheduler = "", .cpu_workers = c.workers});
    const tensor::ParameterSet parameters(session, layout_of(c), c.types());
    rt::Submitter submitter(session);
    Index tasks = 0;
    submitter.set_observer({.before = [&](const rt::TaskCall&) { ++tasks; }, .after = {}});
    Nowhere store;
    const auto model =
        std::make_unique<models::Decoder>(session, parameters, c.model, c.shape, &store);
    const std::vector<std::int32_t> tokens(
        static_cast<std::size_t>(c.shape.batch * (c.model.context + 1)), 1);
    model->train(submitter, tokens, {.first = true, .loss_scale = 1});
    session.wait_all();
    EXPECT_EQ(tasks, models::counts(c.model, c.shape, parameters.layout()).tasks);
  }
}

TEST(Gpt2Memory, EstimateIsTheDocumentedFormula) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.what);
    const shape::Layout layout = layout_of(c);
    const rt::MemoryBytes bytes = fit::estimate_training(
        c.model, c.shape, layout, c.types(), {.clip = c.clip}, {.all = c.workers}, c.run_ahead);
    Index activations = 0;
    Index tokens = 0;
    for (Index lane = 0; lane < c.shape.lanes; ++lane) {
      const Index sequences =
          c.shape.batch / c.shape.lanes + (lane < c.shape.batch % c.shape.lanes ? 1 : 0);
      activations += activations_of_lane(c.model, c.shape, sequences);
      tokens += 4 * sequences * (c.model.context + 1);
    }
    EXPECT_EQ(bytes[MemoryCategory::kActivations], activations);
    // A loss a lane; loss and norm of each step in flight and one more, and of a validation.
    EXPECT_EQ(bytes[MemoryCategory::kData],
              tokens + 8 * c.shape.lanes + 8 * (2 * (c.run_ahead + 1) + 1));
    const Index count = layout.parameter_count();
    const bool narrow = c.shape.type == DType::kBF16;
    EXPECT_EQ(bytes[MemoryCategory::kParameters], 4 * count);
    EXPECT_EQ(bytes[MemoryCategory::kWorking], (narrow ? 2 : 0) * count);
    EXPECT_EQ(bytes[MemoryCategory::kGradients], (c.gradient == DType::kBF16 ? 2 : 4) * count);
    // Two moments; scalars: a sum of squares a subgroup, a factor, with clipping two more, without
    // a factor and a norm a subgroup.
    const auto subgroups = static_cast<Index>(layout.subgroups.size());
    EXPECT_EQ(bytes[MemoryCategory::kStates],
              8 * count + 8 * subgroups + (c.clip > 0 ? 12 : 4 + 12 * subgroups));
  }
}

/// Bytes of the model's own buffers for 4096 tokens of sequences this long.
rt::MemoryBytes at_context(Index context) {
  const shape::ModelConfig model{"gpt2", 12, 768, 12, context, 50257};
  return models::buffers(model, {.batch = 4096 / context, .lanes = 1}, {});
}

/// Bytes that a CPU worker has for attention, of heads whose rows are filled up to so many
/// elements: four copies of a head with a few rows behind it, five of 64 queries, two tiles of
/// scores, three numbers a query, and 16 to begin with a whole cache line.
Index cpu_workspace(Index context, Index row) {
  return 4 * (4 * row * (context + 8) + 5 * 64 * row + 2 * 64 * 64 + 3 * 64 + 16);
}

// With as many tokens, longer sequences cost nothing but the copies that a worker has of a head's
// keys and values and of their gradients, and so linear: nothing is [context, context].
TEST(Gpt2Memory, NothingGrowsWithTheSquareOfTheContext) {
  const rt::MemoryBytes shortest = at_context(64);
  for (Index context = 128; context <= 4096; context *= 2) {
    SCOPED_TRACE(context);
    const rt::MemoryBytes bytes = at_context(context);
    EXPECT_EQ(bytes[MemoryCategory::kActivations], shortest[MemoryCategory::kActivations]);
    // One token more a sequence, in fewer sequences.
    EXPECT_LE(bytes[MemoryCategory::kData], shortest[MemoryCategory::kData]);
    EXPECT_LE(bytes[MemoryCategory::kWorkspace],
              shortest[MemoryCategory::kWorkspace] * context / 64);
  }
  // All heads' scores of one sequence of 4096 would be 12 * 64 MiB.
  EXPECT_EQ(at_context(4096)[MemoryCategory::kWorkspace], cpu_workspace(4096, 64));
}

// What the CUDA kernels for such heads write: scores and their gradients, of four heads of 1024
// tokens in 32 MiB, of one head if it needs more. CPUs have copies of a head in FP32,
// whatever the type.
TEST(Gpt2Memory, HeadsOfMoreThan128HaveRoomForTheirScoresOnCudaWorkers) {
  const auto workspace = [](Index head_size, Index context, DType type, Index cuda) {
    const shape::ModelConfig model{"gpt2", 1, 8 * head_size, 8, context, 61};
    return models::buffers(model, RunShape{.type = type},
                           {.all = 1, .cuda = cuda})[MemoryCategory::kWorkspace];
  };
  for (const DType type : {DType::kF32, DType::kBF16}) {
    EXPECT_EQ(workspace(129, 1024, type, 1), 4 * 2 * 4 * 1024 * 1024);
    EXPECT_EQ(workspace(160, 4096, type, 2), 2 * 4 * 4096 * 4096);
    EXPECT_EQ(workspace(128, 1024, type, 1), workspace(128, 1024, type, 0));
  }
  for (const DType type : {DType::kF32, DType::kBF16}) {
    EXPECT_EQ(workspace(128, 1024, type, 0), cpu_workspace(1024, 128));
    EXPECT_EQ(workspace(129, 1024, type, 0), cpu_workspace(1024, 144));
    EXPECT_EQ(workspace(160, 1024, type, 0), cpu_workspace(1024, 160));
  }
  EXPECT_LT(workspace(160, 4096, DType::kBF16, 0), workspace(160, 4096, DType::kBF16, 1) / 4);
}

TEST(Gpt2Memory, RecomputeKeepsTwoBlocksActivations) {
  const shape::ModelConfig model{"gpt2", 12, 768, 12, 1024, 50257};
  const auto activations = [&](bool recompute) {
    const shape::RunShape shape{
        .batch = 4, .lanes = 1, .activations = shape::recompute_if(recompute)};
    return models::buffers(model, shape, {})[MemoryCategory::kActivations];
  };
  const Index tokens = 4 * model.context;
  EXPECT_EQ(activations(false) - activations(true),
            4 * tokens * (model.layers - 2) * (15 * model.width + model.heads + 4));
}

// What blocks move passes through one set of buffers for host memory, which is no block's slot, and
// through one for disks.
TEST(Gpt2Memory, OnGpusOnlyWhatIsMovedTakesHostMemory) {
  const shape::ModelConfig model{"gpt2", 6, 48, 2, 33, 61};
  const auto on_host = [&](const char* plan) {
    const shape::RunShape shape{
        .batch = 4, .lanes = 2, .activations = shape::parse_activation_plan(plan)};
    const Index all = models::buffers(model, shape, {})[MemoryCategory::kActivations];
    return all - models::bytes_on_devices(model, shape, model.layers) -
           models::host_slot_bytes(model, shape, model.layers);
  };
  EXPECT_EQ(on_host("keep"), 0);
  EXPECT_EQ(on_host("recompute"), 0);
  const shape::Family& family = shape::find_family(model.architecture);
  const Index block = shape::count_block(family, model, /*is_cheap=*/false).bytes(4);
  const Index tokens = 4 * model.context;
  for (const char* plan : {"host:4", "disk:4"}) {
    SCOPED_TRACE(plan);
    EXPECT_GT(on_host(plan), 0);
    EXPECT_EQ(on_host(plan) % (tokens * block), 0);
    EXPECT_LE(on_host(plan), 3 * tokens * block);
  }
}

TEST(Gpt2Memory, MoreWorkersNeedMoreWorkSpaceOnly) {
  const shape::ModelConfig model{"gpt2", 2, 48, 2, 33, 61};
  const shape::RunShape shape{.batch = 4, .lanes = 2};
  const rt::MemoryBytes one = models::buffers(model, shape, {.all = 1});
  rt::MemoryBytes eight = models::buffers(model, shape, {.all = 8});
  EXPECT_EQ(eight[MemoryCategory::kWorkspace], 8 * one[MemoryCategory::kWorkspace]);
  eight[MemoryCategory::kWorkspace] = one[MemoryCategory::kWorkspace];
  expect_equal(eight, one);
}

}  // namespace
}  // namespace dos::test::gpt2_memory_test
