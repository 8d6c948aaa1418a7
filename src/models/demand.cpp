// SPDX-License-Identifier: Apache-2.0
#include "models/demand.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "nn/attention.hpp"
#include "rt/session.hpp"

namespace dos::models {
namespace {

Index refill_tasks(const shape::BlockShape& block, shape::Refill refill) {
  switch (refill) {
    case shape::Refill::kNone:
      return 0;
    case shape::Refill::kRecompute:
      return block.recompute_tasks;
    case shape::Refill::kSelective:
    case shape::Refill::kHost:
    case shape::Refill::kDisk:
      return block.selective_tasks;
  }
  return 0;
}

codelets::AttentionShape attention_of(const shape::ModelConfig& config, Index sequences) {
  return nn::attention_shape(config, {.sequences = sequences, .context = config.context});
}

}  // namespace

shape::LaneWorkers lane_workers(const rt::Session& session) {
  return {.count = session.lane_workers(), .on_gpus = session.cuda_workers() > 0};
}

Index logits_count(const shape::ModelConfig& config, const shape::RunShape& run, Index tokens) {
  return std::min(tokens, run.logits_rows) * shape::logits_stride(config.vocabulary);
}

Index workspace_count(const shape::ModelConfig& config, bool on_cuda) {
  return codelets::attention_task_workspace(attention_of(config, /*sequences=*/1), on_cuda);
}

Index cuda_workspace_bytes(const shape::ModelConfig& config, DType type) {
  return codelets::attention_cuda_workspace(attention_of(config, /*sequences=*/1), type);
}

void prepare_gpus(const shape::ModelConfig& config, const shape::RunShape& run) {
  std::vector<codelets::AttentionShape> lanes;
  for (Index lane = 0; lane < run.lanes; ++lane)
    lanes.push_back(attention_of(config, run.lane_sequences(lane)));
  codelets::prepare_attention_on_gpus(run.type, lanes);
}

Index host_slot_bytes(const shape::ModelConfig& config, const shape::RunShape& run, Index reached) {
  const shape::ActivationCount token =
      shape::count_moved(shape::find_family(config.architecture), config,
                         {run.training, run.activations, reached}, shape::Refill::kHost);
  Index tokens = 0;
  for (Index lane = 0; lane < run.lanes; ++lane) tokens += run.lane_sequences(lane);
  return tokens * config.context * token.bytes(size_of(run.type));
}

rt::MemoryBytes buffers(const shape::ModelConfig& config, const shape::RunShape& run,
                        const WorkerCount& workers, Index reached) {
  const shape::Family& family = shape::find_family(config.architecture);
  const shape::Passes passes{run.training, run.activations, reached};
  const shape::ActivationCount token = shape::count_activations(family, config, passes);
  rt::MemoryBytes bytes;
  bytes[MemoryCategory::kActivations] = host_slot_bytes(config, run, reached);
  for (Index lane = 0; lane < run.lanes; ++lane) {
    const Index sequences = run.lane_sequences(lane);
    const Index tokens = sequences * config.context;
    bytes[MemoryCategory::kActivations] += tokens * token.bytes(size_of(run.type)) +
                                           size_of(run.type) * logits_count(config, run, tokens);
    bytes[MemoryCategory::kData] +=
        size_of(DType::kI32) * sequences * (config.context + 1) + size_of(DType::kF64);
  }
  bytes[MemoryCategory::kWorkspace] =
      size_of(DType::kF32) * workers.all * workspace_count(config, /*on_cuda=*/workers.cuda > 0);
  return bytes;
}

Index bytes_on_devices(const shape::ModelConfig& config, const shape::RunShape& run,
                       Index reached) {
  const shape::Family& family = shape::find_family(config.architecture);
  const shape::Passes passes{run.training, run.activations, reached};
  const Index size = size_of(run.type);
  const Index token = shape::count_activations(family, config, passes).bytes(size) -
                      shape::count_in_transit(family, config, passes).bytes(size);
  Index bytes = 0;
  for (Index lane = 0; lane < run.lanes; ++lane) {
    const Index tokens = run.lane_sequences(lane) * config.context;
    bytes += tokens * token + size * logits_count(config, run, tokens);
  }
  return bytes;
}

rt::MemoryBytes buffers(const shape::ModelConfig& config, const ContinuationShape& shape,
                        const WorkerCount& workers) {
  const shape::BlockShape block = shape::find_family(config.architecture).block(config);
  Index cached = 0;
  for (const shape::Activation& each : block.kept)
    if (block.cached != nullptr && std::string_view(each.name) == block.cached)
      cached = each.width * size_of(each.is_wide ? DType::kF32 : shape.type);
  rt::MemoryBytes bytes;
  // Passes share what is cached.
  const auto add_pass = [&](Index tokens) {
    shape::ModelConfig part = config;
    part.context = tokens;
    const rt::MemoryBytes pass = buffers(part, shape.run(), workers);
    bytes[MemoryCategory::kActivations] += pass[MemoryCategory::kActivations] - tokens * cached;
    bytes[MemoryCategory::kData] += pass[MemoryCategory::kData];
  };
  for (Index lane = 0; lane < shape.lanes; ++lane) add_pass(shape.chunk);
  if (shape.chunk > 1) add_pass(1);
  bytes[MemoryCategory::kActivations] += config.layers * config.context * cached;
  bytes[MemoryCategory::kWorkspace] = size_of(DType::kF32) * workers.all *
                                      workspace_count(config,
                                                      /*on_cuda=*/workers.cuda > 0);
  return bytes;
}

RunCounts counts(const shape::ModelConfig& config, const shape::RunShape& run,
                 const shape::Layout& layout) {
  const shape::Family& family = shape::find_family(config.architecture);
  const std::string head = shape::head_of(config);
  const shape::BlockShape block = family.block(config);
  // Tokens, loss, logits, last norm and its statistics; in training their two gradients.
  const Index ends = run.training ? 7 : 5;
  const Index reached = shape::reached_blocks(config, layout.first_trained_depth());
  const shape::Passes passes{run.training, run.activations, reached};
  const shape::ActivationSets sets(config, passes);
  Index of_lane =
      ends + config.layers + 1 + shape::gradient_sets(config, passes) * std::ssize(block.gradients);
  for (const shape::Activation& each : block.kept) of_lane += sets.count(each);
  RunCounts counts{.buffers = run.lanes * of_lane + 1};  // and the work space
  // The gradient of a matrix is a task for each piece; of the head one a chunk, beside that of a
  // tied table.
  Index pieces = 0;
  for (const shape::PlacedParameter& parameter : layout.parameters) {
    const bool is_counted = parameter.spec.name == head && !parameter.spec.is_table;
    if (parameter.spec.is_matrix() && parameter.spec.trained && !is_counted)
      pieces += std::ssize(shape::pieces_of(parameter));
  }
  const shape::PlacedParameter& projection = layout.find(head);
  const Index head_pieces = projection.spec.trained ? std::ssize(shape::pieces_of(projection)) : 0;
  Index refills = 0;
  for (Index layer = 0; layer < config.layers; ++layer)
    refills += refill_tasks(block, sets.refill(layer));
  for (Index lane = 0; lane < run.lanes; ++lane) {
    const Index tokens = run.lane_sequences(lane) * config.context;
    const Index chunks = ceil_div(tokens, std::min(tokens, run.logits_rows));
    // Tokens, embedding and last norm have 5 tasks.
    counts.tasks += 5 + config.layers * block.forward_tasks + reached * block.backward_tasks +
                    refills + pieces + chunks * (3 + head_pieces);
  }
  return counts;
}

}  // namespace dos::models
