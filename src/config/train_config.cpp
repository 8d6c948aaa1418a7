// SPDX-License-Identifier: Apache-2.0
#include "config/train_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <type_traits>

#include "base/error.hpp"
#include "data/utf8.hpp"
#include "hf/adapter_config.hpp"
#include "models/family.hpp"
#include "rt/cuda.hpp"
#include "rt/device.hpp"
#include "rt/trace_sink.hpp"
#include "shape/family_shape.hpp"

namespace dos::config {
namespace {

/// Of a run: its tokens are counted in 64 bits.
constexpr double kMostSequences = 1e14;

/// The keys' values are positive.
void expect_countable_sequences(const char* keys, std::initializer_list<Index> values) {
  double sequences = 1;
  for (const Index value : values) sequences *= static_cast<double>(value);
  expect(sequences <= kMostSequences, "{} = {}: more than {:.0e} sequences; lower one", keys,
         fmt::join(values, " x "), kMostSequences);
}

/// Pre: expect_in_domains().
DType precision_of(const std::string& name) {
  return name == "bf16" ? DType::kBF16 : DType::kF32;
}

/// Throws Error unless the key's value can be stored and is of its domain.
void expect_representable(const Key& key) {
  if (auto* const* number = std::get_if<double*>(&key.value))
    expect(std::isfinite(static_cast<float>(**number)),
           "{} must be a finite number of single precision, got {}", key.name, **number);
  // Checkpoints and run.json hold it, and are JSON.
  if (auto* const* text = std::get_if<std::string*>(&key.value))
    expect(data::is_utf8(**text), "{} = '{}' is not UTF-8: rename what it names", key.name, **text);
}

void expect_in_domain(const Key& key) {
  if (const auto* range = std::get_if<Range>(&key.option->domain)) {
    if (auto* const* number = std::get_if<Index*>(&key.value))
      expect_in(*range, key.name, **number);
    else
      expect_in(*range, key.name, *std::get<double*>(key.value));
  }
  if (const auto* choice = std::get_if<Choice>(&key.option->domain)) {
    const std::string& word = *std::get<std::string*>(key.value);
    const std::vector<std::string> known = choice->words();
    expect(std::ranges::find(known, word) != known.end(), "{} = '{}' is not supported; known: {}",
           key.name, word, fmt::join(known, ", "));
  }
  if (const auto* named = std::get_if<Named>(&key.option->domain))
    named->expect_known(*std::get<std::string*>(key.value));
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

std::vector<Key> keys_of(Keys& keys) {
  std::vector<Key> all;
  for (const Option& option : kOptions)
    if (option.is_for_training())
      all.push_back({option.name, option.value(keys), option.help.full(), &option});
  return all;
}

void TrainConfig::expect_in_domains() const {
  TrainConfig copy = *this;
  const std::vector<Key> keys = keys_of(copy);
  for (const Key& key : keys) expect_representable(key);
  for (const Key& key : keys) expect_in_domain(key);
}

void TrainConfig::validate() const {
  static_cast<void>(data_sources());
  expect_in_domains();
  expect(
      train.gpu_memory == 0 || gpu_memory_bytes() > 0,
      "train.gpu_memory = {} GB is less than 1 MiB, the least that the runtime can be limited to",
      train.gpu_memory);
  expect_countable_sequences("train.steps x train.batch x train.accumulate",
                             {train.steps, train.batch, train.accumulate});
  expect_countable_sequences("train.validate_batches x train.batch",
                             {train.validate_batches, train.batch});
  static_cast<void>(parameter_types());
  expect(lora.rank > 0 || lora == shape::AdapterChoice(),
         "lora.alpha, lora.targets or lora.rslora is set, but lora.rank = 0 asks for no adapters: "
         "set it, or leave them out");
  // In single precision.
  optimizer().validate();
  expect(
      optim.speculate != "on" || optim.clip > 0,
      "optim.speculate = on, but with optim.clip = 0 no update waits for the norm: leave it out");
  expect(optim.speculate != "on" || parameter_types().working != DType::kF32,
         "optim.speculate = on needs train.precision=bf16: forward reads FP32 parameters in place");
  expect(!disks().empty() || sched.host_memory == kAuto || sched.host_memory == 0,
         "sched.host_memory = {} GB, but sched.disks names no disk for the states beyond it: name "
         "one, or leave it out",
         sched.host_memory);
  expect(train.host_memory == 0 || sched.host_memory < train.host_memory,
         "sched.host_memory = {} GB for states, but train.host_memory = {} GB is for all that a "
         "rank has: lower the one, raise the other, or leave sched.host_memory to auto",
         sched.host_memory, train.host_memory);
  expect(!train.recompute || train.activations == "keep",
         "train.recompute = true and train.activations = {}: leave one of them out",
         train.activations);
  expect(activation_plan().moved == 0 || !activation_disks().empty(),
         "train.activations = {}, but no disk is named: name folders in train.activation_disks",
         train.activations);
  static_cast<void>(trained_groups());
  static_cast<void>(scheduling(/*ranks=*/1));
}

std::vector<data::SourceName> TrainConfig::data_sources() const {
  expect(
      data.path.empty() || data.sources.empty(),
      "data.path = {} and data.sources = {}: leave one of them empty, as with --set data.sources=",
      data.path, data.sources);
  if (!data.sources.empty()) return data::parse_sources(data.sources);
  expect(!data.path.empty(),
         "data.path is not set: give the prefix of a token file that prepare_data made");
  return {{.prefix = data.path, .weight = 1}};
}

Index TrainConfig::last_step() const {
  return train.stop_after != 0 ? std::min(train.stop_after, train.steps) : train.steps;
}

shape::ModelConfig TrainConfig::resolve_model(Index dataset_vocabulary) const {
  shape::ModelConfig config = models::find_preset(model.preset);
  const auto override_with = [](auto value, auto& target) {
    if (value != 0) target = value;
  };
  const auto switch_to = [](const std::string& word, bool& target) {
    if (word != "preset") target = word == "on";
  };
  override_with(model.layers, config.layers);
  override_with(model.width, config.width);
  override_with(model.heads, config.heads);
  override_with(model.context, config.context);
  override_with(dataset_vocabulary, config.vocabulary);
  override_with(model.vocab, config.vocabulary);
  override_with(model.positions, config.positions);
  if (config.positions == config.context) config.positions = 0;
  override_with(model.kv_heads, config.kv_heads);
  override_with(model.ffn, config.ffn);
  override_with(model.head_dim, config.head_dim);
  override_with(model.rope_theta, config.rope_theta);
  override_with(model.rope_factor, config.rope_scaling.factor);
  override_with(model.rope_low_freq, config.rope_scaling.low_freq_factor);
  override_with(model.rope_high_freq, config.rope_scaling.high_freq_factor);
  override_with(model.rope_context, config.rope_scaling.original_context);
  override_with(model.norm_eps, config.norm_epsilon);
  override_with(model.window, config.window);
  if (model.window == -1) config.window = 0;
  switch_to(model.tied_head, config.tied_head);
  switch_to(model.qkv_bias, config.qkv_bias);
  switch_to(model.qk_norm, config.qk_norm);
  shape::validate(config);
  expect(config.vocabulary >= dataset_vocabulary,
         "model.vocab = {} is smaller than the data set's vocabulary of {}: leave it 0 or raise it",
         config.vocabulary, dataset_vocabulary);
  take_adapters(lora, config);
  return config;
}

void take_adapters(const shape::AdapterChoice& lora, shape::ModelConfig& model) {
  model.adapters = {};
  if (lora.rank == 0) return;
  model.adapters = {.rank = lora.rank,
                    .alpha = lora.alpha,
                    .by_root = lora.rslora,
                    .targets = hf::adapter_targets(model, shape::parse_patterns(lora.targets))};
  shape::validate(model);
}

tensor::ParameterTypes TrainConfig::parameter_types() const {
  const tensor::ParameterTypes types{.working = precision_of(train.precision),
                                     .gradient = precision_of(train.gradient_precision)};
  expect(types.gradient == DType::kF32 || types.working == DType::kBF16,
         "train.gradient_precision = 'bf16' needs train.precision = 'bf16', got '{}'",
         train.precision);
  return types;
}

Index TrainConfig::gpu_memory_bytes() const {
  constexpr double kMiB = 0x1p20;
  return static_cast<Index>(std::floor(train.gpu_memory * 1e9 / kMiB) * kMiB);
}

Index TrainConfig::host_memory_bytes() const {
  return static_cast<Index>(train.host_memory * 1e9);
}

shape::RunShape TrainConfig::run_shape(const shape::LaneWorkers& workers) const {
  shape::RunShape shape;
  shape.batch = train.batch;
  shape.lanes = train.lanes != 0 ? train.lanes : std::min(train.batch, workers.count);
  shape.activations = activation_plan();
  shape.logits_rows = train.logits_rows != 0 ? train.logits_rows : workers.logits_rows();
  shape.type = parameter_types().working;
  shape.validate();
  return shape;
}

std::vector<offload::DiskPlace> TrainConfig::disks() const {
  return offload::parse_disks(sched.disks);
}

std::vector<offload::DiskPlace> TrainConfig::activation_disks() const {
  return train.activation_disks.empty()
             ? disks()
             : offload::parse_disks(train.activation_disks, "train.activation_disks");
}

shape::ActivationPlan TrainConfig::activation_plan() const {
  return train.recompute ? shape::kRecomputeAll : shape::parse_activation_plan(train.activations);
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

shape::DecayGroups TrainConfig::decay_groups() const {
  return {.vectors = optim.decay_vectors,
          .embeddings = optim.decay_embeddings,
          .excluded = shape::parse_patterns(optim.no_decay)};
}

shape::TrainedGroups TrainConfig::trained_groups() const {
  return {.frozen = shape::parse_patterns(optim.freeze),
          .factors = shape::parse_factors("optim.lr_factors", optim.lr_factors)};
}

sched_starpu::SchedulerSettings TrainConfig::scheduling(
    Index ranks, const std::optional<perfmodels::GpuRates>& measured_link) const {
  sched_starpu::SchedulerSettings settings{.measured_link = measured_link};
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
  expect_representable(key);
  const auto* range = std::get_if<Range>(&key.option->domain);
  return std::visit(
      [&](const auto* value) -> std::string {
        using T = std::remove_cvref_t<decltype(*value)>;
        if constexpr (std::is_same_v<T, Index> || std::is_same_v<T, double>)
          if (range != nullptr && range->also_word && static_cast<double>(*value) == range->also)
            return nlohmann::json(range->also_word).dump();
        if constexpr (std::is_same_v<T, std::string>)
          return nlohmann::json(*value).dump();
        else
          return fmt::format("{}", *value);
      },
      key.value);
}

nlohmann::json to_json(const TrainConfig& config, std::optional<Scope> scope) {
  TrainConfig copy = config;
  nlohmann::json json;
  for (const Key& key : keys_of(copy))
    if (!scope || scope == key.option->scope)
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

}  // namespace dos::config
