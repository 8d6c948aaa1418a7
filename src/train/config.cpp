// SPDX-License-Identifier: Apache-2.0
#include "train/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <sstream>
#include <type_traits>

#include "base/error.hpp"
#include "data/utf8.hpp"
#include "models/registry.hpp"
#include "rt/cuda.hpp"
#include "rt/device.hpp"
#include "rt/trace_sink.hpp"

namespace dos::train {
namespace {

/// Far above what is of use; the program keeps lists of these lengths.
constexpr Index kMostLanes = 1'000;
constexpr Index kMostWorkers = 100'000;
constexpr Index kMostDevices = 1'000;
constexpr Index kMostRunAhead = 1'000;
constexpr double kMostGigabytes = 1e6;
/// Of a run: its tokens are counted in 64 bits.
constexpr double kMostSequences = 1e14;

void expect_at_least(const char* key, Index value, Index least) {
  expect(value >= least, "{} must be at least {}, got {}", key, least, value);
}

void expect_between(const char* key, Index value, Index least, Index most) {
  expect(value >= least && value <= most, "{} must lie in [{}, {}], got {}", key, least, most,
         value);
}

/// The keys' values are positive.
void expect_countable_sequences(const char* keys, std::initializer_list<Index> values) {
  double sequences = 1;
  for (const Index value : values) sequences *= static_cast<double>(value);
  expect(sequences <= kMostSequences, "{} = {}: more than {:.0e} sequences; lower one", keys,
         fmt::join(values, " x "), kMostSequences);
}

void expect_model_size(const char* key, Index value) {
  expect(value >= 0, "{} must be at least 1 (or 0: the preset's), got {}", key, value);
}

DType precision_of(const char* key, const std::string& name) {
  if (name == "fp32") return DType::kF32;
  expect(name == "bf16", "{} = '{}' is not supported; known: fp32, bf16", key, name);
  return DType::kBF16;
}

/// Whether the JSON value is of the member's type; whole numbers are fine where fractions are.
template <class T>
bool holds(const nlohmann::json& value) {
  if constexpr (std::is_same_v<T, bool>) return value.is_boolean();
  if constexpr (std::is_same_v<T, Index>) return value.is_number_integer();
  if constexpr (std::is_same_v<T, double>) return value.is_number();
  return std::is_same_v<T, std::string> && value.is_string();
}

/// False when the value is of another type than the key.
bool assign(const nlohmann::json& value, const Key& key) {
  return std::visit(
      [&]<class T>(T* target) {
        if (!holds<T>(value)) return false;
        value.get_to(*target);
        return true;
      },
      key.value);
}

template <class Json>
Json& member(Json& json, const std::string& key) {
  const auto dot = key.find('.');
  return json[key.substr(0, dot)][key.substr(dot + 1)];
}

}  // namespace

std::vector<Key> keys_of(TrainConfig& c) {
  return {
      {"model.preset", &c.model.preset,
       "named shape: " + fmt::format("{}", fmt::join(models::preset_names(), ", "))},
      {"model.layers", &c.model.layers, "transformer blocks; 0: the preset's"},
      {"model.width", &c.model.width, "size of the residual stream; 0: the preset's"},
      {"model.heads", &c.model.heads, "attention heads, a divisor of the width; 0: the preset's"},
      {"model.context", &c.model.context, "tokens a sequence; 0: the preset's"},
      {"model.vocab", &c.model.vocab, "vocabulary; 0: the data set's, else the preset's"},
      {"data.path", &c.data.path,
       "prefix PREFIX of PREFIX_train.bin, PREFIX_val.bin (prepare_data)"},
      {"train.steps", &c.train.steps, "optimizer steps of the whole run"},
      {"train.stop_after", &c.train.stop_after,
       "stop after this step with a checkpoint, schedule unchanged; 0: run to the end"},
      {"train.batch", &c.train.batch, "sequences of a micro-batch"},
      {"train.accumulate", &c.train.accumulate, "micro-batches a step"},
      {"train.lanes", &c.train.lanes,
       "slices of a micro-batch that run side by side; they order the sums; 0: one a CUDA device, "
       "without one a CPU worker"},
      {"train.workers", &c.train.workers, "CPU workers; 0: one a core"},
      {"train.opencl_devices", &c.train.opencl_devices,
       "OpenCL devices that may update, a core each; -1: all; CPUs count with "
       "STARPU_OPENCL_ON_CPUS=1"},
      {"train.cuda_devices", &c.train.cuda_devices, "CUDA devices to use, a core each; -1: all"},
      {"train.gpu_memory", &c.train.gpu_memory,
       "GB that a run may use of each device with a memory of its own; 0: what is there; with "
       "--dry-run also of GPUs that this machine lacks"},
      {"train.fit", &c.train.fit,
       "where memory is short: error, or auto: smaller micro-batches (and more of them), then "
       "recomputation"},
      {"train.stall_timeout_s", &c.train.stall_timeout_s,
       "seconds without a running task after which a run with devices ends, as one has no memory "
       "for the next task or message"},
      {"train.seed", &c.train.seed, "seed of initialisation and of the order of the data"},
      {"train.precision", &c.train.precision,
       "type of working parameters, activations and their gradients: fp32, bf16; master parameters "
       "and states are fp32"},
      {"train.gradient_precision", &c.train.gradient_precision,
       "type in which gradients of parameters are summed over lanes and micro-batches: fp32, or "
       "bf16 with train.precision=bf16"},
      {"train.recompute", &c.train.recompute,
       "keep only block inputs, compute activations again in backward"},
      {"train.logits_rows", &c.train.logits_rows, "tokens of a lane whose logits exist at a time"},
      {"train.run_ahead", &c.train.run_ahead, "steps submitted before the oldest is finished"},
      {"train.validate_every", &c.train.validate_every,
       "steps between validations, one more at the end; 0: only there"},
      {"train.validate_batches", &c.train.validate_batches, "micro-batches of a validation"},
      {"train.checkpoint_every", &c.train.checkpoint_every,
       "steps between checkpoints; 0: at the end and at the best validation"},
      {"train.keep", &c.train.keep, "checkpoints kept besides the best"},
      {"train.log_every", &c.train.log_every, "steps between progress lines in a log file"},
      {"optim.rule", &c.optim.rule, optim::rules_help()},
      {"optim.lr", &c.optim.lr, "peak learning rate"},
      {"optim.final_lr_ratio", &c.optim.final_lr_ratio, "last learning rate over the peak"},
      {"optim.warmup", &c.optim.warmup, "steps of linear warm-up"},
      {"optim.schedule", &c.optim.schedule,
       fmt::format("{}", fmt::join(optim::LearningRate::known_schedules(), ", "))},
      {"optim.weight_decay", &c.optim.weight_decay,
       "decoupled weight decay of matrices, for every rule"},
      {"optim.decay_vectors", &c.optim.decay_vectors, "decay biases and norm weights too"},
      {"optim.decay_embeddings", &c.optim.decay_embeddings, "decay embeddings too"},
      {"optim.no_decay", &c.optim.no_decay,
       "comma-separated name patterns of further matrices without decay"},
      {"optim.beta1", &c.optim.beta1,
       "decay rate of the first moment; of what lion takes the sign of"},
      {"optim.beta2", &c.optim.beta2, "decay rate of the second moment; of lion's momentum"},
      {"optim.momentum", &c.optim.momentum, "decay rate of sgd's momentum"},
      {"optim.eps", &c.optim.eps,
       "added to the root of the second moment, or of adagrad's sum of squares"},
      {"optim.clip", &c.optim.clip, "largest global gradient norm; 0: no clipping"},
      {"sched.subgroup_params", &c.sched.subgroup_params,
       "most parameters of a subgroup, the unit of the update"},
      {"sched.stride", &c.sched.stride,
       "every stride-th subgroup on the GPU; 0: the policy's choice"},
      {"sched.share", &c.sched.share,
       "part of the parameters that GPUs update, 0 to 1; -1: the policy's choice"},
      {"sched.window", &c.sched.window,
       "subgroups whose states are on a GPU at once; 0: the policy's choice"},
      {"sched.resident", &c.sched.resident, "states may stay on a GPU where there is room"},
      {"sched.fallback", &c.sched.fallback,
       "dos: updates run elsewhere where a device is late or they end sooner; false: as planned"},
      {"dist.zero", &c.dist.zero,
       "what ranks share out: 1: optimizer states; 2: gradients too; 3: parameters too"},
      {"dist.weights", &c.dist.weights,
       "comma-separated, one positive number a rank: its share of the updates; empty: equal; auto: "
       "by what calibrate measured on each rank's node"},
      {"dist.gpu_messages", &c.dist.gpu_messages,
       "auto: MPI reads and writes the memory of a rank's only GPU where it can; off: messages go "
       "through host memory"},
      {"dist.timeout_s", &c.dist.timeout_s, "seconds after which a silent rank is lost"},
  };
}

void TrainConfig::validate() const {
  expect(!data.path.empty(),
         "data.path is not set: give the prefix of a token file that prepare_data made");
  TrainConfig copy = *this;
  for (const Key& key : keys_of(copy)) {
    if (auto* const* number = std::get_if<double*>(&key.value))
      expect(std::isfinite(static_cast<float>(**number)),
             "{} must be a finite number of single precision, got {}", key.name, **number);
    // Checkpoints and run.json hold it, and are JSON.
    if (auto* const* text = std::get_if<std::string*>(&key.value))
      expect(data::is_utf8(**text), "{} = '{}' is not UTF-8: rename what it names", key.name,
             **text);
  }
  expect_model_size("model.layers", model.layers);
  expect_model_size("model.width", model.width);
  expect_model_size("model.heads", model.heads);
  expect_model_size("model.context", model.context);
  expect_model_size("model.vocab", model.vocab);
  expect_at_least("train.steps", train.steps, 1);
  expect_at_least("train.stop_after", train.stop_after, 0);
  expect_at_least("train.batch", train.batch, 1);
  expect_at_least("train.accumulate", train.accumulate, 1);
  expect_between("train.lanes", train.lanes, 0, kMostLanes);
  expect_between("train.opencl_devices", train.opencl_devices, -1, kMostDevices);
  expect_between("train.cuda_devices", train.cuda_devices, -1, kMostDevices);
  expect(train.gpu_memory >= 0 && train.gpu_memory <= kMostGigabytes,
         "train.gpu_memory must lie in [0, {:g}] GB, got {}", kMostGigabytes, train.gpu_memory);
  expect(
      train.gpu_memory == 0 || gpu_memory_bytes() > 0,
      "train.gpu_memory = {} GB is less than 1 MiB, the least that the runtime can be limited to",
      train.gpu_memory);
  expect(train.fit == "error" || train.fit == "auto",
         "train.fit = '{}' is not supported; known: error, auto", train.fit);
  expect(train.stall_timeout_s >= 1, "train.stall_timeout_s must be at least 1, got {}",
         train.stall_timeout_s);
  expect_between("train.workers", train.workers, 0, kMostWorkers);
  expect_at_least("train.seed", train.seed, 0);
  expect_at_least("train.logits_rows", train.logits_rows, 1);
  expect_between("train.run_ahead", train.run_ahead, 1, kMostRunAhead);
  expect_at_least("train.validate_every", train.validate_every, 0);
  expect_at_least("train.validate_batches", train.validate_batches, 1);
  expect_countable_sequences("train.steps x train.batch x train.accumulate",
                             {train.steps, train.batch, train.accumulate});
  expect_countable_sequences("train.validate_batches x train.batch",
                             {train.validate_batches, train.batch});
  expect_at_least("train.checkpoint_every", train.checkpoint_every, 0);
  expect_at_least("train.keep", train.keep, 1);
  expect_at_least("train.log_every", train.log_every, 1);
  expect_at_least("sched.subgroup_params", sched.subgroup_params, 1);
  expect_at_least("sched.stride", sched.stride, 0);
  expect(sched.share == -1 || (sched.share >= 0 && sched.share <= 1),
         "sched.share must lie in [0, 1] (or be -1: the policy's choice), got {}", sched.share);
  expect_at_least("sched.window", sched.window, 0);
  expect_between("dist.zero", dist.zero, 1, 3);
  expect(dist.gpu_messages == "auto" || dist.gpu_messages == "off",
         "dist.gpu_messages = '{}' is not supported; known: auto, off", dist.gpu_messages);
  expect(dist.timeout_s >= 1, "dist.timeout_s must be at least 1, got {}", dist.timeout_s);
  static_cast<void>(parameter_types());
  optimizer().validate();
  static_cast<void>(learning_rate());
  static_cast<void>(scheduling(/*ranks=*/1));
}

Index TrainConfig::last_step() const {
  return train.stop_after != 0 ? std::min(train.stop_after, train.steps) : train.steps;
}

models::ModelConfig TrainConfig::resolve_model(Index dataset_vocabulary) const {
  models::ModelConfig config = models::find_preset(model.preset);
  const auto override_with = [](Index value, Index& target) {
    if (value != 0) target = value;
  };
  override_with(model.layers, config.layers);
  override_with(model.width, config.width);
  override_with(model.heads, config.heads);
  override_with(model.context, config.context);
  override_with(dataset_vocabulary, config.vocabulary);
  override_with(model.vocab, config.vocabulary);
  config.validate();
  expect(config.vocabulary >= dataset_vocabulary,
         "model.vocab = {} is smaller than the data set's vocabulary of {}: leave it 0 or raise it",
         config.vocabulary, dataset_vocabulary);
  return config;
}

tensor::ParameterTypes TrainConfig::parameter_types() const {
  const tensor::ParameterTypes types{
      .working = precision_of("train.precision", train.precision),
      .gradient = precision_of("train.gradient_precision", train.gradient_precision)};
  expect(types.gradient == DType::kF32 || types.working == DType::kBF16,
         "train.gradient_precision = 'bf16' needs train.precision = 'bf16', got '{}'",
         train.precision);
  return types;
}

Index TrainConfig::gpu_memory_bytes() const {
  constexpr double kMiB = 0x1p20;
  return static_cast<Index>(std::floor(train.gpu_memory * 1e9 / kMiB) * kMiB);
}

models::RunShape TrainConfig::run_shape(Index workers) const {
  models::RunShape shape;
  shape.batch = train.batch;
  shape.lanes = train.lanes != 0 ? train.lanes : std::min(train.batch, workers);
  shape.recompute = train.recompute;
  shape.logits_rows = train.logits_rows;
  shape.type = parameter_types().working;
  shape.validate();
  return shape;
}

optim::OptimizerOptions TrainConfig::optimizer() const {
  return {.rule = optim.rule,
          .beta1 = static_cast<float>(optim.beta1),
          .beta2 = static_cast<float>(optim.beta2),
          .momentum = static_cast<float>(optim.momentum),
          .eps = static_cast<float>(optim.eps),
          .weight_decay = static_cast<float>(optim.weight_decay),
          .clip = static_cast<float>(optim.clip)};
}

optim::LearningRate TrainConfig::learning_rate() const {
  return optim::LearningRate({.schedule = optim.schedule,
                              .peak = optim.lr,
                              .final_ratio = optim.final_lr_ratio,
                              .warmup = optim.warmup,
                              .steps = train.steps});
}

optim::DecayGroups TrainConfig::decay_groups() const {
  optim::DecayGroups groups{
      .vectors = optim.decay_vectors, .embeddings = optim.decay_embeddings, .excluded = {}};
  std::istringstream patterns(optim.no_decay);
  for (std::string pattern; std::getline(patterns, pattern, ',');)
    if (!pattern.empty()) groups.excluded.push_back(pattern);
  return groups;
}

sched_starpu::Settings TrainConfig::scheduling(Index ranks) const {
  sched_starpu::Settings settings;
  if (sched.stride != 0) settings.options.stride = sched.stride;
  if (sched.share != -1) settings.options.share = sched.share;
  if (sched.window != 0) settings.options.window = sched.window;
  settings.options.residents = sched.resident;
  settings.fallback = sched.fallback;
  settings.model_on_host = !rt::has_cuda() || train.cuda_devices == 0;
  settings.gradients_on_host = ranks > 1;
  settings.observer = &rt::trace_placement;
  settings.released = &rt::released_on;
  settings.options.validate();
  return settings;
}

std::string value_text(const Key& key) {
  return std::visit(
      [](const auto* value) -> std::string {
        using T = std::remove_cvref_t<decltype(*value)>;
        if constexpr (std::is_same_v<T, std::string>)
          return nlohmann::json(*value).dump();
        else
          return fmt::format("{}", *value);
      },
      key.value);
}

nlohmann::json to_json(const TrainConfig& config) {
  TrainConfig copy = config;
  nlohmann::json json;
  for (const Key& key : keys_of(copy))
    std::visit([&](const auto* value) { member(json, key.name) = *value; }, key.value);
  return json;
}

void from_json(const nlohmann::json& json, const std::string& where, TrainConfig& config) {
  const char* remedy = "use the version that wrote it, or another checkpoint";
  TrainConfig changed = config;
  const std::vector<Key> keys = keys_of(changed);
  expect(json.is_object(), "{}: the configuration is no JSON object: {}", where, remedy);
  for (const auto& [section, members] : json.items()) {
    expect(members.is_object(), "{}: configuration section '{}' is no JSON object: {}", where,
           section, remedy);
    for (const auto& [name, value] : members.items()) {
      const std::string full = section + "." + name;
      const auto key =
          std::find_if(keys.begin(), keys.end(), [&](const Key& k) { return k.name == full; });
      expect(key != keys.end(), "{}: configuration key '{}' is not known to this version: {}",
             where, full, remedy);
      expect(assign(value, *key), "{}: configuration key '{}' has a value of the wrong type: {}",
             where, full, remedy);
    }
  }
  config = changed;
}

}  // namespace dos::train
