// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "models/config.hpp"
#include "rt/session.hpp"
#include "trace/recorder.hpp"

namespace dos::train {

/// A recorder that writes into `folder`, of a run on one rank. `steps` is "A:B", or "" for all.
/// Throws Error as trace::Recorder does. Null when `folder` is "".
std::unique_ptr<trace::Recorder> start_trace(rt::Session& session,
                                             const std::filesystem::path& folder,
                                             const std::string& steps,
                                             const models::ModelConfig& model);

/// Ends the recording and writes the trace for ViTE (paje.trace) and for Perfetto (perfetto.json)
/// beside it. What cannot be written is a warning: the run is over and done.
void finish_trace(trace::Recorder& recorder, const std::filesystem::path& folder);

}  // namespace dos::train
