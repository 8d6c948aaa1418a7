// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/quantity.hpp"
#include "base/types.hpp"

namespace dos::sched_starpu {

/// Every constant of the scheduler that could be another: unit, meaning and why; then what a larger
/// (+) and a smaller (-) value does. Only tests change them. A share is of 1.
struct Tuning {
  // What is learnt.

  /// Updates of the first step that show a GPU's rate where no model suggests one: the first may
  /// load a kernel. + a slower first step; - the rate of a loading kernel.
  Index probes = 2;
  /// Updates whose median is the rate: odd, and a change counts after half of them. + noise is
  /// hidden longer, and so is a change; - one late answer of the driver is believed.
  static constexpr Index recent_updates = 15;
  /// Updates of a GPU, one after another, that are one value of them: every second end of a short
  /// kernel is seen late. + a change counts later; - ends that are seen in pairs show a rate that
  /// no GPU has.
  static constexpr Index ends_together = 4;
  /// Share of the largest size from which an update shows the rate; a smaller one shows what each
  /// costs whatever its size. A power of 2. + only the largest count; - overhead enters the rate.
  double large_update = 0.5;
  /// Times its parameters up to which an update tells how long others take: much of what a small
  /// one takes is the task's own cost. + a small update makes a device seem late; - a large one is
  /// expected to be as fast as rates say, whatever happens.
  static constexpr double tells_of = 4;
  /// Of the CPU's: the rate of a GPU that nobody measured and no update goes to. + bounds count on
  /// that GPU; - divisions lose digits.
  double unknown_gpu = 1e-6;
  /// The step at whose beginning free GPU memory is read: behind one forward and backward, which
  /// allocate what they need. + longer without residents; - activations are taken for free memory.
  Index memory_step = 2;
  /// Memory of a node without a limit: more than any has. + sums lose bytes; - a limit after all.
  units::Bytes unlimited{1e15};

  // When a plan is made and changed.

  /// Relative change of a rate that orders a plan: above the noise of medians. + a change of speed
  /// is used late; - milliseconds of planning in most steps.
  double rate_change = 0.05;
  /// Relative change of how long streamed updates wait for a GPU that orders a plan: an update more
  /// or less at once. + too few or too many are at once; - other plans from step to step.
  double wait_change = 0.25;
  /// Relative gain for which a new plan is taken: above the error of the replay. + a better plan is
  /// passed over; - residents wander with the noise.
  double gain = 0.03;
  /// Steps in which a new plan must gain what moving its residents costs: few of a training run. +
  /// moves that end with the run; - a plan that fits old rates stays.
  double steps_to_gain = 200;
  /// Share of a step's updates that have run when the last arrives, from which on updates count as
  /// beside backward. + plans hold longer; - updates of one burst are dealt one by one.
  double kept_pace = 0.5;
  /// Of what GPUs compute of forward beside updates that have come, the part that they may have
  /// computed while these came: the first layers. + backward passes for forward; - a slow program
  /// has no plans for forward.
  double at_once = 0.25;

  // What is at work at once.

  /// Updates a CPU worker whose gradients are fetched before there is a plan: one runs, one is
  /// next, one comes. + gradients hold up states on the link; - workers wait for gradients.
  Index rounds_ahead = 3;
  /// Residents of a GPU at once: enough kernels to hide the copy of a gradient. + more that nobody
  /// may take when the GPU becomes late; - gradients show between kernels.
  Index residents_at_once = 16;

  /// Streamed updates for which a GPU uses memory of gradients that leave during backward, while
  /// others are to come: one comes, one runs, and states of one or two go home. + weights make room
  /// for gradients; - the link is idle.
  Index least_beside = 4;
  /// Streamed updates for which a GPU must have room at forward's peak where plans of updates ahead
  /// of the norm are for its end: these leave the CPU more, whose weights come beside what streams.
  /// + such plans are rare; - weights and states push each other out, and steps take half as long
  /// again.
  Index least_ahead = 16;
  /// Part of what states of a streamed update take to come that a kernel may take for which
  /// backward, on the same GPU, waits. + backward waits longer; - states wait for backward.
  double brief = 1.0 / 3;

  // What weights do where a GPU's memory is short.

  /// Part of the memory for weights that are fetched before a task asks for them: those of a layer
  /// or two. + they push out what is read before them; - the GPU waits for each layer.
  double look_ahead = 1.0 / 40;
  /// Part of the memory after whose reading weights that are read soon count as used again. + some
  /// go just before they are read; - microseconds for each buffer, more often.
  double keep_again = 1.0 / 20;

  // When the plan goes wrong.

  /// Times as long as planned from which on a GPU is late: the first update of a step takes three,
  /// as its states come and go alone. + help comes late; - every first update calls for help.
  /// States that take so much longer to come home count as there: other tasks may have them.
  double late = 4;
  /// Times as long as planned from which on the updates of `trial_steps` steps, one after another,
  /// have all on the CPU tried in their place. + a slow plan stays; - noise makes slow steps.
  double trial_from = 1.1;
  /// Steps that are measured of each; 0: nothing is tried. + a longer trial; - noise decides.
  Index trial_steps = 3;
  /// Part by which steps must be shorter without GPUs. + a slower plan stays; - noise decides.
  double trial_gain = 0.01;
  /// Seconds without a task that begins or ends, after which memory that is held is let go. + a
  /// worker that waits for it waits longer; - long updates lose it while they run.
  double patience = 0.5;
  /// Part of what an update would take elsewhere after which it is looked at again, once its owner
  /// has turned out to end it sooner: to count residents takes time. + help comes later; - workers
  /// count all the time.
  double ask_again = 1.0 / 16;
  /// Seconds between two looks of CPU workers that have nothing to do at updates of other devices:
  /// these are late by far more before one is taken. + help comes later; - the scheduler's lock is
  /// held up.
  static constexpr double between_looks = 50e-6;
  /// Streamed updates that a late GPU holds at once. + more that nobody may take; it needs one.
  Index late_window = 1;
  /// Turns that a streamed update takes on a GPU that helps: states in, kernel, states out. + GPUs
  /// help less; - what a GPU takes ends later than where it was.
  double turns_of_help = 3;
  /// Trips of a resident that another device updates: away now, back in the next step. + residents
  /// stay with a GPU that is late; - they leave it for little.
  double trips_of_a_resident = 2;

  // How threads wait.

  /// Pauses of 10 to 50 ns between the last two tries of the scheduler's lock before a thread
  /// sleeps; all tries take twice that. + a core computes nothing; - a thread that drives a GPU
  /// sleeps through its kernels.
  static constexpr int most_pauses = 128;

  // What is told.

  /// Steps whose reports are kept. + memory; - callers that ask late get nothing.
  Index reported_steps = 5;
};

}  // namespace dos::sched_starpu
