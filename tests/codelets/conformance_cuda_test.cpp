// SPDX-License-Identifier: Apache-2.0
// Every codelet with a CUDA function on a CUDA worker: buffers in the GPU's memory, moved by
// StarPU.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdio>
#include <map>
#include <optional>
#include <ostream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "codelets/all.hpp"
#include "codelets/conformance/cases.hpp"
#include "codelets/cuda/compiled.hpp"
#include "platform/blas.hpp"
#include "rt/cuda.hpp"

namespace dos::test::conformance_cuda_test {

/// The cases of a codelet, of whatever types.
struct CasesOfCodelet {
  std::string name;
  std::vector<Case> cases;
};

void PrintTo(const CasesOfCodelet& tested, std::ostream* out) {
  *out << tested.name;
}

namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

/// Why no codelet has a CUDA function, "" where they have.
std::string missing_functions() {
  if (!codelets::kHasCudaKernels) return "built without nvcc";
  return codelets::kRunsCudaKernels ? "" : "this StarPU was built without CUDA";
}

/// Codelets of tokens and messages.
const std::set<std::string>& on_host() {
  static const std::set<std::string> symbols{
      "dos.load_tokens.i32.v1",   "dos.pack.f64.v1",           "dos.unpack.f64.v1",
      "dos.take_gradient.f32.v1", "dos.take_gradient.bf16.v1", "dos.add_gradient.f32.v1",
      "dos.add_gradient.bf16.v1", "dos.tell_factor.f32.v1"};
  return symbols;
}

/// "gelu_forward" of "dos.gelu_forward.bf16.v1": what stands before types.
std::string name_of(const rt::Codelet& codelet) {
  static const std::regex form(R"(dos\.(.+?)(\.(f32|bf16|f64|i32|apart))+\.v\d+)");
  std::smatch found;
  const std::string symbol = codelet.symbol();
  return std::regex_match(symbol, found, form) ? found[1].str() : symbol;
}

std::vector<CasesOfCodelet> codelets_of_gpus() {
  std::map<std::string, std::vector<Case>> found;
  for (const Case& c : all_cases())
    if (on_host().count(c.codelet->symbol()) == 0) found[name_of(*c.codelet)].push_back(c);
  std::vector<CasesOfCodelet> list;
  for (auto& [name, cases] : found) list.push_back({name, cases});
  return list;
}

TEST(ConformanceCuda, OnlyTokensAndMessagesStayOnTheHost) {
  if (const std::string reason = missing_functions(); !reason.empty()) GTEST_SKIP() << reason;
  std::vector<std::string> without;
  for (const rt::Codelet* codelet : codelets::all_codelets())
    if (!codelet->runs_on_cuda()) without.emplace_back(codelet->symbol());
  EXPECT_THAT(without, UnorderedElementsAreArray(on_host()));
}

/// A codelet a test, so that one that makes the GPU useless to its process hides no other: CTest
/// runs each in a process of its own.
class CodeletOnCuda : public ::testing::TestWithParam<CasesOfCodelet> {
 protected:
  /// One for all tests of a process: it takes seconds to start. Without CPU workers every task runs
  /// on the GPU.
  static void SetUpTestSuite() {
    if (!missing_functions().empty() || rt::cuda_bus_ids().empty()) return;
    session_.emplace(rt::SessionConfig{.scheduler = "", .cpu_workers = 0, .cuda_workers = 1});
  }
  static void TearDownTestSuite() { session_.reset(); }

  static std::optional<rt::Session> session_;
};

std::optional<rt::Session> CodeletOnCuda::session_;

TEST_P(CodeletOnCuda, TouchesWhatItSays) {
  if (const std::string reason = missing_functions(); !reason.empty()) GTEST_SKIP() << reason;
  if (!session_) GTEST_SKIP() << "no CUDA device";
  // Of the kernels that the results are compared with.
  platform::blas::use_one_thread();
  for (const Case& c : GetParam().cases) {
    // Before it runs: a fault may end the process.
    fmt::print("{}: ", c.name);
    std::fflush(stdout);
    const std::vector<std::string> complaints = complaints_on_device(c, *session_);
    fmt::print("{}\n", complaints.empty() ? "conforms" : "does not conform");
    EXPECT_THAT(complaints, IsEmpty()) << c.name;
  }
}

// CTest's names have what PrintTo() prints.
INSTANTIATE_TEST_SUITE_P(All, CodeletOnCuda, ::testing::ValuesIn(codelets_of_gpus()));

}  // namespace
}  // namespace dos::test::conformance_cuda_test
