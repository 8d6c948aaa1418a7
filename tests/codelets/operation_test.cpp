// SPDX-License-Identifier: Apache-2.0
// What follows from the description of an operation: codelets, tasks, what a submission may give.
#include "codelets/operation.hpp"

#include <gmock/gmock.h>

#include <array>
#include <numeric>

#include "codelets/gelu/gelu_codelet.hpp"
#include "codelets/linear/linear_codelet.hpp"

namespace dos::test::operation_test {
namespace {

using namespace codelets;
using rt::Mode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A buffer of every kind; `out` receives what the task sees of them.
struct Everything : Operation {
  static constexpr Symbol kSymbol{"test_everything", 3};
  using Variants = ByActivation;
  struct Args {
    double factor;
  };
  template <class As>
  struct Buffers {
    Writes<As, double> out;
    Reads<As, Activation> x;
    ReadsSlice<As, Activation> part;
    SumsBlock<As, true, float> block;
    ReadsEach<As, double> scalars;
    ReadsMatrix<As, double> matrix;
  };

  static void check(const Buffers<AtSubmission>& b, const Args& /*args*/) {
    require(b.out.count() == kSeen, "room for what is seen");
  }
  static rt::Work work(const Buffers<AtSubmission>& b, const Args& /*args*/) {
    return work_of(1, b.x.count());
  }
  template <simd::Isa>
  static void cpu(const auto& task) {
    double scalars = 0;
    for (const double* each : task.scalars) scalars = 10 * scalars + *each;
    const auto rows = task.matrix.rows();
    const double seen[kSeen] = {
        static_cast<double>(task.x.size()),        to_float(task.x.back()),
        static_cast<double>(task.part.size()),     to_float(task.part.front()),
        static_cast<double>(task.block.first_row), static_cast<double>(task.block.rows),
        static_cast<double>(task.block.columns),   scalars,
        *rows.row(rows.blocking.rows - 1),         task.args.factor,
        static_cast<double>(task.payload.size())};
    std::ranges::copy(seen, task.out.begin());
    task.block.elements[0] += 1;
  }

  static constexpr Index kSeen = 11;
};

class OperationTest : public ::testing::Test {
 protected:
  const rt::Handle& make(DType type, const std::vector<double>& values) {
    const auto& handle = *handles_.emplace_back(std::make_unique<rt::Handle>(
        session_, rt::HandleSpec{.name = "buffer", .type = type, .count = std::ssize(values)}));
    const rt::HostAccess access(handle, Mode::kWrite);
    if (type == DType::kF64) std::ranges::copy(values, access.as<double>().begin());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (type == DType::kF32) access.as<float>()[i] = static_cast<float>(values[i]);
      if (type == DType::kBF16) access.as<BF16>()[i] = to_bf16(static_cast<float>(values[i]));
    }
    return handle;
  }
  MatrixRef matrix(DType type, const RowBlocking& blocking, double first) {
    MatrixRef ref{blocking, {}};
    for (Index b = 0; b < blocking.count(); ++b) {
      std::vector<double> values(static_cast<std::size_t>(blocking.rows_of(b) * blocking.columns));
      std::iota(values.begin(), values.end(),
                first + static_cast<double>(blocking.first_row(b) * blocking.columns));
      ref.blocks.push_back(&make(type, values));
    }
    return ref;
  }
  static std::vector<double> values_of(const rt::Handle& handle) {
    const rt::HostAccess access(handle, Mode::kRead);
    const auto values = access.as<const double>();
    return {values.begin(), values.end()};
  }

  rt::Session session_{{.scheduler = "", .cpu_workers = 1}};
  rt::Submitter submitter_{session_};
  std::vector<std::unique_ptr<rt::Handle>> handles_;
};

TEST_F(OperationTest, TasksSeeTheBuffersByTheirNames) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    const rt::Handle& out = make(DType::kF64, std::vector<double>(Everything::kSeen));
    const rt::Handle& packed = make(type, {1, 2, 3, 4, 5});
    const rt::Handle& one = make(DType::kF64, {1});
    const rt::Handle& two = make(DType::kF64, {2});
    const MatrixRef sums = matrix(DType::kF32, {.rows = 3, .columns = 4, .rows_per_block = 2}, 0);
    const MatrixRef read = matrix(DType::kF64, {.rows = 5, .columns = 1, .rows_per_block = 2}, 40);
    const std::array<std::byte, 7> payload{};
    submit<Everything>(submitter_,
                       {.out = out,
                        .x = make(type, {6, 7, 8}),
                        .part = SliceRef{&packed, 3},
                        .block = sums,
                        .scalars = std::array{&one, &two},
                        .matrix = read},
                       {.factor = 0.5}, {}, payload);
    // The last task is that of the second block.
    EXPECT_THAT(values_of(out), ElementsAre(3, 8, 2, 4, 2, 1, 4, 12, 44, 0.5, 7));
    for (const rt::Handle* block : sums.blocks) {
      const float before = block == sums.blocks.front() ? 0 : 8;
      EXPECT_EQ(rt::HostAccess(*block, Mode::kRead).as<const float>()[0], before + 1);
    }
  }
}

TEST_F(OperationTest, CodeletsHaveModesAndSymbolsOfTheDescription) {
  const rt::Codelet& codelet = codelet_of<Everything, BF16>();
  EXPECT_STREQ(codelet.symbol(), "dos.test_everything.bf16.v3");
  EXPECT_THAT(codelet.spec().modes,
              ElementsAre(Mode::kWrite, Mode::kRead, Mode::kRead, Mode::kReadWrite));
  EXPECT_EQ(codelet.spec().tail, Mode::kRead);
  const rt::Codelet& weight = codelet_of<LinearBackwardWeight, BF16, float>();
  EXPECT_STREQ(weight.symbol(), "dos.linear_backward_weight.bf16.f32.v1");
  EXPECT_EQ(&weight, &codelets_of<LinearBackwardWeight>()[1]);
}

TEST_F(OperationTest, TypesWithoutAVariantAreRefused) {
  const rt::Handle& narrow = make(DType::kBF16, {1});
  const rt::Handle& wide = make(DType::kF32, {1});
  const rt::Handle& sum = make(DType::kF64, {1});
  try {
    submit<GeluForward>(submitter_, {.x = narrow, .y = wide}, {});
    FAIL() << "types that differ";
  } catch (const ContractViolation& error) {
    EXPECT_THAT(error.what(), HasSubstr("gelu_forward takes no buffers of types bf16, f32"));
  }
  EXPECT_THROW(submit<GeluForward>(submitter_, {.x = sum, .y = sum}, {}), ContractViolation);
}

TEST_F(OperationTest, ACheckThatFailsSubmitsNothing) {
  const rt::Handle& out = make(DType::kF64, {1});
  const rt::Handle& x = make(DType::kF32, {1});
  const MatrixRef block = matrix(DType::kF32, {.rows = 1, .columns = 1, .rows_per_block = 1}, 3);
  EXPECT_THROW(submit<Everything>(submitter_,
                                  {.out = out,
                                   .x = x,
                                   .part = SliceRef{&x, 0},
                                   .block = block,
                                   .scalars = std::vector<const rt::Handle*>{},
                                   .matrix = MatrixRef{}},
                                  {}, {}),
               ContractViolation);
  EXPECT_THAT(values_of(out), ElementsAre(1));
}

TEST_F(OperationTest, AMatrixOfNoBlocksNeedsNoTask) {
  const rt::Handle& x = make(DType::kF32, {1});
  submit<LinearBackwardWeight>(submitter_, {.dy = x, .x = x, .dw = MatrixRef{}}, {{0, 1}, 1}, {});
}

/// Lists that are no tail.
template <bool kOfTwoModes>
struct Misplaced : Everything {
  template <class As>
  struct Buffers {
    ReadsEach<As, double> scalars;
    std::conditional_t<kOfTwoModes, WritesEach<As, double>, Writes<As, double>> out;
  };
  static rt::Work work(const Buffers<AtSubmission>& /*b*/, const Args& /*args*/) { return {}; }
  template <simd::Isa>
  static void cpu(const auto& /*task*/) {}
};

TEST_F(OperationTest, ListsComeLastAndHaveOneMode) {
  EXPECT_THROW((make_codelet<Misplaced<false>, InTask<>>("dos.test.f32.v1")), ContractViolation);
  EXPECT_THROW((make_codelet<Misplaced<true>, InTask<>>("dos.test.f32.v1")), ContractViolation);
  const std::array<Index, 2> sizes{2, 1};
  EXPECT_THAT((make_codelet<Misplaced<true>, InTask<>>("dos.test.f32.v1", sizes).spec().modes),
              ElementsAre(Mode::kRead, Mode::kRead, Mode::kWrite));
}

// What does not compile.
template <class Op, class... Given>
concept Takes = requires(Given&&... given) {
  detail::Given<Op>{std::forward<Given>(given)...};
};
static_assert(Takes<GeluForward, const rt::Handle&, const rt::Handle&>);
static_assert(!Takes<GeluForward, const rt::Handle&>, "too few");
static_assert(!Takes<GeluForward, const rt::Handle&, const rt::Handle&, const rt::Handle&>);
static_assert(!Takes<GeluForward, const rt::Handle&, const MatrixRef&>, "another kind");
static_assert(!Takes<LinearForward, const rt::Handle&, const rt::Handle&, const rt::Handle&,
                     const MatrixRef&>,
              "a handle for a slice");
static_assert(std::is_same_v<Reads<InTask<BF16>, Activation>, std::span<const BF16>>,
              "what is read cannot be written");
static_assert(std::is_same_v<Writes<InTask<float, BF16>, Gradient>, std::span<BF16>>);

}  // namespace
}  // namespace dos::test::operation_test
