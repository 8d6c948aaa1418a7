// SPDX-License-Identifier: Apache-2.0
#include "train/run_info.hpp"

#include "base/error.hpp"
#include "base/json_field.hpp"
#include "codelets/attention/attention_cudnn.hpp"
#include "codelets/matrix/onednn.hpp"
#include "codelets/matrix/products.hpp"
#include "codelets/simd/isa.hpp"
#include "io/run_folder.hpp"
#include "platform/blas.hpp"
#include "platform/mpi.hpp"
#include "platform/topology.hpp"
#include "rt/session.hpp"
#include "shape/family_shape.hpp"
#include "train/revision.hpp"

namespace dos::train {

std::string source_revision() {
  return kSourceRevision;
}

std::string program_version() {
  return kProgramVersion;
}

nlohmann::json describe_run(const Run& run, const std::string& scheduler, Index workers) {
  const platform::Topology topology = platform::read_topology();
  return {{"format", io::kRunFormat},
          {"program", {{"version", program_version()}, {"revision", source_revision()}}},
          {"configuration", to_json(run.config)},
          {"model", to_json(run.model)},
          {"runtime", {{"scheduler", scheduler}, {"cpu_workers", workers}}},
          {"versions",
           {{"starpu", rt::Session::version()},
            {"hwloc", platform::hwloc_version()},
            {"mpi", platform::MpiEnvironment::library_version()},
            {"blas", platform::blas::description()}}},
          {"blas_core_type", platform::blas::core_type()},
          {"simd", simd::name_of(simd::active_isa())},
          {"fp32_products", codelets::fp32_products()},
          {"bf16_products", codelets::bf16_products()},
          {"gpu_attention", codelets::gpu_attention()},
          {"topology",
           {{"processor", topology.processor},
            {"packages", topology.packages},
            {"numa_nodes", topology.numa_nodes},
            {"cores", topology.cores},
            {"processing_units", topology.processing_units},
            {"memory_bytes", topology.memory_bytes}}}};
}

nlohmann::json to_json(const shape::ModelConfig& model) {
  nlohmann::json json{{"architecture", model.architecture},
                      {"layers", model.layers},
                      {"width", model.width},
                      {"heads", model.heads},
                      {"context", model.context},
                      {"vocabulary", model.vocabulary}};
  // Not of families that have none of their own: GPT-2's shape is as it always was.
  if (model.kv_heads != 0) json["kv_heads"] = model.kv_heads;
  if (model.ffn != 0) json["ffn"] = model.ffn;
  if (model.positions != 0) json["positions"] = model.positions;
  const shape::ModelConfig usual;
  if (model.head_dim != usual.head_dim) json["head_dim"] = model.head_dim;
  if (model.rope_theta != usual.rope_theta) json["rope_theta"] = model.rope_theta;
  if (model.rope_scaling != usual.rope_scaling)
    json["rope_scaling"] = {{"factor", model.rope_scaling.factor},
                            {"low_freq_factor", model.rope_scaling.low_freq_factor},
                            {"high_freq_factor", model.rope_scaling.high_freq_factor},
                            {"original_context", model.rope_scaling.original_context}};
  if (model.norm_epsilon != usual.norm_epsilon) json["norm_epsilon"] = model.norm_epsilon;
  if (model.window != usual.window) json["window"] = model.window;
  if (model.tied_head) json["tied_head"] = true;
  if (model.qkv_bias) json["qkv_bias"] = true;
  if (model.qk_norm) json["qk_norm"] = true;
  if (const shape::Adapters& adapters = model.adapters; adapters.any())
    json["adapters"] = {{"rank", adapters.rank},
                        {"alpha", adapters.alpha},
                        {"by_root", adapters.by_root},
                        {"targets", adapters.targets}};
  return json;
}

namespace {

void take(const JsonField& field, std::string& value) {
  value = field.text();
}
void take(const JsonField& field, Index& value) {
  value = field.index();
}
void take(const JsonField& field, double& value) {
  value = field.number();
}
void take(const JsonField& field, bool& value) {
  value = field.truth();
}

template <class Value>
void take_member(const JsonField& from, const char* key, Value& value) {
  take(from.member(key), value);
}

/// What a shape may leave out.
template <class Value>
void take_choice(const JsonField& from, const char* key, Value& value) {
  if (from.object().contains(key)) take_member(from, key, value);
}

void take_choices(const JsonField& field, shape::ModelConfig& model) {
  take_choice(field, "kv_heads", model.kv_heads);
  take_choice(field, "ffn", model.ffn);
  take_choice(field, "positions", model.positions);
  take_choice(field, "head_dim", model.head_dim);
  take_choice(field, "rope_theta", model.rope_theta);
  if (field.object().contains("rope_scaling")) {
    const JsonField scaling = field.member("rope_scaling");
    take_member(scaling, "factor", model.rope_scaling.factor);
    take_member(scaling, "low_freq_factor", model.rope_scaling.low_freq_factor);
    take_member(scaling, "high_freq_factor", model.rope_scaling.high_freq_factor);
    take_member(scaling, "original_context", model.rope_scaling.original_context);
  }
  take_choice(field, "norm_epsilon", model.norm_epsilon);
  take_choice(field, "window", model.window);
  take_choice(field, "tied_head", model.tied_head);
  take_choice(field, "qkv_bias", model.qkv_bias);
  take_choice(field, "qk_norm", model.qk_norm);
  if (!field.object().contains("adapters")) return;
  const JsonField adapters = field.member("adapters");
  take_member(adapters, "rank", model.adapters.rank);
  take_member(adapters, "alpha", model.adapters.alpha);
  take_member(adapters, "by_root", model.adapters.by_root);
  const JsonField targets = adapters.member("targets");
  for (const auto& each : targets.object().items())
    model.adapters.targets[each.key()] = targets.member(each.key()).indices();
}

}  // namespace

shape::ModelConfig model_from_json(const nlohmann::json& json, const std::string& where) {
  shape::ModelConfig model;
  const JsonField field(json, where + ": the model's shape",
                        "it is damaged: use another checkpoint");
  take_member(field, "architecture", model.architecture);
  take_member(field, "layers", model.layers);
  take_member(field, "width", model.width);
  take_member(field, "heads", model.heads);
  take_member(field, "context", model.context);
  take_member(field, "vocabulary", model.vocabulary);
  take_choices(field, model);
  try {
    shape::validate(model);
  } catch (const Error& error) {
    fail("{}: {}: use another checkpoint, or a newer program", where, error.what());
  }
  return model;
}

}  // namespace dos::train
