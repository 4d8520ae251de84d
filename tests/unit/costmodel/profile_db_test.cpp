// SPDX-License-Identifier: Apache-2.0
#include "costmodel/profile_db.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/errors.h"
#include "costmodel/sqlite.h"
#include "tests/refusal.h"

namespace meshwright::profile_db_test {
namespace {

namespace fs = std::filesystem;
using Mode = ProfileDb::Mode;

// A folder of its own for each test, and the small language the tests are written in.
class ProfileDbTest : public testing::Test {
 protected:
  ProfileDbTest()
      : folder_(fs::path(testing::TempDir()) /
                (std::string("profile_db_") + testing::UnitTest::GetInstance()->current_test_info()->name())),
        path_(folder_ / "profile.db") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ProfileDbTest() override { fs::remove_all(folder_); }

  static ProfileSession session(const std::string& command = "meshwright profile --cluster cpu:2") {
    return {"Xeon", "host7", "oneDNN 2.6.3", "2026-11-20T18:03:42Z", command, find_cluster("cpu:2")};
  }
  static Measurement took(double seconds) { return {Seconds(seconds), Seconds(seconds / 10), 7}; }

  // A database with enough rows for a tree of several pages.
  void fill() const {
    ProfileDb db(path_, Mode::ReadWrite);
    const std::int64_t id = db.add_session(session());
    for (int i = 0; i < 300; ++i)
      db.put(id, OpProfile{"contract f32 [a=" + std::to_string(i) + ",b=2048][b,c=8192]->[a,c]", 1, 1.0, 1.0, took(1)});
  }
  [[nodiscard]] std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void overwrite(const std::string& contents) const { std::ofstream(path_, std::ios::binary) << contents; }
  [[nodiscard]] int files_in_folder() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  [[nodiscard]] std::string refusal(Mode mode) const {
    try {
      ProfileDb db(path_, mode);
    } catch (const InputError& error) {
      return error.what();
    }
    ADD_FAILURE() << "the file was not refused";
    return "";
  }
  // Both modes refuse the file with a sentence that has `part` in it, change no byte of it and leave nothing beside it.
  void expect_refused_untouched(const std::string& part) const {
    const std::string before = bytes();
    for (const Mode mode : {Mode::ReadOnly, Mode::ReadWrite}) {
      const std::string says = refusal(mode);
      EXPECT_NE(says.find(part), std::string::npos) << says;
      EXPECT_NE(says.find(path_), std::string::npos) << says;
      EXPECT_EQ(bytes(), before);
      EXPECT_EQ(files_in_folder(), 1);
    }
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(ProfileDbTest, ReadsBackEveryKindOfMeasurement) {
  {
    ProfileDb db(path_, Mode::ReadWrite);
    const std::int64_t id = db.add_session(session());
    db.put(id, OpProfile{"add f32 [a=4][a]->[a]", 2, 0.0, 48.0, {Seconds(0.1), Seconds(0.003), 9}});
    db.put(id, CollectiveProfile{CollectiveKind::ReduceScatter, 8, 2, 1 << 20, took(0.2)});
    db.put(id, TransferProfile{true, std::int64_t{1} << 40, took(0.3)});
    db.put_overhead(id, "run", took(0.4));
    db.put_run(id, "{\"plan\":1}", Seconds(1.5), Seconds(1.75), "{}");
  }
  const ProfileDb db(path_, Mode::ReadOnly);
  ASSERT_EQ(db.ops().size(), 1u);
  const OpProfile op = db.ops()[0];
  EXPECT_EQ(op.signature, "add f32 [a=4][a]->[a]");
  EXPECT_EQ(op.concurrency, 2);
  EXPECT_EQ(op.bytes, 48.0);
  EXPECT_EQ(op.time.median, Seconds(0.1));  // to the last bit
  EXPECT_EQ(op.time.spread, Seconds(0.003));
  EXPECT_EQ(op.time.samples, 9);
  ASSERT_EQ(db.collectives().size(), 1u);
  EXPECT_EQ(db.collectives()[0].kind, CollectiveKind::ReduceScatter);
  EXPECT_EQ(db.collectives()[0].ranks, 8);
  EXPECT_EQ(db.collectives()[0].hosts, 2);
  EXPECT_EQ(db.collectives()[0].size_bytes, 1 << 20);
  ASSERT_EQ(db.transfers().size(), 1u);
  EXPECT_TRUE(db.transfers()[0].hosts_apart);
  EXPECT_EQ(db.transfers()[0].size_bytes, std::int64_t{1} << 40);
  EXPECT_EQ(db.overheads().at("run").median, Seconds(0.4));
  ASSERT_EQ(db.runs().size(), 1u);
  EXPECT_EQ(db.runs()[0].plan_json, "{\"plan\":1}");
  EXPECT_EQ(db.runs()[0].measured, Seconds(1.75));
}

TEST_F(ProfileDbTest, KeepsWhoMeasuredWhenAndOnWhat) {
  {
    ProfileDb db(path_, Mode::ReadWrite);
    db.add_session(session("first"));
    db.add_session(session("second"));
  }
  const std::vector<ProfileSession> sessions = ProfileDb(path_, Mode::ReadOnly).sessions();
  ASSERT_EQ(sessions.size(), 2u);
  EXPECT_EQ(sessions[0].command, "first");
  EXPECT_EQ(sessions[1].command, "second");
  EXPECT_EQ(sessions[0].device, "Xeon");
  EXPECT_EQ(sessions[0].host, "host7");
  EXPECT_EQ(sessions[0].libraries, "oneDNN 2.6.3");
  EXPECT_EQ(sessions[0].date_utc, "2026-11-20T18:03:42Z");
  EXPECT_EQ(to_json(sessions[0].cluster), to_json(find_cluster("cpu:2")));
}

TEST_F(ProfileDbTest, TakesNoMeasurementWithoutItsSession) {
  ProfileDb db(path_, Mode::ReadWrite);
  EXPECT_THROW(db.put_overhead(17, "run", took(1)), SystemError);
  EXPECT_TRUE(db.overheads().empty());
}

TEST_F(ProfileDbTest, ReplacesAMeasurementOfTheSameThing) {
  ProfileDb db(path_, Mode::ReadWrite);
  const std::int64_t first = db.add_session(session()), second = db.add_session(session());
  for (const auto& [id, seconds] : {std::pair{first, 1.0}, std::pair{second, 2.0}}) {
    db.put(id, OpProfile{"add", 1, 0, 1, took(seconds)});
    db.put(id, CollectiveProfile{CollectiveKind::AllReduce, 2, 1, 8, took(seconds)});
    db.put(id, TransferProfile{false, 8, took(seconds)});
  }
  db.put(second, OpProfile{"add", 2, 0, 1, took(3)});  // another concurrency is another thing
  ASSERT_EQ(db.ops().size(), 2u);
  EXPECT_EQ(db.ops()[0].time.median, Seconds(2));
  EXPECT_EQ(db.ops()[1].time.median, Seconds(3));
  ASSERT_EQ(db.collectives().size(), 1u);
  EXPECT_EQ(db.collectives()[0].time.median, Seconds(2));
  ASSERT_EQ(db.transfers().size(), 1u);
  EXPECT_EQ(db.transfers()[0].time.median, Seconds(2));
}

TEST_F(ProfileDbTest, RefusesRowsThatNoMeasurementIsAndNamesThem) {
  {
    ProfileDb db(path_, Mode::ReadWrite);
    const std::int64_t id = db.add_session(session());
    db.put(id, OpProfile{"add f32", 2, 1.0, 1.0, took(1)});
    db.put(id, CollectiveProfile{CollectiveKind::AllReduce, 2, 1, 1024, took(1)});
    db.put(id, TransferProfile{false, 1024, took(1)});
    db.put_overhead(id, "run", took(1));
  }
  const std::string whole = bytes();
  const auto refused = [&](const std::string& change) {
    overwrite(whole);
    sqlite::Database(path_, sqlite::Access::ReadWrite).run(change);
    const ProfileDb db(path_, Mode::ReadOnly);
    return meshwright::refusal([&] {
      (void)db.ops();
      (void)db.collectives();
      (void)db.transfers();
      (void)db.overheads();
    });
  };
  EXPECT_EQ(refused("UPDATE op_time SET median_s = 9e999"),
            path_ +
                ": table op_time, row with signature add f32, concurrency 2: median_s is inf; a number from 0 to "
                "86400 was expected. Delete the row, or profile into a new file.");
  for (const auto& [change, column] :
       std::vector<std::pair<std::string, std::string>>{{"op_time SET flops = 9e999", "flops is inf"},
                                                        {"op_time SET samples = -1", "samples is -1"},
                                                        {"collective_time SET size_bytes = 0", "size_bytes is 0"},
                                                        {"collective_time SET hosts = 3", "hosts is 3"},
                                                        {"transfer_time SET size_bytes = -1", "size_bytes is -1"},
                                                        {"overhead_time SET mad_s = 1e308", "mad_s is 1e+308"}})
    EXPECT_NE(refused("UPDATE " + change).find(column), std::string::npos) << change;
}

TEST_F(ProfileDbTest, KeepsWhatAnUnfinishedSessionMeasuredUntilItIsFinished) {
  ProfileDb db(path_, Mode::ReadWrite);
  const std::int64_t id = db.begin_session(session());
  db.put(id, OpProfile{"add f32", 2, 1.0, 1.0, took(1)});
  ProfileSession other = session();
  other.libraries = "oneDNN 3";
  EXPECT_EQ(db.unfinished_ops(session()).size(), 1u);
  EXPECT_EQ(db.unfinished_ops(other).size(), 0u);
  EXPECT_EQ(db.sessions().front().date_utc, "2026-11-20T18:03:42Z, unfinished");
  db.finish_session(id, session());
  EXPECT_EQ(db.unfinished_ops(session()).size(), 0u);
  EXPECT_EQ(db.sessions().front().date_utc, "2026-11-20T18:03:42Z");
}

TEST_F(ProfileDbTest, PutsTogetherAllOrNothing) {
  ProfileDb db(path_, Mode::ReadWrite);
  EXPECT_THROW(db.put_together([&] {
    db.put(db.add_session(session()), OpProfile{"add f32", 2, 1.0, 1.0, took(1)});
    throw InputError("the rest is wrong");
  }),
               InputError);
  EXPECT_TRUE(db.sessions().empty() && db.ops().empty());
}

TEST_F(ProfileDbTest, AddsToAFileThatIsAlreadyThere) {
  fill();
  {
    ProfileDb db(path_, Mode::ReadWrite);
    db.put(db.add_session(session()), OpProfile{"one more", 1, 0, 1, took(1)});
  }
  EXPECT_EQ(ProfileDb(path_, Mode::ReadOnly).ops().size(), 301u);
}

TEST_F(ProfileDbTest, TakesAnEmptyFileForANewOne) {
  overwrite("");
  { ProfileDb db(path_, Mode::ReadWrite); }
  EXPECT_TRUE(ProfileDb(path_, Mode::ReadOnly).ops().empty());
}

TEST_F(ProfileDbTest, ReadsNothingFromAnEmptyFile) {
  overwrite("");
  EXPECT_EQ(refusal(Mode::ReadOnly),
            path_ + ": the file is empty; fill it with `meshwright profile --backend cpu --db " + path_ + "`.");
}

TEST_F(ProfileDbTest, TakesAnyNameForAPlainFile) {
  const std::string strange = folder_ / "50% ?mode=memory#1.db";
  { ProfileDb(strange, Mode::ReadWrite).put_sweep_point({"k", "v"}); }
  EXPECT_TRUE(fs::exists(strange));
  EXPECT_EQ(ProfileDb(strange, Mode::ReadOnly).sweep_result("k"), "v");
}

// --- sweeps ---

TEST_F(ProfileDbTest, AKilledSweepKeepsEveryFinishedPoint) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ProfileDb db(path_, Mode::ReadWrite);
    db.put_sweep_point({"layers=4", "{\"step_time_s\":1}"});
    db.put_sweep_point({"layers=8", "{\"step_time_s\":2}"});
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));

  ProfileDb db(path_, Mode::ReadWrite);
  EXPECT_EQ(db.sweep_result("layers=4"), "{\"step_time_s\":1}");
  EXPECT_EQ(db.sweep_result("layers=8"), "{\"step_time_s\":2}");
  EXPECT_EQ(db.sweep_result("layers=16"), std::nullopt);
  db.put_sweep_point({"layers=16", "{\"step_time_s\":3}"});
  EXPECT_EQ(db.sweep_result("layers=16"), "{\"step_time_s\":3}");
}

TEST_F(ProfileDbTest, AReaderSeesPointsWhileTheWriterIsAtWork) {
  ProfileDb writer(path_, Mode::ReadWrite);
  writer.put_sweep_point({"a", "1"});
  const ProfileDb reader(path_, Mode::ReadOnly);
  EXPECT_EQ(reader.sweep_result("a"), "1");
  writer.put_sweep_point({"b", "2"});
  EXPECT_EQ(reader.sweep_result("b"), "2");
}

TEST_F(ProfileDbTest, TwoWritersShareTheFile) {
  {
    ProfileDb one(path_, Mode::ReadWrite), two(path_, Mode::ReadWrite);
    one.put_sweep_point({"a", "1"});
    two.put_sweep_point({"b", "2"});
    EXPECT_EQ(one.sweep_result("b"), "2");
  }
  EXPECT_EQ(files_in_folder(), 1);
}

// --- at rest and read-only ---

TEST_F(ProfileDbTest, LeavesOneFileAndReadingDoesNotChangeIt) {
  fill();
  EXPECT_EQ(files_in_folder(), 1);
  const std::string before = bytes();
  { EXPECT_EQ(ProfileDb(path_, Mode::ReadOnly).ops().size(), 300u); }
  EXPECT_EQ(bytes(), before);
  EXPECT_EQ(files_in_folder(), 1);
}

TEST_F(ProfileDbTest, RefusesToWriteThroughAReader) {
  fill();
  ProfileDb db(path_, Mode::ReadOnly);
  EXPECT_THROW(db.put_sweep_point({"k", "v"}), SystemError);
}

// A file whose writer died after its last checkpoint, without the log: in WAL mode, and nothing may be created beside
// it.
TEST_F(ProfileDbTest, ReadsAFileInWalModeFromAReadOnlyFolder) {
  fill();
  std::string contents = bytes();
  contents[18] = contents[19] = 2;  // the header's write and read version: WAL
  overwrite(contents);
  fs::permissions(path_, fs::perms(0444));
  fs::permissions(folder_, fs::perms(0555));
  constexpr uid_t kNobody = 65534;
  const bool root = geteuid() == 0;  // to whom permissions do not apply
  ASSERT_EQ(seteuid(root ? kNobody : geteuid()), 0);
  std::size_t ops = 0;
  std::string failure;
  try {
    ops = ProfileDb(path_, Mode::ReadOnly).ops().size();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  ASSERT_EQ(seteuid(root ? 0 : geteuid()), 0);
  fs::permissions(folder_, fs::perms(0755));
  EXPECT_EQ(failure, "");
  EXPECT_EQ(ops, 300u);
  EXPECT_EQ(files_in_folder(), 1);
}

// --- refusals ---

TEST_F(ProfileDbTest, TellsHowToMakeAMissingDatabase) {
  try {
    const ProfileDb db(path_, Mode::ReadOnly);
    ADD_FAILURE() << "a file that is not there was opened";
  } catch (const SystemError& error) {
    EXPECT_NE(std::string(error.what()).find("`meshwright profile --backend cpu --db " + path_ + "`"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(files_in_folder(), 0);
}

TEST_F(ProfileDbTest, RefusesANewerVersionAndLeavesItAsItIs) {
  fill();
  { sqlite::Database(path_, sqlite::Access::ReadWrite).run("PRAGMA user_version = 5"); }
  expect_refused_untouched("has version 5 of a newer meshwright; this program reads versions up to 4");
}

TEST_F(ProfileDbTest, RefusesANewerVersionInWalMode) {
  fill();
  { sqlite::Database(path_, sqlite::Access::ReadWrite).run("PRAGMA user_version = 5; PRAGMA journal_mode = WAL"); }
  expect_refused_untouched("has version 5");
}

TEST_F(ProfileDbTest, RefusesTheDatabaseOfAnotherProgram) {
  {
    sqlite::Database(path_, sqlite::Access::ReadWrite)
        .run("CREATE TABLE cities (name TEXT); INSERT INTO cities VALUES ('Riga')");
  }
  expect_refused_untouched("another program");
}

TEST_F(ProfileDbTest, RefusesWhatIsNoDatabase) {
  overwrite("model,time\ngpt,1.5\n");
  expect_refused_untouched("not a profile database");
  overwrite(std::string(5000, 'x'));
  expect_refused_untouched("not a profile database");
}

TEST_F(ProfileDbTest, RefusesDamagedPages) {
  fill();
  std::string contents = bytes();
  ASSERT_GT(contents.size(), 40000u);
  for (std::size_t i = 4096; i < contents.size(); ++i) contents[i] = static_cast<char>(i * 7);
  overwrite(contents);
  expect_refused_untouched("is damaged");
}

TEST_F(ProfileDbTest, RefusesACutFile) {
  fill();
  overwrite(bytes().substr(0, 3 * 4096));
  expect_refused_untouched("is damaged");
}

TEST_F(ProfileDbTest, RefusesToReadFromAMissingTable) {
  fill();
  { sqlite::Database(path_, sqlite::Access::ReadWrite).run("DROP TABLE op_time"); }
  EXPECT_THROW(static_cast<void>(ProfileDb(path_, Mode::ReadOnly).ops()), InputError);
}

// Every byte of the file header and every 211th beyond, flipped one at a time: the file opens or is refused as input,
// and neither reading nor a refusal on opening changes it. (Not all damage can be seen: a flipped bit in a number is
// another number.)
TEST_F(ProfileDbTest, NeverBlamesTheSystemForAFlippedByte) {
  fill();
  const std::string good = bytes();
  int refused = 0;
  // Whether the file must still be what it was: a writer may tidy up what it took.
  const auto stays = [&](Mode mode, std::size_t at) {
    bool taken = false;
    try {
      const ProfileDb db(path_, mode);
      taken = true;
      static_cast<void>(db.ops());
    } catch (const InputError&) {
      ++refused;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "byte " << at << ": " << error.what();
    }
    return mode == Mode::ReadOnly || !taken;
  };
  for (std::size_t at = 0; at < good.size(); at += at < 100 ? 1 : 211)
    for (const Mode mode : {Mode::ReadOnly, Mode::ReadWrite}) {
      // A writer that takes the file waits for the disk several times; bytes 16 to 23 say how the file is written.
      if (mode == Mode::ReadWrite && (at < 16 || at >= 24)) continue;
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 0x5A);
      overwrite(bad);
      if (stays(mode, at)) {
        ASSERT_EQ(bytes(), bad) << "byte " << at;
      }
    }
  EXPECT_GT(refused, 40);
}

TEST_F(ProfileDbTest, BlamesTheSystemForAFolderThatIsNotThere) {
  EXPECT_THROW(ProfileDb(folder_ / "missing" / "profile.db", Mode::ReadWrite), SystemError);
  EXPECT_THROW(ProfileDb(folder_, Mode::ReadWrite), SystemError);  // a folder is no file
}

}  // namespace
}  // namespace meshwright::profile_db_test
