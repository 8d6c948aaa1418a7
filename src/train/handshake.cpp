// SPDX-License-Identifier: Apache-2.0
#include "train/handshake.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/json.hpp"
#include "data/manifest.hpp"
#include "dist/gather.hpp"
#include "train/run_data.hpp"
#include "train/run_info.hpp"

namespace dos::train {
namespace {

/// Keys that may differ from node to node without changing what the ranks compute together.
constexpr std::array kOfTheNode{"/train/workers",    "/train/opencl_devices", "/train/cuda_devices",
                                "/data/path",        "/sched/stride",         "/sched/share",
                                "/sched/window",     "/sched/resident",       "/sched/fallback",
                                "/dist/gpu_messages"};

std::string difference(const nlohmann::json& first, const nlohmann::json& other, std::size_t rank) {
  const nlohmann::json patch = nlohmann::json::diff(first, other);
  if (patch.empty()) return "";
  const nlohmann::json::json_pointer place(patch.front().at("path").get<std::string>());
  const auto shown = [&](const nlohmann::json& side) {
    return side.contains(place) ? excerpt(side.at(place)) : std::string("nothing");
  };
  std::string name = place.to_string().substr(1);
  std::replace(name.begin(), name.end(), '/', '.');
  return fmt::format(
      "rank {} has {} = {}, rank 0 has {}: start all ranks with the same program, configuration "
      "and data",
      rank, name, shown(other), shown(first));
}

}  // namespace

nlohmann::json agreement_of(const TrainConfig& config, const models::ModelConfig& model,
                            const data::Dataset& dataset, const nlohmann::json& checkpoint) {
  nlohmann::json shared = to_json(config);
  for (const char* key : kOfTheNode) {
    const nlohmann::json::json_pointer place(key);
    shared[place.parent_pointer()].erase(place.back());
  }
  nlohmann::json identity = describe_data(dataset);
  identity["manifest"] =
      dataset.manifest ? nlohmann::json(data::to_text(*dataset.manifest)) : nullptr;
  return {{"program", {{"version", program_version()}, {"revision", source_revision()}}},
          {"configuration", shared},
          {"model", to_json(model)},
          {"data", std::move(identity)},
          {"checkpoint", checkpoint}};
}

std::string find_disagreement(const std::vector<RankStart>& starts) {
  for (std::size_t rank = 0; rank < starts.size(); ++rank)
    if (!starts[rank].error.empty()) return fmt::format("rank {}: {}", rank, starts[rank].error);
  for (std::size_t rank = 1; rank < starts.size(); ++rank) {
    std::string found = difference(starts.front().agreement, starts[rank].agreement, rank);
    if (!found.empty()) return found;
  }
  return "";
}

void agree(dist::Exchange& exchange, const RankStart& mine) {
  const nlohmann::json message{{"error", mine.error}, {"agreement", mine.agreement}};
  // A path of the error may be no UTF-8.
  const std::string text = message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::vector<RankStart> starts;
  for (const std::string& each : dist::gather_texts(exchange, text)) {
    const nlohmann::json start =
        parse_json_object(each, "the message of a rank", "start all ranks with the same program");
    starts.push_back({start.at("error").get<std::string>(), start.at("agreement")});
  }
  const std::string found = find_disagreement(starts);
  if (!found.empty()) throw AgreedError(found);
}

}  // namespace dos::train
