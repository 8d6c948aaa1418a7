// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

namespace dos::data {

/// Puts files that belong together in place, one after the other; unless keep() is reached, what
/// stood there before is put back. Nothing but renames happens meanwhile: all writers are flushed
/// before.
class Replacement {
 public:
  Replacement() = default;
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  ~Replacement();

  template <class Writer>
  void commit(Writer& writer, const std::filesystem::path& path) {
    set_aside(path, /*may_stay=*/true);
    writer.commit();
  }
  /// A file of an earlier set that the new one does not have. Throws Error when it has to stay.
  void remove(const std::filesystem::path& path) { set_aside(path, /*may_stay=*/false); }
  /// All files are in place: what they replace goes.
  void keep();

 private:
  struct Place {
    std::filesystem::path path;
    std::filesystem::path former;  ///< under a temporary's name; empty: there was none
  };

  /// Gives what is there, unless it is a folder, another name, beside its own or instead of it.
  /// Throws Error when that cannot be.
  void set_aside(const std::filesystem::path& path, bool may_stay);

  std::vector<Place> places_;
};

}  // namespace dos::data
