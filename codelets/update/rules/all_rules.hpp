// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codelets/update/rules/adagrad.hpp"
#include "codelets/update/rules/adamw.hpp"
#include "codelets/update/rules/lion.hpp"
#include "codelets/update/rules/sgd.hpp"

namespace dos::codelets {

template <class... Rules>
struct RuleList {};

/// Every rule; the place in the list is the rule's number.
using AllRules = RuleList<rules::AdamW,  //
                          rules::Sgd,    //
                          rules::Lion,   //
                          rules::Adagrad>;

}  // namespace dos::codelets
