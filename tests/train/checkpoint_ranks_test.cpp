// SPDX-License-Identifier: Apache-2.0
// Started by mpiexec on 1, 2, 3 or 4 ranks: every rank runs every test. What ranks write together
// any number of ranks reads, each its own part.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <utility>

#include "checkpoint/part_reader.hpp"
#include "io/checkpoint_levels.hpp"
#include "io/safetensors.hpp"
#include "storage/engine.hpp"
#include "storage/faulty_backend.hpp"
#include "storage/observer.hpp"
#include "train/checkpoint_of_ranks.hpp"

namespace dos::train::checkpoint_ranks_test {
namespace {

using ranks::environment;

using test::CheckpointOfRanks;

// Written under each level by all ranks, read under each by all ranks, cut otherwise.
TEST_F(CheckpointOfRanks, IsReadByAnyOtherTopology) {
  constexpr Topology kWriters[] = {{.zero = 1}, {.zero = 2, .precision = "bf16"}, {.zero = 3}};
  constexpr Topology kReaders[] = {
      {.zero = 1, .subgroup_params = 300},
      {.zero = 2, .subgroup_params = 100'000},
      {.zero = 3, .subgroup_params = 1000, .precision = "bf16"},
  };
  config_.train.checkpoint_every = 1;
  config_.train.stop_after = 3;
  for (const Topology& writer : kWriters) {
    SCOPED_TRACE(writer.zero);
    const auto out = folder_ / fmt::format("run{}", writer.zero);
    rt::Session session({.scheduler = "", .cpu_workers = 1});
    {
      const auto trainer = make(session, writer, out);
      trainer->start_fresh();
      trainer->run();
      wait_for_all();
      EXPECT_TRUE(holds(*trainer, out / "checkpoints" / "last"));
    }
    const CheckpointReader reader(out, "last");
    EXPECT_EQ(reader.manifest().step, 3);
    for (const Topology& topology : kReaders) {
      SCOPED_TRACE(fmt::format("{} {}", topology.zero, topology.subgroup_params));
      const auto trainer = make(session, topology, folder_ / "other");
      trainer->resume(reader);
      EXPECT_TRUE(holds(*trainer, reader.folder()));
    }
    wait_for_all();
  }
}

// Nodes differ: some have no disk.
TEST_F(CheckpointOfRanks, IsWrittenWhereOneRankAloneHasStatesOnADisk) {
  std::filesystem::create_directories(scratch_ / "disk");
  config_.train.checkpoint_every = 2;
  for (const char* precision : {"fp32", "bf16"}) {
    SCOPED_TRACE(precision);
    rt::Session session({.scheduler = "", .cpu_workers = 1});
    const auto out = folder_ / fmt::format("disk_{}", precision);
    config_.sched.disks = environment->rank() == 0 ? (scratch_ / "disk").string() : "";
    {
      const auto trainer = make(session, {.subgroup_params = 500, .precision = precision}, out);
      trainer->start_fresh();
      trainer->run();
      wait_for_all();
    }
    config_.sched.disks.clear();
    const CheckpointReader reader(out, "last");
    EXPECT_EQ(reader.manifest().step, config_.train.steps);
    const auto memory = folder_ / fmt::format("memory_{}", precision);
    const auto trainer = make(session, {.subgroup_params = 500, .precision = precision}, memory);
    trainer->start_fresh();
    trainer->run();
    wait_for_all();
    const auto resumed = make(session, {.subgroup_params = 500, .precision = precision}, memory);
    resumed->resume(reader);
    EXPECT_TRUE(holds(*resumed, memory / "checkpoints" / "last"));
    wait_for_all();
  }
}

// What one rank has written is read under each topology, and has the same bytes when it is written
// from there: so any number of ranks, under any topology, goes on from what any other has left.
TEST_F(CheckpointOfRanks, IsReadAndWrittenAlikeByAll) {
  const auto alone = folder_ / "alone";
  config_.train.stop_after = 2;
  rt::Session session({.scheduler = "", .cpu_workers = 1});
  if (environment->rank() == 0) {
    // Moments that differ, too.
    const auto trainer = test::make_trainer(session, config_, alone);
    trainer->start_fresh();
    trainer->run();
  }
  wait_for_all();
  const CheckpointReader first(alone, "last");
  storage::Engine engine;
  for (const Index zero : {1, 2, 3})
    for (const char* precision : {"fp32", "bf16"})
      for (const Index subgroup_params : {300, 100'000}) {
        const std::string name = fmt::format("{}-{}-{}", zero, precision, subgroup_params);
        SCOPED_TRACE(name);
        const auto trainer = make(session, {zero, subgroup_params, precision}, folder_ / name);
        trainer->resume(first);
        EXPECT_TRUE(holds(*trainer, first.folder()));
        trainer->run();
        wait_for_all();
        const CheckpointReader second(folder_ / name, "last");
        EXPECT_EQ(second.manifest().step, 2);
        if (environment->rank() != 0) continue;
        checkpoint::verify(engine, second.folder(), second.manifest());
        for (const char* file : {checkpoint::kModelFile, checkpoint::kOptimizerFile})
          EXPECT_TRUE(read_text(second.folder() / file) == read_text(first.folder() / file))
              << file;
      }
}

/// Counts the bytes that are read.
class Reads final : public storage::Observer {
 public:
  void saw(const storage::Observation& each) noexcept override {
    if (each.activity == storage::Activity::kRead) bytes += each.bytes;
  }
  std::atomic<Index> bytes{0};
};

/// Bytes of the pieces that hold any of the contents' parts, each once.
Index bytes_of_pieces(const CheckpointReader& reader, const checkpoint::FileContents& contents) {
  std::map<std::string, std::vector<io::PieceSum>> pieces;
  for (const io::FileRecord& file : reader.manifest().files)
    for (const io::TensorRecord& tensor : file.tensors) pieces[tensor.name] = tensor.pieces;
  std::set<std::pair<std::string, Index>> wanted;
  Index bytes = 0;
  for (const checkpoint::Part& part : contents.parts)
    for (const checkpoint::Extent& extent : part.extents) {
      const std::string& name = contents.tensors[extent.tensor].name;
      Index begin = 0;
      for (const io::PieceSum& piece : pieces.at(name)) {
        const bool is_touched = begin < extent.tensor_offset + extent.bytes &&
                                extent.tensor_offset < begin + piece.bytes;
        if (is_touched && wanted.emplace(name, begin).second) bytes += piece.bytes;
        begin += piece.bytes;
      }
    }
  return bytes;
}

// So no rank reads the whole of a model that it holds a part of.
TEST_F(CheckpointOfRanks, ARankReadsThePiecesOfWhatItOwnsAlone) {
  const auto alone = folder_ / "alone";
  config_.train.stop_after = 1;
  config_.sched.subgroup_params = 300;
  rt::Session session({.scheduler = "", .cpu_workers = 1});
  if (environment->rank() == 0) {
    const auto trainer = test::make_trainer(session, config_, alone);
    trainer->start_fresh();
    trainer->run();
  }
  wait_for_all();
  const CheckpointReader reader(alone, "last");
  Index all = 0;
  for (const io::FileRecord& file : reader.manifest().files)
    for (const io::TensorRecord& tensor : file.tensors)
      all += io::byte_size(tensor.dtype, tensor.shape).value();
  Reads reads;
  storage::Engine engine;
  engine.observe(&reads);
  for (const Index zero : {1, 2, 3})
    for (const Index subgroup_params : {300, 1000}) {
      SCOPED_TRACE(fmt::format("{} {}", zero, subgroup_params));
      const auto trainer = make(session, {zero, subgroup_params}, folder_ / "other");
      Index expected = 0;
      reads.bytes = 0;
      for (const checkpoint::FileContents& contents :
           {checkpoint::model_contents(trainer->parameters()),
            checkpoint::optimizer_contents(trainer->parameters(), trainer->optimizer())}) {
        checkpoint::read_parts(engine, reader.folder(), reader.manifest(), contents);
        expected += bytes_of_pieces(reader, contents);
      }
      EXPECT_EQ(reads.bytes, expected);
      // An even share, and of each subgroup a piece at either end that others own a part of.
      const Index most = environment->size() == 1 ? all : all * 3 / 4;
      EXPECT_LE(expected, most);
      wait_for_all();
    }
}

// Files do not say who wrote them: as many ranks as there are here, or one alone.
TEST_F(CheckpointOfRanks, IsTheFileThatOneRankWrites) {
  const auto out = folder_ / "together";
  rt::Session session({.scheduler = "", .cpu_workers = 1});
  config_.train.stop_after = 1;
  {
    const auto trainer = make(session, {}, out);
    trainer->start_fresh();
    trainer->run();
  }
  wait_for_all();
  // Loaded by one, and saved once more.
  const auto alone = scratch_ / "alone";
  const auto trainer = test::make_trainer(session, config_, alone);
  trainer->resume(CheckpointReader(out, "last"));
  trainer->run();
  for (const char* name : {checkpoint::kModelFile, checkpoint::kOptimizerFile})
    EXPECT_EQ(read_text(alone / "checkpoints" / "last" / name),
              read_text(out / "checkpoints" / "last" / name))
        << name;
  wait_for_all();
}

// Ranks write to the first level together; what comes to the run's folder is the same.
TEST_F(CheckpointOfRanks, GoesThroughTheFirstLevel) {
  const auto out = folder_ / "levels";
  config_.train.checkpoint_local = (folder_ / "disk").string();
  config_.train.checkpoint_every = 1;
  config_.train.checkpoint_copy_every = 2;
  config_.train.validate_every = 2;
  config_.train.stop_after = 5;
  rt::Session session({.scheduler = "", .cpu_workers = 1});
  const auto trainer = make(session, {.zero = 2}, out);
  trainer->start_fresh();
  trainer->run();
  wait_for_all();
  const auto local = io::local_folder(folder_ / "disk", out);
  for (const auto& folder : {out, local}) {
    EXPECT_EQ(CheckpointReader(folder, "last").manifest().step, 5);
    EXPECT_TRUE(holds(*trainer, folder / "checkpoints" / "last"));
  }
  EXPECT_EQ(CheckpointReader(out, "best").manifest().step,
            CheckpointReader(local, "best").manifest().step);
  wait_for_all();
}

// The device of one rank hangs: all leave the same checkpoints out, and train on.
TEST_F(CheckpointOfRanks, BehindAHungDeviceIsLeftOutByAll) {
  const auto out = folder_ / "hung";
  config_.train.checkpoint_every = 1;
  config_.train.keep = 6;
  config_.train.run_ahead = 1;
  rt::Session session({.scheduler = "", .cpu_workers = 1});
  test::Gate gate;
  const bool hangs = environment->rank() == environment->size() - 1;
  const auto trainer = make(session, {.zero = 1}, out, [&] {
    return std::make_unique<test::FaultyBackend>(
        storage::make_backend(), [&](Index, const storage::Operation& operation) {
          const bool is_hung = hangs && operation.kind == storage::Kind::kSync;
          return test::Mishap{.gate = is_hung ? &gate : nullptr};
        });
  });
  trainer->set_checkpoint_patience(std::chrono::milliseconds(50));
  trainer->set_record_sink([&](Index ended, std::span<const rt::TaskRecord>) {
    if (ended == 5) gate.open();
  });
  trainer->start_fresh();
  trainer->run();
  wait_for_all();
  EXPECT_TRUE(holds(*trainer, out / "checkpoints" / "last"));
  EXPECT_EQ(io::CheckpointStore(out).steps(), (std::vector<Index>{1, 2, 6}));
  wait_for_all();
}

// The device hangs while rank 0 makes the files: no rank waits with its updates for the others.
TEST_F(CheckpointOfRanks, WhoseFilesAreNotThereIsGivenUpByAll) {
  const auto out = folder_ / "unmade";
  config_.train.checkpoint_every = 1;
  config_.train.keep = 6;
  config_.train.run_ahead = 1;
  rt::Session session({.scheduler = "", .cpu_workers = 1});
  test::Gate gate;
  const auto trainer = make(session, {.zero = 1}, out, [&] {
    return std::make_unique<test::FaultyBackend>(
        storage::make_backend(), [&](Index, const storage::Operation& operation) {
          const bool is_header = operation.kind == storage::Kind::kWrite && operation.offset == 0;
          return test::Mishap{.gate = is_header ? &gate : nullptr};
        });
  });
  trainer->set_checkpoint_patience(std::chrono::milliseconds(50));
  trainer->set_update_patience(std::chrono::milliseconds(50));
  trainer->set_record_sink([&](Index ended, std::span<const rt::TaskRecord>) {
    if (ended == 4) gate.open();
  });
  trainer->start_fresh();
  trainer->run();
  wait_for_all();
  EXPECT_TRUE(holds(*trainer, out / "checkpoints" / "last"));
  const std::vector<Index> steps = io::CheckpointStore(out).steps();
  EXPECT_THAT(steps, testing::Not(testing::Contains(1)));
  EXPECT_THAT(steps, testing::Contains(6));
  wait_for_all();
}

// Rank 0 decides whether what is frozen is written once more; all must do the same.
TEST_F(CheckpointOfRanks, WriteWhatIsFrozenOnce) {
  const auto out = folder_ / "frozen";
  config_.optim.freeze = "*_embedding.*,blocks.0.*";
  config_.train.checkpoint_every = 1;
  config_.train.stop_after = 6;
  config_.train.keep = 6;
  rt::Session session({.scheduler = "", .cpu_workers = 1});
  const auto trainer = make(session, {.zero = 3}, out);
  trainer->start_fresh();
  trainer->run();
  wait_for_all();
  EXPECT_TRUE(holds(*trainer, out / "checkpoints" / "last"));
  const auto frozen = [&](const char* step) {
    return out / "checkpoints" / step / checkpoint::kFrozenFile;
  };
  // The third waits until the first has ended.
  EXPECT_TRUE(std::filesystem::equivalent(frozen("step-00000003"), frozen("step-00000001")) ||
              std::filesystem::equivalent(frozen("step-00000003"), frozen("step-00000002")));
  const auto other = make(session, {.zero = 1, .subgroup_params = 300}, folder_ / "other");
  other->resume(CheckpointReader(out, "3"));
  EXPECT_TRUE(holds(*other, out / "checkpoints" / "step-00000003"));
  wait_for_all();
}

}  // namespace
}  // namespace dos::train::checkpoint_ranks_test
