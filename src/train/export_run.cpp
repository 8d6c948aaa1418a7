// SPDX-License-Identifier: Apache-2.0
#include "train/export_run.hpp"

#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "config/train_config.hpp"
#include "data/dataset.hpp"
#include "data/tokenizer.hpp"
#include "hf/model_export.hpp"
#include "io/safetensors.hpp"
#include "shape/family_shape.hpp"
#include "train/model_source.hpp"
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

ExportOutcome export_checkpoint(const ExportRequest& request, const ModelSource& source) {
  const CheckpointReader& checkpoint = *source.checkpoint();
  const shape::ModelConfig& model = source.model();
  config::TrainConfig config;
  config::from_json(checkpoint.manifest().configuration,
                    (checkpoint.folder() / io::kManifestName).string(), config);
  RunTokenizer tokenizer = tokenizer_of(source.run(), checkpoint);
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
ExportOutcome export_folder(const ExportRequest& request, const ModelSource& source) {
  const hf::ModelWeights& weights = *source.weights();
  const DType dtype = request.dtype.value_or(weights.is_bf16() ? DType::kBF16 : DType::kF32);
  hf::export_model(request.folder, source.model(),
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
  const ModelSource source(request.source, request.checkpoint);
  return source.checkpoint() != nullptr ? export_checkpoint(request, source)
                                        : export_folder(request, source);
}

}  // namespace dos::train
