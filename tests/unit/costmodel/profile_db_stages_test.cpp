// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/errors.h"
#include "costmodel/profile_db.h"
#include "costmodel/sqlite.h"
#include "tests/refusal.h"
#include "tests/unit/stage_profile_fixture.h"

namespace meshwright::profile_db_stages_test {
namespace {

namespace fs = std::filesystem;
using Mode = ProfileDb::Mode;

// A file as version 1 left it: its tables, one session, one product that was measured.
constexpr const char* kVersion1 = R"sql(
CREATE TABLE session (
  id INTEGER PRIMARY KEY,
  device TEXT NOT NULL, host TEXT NOT NULL, libraries TEXT NOT NULL, date_utc TEXT NOT NULL, command TEXT NOT NULL,
  cluster_json TEXT NOT NULL) STRICT;
CREATE TABLE op_time (
  signature TEXT NOT NULL, concurrency INTEGER NOT NULL CHECK (concurrency >= 1),
  flops REAL NOT NULL, bytes REAL NOT NULL,
  median_s REAL NOT NULL CHECK (median_s >= 0), mad_s REAL NOT NULL CHECK (mad_s >= 0), samples INTEGER NOT NULL,
  session_id INTEGER NOT NULL REFERENCES session,
  PRIMARY KEY (signature, concurrency)) STRICT, WITHOUT ROWID;
CREATE TABLE sweep_point (key TEXT NOT NULL PRIMARY KEY, result_json TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO session VALUES (1, 'Xeon', 'host7', 'oneDNN', '2026-11-20T18:03:42Z', 'meshwright profile', '{}');
INSERT INTO op_time VALUES ('add', 1, 2.0, 3.0, 0.5, 0.25, 7, 1);
PRAGMA application_id = 0x4D575250;
PRAGMA user_version = 1;
)sql";

class ProfileDbStages : public testing::Test {
 protected:
  ProfileDbStages()
      : folder_(fs::path(testing::TempDir()) /
                (std::string("profile_db_stages_") + testing::UnitTest::GetInstance()->current_test_info()->name())),
        path_(folder_ / "h.db") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ProfileDbStages() override { fs::remove_all(folder_); }

  void sql(const std::string& statements) const { sqlite::Database(path_, sqlite::Access::ReadWrite).run(statements); }
  [[nodiscard]] std::int64_t number(const std::string& query) const {
    return sqlite::Database(path_, sqlite::Access::ReadOnly).integer(query);
  }
  [[nodiscard]] std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  [[nodiscard]] std::string damage() const {
    return refusal([&] { return ProfileDb(path_, Mode::ReadOnly).stage_profiles().size(); });
  }
  static ProfileSession session() {
    return {"Xeon", "host7", "oneDNN 2.6.3", "2026-11-20T18:03:42Z", "meshwright run", find_cluster("cpu:2")};
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(ProfileDbStages, ComeBackToTheLastBit) {
  const StageProfileTable table = sample();
  { ProfileDb(path_, Mode::ReadWrite).put_stage_profile(std::nullopt, table); }
  const ProfileDb db(path_, Mode::ReadOnly);
  ASSERT_TRUE(db.stage_profile(key_of()).has_value());
  expect_same(*db.stage_profile(key_of()), table);
  ASSERT_EQ(db.stage_profiles().size(), 1u);
  expect_same(db.stage_profiles()[0], table);
}

TEST_F(ProfileDbStages, AreKeptByKey) {
  StageProfileTable one(key_of()), two(key_of("p3.16xlarge:2"));
  one.add(name_of(0, 0), entry_of(1));
  two.add(name_of(0, 0), entry_of(2));
  ProfileDb db(path_, Mode::ReadWrite);
  db.put_stage_profile(std::nullopt, one);
  db.put_stage_profile(std::nullopt, two);
  EXPECT_EQ(db.stage_profile_keys(), (std::vector{one.key(), two.key()}));
  expect_same(*db.stage_profile(two.key()), two);
  EXPECT_EQ(db.stage_profile(key_of("p3.16xlarge:8")), std::nullopt);
}

TEST_F(ProfileDbStages, ReplaceEntriesOfTheSameNameAndKeepOthers) {
  StageProfileTable first(key_of()), second(key_of());
  first.add(name_of(0, 0), entry_of(1));
  first.add(name_of(0, 1), entry_of(2));
  second.add(name_of(0, 1), measured(3));
  second.add(name_of(0, 2), entry_of(4));
  ProfileDb db(path_, Mode::ReadWrite);
  db.put_stage_profile(std::nullopt, first);
  db.put_stage_profile(db.add_session(session()), second);
  const StageProfileTable found = *db.stage_profile(key_of());
  EXPECT_EQ(found.entries().size(), 3u);
  EXPECT_EQ(*found.find(name_of(0, 0).place, 0), entry_of(1));
  EXPECT_EQ(*found.find(name_of(0, 1).place, 0), measured(3));
  EXPECT_EQ(number("SELECT count(*) FROM stage_profile WHERE session_id = 1"), 2);
}

TEST_F(ProfileDbStages, AreThereAllOrNone) {
  ProfileDb db(path_, Mode::ReadWrite);
  EXPECT_THROW(db.put_stage_profile(17, sample()), SystemError);  // there is no session 17
  EXPECT_TRUE(db.stage_profile_keys().empty());
  EXPECT_EQ(number("SELECT count(*) FROM stage_profile"), 0);
}

// --- version 1 ---

TEST_F(ProfileDbStages, AFileOfVersion1IsReadAsItIs) {
  sql(kVersion1);
  const std::string before = bytes();
  {
    const ProfileDb db(path_, Mode::ReadOnly);
    EXPECT_TRUE(db.stage_profiles().empty());
    EXPECT_TRUE(db.stage_profile_keys().empty());
    EXPECT_EQ(db.stage_profile(key_of()), std::nullopt);
    ASSERT_EQ(db.ops().size(), 1u);
    EXPECT_EQ(db.ops()[0].time.median, Seconds(0.5));
  }
  EXPECT_EQ(bytes(), before);
}

TEST_F(ProfileDbStages, AFileOfVersion1IsBroughtToThisVersionWhenItIsWritten) {
  sql(kVersion1);
  {
    ProfileDb db(path_, Mode::ReadWrite);
    ASSERT_EQ(db.ops().size(), 1u);
    EXPECT_EQ(db.ops()[0].time.samples, 7);
    db.put_stage_profile(1, sample());
    expect_same(*db.stage_profile(key_of()), sample());
  }
  EXPECT_EQ(number("PRAGMA user_version"), ProfileDb::kSchemaVersion);
  EXPECT_EQ(number("PRAGMA application_id"), 0x4D575250);
  EXPECT_EQ(ProfileDb(path_, Mode::ReadOnly).ops().size(), 1u);
  ProfileDb again(path_, Mode::ReadWrite);  // nothing is left to do
  expect_same(*again.stage_profile(key_of()), sample());
}

TEST_F(ProfileDbStages, TwoWritersBringAFileOfVersion1UpToDateOnce) {
  sql(kVersion1);
  ProfileDb one(path_, Mode::ReadWrite), two(path_, Mode::ReadWrite);
  one.put_stage_profile(std::nullopt, sample());
  expect_same(*two.stage_profile(key_of()), sample());
}

TEST_F(ProfileDbStages, AVersionBeforeTheFirstIsRefused) {
  sql(kVersion1);
  sql("PRAGMA user_version = 0");
  const std::string before = bytes();
  for (const Mode mode : {Mode::ReadOnly, Mode::ReadWrite})
    EXPECT_EQ(refusal([&] { return ProfileDb(path_, mode).ops().size(); }),
              path_ +
                  ": the profile database has version 0; this program reads versions 1 to 4. Profile into a new "
                  "file.");
  EXPECT_EQ(bytes(), before);
}

// --- damage ---

TEST_F(ProfileDbStages, RowsThatMakeNoSenseAreDamage) {
  { ProfileDb(path_, Mode::ReadWrite).put_stage_profile(std::nullopt, sample()); }
  const std::string good = bytes();
  const auto after = [&](const std::string& statement) {
    std::ofstream(path_, std::ios::binary) << good;
    sql(statement);
    return damage();
  };
  const std::string start = path_ + ": the profile database is damaged (",
                    end = "); restore a copy of it or profile into a new file.";
  EXPECT_EQ(after("UPDATE stage_profile SET saved_bytes = NULL"),
            start + "a stage profile has some of its memory columns but not all." + end);
  EXPECT_EQ(after("UPDATE stage_profile SET samples = 3"),
            start + "a stage profile has some of its spread columns but not all." + end);
  EXPECT_EQ(
      after("UPDATE stage_profile SET last_layer = 9 WHERE option_number = 1"),
      start + "stage profile: layers 0..9 on 1x4 as 2x2: the key has the layers 0..3; give spans of these." + end);
  EXPECT_EQ(after("UPDATE stage_profile SET boundary_in_bytes = -1 WHERE option_number = 1"),
            start +
                "stage profile: layers 0..2 on 1x4 as 2x2, option 1: boundary in is -1; a number from 0 upwards was "
                "expected." +
                end);
  EXPECT_NE(after("UPDATE stage_profile SET logical_shape = '2by2'").find(start + "logical_shape"), std::string::npos);
  EXPECT_EQ(after("UPDATE stage_profile SET hosts = 5000000000 WHERE option_number = 1"),
            start + "5000000000 is not a number of devices or layers." + end);
  EXPECT_NE(after("UPDATE stage_profile_key SET key_json = '{'").find(start + "stage_profile_key"), std::string::npos);
  EXPECT_NE(after("DROP TABLE stage_profile").find("is damaged"), std::string::npos);
}

}  // namespace
}  // namespace meshwright::profile_db_stages_test
