// SPDX-License-Identifier: Apache-2.0
#include "data/verification.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <limits>
#include <utility>

#include "base/checksum.hpp"
#include "base/error.hpp"

namespace dos::data {

struct Verification::Part {
  TokenFile file;
  std::optional<TokenSums> expected;
  std::optional<MaskFile> mask;
  std::optional<MaskSums> expected_mask;

  Part(const Dataset& dataset, bool is_train) : file(is_train ? dataset.train : dataset.val) {
    if (const auto& manifest = dataset.manifest) {
      expected = is_train ? manifest->train_sums : manifest->val_sums;
      expected_mask = is_train ? manifest->train_mask : manifest->val_mask;
    }
    if (const auto& given = is_train ? dataset.train_mask : dataset.val_mask)
      mask.emplace(given->again());
  }

  /// Throws Error for what is wrong; false when it was stopped.
  [[nodiscard]] bool check(Index vocabulary, const std::stop_token& stop) const {
    const auto expect_same = [](const std::filesystem::path& path, const char* what,
                                std::uint64_t found, std::uint64_t wanted) {
      expect(found == wanted,
             "{}: its {} have checksum {}, but the data set's manifest says {}: the file is "
             "damaged or another one; copy it again or write the data set again with prepare_data",
             path.string(), what, hex_text(found), hex_text(wanted));
    };
    const std::optional<TokenSums> found = file.check(vocabulary, stop);
    if (!found) return false;
    if (expected) expect_same(file.path(), "tokens", found->checksum, expected->checksum);
    if (!mask) return true;
    const std::optional<MaskSums> of_mask = mask->check(stop);
    if (!of_mask) return false;
    if (expected_mask)
      expect_same(mask->path(), "bits", of_mask->checksum, expected_mask->checksum);
    return true;
  }
};

Verification::Verification(const Sources& sources, Index vocabulary) : vocabulary_(vocabulary) {
  // Validation first: it is small.
  for (const bool is_train : {false, true})
    for (const auto& [name, dataset] : sources) parts_.emplace_back(dataset, is_train);
  thread_ = std::jthread([this](const std::stop_token& stop) {
    // Training has the processors first. Of the calling thread alone, on Linux.
    static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19));
    verify(stop);
  });
}

Verification::~Verification() = default;

void Verification::verify(const std::stop_token& stop) {
  try {
    for (const Part& part : parts_)
      if (!part.check(vocabulary_, stop)) return;
    finish(std::nullopt);
  } catch (const std::exception& error) {
    finish(error.what());
  }
}

void expect_validation_split(const Dataset& dataset) {
  const Verification::Part part(dataset, /*is_train=*/false);
  // What lies outside a vocabulary is its reader's to say.
  if (part.expected)
    static_cast<void>(part.check(std::numeric_limits<Index>::max(), std::stop_token{}));
}

void Verification::finish(std::optional<std::string> fault) {
  {
    const std::lock_guard lock(mutex_);
    fault_ = std::move(fault);
    is_over_ = true;
  }
  over_.notify_all();
}

bool Verification::wait_for(std::chrono::milliseconds patience) const {
  std::unique_lock lock(mutex_);
  return over_.wait_for(lock, patience, [this] { return is_over_; });
}

std::optional<std::string> Verification::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

}  // namespace dos::data
