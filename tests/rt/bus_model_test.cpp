// SPDX-License-Identifier: Apache-2.0
#include "rt/bus_model.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

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
  [[nodiscard]] bool mend(bool measures = false) const {
    return mend_bus_files(folder_ / "host", measures);
  }
  [[nodiscard]] std::set<std::string> kinds() const {
    std::set<std::string> result;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path()))
      result.insert(file.path().extension());
    return result;
  }

  test::ScratchDirectory folder_;
};

const std::set<std::string> kAll{".affinity", ".bandwidth", ".config", ".latency"};

TEST_F(BusFiles, StayAsStarPUWritesThem) {
  EXPECT_FALSE(mend());
  write(".config", "2 # CPUs\n1 # NUMA\n0 # CUDA\n0");
  EXPECT_FALSE(mend());
  EXPECT_TRUE(mend(/*measures=*/true));
  EXPECT_EQ(kinds(), kAll);
}

TEST_F(BusFiles, MayBeMissing) {
  for (const char* kind : {".affinity", ".bandwidth", ".latency"}) {
    remove(kind);
    EXPECT_FALSE(mend()) << kind;
  }
  remove(".config");
  EXPECT_TRUE(mend());
}

TEST_F(BusFiles, OfAConfigurationThatIsCutAreMeasuredAnew) {
  const std::string whole = kConfig;
  for (const std::string& text :
       {std::string(), std::string("hello world\n"), whole.substr(0, whole.size() / 2)}) {
    write(".config", text);
    // Who measures anew writes it anew.
    EXPECT_TRUE(mend(/*measures=*/true));
    EXPECT_EQ(kinds(), kAll);
    EXPECT_TRUE(mend());
    EXPECT_EQ(kinds(), (std::set<std::string>{".affinity", ".bandwidth", ".latency"})) << text;
  }
}

TEST_F(BusFiles, OfAnAffinityThatIsEmptyAreMeasuredAnew) {
  write(".affinity", "");
  EXPECT_TRUE(mend());
  EXPECT_EQ(kinds(), (std::set<std::string>{".bandwidth", ".latency"}));
}

TEST_F(BusFiles, AreRegularFiles) {
  for (const char* kind : {".latency", ".bandwidth", ".affinity", ".config"}) {
    make_folder(kind);
    for (const bool measures : {false, true})
      EXPECT_THAT(test::message_of<Error>([&] { (void)mend(measures); }),
                  AllOf(HasSubstr(std::string("/host") + kind + ": "),
                        HasSubstr("no regular file: delete it, StarPU measures")));
  }
}

}  // namespace
}  // namespace dos::rt::bus_model_test
