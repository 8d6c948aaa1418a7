// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/contents.hpp"
#include "io/checkpoint_directory.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/run_folder.hpp"
#include "shape/model_config.hpp"
#include "tensor/parameter_set.hpp"
#include "train/run_states.hpp"

namespace dos::optim {
class Optimizer;
}
namespace dos::storage {
class Engine;
}

namespace dos::train {

struct Run;

/// Prefix of the tokenizer's files in the output folder of a run.
using io::kTokenizerPrefix;
/// Beside it, what the Hugging Face folder that the run began with holds beside its weights.
inline constexpr const char* kFirstFolder = "init_from";

/// What was read of a checkpoint by this rank.
struct CheckpointRead {
  Index bytes = 0;
  double seconds = 0;  ///< until they were where they belong
};

/// A checkpoint folder whose manifest is read; tensors are checked when they are loaded.
class CheckpointReader {
 public:
  /// `selector` as in CheckpointStore::resolve(), relative to the output folder of `store`.
  CheckpointReader(const io::CheckpointStore& store, const std::string& selector);
  explicit CheckpointReader(std::filesystem::path folder);
  CheckpointReader(const std::filesystem::path& out, const std::string& selector)
      : CheckpointReader(io::CheckpointStore(out), selector) {}

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const io::CheckpointManifest& manifest() const { return manifest_; }
  [[nodiscard]] shape::ModelConfig model() const;

  /// Whether all that this rank owns is in the folder, which may hold a part of the checkpoint.
  [[nodiscard]] bool is_here(const tensor::ParameterSet& parameters,
                             const optim::Optimizer& optimizer) const;
  /// Throws Error, naming what differs, when the checkpoint is of another model, train.seed or
  /// rule, or when a parameter is trained by one of both and frozen by the other.
  void expect_own(const Run& run, const tensor::ParameterSet& parameters,
                  const optim::Optimizer& optimizer) const;
  /// Throws Error unless the manifest lists each of the parameters: a damaged shape is found before
  /// memory is taken for it.
  void expect_lists(const std::vector<shape::ParameterSpec>& parameters) const;
  /// Overwrites the values that are there of the parameters in owned subgroups, wherever they live,
  /// but for those of `there` on disks, and reads nothing else. Returns how many bytes it read.
  /// Throws Error naming file and tensor when the checkpoint is of another model, or damaged:
  /// missing, extra, truncated or altered tensors. Before it finds altered bytes it may have
  /// overwritten some parameters.
  Index load_parameters(storage::Engine& engine, const tensor::ParameterSet& parameters,
                        const RunStates& states = {}, const std::set<Index>& there = {}) const;
  /// Overwrites the optimizer's states, as above. Throws Error naming both rules when the
  /// checkpoint was made with another, or a parameter that one of both trains and the other
  /// freezes.
  Index load_optimizer(storage::Engine& engine, const tensor::ParameterSet& parameters,
                       const optim::Optimizer& optimizer, const RunStates& states = {},
                       const std::set<Index>& there = {}) const;
  /// Both; on disks, what can be taken as it is (RunStates::take_files()), without a copy.
  CheckpointRead load(storage::Engine& engine, const tensor::ParameterSet& parameters,
                      const optim::Optimizer& optimizer, const RunStates& states) const;

 private:
  /// Throws as load_optimizer().
  void expect_states_of(const tensor::ParameterSet& parameters,
                        const optim::Optimizer& optimizer) const;
  /// The contents' parts but for those of `there`; of the others those of subgroups `away` some
  /// at a time.
  Index read(storage::Engine& engine, checkpoint::FileContents contents, const RunStates& states,
             std::vector<Index> away, const std::set<Index>& there) const;

  std::filesystem::path folder_;
  io::CheckpointManifest manifest_;
};

}  // namespace dos::train
