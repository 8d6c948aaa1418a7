// SPDX-License-Identifier: Apache-2.0
#include "trace/manifest.hpp"

#include "base/error.hpp"
#include "base/file.hpp"

namespace dos::trace {
namespace {

constexpr const char* kFormat = "dos-trace";
constexpr int kVersion = 1;

nlohmann::json to_json(const rt::MachineView& machine) {
  nlohmann::json json{{"workers", nlohmann::json::array()},
                      {"nodes", nlohmann::json::array()},
                      {"links", nlohmann::json::array()}};
  for (const auto& worker : machine.workers)
    json["workers"].push_back(
        {{"id", worker.id}, {"name", worker.name}, {"kind", worker.kind}, {"node", worker.node}});
  for (const auto& node : machine.nodes) {
    nlohmann::json capacity = nullptr;
    if (node.capacity_bytes) capacity = *node.capacity_bytes;
    json["nodes"].push_back({{"id", node.id}, {"name", node.name}, {"capacity_bytes", capacity}});
  }
  for (const auto& link : machine.links)
    json["links"].push_back(
        {{"from", link.from}, {"to", link.to}, {"bytes_per_s", link.bytes_per_s}});
  return json;
}

rt::MachineView machine_of(const nlohmann::json& json) {
  rt::MachineView machine;
  for (const nlohmann::json& each : json.at("workers"))
    machine.workers.push_back(
        {each.at("id"), each.at("name"), each.at("kind"), each.at("node").get<int>()});
  for (const nlohmann::json& each : json.at("nodes")) {
    rt::MachineView::Node node{each.at("id"), each.at("name"), {}};
    if (!each.at("capacity_bytes").is_null()) node.capacity_bytes = each.at("capacity_bytes");
    machine.nodes.push_back(std::move(node));
  }
  for (const nlohmann::json& each : json.at("links"))
    machine.links.push_back({each.at("from"), each.at("to"), each.at("bytes_per_s")});
  return machine;
}

Manifest parse(const nlohmann::json& json) {
  Manifest manifest;
  json.at("run").get_to(manifest.run);
  json.at("program").get_to(manifest.program);
  json.at("policy").get_to(manifest.policy);
  json.at("model").get_to(manifest.model);
  json.at("host").get_to(manifest.host);
  json.at("processor").get_to(manifest.processor);
  json.at("rank").get_to(manifest.rank);
  json.at("ranks").get_to(manifest.ranks);
  json.at("steps").at("first").get_to(manifest.first_step);
  json.at("steps").at("last").get_to(manifest.last_step);
  json.at("clock").at("epoch_us").get_to(manifest.epoch_us);
  json.at("clock").at("offset_us").get_to(manifest.clock_offset_us);
  manifest.machine = machine_of(json.at("machine"));
  manifest.configuration = json.value("configuration", nlohmann::json());
  json.at("complete").get_to(manifest.complete);
  json.at("reason").get_to(manifest.reason);
  json.at("rows").get_to(manifest.rows);
  json.at("lost_events").get_to(manifest.lost_events);
  json.at("writer_cpu_us").get_to(manifest.writer_cpu_us);
  return manifest;
}

/// Nodes are found by their number.
void expect_consistent(const Manifest& manifest, const std::string& path) {
  const auto& nodes = manifest.machine.nodes;
  bool good = manifest.ranks >= 1 && manifest.rank >= 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) good = good && nodes[i].id == static_cast<int>(i);
  const auto exists = [&](int node) { return node >= 0 && node < std::ssize(nodes); };
  for (const auto& worker : manifest.machine.workers) good = good && exists(worker.node);
  for (const auto& link : manifest.machine.links)
    good = good && exists(link.from) && exists(link.to);
  expect(good, "{}: the machine in it makes no sense: copy the trace again", path);
}

}  // namespace

nlohmann::json to_json(const Manifest& manifest) {
  return {{"format", kFormat},
          {"version", kVersion},
          {"run", manifest.run},
          {"program", manifest.program},
          {"policy", manifest.policy},
          {"model", manifest.model},
          {"host", manifest.host},
          {"processor", manifest.processor},
          {"rank", manifest.rank},
          {"ranks", manifest.ranks},
          {"steps", {{"first", manifest.first_step}, {"last", manifest.last_step}}},
          {"clock", {{"epoch_us", manifest.epoch_us}, {"offset_us", manifest.clock_offset_us}}},
          {"machine", to_json(manifest.machine)},
          {"configuration", manifest.configuration},
          {"complete", manifest.complete},
          {"reason", manifest.reason},
          {"rows", manifest.rows},
          {"lost_events", manifest.lost_events},
          {"writer_cpu_us", manifest.writer_cpu_us}};
}

Manifest read_manifest(const std::filesystem::path& path) {
  const nlohmann::json json = nlohmann::json::parse(read_text(path), nullptr, false);
  expect(!json.is_discarded() && json.is_object() && json.contains("format") &&
             json.at("format") == kFormat,
         "{}: not a trace of train_gpt: give the folder that --trace wrote", path.string());
  const nlohmann::json version = json.value("version", nlohmann::json());
  expect(version == kVersion,
         "{}: format version {}, this program reads {}: use the program that "
         "wrote it",
         path.string(), version.dump(), kVersion);
  try {
    Manifest manifest = parse(json);
    expect_consistent(manifest, path.string());
    return manifest;
  } catch (const nlohmann::json::exception& error) {
    fail("{}: the file is damaged ({}): copy the trace again", path.string(), error.what());
  }
}

}  // namespace dos::trace
