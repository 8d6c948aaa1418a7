// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <ostream>
#include <set>

#include "codelets/all.hpp"
#include "codelets/conformance/cases.hpp"
#include "platform/blas.hpp"

namespace dos::test {

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

TEST(Conformance, EveryCodeletHasACase) {
  std::set<const rt::Codelet*> covered;
  for (const Case& c : all_cases()) covered.insert(c.codelet);
  for (const rt::Codelet* codelet : codelets::all_codelets()) {
    EXPECT_THAT(covered, Contains(codelet)) << codelet->symbol();
  }
  EXPECT_EQ(covered.size(), codelets::all_codelets().size())
      << "a case of what all_codelets() lacks";
}

TEST(Conformance, SymbolsAreDistinctAndVersioned) {
  std::set<std::string> symbols;
  for (const rt::Codelet* codelet : codelets::all_codelets()) {
    EXPECT_TRUE(symbols.insert(codelet->symbol()).second) << codelet->symbol();
    EXPECT_THAT(codelet->symbol(),
                ::testing::MatchesRegex("dos(\\.[a-z0-9_]+)+\\.[a-z0-9]+\\.v[0-9]+"));
  }
}

class CodeletConformance : public ::testing::TestWithParam<Case> {};

TEST_P(CodeletConformance, TouchesWhatItSays) {
  platform::blas::use_one_thread();
  EXPECT_THAT(complaints_about(GetParam()), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, CodeletConformance, ::testing::ValuesIn(all_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace dos::test
