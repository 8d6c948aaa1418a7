// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_manifest.hpp"

#include <limits>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_field.hpp"

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

int small_number(const JsonField& field) {
  const Index value = field.index();
  if (value > std::numeric_limits<int>::max()) field.fail("must be less than 2^31");
  return static_cast<int>(value);
}

rt::MachineView machine_of(const JsonField& field) {
  rt::MachineView machine;
  for (const JsonField& each : field.member("workers").elements())
    machine.workers.push_back({small_number(each.member("id")), each.member("name").text(),
                               each.member("kind").text(), small_number(each.member("node"))});
  for (const JsonField& each : field.member("nodes").elements()) {
    rt::MachineView::Node node{small_number(each.member("id")), each.member("name").text(), {}};
    const JsonField capacity = each.member("capacity_bytes");
    if (!capacity.value().is_null()) node.capacity_bytes = capacity.index();
    machine.nodes.push_back(std::move(node));
  }
  for (const JsonField& each : field.member("links").elements())
    machine.links.push_back({small_number(each.member("from")), small_number(each.member("to")),
                             each.member("bytes_per_s").number()});
  return machine;
}

TraceManifest parse(const JsonField& root) {
  TraceManifest manifest;
  manifest.run = root.member("run").text();
  manifest.program = root.member("program").text();
  manifest.policy = root.member("policy").text();
  manifest.model = root.member("model").text();
  manifest.host = root.member("host").text();
  manifest.processor = root.member("processor").text();
  manifest.rank = small_number(root.member("rank"));
  manifest.ranks = small_number(root.member("ranks"));
  manifest.first_step = root.member("steps").member("first").index();
  manifest.last_step = root.member("steps").member("last").index();
  manifest.epoch_us = root.member("clock").member("epoch_us").number();
  manifest.clock_offset_us = root.member("clock").member("offset_us").number();
  manifest.machine = machine_of(root.member("machine"));
  if (root.object().contains("configuration"))
    manifest.configuration = root.object().at("configuration");
  manifest.complete = root.member("complete").truth();
  manifest.reason = root.member("reason").text();
  const JsonField rows = root.member("rows");
  for (const auto& item : rows.object().items())
    manifest.rows.emplace(item.key(), rows.member(item.key()).index());
  manifest.lost_events = root.member("lost_events").index();
  manifest.writer_cpu_us = root.member("writer_cpu_us").number();
  return manifest;
}

/// Nodes are found by their number.
void expect_consistent(const TraceManifest& manifest, const std::string& path) {
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

nlohmann::json to_json(const TraceManifest& manifest) {
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

TraceManifest read_manifest(const std::filesystem::path& path) {
  const std::string place = path.string();
  const nlohmann::json json =
      read_json_object(path, "not a trace of train_gpt: give the folder that --trace wrote");
  expect(json.value("format", nlohmann::json()) == kFormat,
         "{}: not a trace of train_gpt: give the folder that --trace wrote", place);
  const nlohmann::json version = json.value("version", nlohmann::json());
  expect(version == kVersion,
         "{}: format version {}, this program reads {}: use the program that "
         "wrote it",
         place, excerpt(version), kVersion);
  TraceManifest manifest =
      parse(JsonField(json, place, "the file is damaged: copy the trace again"));
  expect_consistent(manifest, place);
  return manifest;
}

}  // namespace dos::trace
