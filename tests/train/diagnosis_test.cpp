// SPDX-License-Identifier: Apache-2.0
#include "train/diagnosis.hpp"

#include <gmock/gmock.h>

#include <limits>

#include "base/bf16.hpp"
#include "rt/tasks.hpp"
#include "shape/cutter.hpp"

namespace dos::train::diagnosis_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class DiagnosisTest : public testing::Test {
 protected:
  void set(const rt::Handle& handle, float value) {
    const rt::HostAccess access(handle, rt::Mode::kWrite);
    std::ranges::fill(access.as<float>(), value);
  }
  std::string find(const std::function<void()>& replay) {
    return find_first_bad_tensor(submitter_, parameters_, replay).value_or("nothing");
  }
  /// Submits a task that does `body` to the first element of each buffer.
  void submit(const test::Body& body, const std::vector<const rt::Handle*>& buffers,
              const char* label) {
    test::submit_body(submitter_, body, buffers, {.label = label});
  }

  rt::Session session_{{.scheduler = "", .cpu_workers = 2}};
  tensor::ParameterSet parameters_{
      session_, shape::cut_into_subgroups(
                    {{.name = "first", .rows = 1, .columns = 4, .init = {}, .depth = 0},
                     {.name = "second", .rows = 1, .columns = 4, .init = {}, .depth = 1}},
                    4, {})};
  rt::Handle a_{session_, {.name = "a", .count = 2}};
  rt::Handle b_{session_, {.name = "b", .count = 2}};
  const test::Body add_one_ = [](const rt::TaskView& task) { task.pointer<float>(0)[0] += 1; };
  const test::Body spoil_ = [](const rt::TaskView& task) { task.pointer<float>(0)[0] = kNan; };
  rt::Submitter submitter_{session_};
};

TEST_F(DiagnosisTest, NothingWhereAllIsFinite) {
  EXPECT_EQ(find([&] { submit(add_one_, {&a_}, "add"); }), "nothing");
}

TEST_F(DiagnosisTest, AParameterIsNamedBeforeAnyTask) {
  set(parameters_.values()[1], kNan);
  EXPECT_EQ(find([&] { ADD_FAILURE() << "replayed"; }), "parameter second");
}

TEST_F(DiagnosisTest, NamesTheFirstTaskThatMakesABadValue) {
  const std::string found = find([&] {
    submit(add_one_, {&a_}, "add");
    submit(spoil_, {&b_}, "spoil b");
    submit(spoil_, {&a_}, "spoil a");
  });
  EXPECT_THAT(found, StartsWith("b, written by "));
  EXPECT_THAT(found, HasSubstr("(spoil b)"));
}

TEST_F(DiagnosisTest, SeesBadValuesInBf16) {
  const rt::Handle narrow(session_, {.name = "narrow", .type = DType::kBF16, .count = 3});
  const test::Body spoil = [](const rt::TaskView& task) {
    task.pointer<BF16>(0)[2] = to_bf16(kNan);
  };
  const std::string found = find([&] {
    submit(add_one_, {&a_}, "add");
    submit(spoil, {&narrow}, "spoil narrow");
  });
  EXPECT_THAT(found, StartsWith("narrow, written by "));
}

// The buffer of an accumulation still holds what the diverged step left in it.
TEST_F(DiagnosisTest, ATaskIsNotBlamedForWhatItFound) {
  set(a_, kNan);
  const std::string found = find([&] {
    submit(add_one_, {&a_}, "add");
    submit(spoil_, {&b_}, "spoil b");
  });
  EXPECT_THAT(found, StartsWith("b, written by "));
}

// The diverged step left bad gradients; each is made anew by one of several tasks.
TEST_F(DiagnosisTest, GradientsStartFromZero) {
  set(parameters_.gradients()[0], kNan);
  set(parameters_.gradients()[1], kNan);
  const std::string found = find([&] {
    submit(add_one_, {&parameters_.gradients()[0]}, "good");
    submit(spoil_, {&parameters_.gradients()[1]}, "bad");
  });
  EXPECT_THAT(found, StartsWith("gradient.second, written by "));
}

}  // namespace
}  // namespace dos::train::diagnosis_test
