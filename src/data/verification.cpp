// SPDX-License-Identifier: Apache-2.0
#include "data/verification.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "base/checksum.hpp"
#include "base/error.hpp"

namespace dos::data {

Verification::Verification(const Sources& sources, Index vocabulary) : vocabulary_(vocabulary) {
  // Validation first: it is small.
  for (const bool is_train : {false, true}) {
    for (const auto& [name, dataset] : sources) {
      Part part{.file = is_train ? dataset.train : dataset.val,
                .expected = {},
                .mask = {},
                .expected_mask = {}};
      if (const auto& manifest = dataset.manifest) {
        part.expected = is_train ? manifest->train_sums : manifest->val_sums;
        part.expected_mask = is_train ? manifest->train_mask : manifest->val_mask;
      }
      if (const auto& mask = is_train ? dataset.train_mask : dataset.val_mask)
        part.mask.emplace(mask->again());
      parts_.push_back(std::move(part));
    }
  }
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
      if (!check(part, stop)) return;
    finish(std::nullopt);
  } catch (const std::exception& error) {
    finish(error.what());
  }
}

bool Verification::check(const Part& part, const std::stop_token& stop) const {
  const auto expect_same = [](const std::filesystem::path& path, const char* what,
                              std::uint64_t found, std::uint64_t expected) {
    expect(found == expected,
           "{}: its {} have checksum {}, but the data set's manifest says {}: the file is damaged "
           "or another one; copy it again or write the data set again with prepare_data",
           path.string(), what, hex_text(found), hex_text(expected));
  };
  const std::optional<TokenSums> found = part.file.check(vocabulary_, stop);
  if (!found) return false;
  if (part.expected)
    expect_same(part.file.path(), "tokens", found->checksum, part.expected->checksum);
  if (!part.mask) return true;
  const std::optional<MaskSums> of_mask = part.mask->check(stop);
  if (!of_mask) return false;
  if (part.expected_mask)
    expect_same(part.mask->path(), "bits", of_mask->checksum, part.expected_mask->checksum);
  return true;
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
