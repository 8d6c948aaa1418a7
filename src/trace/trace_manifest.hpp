// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/types.hpp"
#include "rt/machine_view.hpp"

namespace dos::trace {

inline constexpr const char* kManifestName = "manifest.json";

/// manifest.json of one rank's part of a trace.
struct TraceManifest {
  std::string run;      ///< identity of the run: the same on all its ranks
  std::string program;  ///< name, version and revision
  std::string policy;   ///< that scheduled
  std::string model;    ///< in words
  std::string host;
  std::string processor;
  int rank = 0;
  int ranks = 1;
  Index first_step = 1;  ///< what was asked for
  Index last_step = 0;   ///< 0: to the end
  /// Unix time, in microseconds, of time 0 of this rank's rows.
  double epoch_us = 0;
  /// To be added to this rank's times, beside epoch_us, to have those of rank 0: what the ranks
  /// measured of each other's clocks. 0 where nobody did.
  double clock_offset_us = 0;
  rt::MachineView machine;
  nlohmann::json configuration;  ///< of the run, section by section; null: not told
  bool complete = false;         ///< false: the run goes on, or was killed, or the trace dropped
  std::string reason;            ///< why it is not complete, if that is known
  std::map<std::string, Index> rows;  ///< by file
  Index lost_events = 0;              ///< that found no room in a buffer
  double writer_cpu_us = 0;           ///< processor time of the thread that wrote
};

nlohmann::json to_json(const TraceManifest& manifest);

/// Throws Error naming the path: it cannot be read, is no manifest of a trace, or one of another
/// version of the format.
TraceManifest read_manifest(const std::filesystem::path& path);

}  // namespace dos::trace
