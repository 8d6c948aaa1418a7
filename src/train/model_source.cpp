// SPDX-License-Identifier: Apache-2.0
#include "train/model_source.hpp"

#include "base/error.hpp"
#include "hf/adapter_config.hpp"
#include "hf/config_json.hpp"
#include "io/run_folder.hpp"
#include "io/tensor_folder.hpp"
#include "shape/family_shape.hpp"
#include "storage/engine.hpp"
#include "train/initial_weights.hpp"

namespace dos::train {
namespace {

namespace fs = std::filesystem;

/// What the programs take of a run where nothing is said.
constexpr const char* kUsualChoice = "last";

bool holds(const fs::path& folder, const char* file) {
  std::error_code ignored;
  return fs::is_regular_file(folder / file, ignored);
}

/// What is no run's folder has one model only.
void expect_no_choice(const fs::path& source, const std::string& checkpoint, const char* what) {
  expect(checkpoint.empty() || checkpoint == kUsualChoice,
         "--checkpoint {}: chooses of a run, but {} is {}: leave it out, or name the run's folder",
         checkpoint, source.string(), what);
}

CheckpointReader open_checkpoint(const fs::path& source, const std::string& checkpoint) {
  if (holds(source, io::kManifestName)) {
    expect_no_choice(source, checkpoint, "a checkpoint");
    return {fs::path(), fs::absolute(source).string()};
  }
  const io::CheckpointStore store(source, /*keep=*/1,
                                  "give the folder that train_gpt --out wrote, a checkpoint, or a "
                                  "folder with config.json");
  return {store, checkpoint};
}

}  // namespace

ModelSource::ModelSource(const fs::path& named, const std::string& checkpoint) {
  const fs::path source = io::run_of(named);
  // Weights without a manifest are no checkpoint's, and config.json is what is missing.
  const bool has_weights = holds(source, io::kSingleFile) || holds(source, io::kIndexFile);
  if (holds(source, hf::kConfigFile) || (has_weights && !holds(source, io::kManifestName))) {
    expect_no_choice(source, checkpoint, "a folder with a model");
    folder_ = source;
    model_ = hf::read_config(source);
    weights_.emplace(source, model_);
    return;
  }
  expect(!holds(source, hf::kAdapterConfigFile) || holds(source, io::kManifestName),
         "{}: holds adapters ({}) and no model: train_gpt --init-from MODEL --lora-from {} goes on "
         "with them, and export --merge writes the whole model of such a run",
         source.string(), hf::kAdapterConfigFile, source.string());
  checkpoint_.emplace(open_checkpoint(source, checkpoint));
  folder_ = checkpoint_->folder();
  model_ = checkpoint_->model();
  // OUT of OUT/checkpoints/step-N, unless the caller named OUT itself.
  const bool is_run = !holds(source, io::kManifestName);
  run_ = is_run ? source : fs::canonical(folder_).parent_path().parent_path();
}

hf::SideFiles ModelSource::side_files() const {
  return hf::SideFiles(checkpoint_ ? run_ / kFirstFolder : folder_);
}

void ModelSource::load(const tensor::ParameterSet& parameters) const {
  storage::Engine engine;
  if (checkpoint_)
    checkpoint_->load_parameters(engine, parameters);
  else
    load_weights(*weights_, parameters);
}

}  // namespace dos::train
