// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/update_suite.hpp"
#include "rt/submitter.hpp"

namespace dos::test {

/// Runs an update as a task of the session: its buffers go to whatever worker the session has, and
/// come back. Unless it is in place, it makes other buffers of them.
void update_as_task(rt::Submitter& submitter, UpdateData& data, bool in_place = true);

}  // namespace dos::test
