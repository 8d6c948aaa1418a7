// SPDX-License-Identifier: Apache-2.0
#include "train/run_info.hpp"

#include "base/error.hpp"
#include "codelets/matrix/gemm_bf16.hpp"
#include "codelets/simd/isa.hpp"
#include "platform/blas.hpp"
#include "platform/mpi.hpp"
#include "platform/topology.hpp"
#include "rt/session.hpp"
#include "train/revision.hpp"

namespace dos::train {

std::string source_revision() {
  return kSourceRevision;
}

std::string program_version() {
  return kProgramVersion;
}

nlohmann::json describe_run(const TrainConfig& config, const models::ModelConfig& model,
                            const std::string& scheduler, Index workers) {
  const platform::Topology topology = platform::read_topology();
  return {{"program", {{"version", program_version()}, {"revision", source_revision()}}},
          {"configuration", to_json(config)},
          {"model", to_json(model)},
          {"runtime", {{"scheduler", scheduler}, {"cpu_workers", workers}}},
          {"versions",
           {{"starpu", rt::Session::version()},
            {"hwloc", platform::hwloc_version()},
            {"mpi", platform::MpiEnvironment::library_version()},
            {"blas", platform::blas::description()}}},
          {"blas_core_type", platform::blas::core_type()},
          {"simd", simd::name_of(simd::active_isa())},
          {"bf16_products", codelets::bf16_products()},
          {"topology",
           {{"processor", topology.processor},
            {"packages", topology.packages},
            {"numa_nodes", topology.numa_nodes},
            {"cores", topology.cores},
            {"processing_units", topology.processing_units},
            {"memory_bytes", topology.memory_bytes}}}};
}

nlohmann::json to_json(const models::ModelConfig& model) {
  return {{"architecture", model.architecture},
          {"layers", model.layers},
          {"width", model.width},
          {"heads", model.heads},
          {"context", model.context},
          {"vocabulary", model.vocabulary}};
}

models::ModelConfig model_from_json(const nlohmann::json& json, const std::string& where) {
  models::ModelConfig model;
  try {
    json.at("architecture").get_to(model.architecture);
    json.at("layers").get_to(model.layers);
    json.at("width").get_to(model.width);
    json.at("heads").get_to(model.heads);
    json.at("context").get_to(model.context);
    json.at("vocabulary").get_to(model.vocabulary);
  } catch (const nlohmann::json::exception& error) {
    fail("{}: the model's shape is damaged ({}): use another checkpoint", where, error.what());
  }
  model.validate();
  return model;
}

}  // namespace dos::train
