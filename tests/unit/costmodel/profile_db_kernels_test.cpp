// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/csv.h"
#include "costmodel/profile_db.h"
#include "costmodel/sqlite.h"

namespace meshwright::profile_db_kernels_test {
namespace {

namespace fs = std::filesystem;
using Mode = ProfileDb::Mode;

const KernelSource kSource{"example.org", "MIT"};

class ProfileDbKernels : public testing::Test {
 protected:
  ProfileDbKernels()
      : folder_(fs::path(testing::TempDir()) /
                (std::string("profile_db_kernels_") + testing::UnitTest::GetInstance()->current_test_info()->name())),
        path_(folder_ / "k.db") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ProfileDbKernels() override { fs::remove_all(folder_); }

  int put(const std::vector<KernelRow>& rows) const {
    return ProfileDb(path_, Mode::ReadWrite).put_kernels(kSource, rows);
  }
  [[nodiscard]] std::vector<KernelRow> stored() const { return ProfileDb(path_, Mode::ReadOnly).kernels(); }

  fs::path folder_;
  std::string path_;
};

// One of each kind.
std::vector<KernelRow> rows() {
  return read_kernel_rows(
             CsvTable::parse("device,op,dtype,m,n,k,batch,heads,kv_heads,head_dim,seq_q,seq_kv,causal,direction,"
                             "size_bytes,ranks,hosts,topology,algorithm,time_us\n"
                             "A100,gemm,bf16,128,256,512,3,,,,,,,fwd,,,,,lib out=fp32,10.5\n"
                             "H100,attention,bf16,,,,2,32,8,128,4096,8192,1,bwd,,,,,lib v_dim=64,900\n"
                             "H100,all_reduce,fp16,,,,,,,,,,,,1048576,8,2,nvswitch,nccl,40\n"
                             "H100,layernorm,fp32,4096,1024,,,,,,,,,bwd,16777216,,,,eager,30\n",
                             "k.csv"))
      .rows;
}

const KernelRow& of_term(const std::vector<KernelRow>& rows, const std::string& term) {
  for (const KernelRow& row : rows)
    if (term_name(row) == term) return row;
  throw std::runtime_error("no row of " + term);
}

TEST_F(ProfileDbKernels, ComeBackAsTheyWere) {
  EXPECT_EQ(put(rows()), 4);
  const std::vector<KernelRow> before = rows(), after = stored();
  ASSERT_EQ(after.size(), 4u);
  for (const char* term : {"products", "attention", "network", "memory"}) {
    const KernelRow &was = of_term(before, term), &is = of_term(after, term);
    EXPECT_EQ(is.device, was.device);
    EXPECT_EQ(is.dtype, was.dtype);
    EXPECT_EQ(is.library, was.library);
    EXPECT_EQ(is.time, was.time);
    EXPECT_EQ(kernel_family(is), kernel_family(was));
    EXPECT_EQ(implementation(is), implementation(was));
    EXPECT_EQ(shape_group(is), shape_group(was));
  }
  const auto& product = std::get<ProductShape>(of_term(after, "products").kernel);
  EXPECT_EQ(product.batch, 3);
  EXPECT_EQ(product.m, 128);
  EXPECT_EQ(product.n, 256);
  EXPECT_EQ(product.k, 512);
  EXPECT_EQ(product.operand_element, Bytes(2));
  EXPECT_EQ(product.result_element, Bytes(4));
  const auto& attention = std::get<AttentionShape>(of_term(after, "attention").kernel);
  EXPECT_EQ(attention.heads, 32);
  EXPECT_EQ(attention.kv_heads, 8);
  EXPECT_EQ(attention.queries, 4096);
  EXPECT_EQ(attention.keys, 8192);
  EXPECT_EQ(attention.value_width, 64);
  EXPECT_TRUE(attention.causal && attention.backward);
  const auto& collective = std::get<MeasuredCollective>(of_term(after, "network").kernel);
  EXPECT_EQ(collective.ranks, 8);
  EXPECT_EQ(collective.hosts, 2);
  EXPECT_EQ(collective.fabric, "nvswitch");
}

TEST_F(ProfileDbKernels, TheSameRowsTwiceAreThereOnce) {
  EXPECT_EQ(put(rows()), 4);
  EXPECT_EQ(put(rows()), 0);
  EXPECT_EQ(stored().size(), 4u);
}

TEST_F(ProfileDbKernels, ALaterMeasurementOfTheSameReplacesTheEarlier) {
  std::vector<KernelRow> again = rows();
  put(again);
  again.resize(1);
  again[0].time = Seconds(1.0);
  EXPECT_EQ(put(again), 0);
  EXPECT_EQ(of_term(stored(), "products").time, Seconds(1.0));
  again[0].library = "another";
  EXPECT_EQ(put(again), 1);
}

TEST_F(ProfileDbKernels, AFileOfVersion3HasNoneAndIsBroughtToThisVersionWhenItIsWritten) {
  { ProfileDb(path_, Mode::ReadWrite).put_sweep_point({"point", "17"}); }
  sqlite::Database(path_, sqlite::Access::ReadWrite)
      .run("DROP TABLE kernel_time; DROP TABLE kernel_source; PRAGMA user_version = 3");
  EXPECT_TRUE(stored().empty());
  EXPECT_EQ(put(rows()), 4);
  EXPECT_EQ(stored().size(), 4u);
  EXPECT_EQ(ProfileDb(path_, Mode::ReadOnly).sweep_result("point"), "17");
}

}  // namespace
}  // namespace meshwright::profile_db_kernels_test
