// SPDX-License-Identifier: Apache-2.0
// Started by mpiexec on several ranks: every rank runs every test. Even and odd ranks have a disk
// each for the first level of checkpoints, as the ranks of two nodes have.
#include <gmock/gmock.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/checksum.hpp"
#include "base/sanitizer.hpp"
#include "checkpoint/part_reader.hpp"
#include "io/checkpoint_levels.hpp"
#include "message_of.hpp"
#include "storage/engine.hpp"
#include "storage/faulty_backend.hpp"
#include "train/checkpoint_of_ranks.hpp"

namespace dos::train::node_folders_ranks_test {
namespace {

namespace fs = std::filesystem;
using ranks::environment;
using testing::ElementsAre;
using testing::HasSubstr;

class NodeFolders : public test::CheckpointOfRanks {
 protected:
  void SetUp() override {
    CheckpointOfRanks::SetUp();
    config_.train.steps = 3;
    config_.train.checkpoint_every = 1;
    config_.train.checkpoint_copy_every = 3;
    config_.train.keep = 3;
    config_.train.checkpoint_local = disk().string();
  }

  [[nodiscard]] static Index node() { return environment->rank() % 2; }
  [[nodiscard]] static bool is_first() { return environment->rank() < 2; }
  [[nodiscard]] static checkpoint::NodeFolders nodes() {
    std::vector<Index> by_rank;
    for (Index rank = 0; rank < environment->size(); ++rank) by_rank.push_back(rank % 2);
    return checkpoint::NodeFolders(by_rank);
  }
  [[nodiscard]] fs::path disk() const { return folder_ / fmt::format("disk{}", node()); }
  [[nodiscard]] fs::path local(const fs::path& out) const { return io::local_folder(disk(), out); }

  /// `k`: operation that fails on the disk of the node with the last rank, or of its copies.
  [[nodiscard]] std::unique_ptr<Trainer> trained(const fs::path& out, Index k = -1,
                                                 std::size_t engine = 0) {
    const bool is_last = environment->rank() == environment->size() - 1;
    const auto made = std::make_shared<std::size_t>(0);
    operations_ = 0;
    auto trainer = make(session_, topology_, out, [=, this] {
      const bool fails = (*made)++ == engine;
      return std::make_unique<test::FaultyBackend>(
          storage::make_backend(), [=, this](Index number, const storage::Operation&) {
            if (fails) operations_ = number + 1;
            return test::Mishap{.error = fails && is_last && number == k ? EIO : 0};
          });
    });
    trainer->start_fresh();
    if (is_first()) fs::create_directories(local(out));
    wait_for_all();
    if (obstacle_ >= 0 && environment->rank() == obstacle_)
      for (const char* name : {"step-00000001", "step-00000002"}) {
        fs::create_directories(local(out) / "checkpoints");
        std::ofstream(local(out) / "checkpoints" / name) << "in the way";
      }
    wait_for_all();
    trainer->run(nullptr, nodes());
    wait_for_all();
    // Of states on disks a reader would wait for a round of steps.
    if (config_.sched.disks.empty()) {
      EXPECT_TRUE(holds(*trainer, out / "checkpoints" / "last"));
    }
    return trainer;
  }
  /// From one operation that fails to the next. Two ranks try all.
  [[nodiscard]] static Index stride() {
    if (kIsSanitized) return 7;
    return environment->size() == 2 ? 1 : 4;
  }
  /// Of the last rank, told to all.
  Index operations() {
    return std::stol(ranks::gather_texts(*exchange_, std::to_string(operations_)).back());
  }
  void expect_intact(const fs::path& folder) {
    storage::Engine engine;
    for (const Index step : io::CheckpointStore(folder).steps()) {
      const CheckpointReader reader(folder, std::to_string(step));
      EXPECT_NO_THROW(checkpoint::verify(engine, reader.folder(), reader.manifest()));
    }
  }
  /// Steps whose parts are on both disks.
  std::vector<Index> common_steps(const fs::path& out) {
    std::vector<Index> steps = io::CheckpointStore(local(out)).steps();
    for (const std::string& text :
         ranks::gather_texts(*exchange_, fmt::format("{}", fmt::join(steps, " "))))
      std::erase_if(steps, [&](Index step) {
        return (" " + text + " ").find(fmt::format(" {} ", step)) == std::string::npos;
      });
    return steps;
  }

  rt::Session session_{{.scheduler = "", .cpu_workers = 1}};
  Topology topology_{.zero = 2, .subgroup_params = 1000};
  Index operations_ = 0;
  Index obstacle_ = -1;  ///< first rank of the node where checkpoints cannot get their names
};

// Each disk has what its ranks own, which they read there.
TEST_F(NodeFolders, HaveAPartEach) {
  const auto out = folder_ / "run";
  const auto trainer = trained(out);
  const CheckpointReader part(local(out), "last");
  EXPECT_EQ(part.manifest().step, 3);
  EXPECT_EQ(part.manifest().parts, 2);
  EXPECT_EQ(part.manifest().part, node());
  const CheckpointReader whole(out, "last");
  EXPECT_EQ(whole.manifest().parts, 1);
  EXPECT_EQ(whole.manifest(), io::in_one_folder(part.manifest()));
  EXPECT_THAT(ranks::gather_texts(*exchange_, hex_text(io::identity_of(part.manifest()))),
              testing::Each(hex_text(io::identity_of(part.manifest()))));
  expect_intact(local(out));
  expect_intact(out);
  // What others own is a hole, which takes no room.
  Index here = 0;
  Index all = 0;
  for (const io::FileRecord& file : part.manifest().files)
    for (const io::TensorRecord& tensor : file.tensors)
      for (const io::PieceSum& piece : tensor.pieces) {
        all += piece.bytes;
        if (piece.part == node()) here += piece.bytes;
      }
  EXPECT_LT(here, all * 3 / 4);
  EXPECT_GT(here, all / 4);
  const auto other = make(session_, topology_, folder_ / "other");
  EXPECT_TRUE(part.is_here(other->parameters(), other->optimizer()));
  other->resume(part);
  EXPECT_TRUE(holds(*other, whole.folder()));
  // Ranks that own other parts are not given holes.
  const auto otherwise = make(session_, {.zero = 2, .subgroup_params = 300}, folder_ / "other");
  const bool is_here = part.is_here(otherwise->parameters(), otherwise->optimizer());
  EXPECT_THAT(ranks::gather_texts(*exchange_, is_here ? "" : "elsewhere"),
              testing::Contains("elsewhere"));
  EXPECT_THAT(test::message_of<Error>([&] { otherwise->resume(part); }),
              HasSubstr("on the disk of another node"));
  wait_for_all();
}

// Nodes commit together: what one cannot write, none has as a checkpoint of all.
TEST_F(NodeFolders, GiveUpTogetherWhatOneCannotWrite) {
  static_cast<void>(trained(folder_ / "whole"));
  const Index count = operations();
  ASSERT_GT(count, 10);
  std::set<Index> missed;
  for (Index k = 0; k < count; k += stride()) {
    SCOPED_TRACE(k);
    const auto out = folder_ / fmt::format("run{}", k);
    static_cast<void>(trained(out, k));
    const std::vector<Index> steps = common_steps(out);
    for (Index step = 1; step <= 3; ++step)
      if (!std::ranges::binary_search(steps, step)) missed.insert(step);
    EXPECT_GE(std::ssize(steps), 2);
    EXPECT_EQ(CheckpointReader(out, "last").manifest().step, 3);
    expect_intact(local(out));
    expect_intact(out);
    wait_for_all();
  }
  EXPECT_THAT(missed, testing::IsSupersetOf({1, 2}));
}

// Nor has any node what another one could not give its name, again and again.
TEST_F(NodeFolders, TakeBackWhatOneCannotCommit) {
  for (obstacle_ = 0; obstacle_ < 2; ++obstacle_) {
    SCOPED_TRACE(obstacle_);
    const auto out = folder_ / fmt::format("run{}", obstacle_);
    static_cast<void>(trained(out));
    EXPECT_THAT(io::CheckpointStore(local(out)).steps(), ElementsAre(3));
    EXPECT_EQ(fs::read_symlink(local(out) / "checkpoints" / "last"), "step-00000003");
    expect_intact(local(out));
    expect_intact(out);
    wait_for_all();
  }
}

// A copy that one node cannot make is made once more at the end.
TEST_F(NodeFolders, CopyAgainWhatOneCouldNot) {
  static_cast<void>(trained(folder_ / "whole", -1, 1));
  // Of a node whose first rank is not the last there are none.
  const Index count = operations();
  ASSERT_TRUE(count > 3 || environment->size() > 2);
  for (Index k = 0; k < count; k += stride()) {
    SCOPED_TRACE(k);
    const auto out = folder_ / fmt::format("run{}", k);
    static_cast<void>(trained(out, k, 1));
    EXPECT_EQ(CheckpointReader(out, "last").manifest().step, 3);
    expect_intact(out);
    wait_for_all();
  }
}

// What is frozen is written once on each disk.
TEST_F(NodeFolders, ShareWhatIsFrozen) {
  config_.optim.freeze = "*_embedding.*,blocks.0.*";
  config_.train.steps = 6;
  config_.train.keep = 6;
  const auto out = folder_ / "frozen";
  static_cast<void>(trained(out));
  expect_intact(local(out));
  const auto frozen = [&](Index step) {
    return CheckpointReader(local(out), std::to_string(step)).folder() / checkpoint::kFrozenFile;
  };
  EXPECT_TRUE(fs::equivalent(frozen(6), frozen(5)) || fs::equivalent(frozen(6), frozen(4)));
  const auto other = make(session_, topology_, folder_ / "other");
  other->resume(CheckpointReader(local(out), "6"));
  EXPECT_TRUE(holds(*other, out / "checkpoints" / "last"));
  wait_for_all();
}

// Files of states on the nodes' disks are taken as they are, on each node its own.
TEST_F(NodeFolders, TakeStatesThatAreOnTheirDisks) {
  config_.sched.disks = disk().string();
  config_.sched.host_memory = 0;
  fs::create_directories(disk());
  wait_for_all();
  const auto out = folder_ / "states";
  static_cast<void>(trained(out));
  const CheckpointReader part(local(out), "last");
  Index files = 0;
  for (const io::FileRecord& file : part.manifest().files)
    if (file.name.starts_with("states-")) {
      ++files;
      EXPECT_EQ(fs::exists(part.folder() / file.name), io::has_pieces_here(file, part.manifest()));
    }
  EXPECT_GT(files, 2);
  expect_intact(local(out));
  const auto other = make(session_, topology_, folder_ / "other");
  EXPECT_TRUE(part.is_here(other->parameters(), other->optimizer()));
  other->resume(part);
  config_.sched.disks.clear();
  config_.sched.host_memory = config::TrainConfig().sched.host_memory;
  const auto in_memory = make(session_, topology_, folder_ / "other");
  in_memory->resume(CheckpointReader(out, "last"));
  wait_for_all();
}

}  // namespace
}  // namespace dos::train::node_folders_ranks_test
