// SPDX-License-Identifier: Apache-2.0
#include "platform/neighbours.hpp"

#include <mpi.h>

#include <numeric>

#include "base/error.hpp"

namespace dos::platform {
namespace {

void check(int result, const char* call) {
  expect(result == MPI_SUCCESS, "{} failed (error {})", call, result);
}

bool has_mpi() {
  int initialised = 0;
  MPI_Initialized(&initialised);
  return initialised != 0;
}

class Group {
 public:
  explicit Group(Among ranks) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (ranks == Among::kAll)
      check(MPI_Comm_dup(MPI_COMM_WORLD, &group_), "MPI_Comm_dup");
    else
      check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &group_),
            "MPI_Comm_split_type");
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() { MPI_Comm_free(&group_); }

  [[nodiscard]] MPI_Comm get() const { return group_; }
  [[nodiscard]] int rank() const {
    int rank = 0;
    MPI_Comm_rank(group_, &rank);
    return rank;
  }
  [[nodiscard]] int size() const {
    int size = 1;
    MPI_Comm_size(group_, &size);
    return size;
  }

 private:
  MPI_Comm group_ = MPI_COMM_NULL;
};

}  // namespace

RankPosition rank_position() {
  if (!has_mpi()) return {};
  const Group all(Among::kAll);
  const Group node(Among::kNode);
  return {
      .rank = all.rank(), .size = all.size(), .local_rank = node.rank(), .local_size = node.size()};
}

std::vector<std::string> exchange_texts(const std::string& mine, Among ranks) {
  if (!has_mpi()) return {mine};
  const Group group(ranks);
  const auto size = static_cast<std::size_t>(group.size());
  const int length = static_cast<int>(mine.size());
  std::vector<int> lengths(size);
  check(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, group.get()),
        "MPI_Allgather");
  std::vector<int> starts(size);
  std::exclusive_scan(lengths.begin(), lengths.end(), starts.begin(), 0);
  std::string joined(static_cast<std::size_t>(starts.back() + lengths.back()), '\0');
  check(MPI_Allgatherv(mine.data(), length, MPI_CHAR, joined.data(), lengths.data(), starts.data(),
                       MPI_CHAR, group.get()),
        "MPI_Allgatherv");
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < size; ++rank)
    texts.push_back(joined.substr(static_cast<std::size_t>(starts[rank]),
                                  static_cast<std::size_t>(lengths[rank])));
  return texts;
}

}  // namespace dos::platform
