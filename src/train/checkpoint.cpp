// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "checkpoint/part_reader.hpp"
#include "checkpoint/tensor_listing.hpp"
#include "checkpoint/wanted.hpp"
#include "optim/optimizer.hpp"
#include "storage/engine.hpp"
#include "train/run.hpp"
#include "train/run_info.hpp"

namespace dos::train {
namespace {

/// "" when the manifest does not say.
std::string rule_of(const io::CheckpointManifest& manifest) {
  const nlohmann::json::json_pointer place("/optim/rule");
  const nlohmann::json& configuration = manifest.configuration;
  if (!configuration.is_object() || !configuration.contains(place)) return "";
  const nlohmann::json& rule = configuration.at(place);
  return rule.is_string() ? rule.get<std::string>() : "";
}

/// Throws Error unless the checkpoint trained what this run trains.
void expect_same_trained(const std::filesystem::path& folder,
                         const io::CheckpointManifest& manifest, const shape::Layout& layout,
                         std::span<const char* const> states) {
  const checkpoint::TensorListing kept = checkpoint::list_tensors(manifest);
  for (const char* state : states)
    for (const shape::PlacedParameter& parameter : layout.parameters) {
      // What is missing altogether is told of when it is read.
      if (!kept.contains(parameter.spec.name)) continue;
      const bool was_trained = kept.contains(parameter.spec.name + "." + state);
      expect(was_trained == parameter.spec.trained,
             "{}: the checkpoint {} '{}', this run {} it: resume with the optim.freeze of the "
             "checkpoint, or export it and begin with --init-from",
             folder.string(), was_trained ? "trained" : "froze", parameter.spec.name,
             parameter.spec.trained ? "trains" : "freezes");
    }
}

}  // namespace

CheckpointReader::CheckpointReader(const io::CheckpointStore& store, const std::string& selector)
    : CheckpointReader(store.resolve(selector)) {}

CheckpointReader::CheckpointReader(std::filesystem::path folder)
    : folder_(std::move(folder)), manifest_(io::read_manifest(folder_)) {}

shape::ModelConfig CheckpointReader::model() const {
  return model_from_json(manifest_.architecture, (folder_ / io::kManifestName).string());
}

bool CheckpointReader::is_here(const tensor::ParameterSet& parameters,
                               const optim::Optimizer& optimizer) const {
  return checkpoint::are_here(manifest_, checkpoint::model_contents(parameters)) &&
         checkpoint::are_here(manifest_, checkpoint::optimizer_contents(parameters, optimizer));
}

void CheckpointReader::expect_own(const Run& run, const tensor::ParameterSet& parameters,
                                  const optim::Optimizer& optimizer) const {
  io::expect_architecture(folder_, manifest_, to_json(run.model));
  const Index seed = run.config.train.seed;
  expect(manifest_.seed == static_cast<std::uint64_t>(seed),
         "{}: made with train.seed = {}, this run has {}: it orders the data, leave it as it was",
         (folder_ / io::kManifestName).string(), manifest_.seed, seed);
  expect_states_of(parameters, optimizer);
}

void CheckpointReader::expect_lists(const std::vector<shape::ParameterSpec>& parameters) const {
  const checkpoint::TensorListing listed = checkpoint::list_tensors(manifest_);
  for (const shape::ParameterSpec& spec : parameters)
    expect(listed.contains(spec.name),
           "{}: the model's shape asks for '{}', but the checkpoint has no such tensor: it is "
           "damaged, "
           "use another",
           (folder_ / io::kManifestName).string(), spec.name);
}

Index CheckpointReader::load_parameters(storage::Engine& engine,
                                        const tensor::ParameterSet& parameters,
                                        const RunStates& states,
                                        const std::set<Index>& there) const {
  const std::vector<Index> away = states.parameters_away();
  return read(engine, checkpoint::model_contents(parameters), states, away,
              away.empty() ? std::set<Index>() : there);
}

Index CheckpointReader::load_optimizer(storage::Engine& engine,
                                       const tensor::ParameterSet& parameters,
                                       const optim::Optimizer& optimizer, const RunStates& states,
                                       const std::set<Index>& there) const {
  expect_states_of(parameters, optimizer);
  return read(engine, checkpoint::optimizer_contents(parameters, optimizer), states,
              states.states_away(), there);
}

CheckpointRead CheckpointReader::load(storage::Engine& engine,
                                      const tensor::ParameterSet& parameters,
                                      const optim::Optimizer& optimizer,
                                      const RunStates& states) const {
  const auto begin = std::chrono::steady_clock::now();
  expect_states_of(parameters, optimizer);
  const std::set<Index> there = states.take_files(engine, folder_, manifest_);
  Index bytes = load_parameters(engine, parameters, states, there);
  bytes += load_optimizer(engine, parameters, optimizer, states, there);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return {bytes, took.count()};
}

void CheckpointReader::expect_states_of(const tensor::ParameterSet& parameters,
                                        const optim::Optimizer& optimizer) const {
  const std::string rule = rule_of(manifest_);
  expect(rule.empty() || rule == optimizer.rule(),
         "{}: the checkpoint holds the states of optim.rule = {}, this run has optim.rule = {}: "
         "resume with the former, or export it and begin with --init-from",
         folder_.string(), rule, optimizer.rule());
  expect_same_trained(folder_, manifest_, parameters.layout(), optimizer.state_names());
}

Index CheckpointReader::read(storage::Engine& engine, checkpoint::FileContents contents,
                             const RunStates& states, std::vector<Index> away,
                             const std::set<Index>& there) const {
  std::vector<checkpoint::Part> all = std::exchange(contents.parts, {});
  std::erase_if(all, [&](const checkpoint::Part& part) { return there.contains(part.subgroup); });
  std::erase_if(away, [&](Index subgroup) { return there.contains(subgroup); });
  Index bytes = 0;
  states.in_turn(away, [&](const auto& is_wanted) {
    contents.parts.clear();
    std::ranges::copy_if(all, std::back_inserter(contents.parts), is_wanted,
                         &checkpoint::Part::subgroup);
    bytes += checkpoint::read_parts(engine, folder_, manifest_, contents);
  });
  return bytes;
}

}  // namespace dos::train
