// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codelets/matrix/onednn.hpp"
#include "codelets/matrix/products.hpp"

namespace dos::test {

/// Runs a test with FP32 products of each library that this build has:
///     using Products = EachProductLibrary;
///     TEST_P(Products, ...) {}
///     INSTANTIATE_TEST_SUITE_P(By, Products, testing::ValuesIn(product_libraries()),
///     library_name);
class EachProductLibrary : public testing::TestWithParam<codelets::ProductChoice> {
 protected:
  void SetUp() override { codelets::choose_products(GetParam()); }
  void TearDown() override { codelets::choose_products(codelets::ProductChoice::kAuto); }
};

inline std::vector<codelets::ProductChoice> product_libraries() {
  using enum codelets::ProductChoice;
  if (!codelets::has_onednn()) return {kOpenBlas};
  return {kOpenBlas, kOneDnn};
}

inline std::string library_name(const testing::TestParamInfo<codelets::ProductChoice>& library) {
  return library.param == codelets::ProductChoice::kOneDnn ? "OneDnn" : "OpenBlas";
}

}  // namespace dos::test
