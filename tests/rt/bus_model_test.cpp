// SPDX-License-Identifier: Apache-2.0
#include "rt/bus_model.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "rt/tasks.hpp"
#include "scratch_directory.hpp"

namespace dos::rt::bus_model_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kConfig =
    "# Current configuration\n2 # Number of CPUs\n1 # Number of NUMA nodes\n"
    "0 # Number of CUDA devices\n0 # Number of OpenCL devices\n0 # Number of MIC devices\n";

class BusFiles : public ::testing::Test {
 protected:
  BusFiles() {
    write(".config", kConfig);
    for (const char* kind : {".affinity", ".bandwidth", ".latency"}) write(kind, "# to 0\n0.0\n");
  }
  void write(const std::string& kind, const std::string& text) const {
    std::ofstream(folder_ / ("host" + kind)) << text;
  }
  void remove(const std::string& kind) const { std::filesystem::remove(folder_ / ("host" + kind)); }
  void make_folder(const std::string& kind) const {
    remove(kind);
    std::filesystem::create_directory(folder_ / ("host" + kind));
  }
  [[nodiscard]] std::string fault(bool measures = false) const {
    return test::message_of<Error>([&] { expect_bus_files(folder_ / "host", measures); });
  }

  test::ScratchDirectory folder_;
};

TEST_F(BusFiles, AreGoodAsStarPUWritesThem) {
  EXPECT_EQ(fault(), "");
  write(".config", "2 # CPUs\n1 # NUMA\n0 # CUDA\n0");
  EXPECT_EQ(fault(), "");
}

TEST_F(BusFiles, MayBeMissing) {
  for (const char* kind : {".affinity", ".bandwidth", ".latency", ".config"}) {
    remove(kind);
    EXPECT_EQ(fault(), "") << kind;
  }
}

TEST_F(BusFiles, OfAConfigurationThatIsCutAreRefused) {
  const std::string whole = kConfig;
  for (const std::string& text :
       {std::string(), std::string("hello world\n"), whole.substr(0, whole.size() / 2)}) {
    write(".config", text);
    EXPECT_THAT(fault(), AllOf(HasSubstr("/host.config: a damaged description of the links"),
                               HasSubstr("at least 4"), HasSubstr("delete it, StarPU measures")))
        << text;
    EXPECT_EQ(fault(/*measures=*/true), "");
  }
}

TEST_F(BusFiles, HaveAnAffinity) {
  write(".affinity", "");
  EXPECT_THAT(fault(), AllOf(HasSubstr("/host.affinity: "), HasSubstr("empty: delete it")));
}

TEST_F(BusFiles, AreRegularFiles) {
  for (const char* kind : {".latency", ".bandwidth", ".affinity", ".config"}) {
    make_folder(kind);
    for (const bool measures : {false, true})
      EXPECT_THAT(fault(measures), AllOf(HasSubstr(std::string("/host") + kind + ": "),
                                         HasSubstr("no regular file: delete it, StarPU measures")));
  }
}

}  // namespace
}  // namespace dos::rt::bus_model_test
