// SPDX-License-Identifier: Apache-2.0
// The profiled cost model of a cluster of which one kind of device was measured.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/errors.h"
#include "costmodel/cost_models.h"
#include "tests/refusal.h"

namespace meshwright::profile_of_unlike_hosts_test {
namespace {

// `rate` flop/s after efficiencies.
HostGroup host(const std::string& device, int devices, double rate) {
  HostGroup group;
  group.devices_per_host = devices;
  group.device.name = device;
  group.device.peak = {{"f32", FlopsPerSecond(2 * rate)}};
  group.device.matmul_efficiency = 0.5;
  group.device.memory_bandwidth = BytesPerSecond(1000);
  group.device.memory = Bytes(1e6);
  group.device.launch = Seconds(1);
  group.within_host = group.between_hosts = {Seconds(1), SecondsPerByte(1)};
  return group;
}

const OpWork kWork{OpKind::Contract, DType::F32, Flops(1000), Bytes(10), "contract f32 [a=1]->[a]"};

class ProfileOfUnlikeHosts : public testing::Test {
 protected:
  ProfileOfUnlikeHosts()
      : path_(testing::TempDir() + "unlike_hosts_test_" + std::to_string(getpid()) + ".db"),
        cluster{"mixed", {host("slide rule", 4, 50), host("abacus", 2, 100)}} {
    std::filesystem::remove(path_);
    db_.emplace(path_, ProfileDb::Mode::ReadWrite);
    session_ = add_session({"measured", {cluster.group(1)}});
  }
  ~ProfileOfUnlikeHosts() override {
    db_.reset();
    std::filesystem::remove(path_);
  }

  std::int64_t add_session(const Cluster& of) {
    return db_->add_session({"here", "host", "none", "2026-01-01T00:00:00Z", "test", of});
  }
  void measured(double seconds, int concurrency = 1) {
    db_->put(
        session_,
        OpProfile{kWork.signature, concurrency, kWork.flops.si(), kWork.bytes.si(), {Seconds(seconds), Seconds(0), 7}});
  }
  [[nodiscard]] std::string refusal_of_model() const {
    return refusal([&] { (void)make_profiled_cost_model(cluster, *db_); });
  }

  std::string path_;
  std::optional<ProfileDb> db_;
  std::int64_t session_ = 0;
  Cluster cluster;
};

TEST_F(ProfileOfUnlikeHosts, PricesOnlyTheDeviceThatWasMeasured) {
  measured(7, 2);
  measured(9, 4);                         // more at once than there are abacuses
  add_session(find_cluster("dgx-a100"));  // of a run: nothing was measured for later
  const auto costs = make_profiled_cost_model(cluster, *db_);
  EXPECT_EQ(costs->on(1).compute(kWork).time, Seconds(7));
  EXPECT_EQ(costs->on(1).compute(kWork).basis, Basis::Measured);
  EXPECT_EQ(costs->on(0).compute(kWork).time, Seconds(20));  // 1000 flop at 50/s
  EXPECT_EQ(costs->on(0).compute(kWork).basis, Basis::Modelled);
  EXPECT_EQ(costs->compute(kWork).time, Seconds(20));  // of the first group
}

TEST_F(ProfileOfUnlikeHosts, RefusesMeasurementsOfNoneOfThem) {
  measured(7);
  cluster.groups[1].device.name = "brain";
  EXPECT_EQ(
      refusal_of_model(),
      "the measurements are for abacus, but cluster 'mixed' has slide rule, brain; measure that, leave the profile "
      "out, or insist with --profile-as slide rule.");
}

TEST_F(ProfileOfUnlikeHosts, RefusesADatabaseWithoutMeasurements) {
  EXPECT_NE(refusal_of_model().find("the measurements are for no device, but"), std::string::npos);
}

TEST_F(ProfileOfUnlikeHosts, RefusesMeasurementsOfSeveralDevices) {
  measured(7);
  const std::int64_t other = add_session({"others", {cluster.group(0)}});
  db_->put(other, TransferProfile{true, 8, {Seconds(2), Seconds(0), 7}});
  EXPECT_EQ(db_->measured_devices(), (std::vector<std::string>{"abacus", "slide rule"}));
  EXPECT_EQ(refusal_of_model(),
            "the database mixes measurements of different devices (abacus, slide rule); measure those of cluster "
            "'mixed' into a separate database, or insist with --profile-as slide rule.");
}

TEST_F(ProfileOfUnlikeHosts, RefusesAnotherDeviceUnlessItIsInsistedOn) {
  measured(7);
  const Cluster others{"others", {cluster.group(0)}};
  EXPECT_EQ(
      refusal([&] { (void)make_profiled_cost_model(others, *db_); }),
      "the measurements are for abacus, but cluster 'others' has slide rule; measure that, leave the profile out, or "
      "insist with --profile-as slide rule.");
  EXPECT_NO_THROW((void)make_profiled_cost_model(others, *db_, "slide rule"));
  EXPECT_EQ(refusal([&] { (void)make_profiled_cost_model(others, *db_, "abacus"); }),
            "--profile-as: 'abacus' is no device of cluster 'others', which has slide rule.");
}

}  // namespace
}  // namespace meshwright::profile_of_unlike_hosts_test
