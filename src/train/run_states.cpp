// SPDX-License-Identifier: Apache-2.0
#include "train/run_states.hpp"

#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/json.hpp"
#include "base/log.hpp"
#include "checkpoint/part_reader.hpp"
#include "offload/region_files.hpp"
#include "optim/rules.hpp"
#include "ranks/gather.hpp"
#include "rt/device.hpp"

namespace dos::train {
namespace {

std::vector<offload::StateForm> forms_of(const std::vector<std::vector<io::TensorSpec>>& files) {
  std::vector<offload::StateForm> forms;
  for (const std::vector<io::TensorSpec>& tensors : files)
    forms.push_back(tensors.empty() ? offload::StateForm() : checkpoint::form_of(tensors));
  return forms;
}

/// The sums of a file with these tensors, by piece; nullopt: it has another form.
std::optional<std::vector<codelets::ContentSum>> sums_of(
    const io::FileRecord& file, const std::vector<io::TensorSpec>& tensors) {
  const offload::StateForm form = checkpoint::form_of(tensors);
  if (!file.header || file.header->bytes != form.header_bytes ||
      file.tensors.size() != tensors.size())
    return std::nullopt;
  std::vector<codelets::ContentSum> sums;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (static_cast<const io::TensorSpec&>(file.tensors[i]) != tensors[i]) return std::nullopt;
    for (const io::PieceSum& piece : file.tensors[i].pieces) {
      if (sums.size() == form.piece_bytes.size() || piece.bytes != form.piece_bytes[sums.size()])
        return std::nullopt;
      sums.push_back({.crc32c = piece.crc32c});
    }
  }
  if (sums.size() != form.piece_bytes.size()) return std::nullopt;
  return sums;
}

/// As fit::Room::devices has them.
std::vector<rt::Device> devices_of_room() {
  std::vector<rt::Device> devices = rt::devices();
  std::erase_if(devices, [](const rt::Device& each) { return !each.memory_bytes; });
  return devices;
}

/// The tensors of files that have states on disks, by subgroup.
std::vector<std::vector<io::TensorSpec>> tensors_of(const Run& run, const offload::HomePlan& plan) {
  const std::vector<Index> on_disks = plan.on_disks();
  return checkpoint::state_file_tensors(
      run.layout, optim::find_rule(run.config.optim.rule).info->states,
      {.subgroups = {on_disks.begin(), on_disks.end()}, .with_parameters = plan.with_parameters});
}

/// The folder, or what is there of the way to it.
std::filesystem::path existing(std::filesystem::path folder) {
  std::error_code ignored;
  folder = std::filesystem::absolute(folder);
  while (folder.has_relative_path() && !std::filesystem::is_directory(folder, ignored))
    folder = folder.parent_path();
  return folder;
}

}  // namespace

Index expect_room_on_disks(const Run& run, Index workers) {
  const std::vector<offload::DiskPlace> disks = run.disks();
  offload::expect_folders(disks);
  const offload::HomePlan plan = plan_homes(run, workers);
  if (plan.on_disks().empty()) return 0;
  const shape::StateRegions regions =
      offload::regions_of(run.layout, plan, forms_of(tensors_of(run, plan)), std::ssize(disks));
  static_cast<void>(offload::share_regions(disks, regions));
  return regions.total_bytes();
}

RunStates::RunStates(rt::Session& session, const Run& run,
                     const std::function<std::unique_ptr<storage::Backend>()>& storage) {
  if (run.config.activation_plan().moved > 0)
    activations_ = std::make_unique<offload::DiskActivations>(run.config.activation_disks(),
                                                              storage(), run.spare_memory);
  // Those that nothing goes to now may be needed by the next run.
  offload::expect_folders(run.config.disks());
  const offload::HomePlan plan = plan_homes(run, session.workers());
  has_parameters_ = plan.with_parameters;
  if (plan.are_all_in_host_memory()) return;
  tensors_ = tensors_of(run, plan);
  away_ = std::make_unique<offload::AwayStates>(session, run.layout, plan, run.disks(),
                                                forms_of(tensors_), devices_of_room(), storage());
}

std::vector<Index> RunStates::on_disks() const {
  return away_ == nullptr ? std::vector<Index>() : away_->plan().on_disks();
}

std::vector<Index> RunStates::states_away() const {
  std::vector<Index> subgroups;
  if (away_ == nullptr) return subgroups;
  for (const offload::HomePlan::Away& each : away_->plan().away) subgroups.push_back(each.subgroup);
  return subgroups;
}

std::vector<Index> RunStates::parameters_away() const {
  return has_parameters_ ? states_away() : std::vector<Index>();
}

std::vector<checkpoint::StateFiles> RunStates::files_for(
    std::span<const std::filesystem::path> folders, ranks::Exchange* exchange) const {
  std::vector<bool> can;
  std::vector<std::string> lacking;
  for (const std::filesystem::path& folder : folders) {
    offload::RegionFiles::Naming naming{.can = true};
    if (away_ != nullptr) naming = away_->can_name_in(existing(folder));
    can.push_back(naming.can);
    lacking.push_back(std::move(naming.lacking));
  }
  // What a rank has away says something of the others' files: theirs have the same form.
  bool with_parameters = has_parameters_;
  std::vector<std::string> texts{
      nlohmann::json{{"can", can}, {"subgroups", on_disks()}, {"with_parameters", with_parameters}}
          .dump()};
  if (exchange != nullptr) texts = ranks::gather_texts(*exchange, texts.front());
  std::set<Index> all;
  for (const std::string& text : texts) {
    const nlohmann::json said =
        parse_json_object(text, "what a rank says", "start all ranks with the same program");
    const auto subgroups = said.at("subgroups").get<std::vector<Index>>();
    all.insert(subgroups.begin(), subgroups.end());
    with_parameters = with_parameters || said.at("with_parameters").get<bool>();
    const auto it_can = said.at("can").get<std::vector<bool>>();
    for (std::size_t i = 0; i < can.size(); ++i) can[i] = can[i] && it_can.at(i);
  }
  std::vector<checkpoint::StateFiles> files(folders.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!lacking[i].empty())
      log::info(
          "sched.disks: {} in {}, which takes no file of {} as it is; keep checkpoints on the file "
          "system of {} states (train.checkpoint_local)",
          can[i] ? "checkpoints copy files of states" : offload::kStatesAnew, folders[i].string(),
          lacking[i], can[i] ? "most" : "the");
    if (can[i]) files[i] = {.subgroups = all, .with_parameters = with_parameters};
  }
  return files;
}

std::set<Index> RunStates::take_files(storage::Engine& engine, const std::filesystem::path& folder,
                                      const io::CheckpointManifest& manifest) const {
  std::set<Index> taken;
  if (away_ == nullptr || !away_->can_take()) return taken;
  struct Found {
    Index subgroup;
    const io::FileRecord* file;
    std::vector<codelets::ContentSum> sums;
  };
  std::vector<Found> found;
  for (const Index subgroup : on_disks()) {
    const auto file = std::ranges::find(manifest.files, checkpoint::state_file_name(subgroup),
                                        &io::FileRecord::name);
    if (file == manifest.files.end()) continue;
    if (auto sums = sums_of(*file, tensors_[static_cast<std::size_t>(subgroup)]))
      found.push_back({subgroup, &*file, std::move(*sums)});
  }
  // None is taken where one is damaged.
  for (const Found& each : found) checkpoint::verify(engine, folder, manifest, *each.file);
  away_->settle();
  for (Found& each : found)
    if (away_->take(each.subgroup, storage::DirectFile::open(folder / each.file->name),
                    std::move(each.sums)))
      taken.insert(each.subgroup);
  return taken;
}

void RunStates::open_for_reading(bool disks) {
  if (away_ == nullptr) return;
  for (const Index subgroup : states_away())
    if (disks || !away_->is_on_disk(subgroup)) away_->open_on_host(subgroup);
}

void RunStates::end_round() {
  if (away_ != nullptr) away_->end_round();
}

void RunStates::settle() {
  if (away_ != nullptr) away_->settle();
  if (activations_ != nullptr) activations_->settle();
}

std::string RunStates::fault() const {
  const std::string why = away_ == nullptr ? "" : away_->fault();
  return why.empty() && activations_ != nullptr ? activations_->fault() : why;
}

std::optional<offload::DiskTraffic> RunStates::take_traffic() {
  if (on_disks().empty() && activations_ == nullptr) return std::nullopt;
  const offload::DiskTraffic before = taken_;
  taken_ = {};
  if (away_ != nullptr) taken_ = away_->traffic();
  if (activations_ != nullptr) {
    const offload::DiskTraffic moved = activations_->traffic();
    taken_.read_bytes += moved.read_bytes;
    taken_.written_bytes += moved.written_bytes;
  }
  return offload::DiskTraffic{.read_bytes = taken_.read_bytes - before.read_bytes,
                              .written_bytes = taken_.written_bytes - before.written_bytes};
}

void RunStates::set_step(Index step) {
  if (away_ != nullptr) away_->set_step(step);
  if (activations_ != nullptr) activations_->set_step(step);
}

void RunStates::set_recorder(trace::Recorder* recorder) {
  const auto observe = [&](auto* disks, std::optional<StorageTrace>& trace) {
    if (disks == nullptr) return;
    disks->observe(nullptr);
    trace.reset();
    if (recorder != nullptr) trace.emplace(*recorder);
    disks->observe(trace ? &*trace : nullptr);
  };
  observe(away_.get(), trace_);
  observe(activations_.get(), activation_trace_);
}

}  // namespace dos::train
