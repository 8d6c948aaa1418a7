// SPDX-License-Identifier: Apache-2.0
#include "train/run_info.hpp"

#include "base/error.hpp"
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

/// What a shape may leave out.
void take_choices(const nlohmann::json& json, shape::ModelConfig& model) {
  const auto take = [](const nlohmann::json& from, const char* key, auto& value) {
    if (from.contains(key)) from.at(key).get_to(value);
  };
  take(json, "kv_heads", model.kv_heads);
  take(json, "ffn", model.ffn);
  take(json, "positions", model.positions);
  take(json, "head_dim", model.head_dim);
  take(json, "rope_theta", model.rope_theta);
  if (json.contains("rope_scaling")) {
    const nlohmann::json& scaling = json.at("rope_scaling");
    scaling.at("factor").get_to(model.rope_scaling.factor);
    scaling.at("low_freq_factor").get_to(model.rope_scaling.low_freq_factor);
    scaling.at("high_freq_factor").get_to(model.rope_scaling.high_freq_factor);
    scaling.at("original_context").get_to(model.rope_scaling.original_context);
  }
  take(json, "norm_epsilon", model.norm_epsilon);
  take(json, "window", model.window);
  take(json, "tied_head", model.tied_head);
  take(json, "qkv_bias", model.qkv_bias);
  take(json, "qk_norm", model.qk_norm);
  if (json.contains("adapters")) {
    const nlohmann::json& adapters = json.at("adapters");
    adapters.at("rank").get_to(model.adapters.rank);
    adapters.at("alpha").get_to(model.adapters.alpha);
    adapters.at("by_root").get_to(model.adapters.by_root);
    adapters.at("targets").get_to(model.adapters.targets);
  }
}

}  // namespace

shape::ModelConfig model_from_json(const nlohmann::json& json, const std::string& where) {
  shape::ModelConfig model;
  try {
    json.at("architecture").get_to(model.architecture);
    json.at("layers").get_to(model.layers);
    json.at("width").get_to(model.width);
    json.at("heads").get_to(model.heads);
    json.at("context").get_to(model.context);
    json.at("vocabulary").get_to(model.vocabulary);
    take_choices(json, model);
  } catch (const nlohmann::json::exception& error) {
    fail("{}: the model's shape is damaged ({}): use another checkpoint", where, error.what());
  }
  try {
    shape::validate(model);
  } catch (const Error& error) {
    fail("{}: {}: use another checkpoint, or a newer program", where, error.what());
  }
  return model;
}

}  // namespace dos::train
