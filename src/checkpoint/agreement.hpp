// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/node_folders.hpp"
#include "checkpoint/piece.hpp"
#include "ranks/root_texts.hpp"

namespace dos::checkpoint {

/// How a checkpoint begins, of one rank and of all.
struct Start {
  std::string fault;       ///< why there are no files to write to; "": there are
  bool takes_kept = true;  ///< the constant file is there already (KeptFile)
  bool differs = false;    ///< of all: it is there in some folders and not in others
};

/// How it ends.
struct Verdict {
  std::string fault;       ///< of storage; "": none
  std::string bad_tensor;  ///< one with an element that is not finite; "": none
  std::string manifest;    ///< of parts that are to be committed, as text

  [[nodiscard]] bool is_good() const { return fault.empty() && bad_tensor.empty(); }
};

/// What ranks say of one checkpoint. All of them make the same calls in the same order. Every
/// member throws Error after a failure.
class Agreement {
 public:
  /// `number`: of this run, from 0 on.
  Agreement(ranks::Exchange* exchange, Index number, NodeFolders folders);

  [[nodiscard]] bool is_root() const { return texts_.is_root(); }
  /// Whether this rank makes its folder.
  [[nodiscard]] bool leads() const { return folders_.leads(rank_); }
  [[nodiscard]] Index part() const { return folders_.of(rank_); }
  [[nodiscard]] const NodeFolders& folders() const { return folders_; }

  /// `mine`: of a rank that leads. Returns what is true of all, on each rank. At most twice.
  Start agree_on_start(const Start& mine);
  /// The reports of all ranks, by rank, on rank 0: parse_report() reads them.
  std::vector<std::string> collect(const RankReport& mine) { return texts_.to_root(to_text(mine)); }
  /// What rank 0 says, on each rank.
  Verdict hear(const Verdict& mine);
  /// The first fault of a rank, on rank 0; "" on the others.
  std::string first_fault(const std::string& mine);

 private:
  NodeFolders folders_;
  Index rank_;
  ranks::RootTexts texts_;
};

}  // namespace dos::checkpoint
