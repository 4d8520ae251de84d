// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "core/base/errors.h"
#include "core/base/file.h"
#include "tests/refusal.h"

namespace meshwright::write_file_test {
namespace {

namespace fs = std::filesystem;

class WriteFile : public testing::Test {
 protected:
  WriteFile()
      : folder_(fs::path(testing::TempDir()) /
                (std::string("write_file_") + testing::UnitTest::GetInstance()->current_test_info()->name())),
        path_(folder_ / "plan.json") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~WriteFile() override { fs::remove_all(folder_); }

  [[nodiscard]] int files_in_folder() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(WriteFile, ReplacesAFileAndLeavesNothingBesideIt) {
  write_file(path_, "a long old text");
  write_file(path_, "new");
  EXPECT_EQ(read_file(path_), "new");
  EXPECT_EQ(files_in_folder(), 1);
}

TEST_F(WriteFile, GivesTheFileThePermissionsOfAnyNewFile) {
  const mode_t before = umask(027);
  write_file(path_, "new");
  umask(before);
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_F(WriteFile, RemovesWhatAKilledProcessLeft) {
  write_file(path_ + ".part", "half a te");
  write_file(path_ + ".part3", "half a te");
  write_file(path_, "new");
  EXPECT_EQ(read_file(path_), "new");
  EXPECT_EQ(files_in_folder(), 1);
}

TEST_F(WriteFile, LeavesWhatAnotherProcessIsWriting) {
  write_file(path_ + ".part", "half a te");
  const int held = open((path_ + ".part").c_str(), O_RDWR);
  ASSERT_EQ(flock(held, LOCK_EX), 0);  // as a writer does; locks of two openings exclude each other
  write_file(path_, "new");
  close(held);
  EXPECT_EQ(read_file(path_), "new");
  EXPECT_EQ(read_file(path_ + ".part"), "half a te");
}

TEST_F(WriteFile, KeepsThePermissionsOfTheFileItReplaces) {
  write_file(path_, "old");
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  write_file(path_, "new");
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(WriteFile, ReplacesTheTargetOfLinksWhetherItExistsOrNot) {
  fs::create_directory(folder_ / "there");
  fs::create_symlink("there/file", folder_ / "first");
  fs::create_symlink("first", folder_ / "second");
  for (const char* text : {"new file", "replaced"}) {
    write_file(folder_ / "second", text);
    EXPECT_TRUE(fs::is_symlink(folder_ / "second") && fs::is_symlink(folder_ / "first"));
    EXPECT_EQ(read_file(folder_ / "there" / "file"), text);
  }
  fs::create_symlink("loop", folder_ / "loop");
  EXPECT_THROW(write_file(folder_ / "loop", "x"), SystemError);
}

TEST_F(WriteFile, ReadingEndsAtTheLimit) {
  write_file(path_, std::string(1000, 'a'));
  EXPECT_EQ(read_file(path_, 1000).size(), 1000u);
  EXPECT_NE(refusal([&] { return read_file(path_, 999); }).find("more than 999 B"), std::string::npos);
  EXPECT_NE(refusal([&] { return read_file("/dev/zero", 5'000'000); }).find("/dev/zero"), std::string::npos);
}

TEST_F(WriteFile, KeepsTheOldFileWhenTheDiskIsFull) {
  write_file(path_, "old");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto on_excess = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{1000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  std::string refusal;
  try {
    write_file(path_, std::string(1001, 'n'));
  } catch (const SystemError& error) {
    refusal = error.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, on_excess);
  EXPECT_EQ(refusal, path_ + ": cannot be written (File too large).");
  EXPECT_EQ(read_file(path_), "old");
  EXPECT_EQ(files_in_folder(), 1);
}

TEST_F(WriteFile, NamesTheFileThatCannotBeMade) {
  const std::string path = folder_ / "no" / "plan.json";
  try {
    write_file(path, "new");
    FAIL() << "it was made";
  } catch (const SystemError& error) {
    EXPECT_EQ(error.what(), path + ": cannot be written (No such file or directory).");
  }
}

// Two texts take turns until the process is killed: whenever that is, one of them is there, whole.
TEST_F(WriteFile, LeavesTheOldFileOrTheNewWhenItIsKilled) {
  const std::string first(300'000, 'a'), second(400'000, 'b');
  write_file(path_, first);
  for (int round = 0; round < 40; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0)
      for (;;) {
        write_file(path_, second);
        write_file(path_, first);
      }
    usleep(static_cast<useconds_t>(1000 + 331 * round));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    const std::string found = read_file(path_);
    ASSERT_TRUE(found == first || found == second) << "round " << round << ": " << found.size() << " bytes";
  }
  write_file(path_, first);
  EXPECT_EQ(files_in_folder(), 1);
}

}  // namespace
}  // namespace meshwright::write_file_test
