// SPDX-License-Identifier: Apache-2.0
#include "trace/paje_types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace dos::trace {
namespace {

struct Definition {
  PajeEvent id;
  const char* name;
  const char* fields;  ///< "Name type ..."
};

constexpr std::array kDefinitions{
    Definition{kContainerType, "PajeDefineContainerType", "Alias string Type string Name string"},
    Definition{kEventType, "PajeDefineEventType",
               "Alias string Type string Name string Color color"},
    Definition{kStateType, "PajeDefineStateType", "Alias string Type string Name string"},
    Definition{kVariableType, "PajeDefineVariableType",
               "Alias string Type string Name string Color color"},
    Definition{kLinkType, "PajeDefineLinkType",
               "Alias string Type string StartContainerType string EndContainerType string Name "
               "string"},
    Definition{kEntityValue, "PajeDefineEntityValue",
               "Alias string Type string Name string Color color"},
    Definition{kCreateContainer, "PajeCreateContainer",
               "Time date Alias string Type string Container string Name string"},
    Definition{kDestroyContainer, "PajeDestroyContainer", "Time date Name string Type string"},
    Definition{kNewEvent, "PajeNewEvent", "Time date Type string Container string Value string"},
    Definition{kSetState, "PajeSetState", "Time date Container string Type string Value string"},
    Definition{kSetVariable, "PajeSetVariable",
               "Time date Container string Type string Value double"},
    Definition{kEndLink, "PajeEndLink",
               "Time date Type string Container string Value string EndContainer string Key "
               "string"},
    Definition{kSetTaskState, "PajeSetState",
               "Time date Container string Type string Value string Size string Params string "
               "Footprint string Tag string JobId string SubmitOrder string Priority string GFlop "
               "string X string Y string Iteration string Subiteration string NumaNodes string"},
    Definition{kStartTransfer, "PajeStartLink",
               "Time date Type string Container string Value string StartContainer string Key "
               "string Handle string HName string X string Y string"}};

constexpr const char* kTypes =
    "1 MPIP 0 \"MPI Program\"\n"
    "1 P MPIP \"Program\"\n"
    "1 Mn P \"Memory Node\"\n"
    "1 T Mn \"Thread\"\n"
    "1 UT P \"User Thread\"\n"
    "1 Mm Mn \"Memory Manager\"\n"
    "1 W T \"Worker\"\n"
    "1 MPICt P \"MPI Communication Thread\"\n"
    "1 Sc P \"Scheduler\"\n"
    "1 St P \"Storage\"\n"
    "2 prog_event P \"program event type\" \"0 0 0\"\n"
    "4 use Mm \"Used (MB)\" \"0 0 0\"\n"
    "4 bwi_mm Mm \"Bandwidth In (MB/s)\" \"0 0 0\"\n"
    "4 bwo_mm Mm \"Bandwidth Out (MB/s)\" \"0 0 0\"\n"
    "4 gf W \"GFlop/s\" \"0 0 0\"\n"
    "4 nsubmitted Sc \"Number of Submitted Uncompleted Tasks\" \"0 0 0\"\n"
    "4 held St \"Held (MB)\" \"0 0 0\"\n"
    "4 bwr_st St \"Read Bandwidth (MB/s)\" \"0 0 0\"\n"
    "4 bww_st St \"Write Bandwidth (MB/s)\" \"0 0 0\"\n"
    "4 nready Sc \"Number of Ready Tasks\" \"0 0 0\"\n"
    "5 F P Mm Mm \"Intra-node data Fetch\"\n"
    "3 WS W \"Worker State\"\n"
    "6 I WS \"Idle\" \"0.9 0.1 0.0\"\n"
    "6 Fi WS \"FetchingInput\" \"1.0 0.1 1.0\"\n"
    "3 US UT \"User Thread State\"\n"
    "6 No US \"Nothing\" \"0.0 0.0 0.0\"\n"
    "6 W US \"Waiting task\" \"0.9 0.1 0.0\"\n"
    "3 CtS MPICt \"Communication Thread State\"\n"
    "6 Sl CtS \"Sleeping\" \"0.9 0.1 0.0\"\n"
    "3 StS St \"Storage State\"\n"
    "6 Id StS \"Idle\" \"0.9 0.9 0.9\"\n"
    "7 0.0 MPIroot MPIP 0 root\n";

void define(std::string& text, const Definition& definition) {
  text += fmt::format("%EventDef {} {}\n", definition.name, static_cast<int>(definition.id));
  std::string_view fields = definition.fields;
  while (!fields.empty()) {
    const std::size_t name = fields.find(' ');
    const std::size_t end = std::min(fields.find(' ', name + 1), fields.size());
    text += fmt::format("% {}\n", fields.substr(0, end));
    fields.remove_prefix(std::min(end + 1, fields.size()));
  }
  text += "%EndEventDef\n";
}

}  // namespace

std::string paje_header() {
  std::string text;
  for (const Definition& each : kDefinitions) define(text, each);
  return text + kTypes;
}

}  // namespace dos::trace
