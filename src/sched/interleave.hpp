// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "sched/plan.hpp"
#include "sched/policy.hpp"

namespace dos::sched {

// What policies are made of.

/// Everything on the CPU, no window.
Plan all_cpu(const Problem& problem);
/// Why a plan updates everything there.
const char* reason_for_all_cpu(const Problem& problem);
/// Why `dos` takes what another policy proposes.
std::string reason_as(const std::string& policy);

/// Makes subgroups resident, from the first on, while their states fit into `amount` of each GPU.
/// At the front they need no copy when the links have nothing to update yet, and the next forward
/// needs them first; those with no more than a 64th of the largest one's parameters go before all,
/// as in spread_residents(). Pre: all of them are on the CPU.
void place_residents(const Problem& problem, Plan& plan, const std::vector<units::Bytes>& amount);

/// The same, but all of the largest size first, then the next; of a size of which not all fit some,
/// spread evenly. So what is left is small.
void place_largest(const Problem& problem, Plan& plan, const std::vector<units::Bytes>& amount);

/// The same as place_residents(), spread evenly over the order: between two that are streamed, the
/// GPU has residents to update while copies are on their way, and nothing that has arrived waits
/// behind all of them.
void spread_residents(const Problem& problem, Plan& plan, const std::vector<units::Bytes>& amount);

/// Makes subgroups of the CPU streamed, `amount` a GPU, spread evenly by parameters over the order
/// (error diffusion): whatever part of the order is done, each device has done its part of it.
/// Those with no more than a 64th of the largest one's parameters stay with the CPU,
/// unless it is to have none. `front`: a part of the order, 0 .. 1, of which GPUs take all.
void spread_streamed(const Problem& problem, Plan& plan, const std::vector<units::Params>& amount,
                     double front = 0);

/// Room of each GPU for states that stay there, none unless `options` want residents.
std::vector<units::Bytes> resident_room(const Problem& problem, const PolicyOptions& options);

/// Of the largest subgroup that is left when place_largest() has filled the room for residents.
Index size_behind_largest(const Problem& problem, const PolicyOptions& options);

/// Copies in flight that keep a link busy: the time that a subgroup of `params` parameters holds
/// its memory (in, wait for the GPU, update, out, latencies), in units of the slower direction, and
/// one to spare.
Index useful_window(const Problem& problem, Index gpu, Index params);
/// The same where an update waits for nothing else on the GPU (perfmodels::GpuRates::wait).
Index least_window(const Problem& problem, Index gpu, Index params);

/// Residents on their way to a GPU at once: as many copies as keep its link busy.
Index arrivals_at_once(const Problem& problem, Index gpu);

/// Gradients that the CPU's updates have, or have asked for, when `workers` workers are at work:
/// one each, and what they update while the states of one subgroup leave each GPU, twice. More
/// would hold up the states.
Index gradients_ahead(const Problem& problem, Index workers);

/// Sets windows and their memory: what the update leaves beside residents, divided by the largest
/// streamed subgroup; at most `asked`, or useful_window(), beside forward as far as that leaves
/// memory. Throws Error when a GPU has streamed
/// subgroups and no memory for the largest of them, or for as many as asked.
void set_windows(const Problem& problem, Plan& plan, std::optional<Index> asked);

/// Deals the working parameters of CPU subgroups to the GPUs, evenly by parameters.
void deal_weights(const Problem& problem, Plan& plan);

}  // namespace dos::sched
