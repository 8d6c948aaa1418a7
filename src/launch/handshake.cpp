// SPDX-License-Identifier: Apache-2.0
#include "launch/handshake.hpp"
#include "base/json_text.hpp"
#include "ranks/agreed_error.hpp"

#include <algorithm>
#include <iterator>

#include "base/json.hpp"
#include "data/dataset_manifest.hpp"
#include "ranks/gather.hpp"
#include "train/run_data.hpp"
#include "train/run_info.hpp"

namespace dos::launch {
namespace {

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

nlohmann::json agreement_of(const train::Run& run, const data::Sources& sources,
                            const nlohmann::json& checkpoint) {
  nlohmann::json identity = train::describe_data(sources);
  for (const data::Source& source : sources) {
    const auto& manifest = source.dataset.manifest;
    identity["manifests"].push_back(manifest ? nlohmann::json(data::to_text(*manifest)) : nullptr);
  }
  return {
      {"program", {{"version", train::program_version()}, {"revision", train::source_revision()}}},
      {"configuration", to_json(run.config, config::Scope::kRun)},
      {"model", train::to_json(run.model)},
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

void agree(ranks::Exchange& exchange, const RankStart& mine) {
  const nlohmann::json message{{"error", mine.error}, {"agreement", mine.agreement}};
  // A path of the error may be no UTF-8.
  const std::string text = json_text(message);
  std::vector<RankStart> starts;
  for (const std::string& each : ranks::gather_texts(exchange, text)) {
    const nlohmann::json start =
        parse_json_object(each, "the message of a rank", "start all ranks with the same program");
    starts.push_back({start.at("error").get<std::string>(), start.at("agreement")});
  }
  const std::string found = find_disagreement(starts);
  if (!found.empty()) throw ranks::AgreedError(found);
}

}  // namespace dos::launch
