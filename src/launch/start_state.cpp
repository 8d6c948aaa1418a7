// SPDX-License-Identifier: Apache-2.0
#include "launch/start_state.hpp"

#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "launch/checkpoint_parts.hpp"
#include "launch/launch_report.hpp"

namespace dos::launch {
namespace {

/// Goes on from the checkpoint, or, with --resume auto, from the newest before it that is intact.
void resume(train::Trainer& trainer, const LaunchOptions& options, const train::Run& run,
            ranks::Exchange* exchange, std::optional<train::CheckpointReader>& checkpoint) {
  const bool says = run.share.rank == 0;
  // No older one is of another model, seed or rule.
  trainer.expect_own(*checkpoint);
  while (true) {
    try {
      take_whole(trainer, options, exchange, checkpoint);
      const train::CheckpointRead read = trainer.resume(*checkpoint);
      if (says) report_resumed(*checkpoint, read);
      return;
    } catch (const Error& error) {
      // The same on all ranks.
      std::optional<train::CheckpointReader> older;
      if (options.resume == "auto") older = find_older_checkpoint(options, checkpoint->folder());
      if (!older) throw;
      if (says)
        log::warn("{}; going back to the checkpoint of step {}", error.what(),
                  older->manifest().step);
      checkpoint = std::move(older);
    }
  }
}

}  // namespace

void start(train::Trainer& trainer, const LaunchOptions& options, ranks::Exchange* exchange,
           Preparation& prepared) {
  if (prepared.checkpoint)
    resume(trainer, options, prepared.run, exchange, prepared.checkpoint);
  else if (!prepared.weights.empty())
    trainer.start_from(prepared.weights);
  else
    trainer.start_fresh();
}

}  // namespace dos::launch
