// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_files.hpp"

#include <type_traits>

#include "rt/codelet.hpp"
#include "rt/device.hpp"
#include "rt/machine_view.hpp"

namespace dos::trace {
namespace {

Task row_of(const TaskEvent& event) {
  const rt::TaskTrace& task = event.task;
  const rt::TaskRecord& record = task.record;
  return {.codelet = record.codelet->symbol(),
          .label = std::string(event.label.view()),
          .phase = rt::name_of(record.tag.phase),
          .step = record.tag.step,
          .micro_batch = record.tag.micro_batch,
          .worker = record.worker,
          .number = task.number,
          .priority = task.priority,
          .footprint = task.footprint,
          .flops = task.flops,
          .bytes = task.bytes,
          .submitted = task.submitted_us,
          .ready = task.ready_us,
          .taken = task.taken_us,
          .data_start = task.data_start_us,
          .data_end = task.data_end_us,
          .start = record.start_us,
          .end = record.end_us};
}

Transfer row_of(const CopyEvent& event, const MemorySampler& buffers) {
  const rt::CopyTrace& copy = event.copy;
  return {.buffer = buffers.name(copy.handle),
          .category = buffers.category(copy.handle),
          .from = copy.from,
          .to = copy.to,
          .bytes = copy.bytes,
          .start = copy.start_us,
          .end = copy.end_us,
          .measured = copy.is_over ? 1 : 0};
}

UpdatePlacement row_of(const PlacementEvent& event) {
  return {.subgroup = std::string(event.subgroup.view()),
          .step = event.placement.step,
          .params = event.placement.params,
          .time = event.placement.time_us,
          .node = event.placement.node,
          .resident = event.placement.is_resident ? 1 : 0};
}

Span row_of(const SpanEvent& event) {
  return {.name = std::string(event.name.view()),
          .step = event.step,
          .start = event.start_us,
          .end = event.end_us};
}

Communication row_of(const CommunicationEvent& event) {
  return {.operation = std::string(event.operation.view()),
          .peer = event.peer,
          .bytes = event.bytes,
          .step = event.step,
          .start = event.start_us,
          .end = event.end_us};
}

Storage row_of(const StorageEvent& event) {
  return {.operation = event.operation,
          .purpose = event.purpose,
          .disk = std::string(event.disk.view()),
          .buffer = std::string(event.buffer.view()),
          .category = name_of(event.category),
          .bytes = event.bytes,
          .step = event.step,
          .start = event.start_us,
          .end = event.end_us};
}

template <class Row>
RowFile open(const std::filesystem::path& folder) {
  return {folder / Row::kFile, csv_header<Row>()};
}

}  // namespace

std::filesystem::path rank_folder(const std::filesystem::path& trace, int rank) {
  return trace / fmt::format("rank{}", rank);
}

void MemorySampler::add(Index number, rt::RawHandle handle, const rt::HandleSpec& spec) {
  require(number == next(), "buffers appear in the order of their numbers");
  buffers_.push_back({.handle = handle,
                      .name = spec.name,
                      .category = spec.category,
                      .bytes = spec.count * size_of(spec.type)});
}

const std::string& MemorySampler::name(Index number) const {
  static const std::string unknown = "?";
  return knows(number) ? buffers_[static_cast<std::size_t>(number)].name : unknown;
}

const char* MemorySampler::category(Index number) const {
  return knows(number) ? name_of(buffers_[static_cast<std::size_t>(number)].category) : "?";
}

rt::MemoryBytes MemorySampler::on_node(int node) const {
  // The runtime goes on meanwhile. Memory that a buffer gives to one behind it must not count
  // twice: what was there all the time counts.
  std::vector<const Buffer*> there;
  for (const Buffer& buffer : buffers_)
    if (buffer.handle != nullptr && rt::is_allocated(buffer.handle, node)) there.push_back(&buffer);
  rt::MemoryBytes bytes;
  for (const Buffer* buffer : there)
    if (rt::is_allocated(buffer->handle, node)) bytes[buffer->category] += buffer->bytes;
  return bytes;
}

std::vector<Memory> MemorySampler::sample(const rt::MemoryBytes& host, double now_us, Index step) {
  std::vector<Memory> rows;
  for (int node = 0; node < nodes_; ++node) {
    const rt::MemoryBytes now = node == rt::kHostNode ? host : on_node(node);
    const auto [last, is_first] = last_.try_emplace(node);
    for (const MemoryCategory category : kBufferCategories) {
      if (step == 0 && !is_first && last->second[category] == now[category]) continue;
      rows.push_back({.time = now_us,
                      .node = node,
                      .category = name_of(category),
                      .bytes = now[category],
                      .step = step});
    }
    last->second = now;
  }
  return rows;
}

TraceFiles::TraceFiles(const std::filesystem::path& folder)
    : tasks_(open<Task>(folder)),
      transfers_(open<Transfer>(folder)),
      memory_(open<Memory>(folder)),
      spans_(open<Span>(folder)),
      placements_(open<UpdatePlacement>(folder)),
      communications_(open<Communication>(folder)),
      storage_(open<Storage>(folder)) {}

void TraceFiles::add(const Event& event, const MemorySampler& buffers) {
  std::visit(
      [&](const auto& each) {
        using Kind = std::remove_cvref_t<decltype(each)>;
        if constexpr (std::is_same_v<Kind, TaskEvent>)
          tasks_.add(row_of(each));
        else if constexpr (std::is_same_v<Kind, CopyEvent>)
          transfers_.add(row_of(each, buffers));
        else if constexpr (std::is_same_v<Kind, PlacementEvent>)
          placements_.add(row_of(each));
        else if constexpr (std::is_same_v<Kind, SpanEvent>)
          spans_.add(row_of(each));
        else if constexpr (std::is_same_v<Kind, CommunicationEvent>)
          communications_.add(row_of(each));
        else
          storage_.add(row_of(each));
      },
      event);
}

void TraceFiles::flush() {
  for (RowFile* file :
       {&tasks_, &transfers_, &memory_, &spans_, &placements_, &communications_, &storage_})
    file->flush();
}

std::map<std::string, Index> TraceFiles::rows() const {
  return {{Task::kFile, tasks_.rows()},
          {Transfer::kFile, transfers_.rows()},
          {Memory::kFile, memory_.rows()},
          {Span::kFile, spans_.rows()},
          {UpdatePlacement::kFile, placements_.rows()},
          {Communication::kFile, communications_.rows()},
          {Storage::kFile, storage_.rows()}};
}

}  // namespace dos::trace
