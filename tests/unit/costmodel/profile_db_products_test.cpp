// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "costmodel/profile_db.h"
#include "costmodel/sqlite.h"

namespace meshwright::profile_db_products_test {
namespace {

namespace fs = std::filesystem;
using Mode = ProfileDb::Mode;
using Algorithms = std::map<std::string, std::string>;

constexpr const char* kH200 = "NVIDIA H200, 132 multiprocessors";
constexpr const char* kLibrary = "cuBLASLt 13.1.0";

class ProfileDbProducts : public testing::Test {
 protected:
  ProfileDbProducts()
      : folder_(fs::path(testing::TempDir()) /
                (std::string("profile_db_products_") + testing::UnitTest::GetInstance()->current_test_info()->name())),
        path_(folder_ / "h.db") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ProfileDbProducts() override { fs::remove_all(folder_); }

  void put(const std::string& device, const std::string& library, const Algorithms& algorithms) const {
    ProfileDb db(path_, Mode::ReadWrite);
    const std::int64_t session =
        db.add_session({device, "host7", library, "2026-11-20T18:03:42Z", "meshwright profile", find_cluster("cpu:2")});
    db.put_product_algorithms(session, device, library, algorithms);
  }
  [[nodiscard]] Algorithms stored(const std::string& device, const std::string& library) const {
    return ProfileDb(path_, Mode::ReadOnly).product_algorithms(device, library);
  }
  // As version 2 left it.
  void make_version_2() const {
    { ProfileDb(path_, Mode::ReadWrite).put_sweep_point({"point", "17"}); }
    sqlite::Database(path_, sqlite::Access::ReadWrite)
        .run("DROP TABLE kernel_time; DROP TABLE kernel_source; DROP TABLE product_algorithm; PRAGMA user_version = 2");
  }
  [[nodiscard]] std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(ProfileDbProducts, ComeBackAsTheyWere) {
  const Algorithms algorithms = {{"bf16 nn 8x16x4", "00ff"}, {"tf32 nt 8x16x4", "0a0b"}};
  put(kH200, kLibrary, algorithms);
  EXPECT_EQ(stored(kH200, kLibrary), algorithms);
}

TEST_F(ProfileDbProducts, AreOfOneKindOfDeviceAndOneVersionOfTheLibrary) {
  put(kH200, kLibrary, {{"bf16 nn 8x16x4", "00ff"}});
  EXPECT_TRUE(stored("NVIDIA H100, 132 multiprocessors", kLibrary).empty());
  EXPECT_TRUE(stored(kH200, "cuBLASLt 13.2.0").empty());
  put("NVIDIA H100, 132 multiprocessors", kLibrary, {{"bf16 nn 8x16x4", "11"}});
  put(kH200, "cuBLASLt 13.2.0", {{"bf16 nn 8x16x4", "22"}});
  EXPECT_EQ(stored(kH200, kLibrary), (Algorithms{{"bf16 nn 8x16x4", "00ff"}}));
  EXPECT_EQ(stored("NVIDIA H100, 132 multiprocessors", kLibrary), (Algorithms{{"bf16 nn 8x16x4", "11"}}));
  EXPECT_EQ(stored(kH200, "cuBLASLt 13.2.0"), (Algorithms{{"bf16 nn 8x16x4", "22"}}));
}

TEST_F(ProfileDbProducts, ALaterOneReplacesTheEarlierAndOthersStay) {
  put(kH200, kLibrary, {{"one", "1"}, {"two", "2"}});
  put(kH200, kLibrary, {{"two", "22"}, {"three", "3"}});
  EXPECT_EQ(stored(kH200, kLibrary), (Algorithms{{"one", "1"}, {"three", "3"}, {"two", "22"}}));
}

TEST_F(ProfileDbProducts, AFileOfVersion2HasNoneAndStaysAsItIsWhenRead) {
  make_version_2();
  const std::string before = bytes();
  EXPECT_TRUE(stored(kH200, kLibrary).empty());
  EXPECT_EQ(bytes(), before);
}

TEST_F(ProfileDbProducts, AFileOfVersion2IsBroughtToThisVersionWhenItIsWritten) {
  make_version_2();
  put(kH200, kLibrary, {{"one", "1"}});
  EXPECT_EQ(stored(kH200, kLibrary), (Algorithms{{"one", "1"}}));
  EXPECT_EQ(ProfileDb(path_, Mode::ReadOnly).sweep_result("point"), "17");
  EXPECT_EQ(sqlite::Database(path_, sqlite::Access::ReadOnly).integer("PRAGMA user_version"),
            ProfileDb::kSchemaVersion);
}

}  // namespace
}  // namespace meshwright::profile_db_products_test
