// SPDX-License-Identifier: Apache-2.0
#include "rt/codelet.hpp"

#include <gtest/gtest.h>
#include <starpu.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "rt/tasks.hpp"

namespace dos::rt::codelet_test {
namespace {

const SessionConfig kTwoWorkers{.scheduler = "", .cpu_workers = 2};

void do_nothing(const TaskView& /*task*/) {}

TEST(Codelet, KnowsTheModeOfEveryBuffer) {
  const Codelet fixed = make_codelet<do_nothing>(
      {.symbol = "dos.test_fixed.v1",
       .modes = {Mode::kRead, Mode::kWrite, Mode::kReadWrite, Mode::kScratch},
       .tail = {}});
  EXPECT_EQ(fixed.mode(0), Mode::kRead);
  EXPECT_EQ(fixed.mode(1), Mode::kWrite);
  EXPECT_EQ(fixed.mode(2), Mode::kReadWrite);
  EXPECT_EQ(fixed.mode(3), Mode::kScratch);
  EXPECT_THROW(static_cast<void>(fixed.mode(4)), ContractViolation);
  const Codelet open = make_codelet<do_nothing>(
      {.symbol = "dos.test_open.v1", .modes = {Mode::kWrite}, .tail = Mode::kRead});
  EXPECT_EQ(open.mode(0), Mode::kWrite);
  EXPECT_EQ(open.mode(1), Mode::kRead);
  EXPECT_EQ(open.mode(1000), Mode::kRead);
}

TEST(Codelet, WithoutATailMustFitStarPUsLimit) {
  const std::vector<Mode> most(STARPU_NMAXBUFS, Mode::kRead);
  EXPECT_NO_THROW(
      make_codelet<do_nothing>({.symbol = "dos.test_most.v1", .modes = most, .tail = {}}));
  const std::vector<Mode> too_many(STARPU_NMAXBUFS + 1, Mode::kRead);
  EXPECT_THROW(
      make_codelet<do_nothing>({.symbol = "dos.test_many.v1", .modes = too_many, .tail = {}}),
      ContractViolation);
}

struct Observed {
  std::array<Index, 3> counts;
  std::array<void*, 3> addresses;
  Index buffers;
};

void observe_three(const TaskView& task) {
  auto* observed = task.args<Observed*>();
  observed->buffers = task.buffer_count();
  for (Index i = 0; i < 3; ++i) {
    observed->counts[static_cast<std::size_t>(i)] = task.count(i);
    observed->addresses[static_cast<std::size_t>(i)] = task.pointer<void>(i);
  }
}

TEST(TaskView, BuffersArriveInOrder) {
  static const Codelet codelet =
      make_codelet<observe_three>({.symbol = "dos.test_observe.v1",
                                   .modes = {Mode::kRead, Mode::kReadWrite, Mode::kWrite},
                                   .tail = {}});
  Session session(kTwoWorkers);
  const Handle a(session, {.name = "a", .type = DType::kF32, .count = 3});
  const Handle b(session, {.name = "b", .type = DType::kF64, .count = 1});
  const Handle c(session, {.name = "c", .type = DType::kU8, .count = 5000});
  Submitter submitter(session);
  Observed observed{};
  const std::array<const Handle*, 3> buffers{&a, &b, &c};
  submitter.submit(codelet, buffers, &observed, {}, {});
  session.wait_all();
  EXPECT_EQ(observed.buffers, 3);
  EXPECT_EQ(observed.counts, (std::array<Index, 3>{3, 1, 5000}));
  for (std::size_t i = 0; i < 3; ++i) {
    const HostAccess access(*buffers[i], Mode::kRead);
    EXPECT_EQ(observed.addresses[i], starpu_data_get_local_ptr(buffers[i]->raw()));
  }
}

struct alignas(16) Arguments {
  double first;
  std::array<char, 5> text;
  Index last;
};

struct Received {
  Arguments arguments;
  std::vector<std::byte> payload;
  bool aligned;
};

struct SentArguments {
  Arguments arguments;
  Received* received;
};

void receive(const TaskView& task) {
  const auto& sent = task.args<SentArguments>();
  sent.received->arguments = sent.arguments;
  sent.received->aligned = reinterpret_cast<std::uintptr_t>(&sent) % alignof(SentArguments) == 0;
  const auto payload = task.payload();
  sent.received->payload.assign(payload.begin(), payload.end());
}

TEST(TaskView, ArgumentsAndPayloadArriveWhole) {
  static const Codelet codelet =
      make_codelet<receive>({.symbol = "dos.test_receive.v1", .modes = {}, .tail = Mode::kRead});
  Session session(kTwoWorkers);
  const Handle buffer(session, {.name = "b", .count = 1});
  const std::array<const Handle*, 1> buffers{&buffer};
  Submitter submitter(session);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{13}, std::size_t{70001}}) {
    SCOPED_TRACE(size);
    std::vector<std::byte> payload(size);
    for (std::size_t i = 0; i < size; ++i) payload[i] = static_cast<std::byte>(i * 7);
    const std::vector<std::byte> sent = payload;
    Received received{};
    submitter.submit(codelet, buffers,
                     SentArguments{{1.5, {'a', 'b', 'c', 'd', 'e'}, -9}, &received}, {}, {},
                     payload);
    std::fill(payload.begin(), payload.end(), std::byte{0xee});  // the task has its own copy
    session.wait_all();
    EXPECT_EQ(received.arguments.first, 1.5);
    EXPECT_EQ(std::string(received.arguments.text.data(), 5), "abcde");
    EXPECT_EQ(received.arguments.last, -9);
    EXPECT_TRUE(received.aligned);
    EXPECT_EQ(received.payload, sent);
  }
}

std::atomic<Index> payload_bytes{-1};

void measure_payload(const TaskView& task) {
  payload_bytes = std::ssize(task.payload());
}

TEST(TaskView, TaskWithoutArgumentsHasNone) {
  static const Codelet codelet = make_codelet<measure_payload>(
      {.symbol = "dos.test_bare.v1", .modes = {Mode::kRead}, .tail = {}});
  Session session(kTwoWorkers);
  const Handle buffer(session, {.name = "b", .count = 1});
  const std::array<const Handle*, 1> buffers{&buffer};
  Submitter submitter(session);
  submitter.submit(TaskCall{codelet, buffers, {}, {}, {}, {}});
  session.wait_all();
  EXPECT_EQ(payload_bytes, 0);
}

}  // namespace
}  // namespace dos::rt::codelet_test
