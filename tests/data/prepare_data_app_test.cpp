// SPDX-License-Identifier: Apache-2.0
// The prepare_data program itself: exit status, what it says, what it leaves behind.
#include <sys/wait.h>

#include <cstdlib>
#include <sstream>

#include "base/file.hpp"
#include "data/corpus.hpp"
#include "data/dataset.hpp"
#include "data/files.hpp"
#include "data/tokenizer_of.hpp"
#include "scratch_directory.hpp"

namespace dos::data::prepare_data_app_test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

struct Outcome {
  int status = 0;
  std::string out;
  std::string error;
};

class PrepareDataApp : public testing::Test {
 protected:
  PrepareDataApp() {
    std::filesystem::create_directory(scratch_ / "out");
    write_durably(scratch_ / "in.txt", test::corpus());
    write_durably(scratch_ / "empty.txt", "");
  }

  /// Runs the program in the scratch folder, after the shell's commands `before`.
  [[nodiscard]] Outcome run(const std::string& arguments, const std::string& before = "") const {
    const std::string command = "cd '" + scratch_.path().string() + "' && " + before +
                                "'" PREPARE_DATA "' " + arguments + " > stdout 2> stderr";
    const int result = std::system(command.c_str());
    return {.status = WIFEXITED(result) ? WEXITSTATUS(result) : -1,
            .out = read_text(scratch_ / "stdout"),
            .error = read_text(scratch_ / "stderr")};
  }
  [[nodiscard]] auto left_behind() const { return test::names_in(scratch_ / "out"); }

  test::ScratchDirectory scratch_;
};

TEST_F(PrepareDataApp, PreparesBytes) {
  const Outcome outcome = run("--tokenizer bytes --output out/set in.txt");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.error, HasSubstr("vocabulary 257, 1.00 bytes per token\n"));
  const Dataset dataset = open_dataset(scratch_ / "out/set");
  EXPECT_EQ(dataset.train.size() + dataset.val.size(), std::ssize(test::corpus()) + 2);
}

TEST_F(PrepareDataApp, PreparesPiecesWithoutForeignNoise) {
  const Outcome outcome =
      run("--tokenizer sentencepiece --vocab-size 350 --val-fraction 0.2 --output out/set in.txt");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(test::tokenizer_of(scratch_ / "out/set")->vocabulary(), 350);
  std::istringstream lines(outcome.error);
  for (std::string line; std::getline(lines, line);)
    EXPECT_THAT(line, StartsWith("prepare_data: "));
}

TEST_F(PrepareDataApp, CreatesTheFolderOfItsOutput) {
  const Outcome outcome = run("--tokenizer bytes --output new/deep/set in.txt");
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_GT(open_dataset(scratch_ / "new/deep/set").train.size(), 0);
}

TEST_F(PrepareDataApp, ExplainsItself) {
  const Outcome outcome = run("--help");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("--vocab-size"));
}

TEST_F(PrepareDataApp, FailsInOneLineAndLeavesNothing) {
  struct Case {
    std::string arguments;
    std::string complaint;
  };
  const std::string bytes = "--tokenizer bytes --output out/set ";
  const std::string pieces = "--tokenizer sentencepiece --output out/set ";
  const Case cases[] = {
      {"", "--tokenizer is required"},
      {bytes, "FILE is required"},
      {"--tokenizer bytes in.txt", "--output is required"},
      {"--tokenizer words --output out/set in.txt", "--tokenizer words: unknown"},
      {bytes + "--vocabsize 3 in.txt", "--vocabsize"},
      {bytes + "--val-fraction x in.txt", "--val-fraction"},
      {bytes + "--val-fraction 1 in.txt", "--val-fraction 1: must lie between 0 and 1"},
      {bytes + "none.txt", "none.txt: cannot open: No such file or directory"},
      {bytes + "in.txt empty.txt", "empty.txt: empty file"},
      {bytes + "out", "out: not a regular file"},
      {"--tokenizer bytes --output in.txt/deep/set in.txt",
       "--output: cannot create the folder in.txt/deep: Not a directory; choose a writable place"},
      {pieces + "in.txt", "needs --vocab-size N to train a model or --model FILE"},
      {pieces + "--vocab-size 90000 in.txt", "--vocab-size 90000: too large for this text"},
      {pieces + "--vocab-size 12 in.txt", "--vocab-size 12: too small"},
      {pieces + "--model in.txt in.txt", "in.txt: not a SentencePiece model"},
      {pieces + "--model none.model in.txt", "none.model: cannot open"},
  };
  for (const Case& c : cases) {
    const Outcome outcome = run(c.arguments);
    EXPECT_EQ(outcome.status, 1) << c.arguments;
    EXPECT_THAT(outcome.out, IsEmpty());
    const std::size_t error = outcome.error.find("prepare_data: error: ");
    ASSERT_NE(error, std::string::npos) << outcome.error;
    const std::string line = outcome.error.substr(error);
    EXPECT_THAT(line, HasSubstr(c.complaint));
    EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
    EXPECT_THAT(left_behind(), IsEmpty()) << c.arguments;
  }
}

TEST_F(PrepareDataApp, ReportsWhatCannotBeWritten) {
  const Outcome outcome =
      run("--tokenizer bytes --output out/set in.txt", "trap '' XFSZ && ulimit -f 1 && ");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.error, EndsWith("_train.bin: cannot write: File too large\n"));
  EXPECT_THAT(left_behind(), IsEmpty());
}

}  // namespace
}  // namespace dos::data::prepare_data_app_test
