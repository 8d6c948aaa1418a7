// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace dos::trace {

/// Numbers of the event definitions below, as StarPU gives them.
enum PajeEvent {
  kContainerType = 1,
  kEventType = 2,
  kStateType = 3,
  kVariableType = 4,
  kLinkType = 5,
  kEntityValue = 6,
  kCreateContainer = 7,
  kDestroyContainer = 8,
  kNewEvent = 9,
  kSetState = 10,
  kSetVariable = 13,
  kEndLink = 19,
  kSetTaskState = 20,
  kStartTransfer = 24,
};

/// What a trace of that format begins with: the fields of its events, and the types of containers,
/// variables, links and states, with the aliases and names of StarPU's traces where it has any.
std::string paje_header();

}  // namespace dos::trace
