// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/agreement.hpp"

#include <nlohmann/json.hpp>

#include "base/json.hpp"

namespace dos::checkpoint {
namespace {

using nlohmann::json;

std::string to_text(const json& said) {
  return said.dump(-1, ' ', false, json::error_handler_t::replace);
}

json parse(const std::string& text) {
  return parse_json_object(text, "what a rank says of a checkpoint",
                           "start all ranks with the same program");
}

std::string to_text(const Start& start) {
  return to_text(
      json{{"fault", start.fault}, {"takes_kept", start.takes_kept}, {"differs", start.differs}});
}

Start parse_start(const std::string& text) {
  const json said = parse(text);
  return {.fault = said.at("fault").get<std::string>(),
          .takes_kept = said.at("takes_kept").get<bool>(),
          .differs = said.at("differs").get<bool>()};
}

}  // namespace

Agreement::Agreement(ranks::Exchange* exchange, Index number, NodeFolders folders)
    : folders_(std::move(folders)),
      rank_(exchange == nullptr ? 0 : exchange->rank()),
      texts_(exchange, number) {}

Start Agreement::agree_on_start(const Start& mine) {
  Start all = mine;
  if (folders_.are_several()) {
    const std::vector<std::string> texts = texts_.to_root(to_text(mine));
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      if (!folders_.leads(static_cast<Index>(rank))) continue;
      const Start each = parse_start(texts[rank]);
      if (all.fault.empty()) all.fault = each.fault;
      all.differs = all.differs || each.takes_kept != mine.takes_kept;
      all.takes_kept = all.takes_kept && each.takes_kept;
    }
  }
  return parse_start(texts_.from_root(to_text(all)));
}

Verdict Agreement::hear(const Verdict& mine) {
  const json said = parse(texts_.from_root(to_text(
      json{{"fault", mine.fault}, {"bad_tensor", mine.bad_tensor}, {"manifest", mine.manifest}})));
  return {.fault = said.at("fault").get<std::string>(),
          .bad_tensor = said.at("bad_tensor").get<std::string>(),
          .manifest = said.at("manifest").get<std::string>()};
}

std::string Agreement::first_fault(const std::string& mine) {
  for (const std::string& fault : texts_.to_root(mine))
    if (!fault.empty()) return fault;
  return "";
}

}  // namespace dos::checkpoint
