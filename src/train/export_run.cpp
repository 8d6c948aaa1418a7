// SPDX-License-Identifier: Apache-2.0
#include "train/export_run.hpp"

#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "config/train_config.hpp"
#include "data/dataset.hpp"
#include "data/tokenizer.hpp"
#include "hf/config_json.hpp"
#include "hf/model_export.hpp"
#include "hf/model_weights.hpp"
#include "io/safetensors.hpp"
#include "shape/family_shape.hpp"
#include "train/checkpoint.hpp"
#include "train/run_data.hpp"

namespace dos::train {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// The elements of a checkpoint's tensors, in the order of folders.
class CheckpointTensors {
 public:
  CheckpointTensors(const CheckpointReader& checkpoint, const shape::ModelConfig& model)
      : file_(checkpoint.folder() / kModelFile) {
    io::expect_contents(file_, checkpoint.manifest());
    for (const shape::ParameterSpec& spec :
         shape::find_family(model.architecture).parameters(model))
      expect_tensor_of(file_, file_.at(spec.name), spec);
  }

  void read(const hf::TensorName& name, Index first, std::span<float> out) const {
    const io::MappedTensor& tensor = file_.at(name.parameter);
    const Index columns = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
    if (!name.is_transposed) {
      const Index begin = (name.first * columns + first) * Index{sizeof(float)};
      std::memcpy(out.data(), tensor.bytes.data() + begin, out.size_bytes());
      return;
    }
    // The tensor is [in, out], the parameter [out, in].
    const Index rows = tensor.shape[0];
    for (Index i = 0; i < std::ssize(out); ++i) {
      const Index element = (first + i) % rows * columns + (first + i) / rows;
      std::memcpy(&out[static_cast<std::size_t>(i)],
                  tensor.bytes.data() + element * Index{sizeof(float)}, sizeof(float));
    }
  }

 private:
  io::SafetensorsFile file_;
};

/// What a run knows of its tokenizer.
struct RunTokenizer {
  std::vector<hf::ExtraFile> files;
  std::optional<Index> end_of_text;
  std::string note;
};

/// `run` is the run's folder.
RunTokenizer tokenizer_of(const fs::path& run, const CheckpointReader& checkpoint) {
  const data::DatasetPaths paths(run / kTokenizerPrefix);
  if (!is_file(paths.manifest))
    return {.files = {},
            .end_of_text = {},
            .note = "the run has no tokenizer of its own: none is exported"};
  const data::DatasetManifest manifest = data::read_manifest(paths.manifest);
  const nlohmann::json& trained = checkpoint.manifest().tokenizer;
  if (trained.is_object() && trained != describe_tokenizer(manifest))
    return {.files = {},
            .end_of_text = {},
            .note = "the run's tokenizer is not the checkpoint's: none is exported"};
  RunTokenizer result;
  result.end_of_text = data::make_tokenizer(manifest, paths.manifest)->end_of_text();
  if (manifest.model_file.empty()) {
    result.note =
        fmt::format("the tokenizer '{}' has no files that transformers reads: none is exported",
                    manifest.tokenizer);
    return result;
  }
  // Other kinds are called as their file is.
  const bool is_pieces = manifest.tokenizer == data::kSentencePiece;
  result.files.push_back({is_pieces ? "tokenizer.model" : manifest.tokenizer,
                          data::read_model(manifest, paths.manifest)});
  return result;
}

ExportOutcome export_checkpoint(const ExportRequest& request, const CheckpointReader& checkpoint) {
  const shape::ModelConfig model = checkpoint.model();
  config::TrainConfig config;
  config::from_json(checkpoint.manifest().configuration,
                    (checkpoint.folder() / io::kManifestName).string(), config);
  // OUT of OUT/checkpoints/step-N.
  const fs::path run = fs::canonical(checkpoint.folder()).parent_path().parent_path();
  RunTokenizer tokenizer = tokenizer_of(run, checkpoint);
  const DType dtype = request.dtype.value_or(config.parameter_types().working);
  const CheckpointTensors tensors(checkpoint, model);
  hf::export_model(request.folder, model,
                   [&](const hf::TensorName& name, Index first, std::span<float> out) {
                     tensors.read(name, first, out);
                   },
                   {.config = {.dtype = dtype, .end_of_text = tokenizer.end_of_text},
                    .shard_bytes = request.shard_bytes,
                    .files = std::move(tokenizer.files)});
  ExportOutcome outcome{.source = checkpoint.folder().string(), .dtype = dtype, .notes = {}};
  if (!tokenizer.note.empty()) outcome.notes.push_back(tokenizer.note);
  return outcome;
}

/// From one folder to another: other types, other shards.
ExportOutcome export_folder(const ExportRequest& request) {
  const shape::ModelConfig model = hf::read_config(request.source);
  const hf::ModelWeights weights(request.source, model);
  const DType dtype = request.dtype.value_or(weights.is_bf16() ? DType::kBF16 : DType::kF32);
  hf::export_model(request.folder, model,
                   [&](const hf::TensorName& name, Index first, std::span<float> out) {
                     weights.read(weights.find(name.tensor), first, out);
                   },
                   {.config = {.dtype = dtype, .end_of_text = {}},
                    .shard_bytes = request.shard_bytes,
                    .files = {}});
  return {.source = request.source.string(),
          .dtype = dtype,
          .notes = {"files of the tokenizer are not copied from one folder to another"}};
}

}  // namespace

ExportOutcome export_run(const ExportRequest& request) {
  if (is_file(request.source / hf::kConfigFile)) return export_folder(request);
  // The source is a checkpoint, or a run that has several.
  if (is_file(request.source / io::kManifestName))
    return export_checkpoint(request, {fs::path(), fs::absolute(request.source).string()});
  const io::CheckpointStore store(request.source, /*keep=*/1,
                                  "give a folder that train_gpt --out wrote, a checkpoint, or a "
                                  "folder with config.json");
  return export_checkpoint(request, CheckpointReader(store, request.checkpoint));
}

}  // namespace dos::train
