// SPDX-License-Identifier: Apache-2.0
// Files of profiles and constants: which of several sets a device takes, and what is refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "costmodel/recorded_work.h"
#include "costmodel/sheets/kernel_constants.h"
#include "costmodel/sheets/software_profile.h"
#include "tests/refusal.h"

namespace meshwright::sheets_test {

namespace {

const DataSheet& sheet(const char* name) { return *find_data_sheet(name); }

// Sets of one constant.
struct Sets {
  Json file = {{"format", "meshwright-constants 1"}, {"sets", Json::array()}};
  Sets& add(const char* term, const char* device, const char* of, const char* constant, double value, int rows = 1) {
    file["sets"].push_back({{"term", term},
                            {"device", device},
                            {"of", of},
                            {"constants", {{constant, value}}},
                            {"fitted", {{"rows", rows}}}});
    return *this;
  }
  [[nodiscard]] KernelConstants read() const { return KernelConstants::from_json(file, "c.json"); }
};

class ProfileFile : public testing::Test {
 protected:
  ProfileFile()
      : path_(testing::TempDir() + "profile_" + std::to_string(getpid()) + ".json"),
        json_(to_json(find_software_profile("megatron"))) {}
  ~ProfileFile() override { std::filesystem::remove(path_); }

  // What reading the file says: "not refused", or its refusal.
  [[nodiscard]] std::string said() {
    std::ofstream(path_) << json_.dump();
    return refusal([&] { read_ = find_software_profile(path_); });
  }
  std::string path_;
  Json json_;
  SoftwareProfile read_;
};

}  // namespace

TEST(KernelConstants, OfTheDeviceItselfComeFirst) {
  const KernelConstants constants = Sets()
                                        .add("products", "H200-SXM5-141GB", "bf16", "droop", 0.1, 1000)
                                        .add("products", "H100-SXM5-80GB", "bf16", "droop", 0.2)
                                        .add("products", "A100-SXM4-80GB", "bf16", "droop", 0.3)
                                        .read();
  EXPECT_EQ(constants.products(sheet("H100"), "bf16").droop, 0.2);
  EXPECT_EQ(constants.products(sheet("H200"), "bf16").droop, 0.1);
  EXPECT_EQ(constants.products(sheet("A100"), "bf16").droop, 0.3);
  EXPECT_TRUE(constants.has_products(sheet("H100"), "bf16"));
  EXPECT_FALSE(constants.has_products(sheet("H100"), "f16"));
  EXPECT_FALSE(constants.has_products(sheet("GH200-96GB"), "bf16"));
}

TEST(KernelConstants, OfAnotherDeviceAreThoseOfTheNearestPeakOfItsGeneration) {
  // 756 and 989 TFLOP/s; of 835 the first is nearer. Of two as near, that of more rows.
  const KernelConstants constants = Sets()
                                        .add("products", "H100-SXM5-80GB", "bf16", "droop", 0.1, 7)
                                        .add("products", "H100-PCIE-80GB", "bf16", "droop", 0.2, 5)
                                        .add("products", "H200-SXM5-141GB", "bf16", "droop", 0.3, 9)
                                        .read();
  EXPECT_EQ(constants.products(sheet("H100-NVL"), "bf16").droop, 0.2);
  EXPECT_EQ(constants.products(sheet("GH200-96GB"), "bf16").droop, 0.3);
  EXPECT_EQ(constants.products(sheet("A100"), "bf16").droop, ProductConstants().droop);  // another generation
}

TEST(KernelConstants, TypesOfSixteenBitsStandInForEachOther) {
  const KernelConstants constants = Sets()
                                        .add("products", "A100-SXM4-80GB", "f16", "start s", 7.0)
                                        .add("attention", "A100-SXM4-80GB", "x", "", 0)
                                        .read();
  EXPECT_EQ(constants.products(sheet("A100"), "bf16").start, Seconds(7.0));
  EXPECT_EQ(constants.products(sheet("A100"), "f16").start, Seconds(7.0));
  EXPECT_EQ(constants.products(sheet("A100"), "f32").start, ProductConstants().start);
  // What a set leaves out is the term's own.
  EXPECT_EQ(constants.products(sheet("A100"), "f16").droop, ProductConstants().droop);
}

TEST(KernelConstants, OfAttentionAreThoseOfItsMask) {
  const KernelConstants constants = Sets()
                                        .add("attention", "A100-SXM4-80GB", "bf16 causal lib", "prologue", 2.0)
                                        .add("attention", "A100-SXM4-80GB", "bf16 dense lib", "prologue", 3.0)
                                        .read();
  EXPECT_EQ(constants.attention(sheet("A100"), true).prologue, 2.0);
  EXPECT_EQ(constants.attention(sheet("A100"), false).prologue, 3.0);
  EXPECT_EQ(constants.attention(sheet("A40"), true).prologue, 2.0);
}

TEST(KernelConstants, OfCollectivesNoDeviceStandsInForAnother) {
  const KernelConstants constants = Sets()
                                        .add("network", "A100-SXM4-80GB", "all-gather", "rate per doubling", 2.0)
                                        .add("network", "A100-SXM4-80GB", "all-reduce: nvswitch", "low start s", 5.0)
                                        .read();
  EXPECT_EQ(constants.collectives(sheet("A100"), CollectiveKind::AllGather)->growth, 1.0);  // log2 of it
  EXPECT_EQ(constants.collectives(sheet("A100"), CollectiveKind::AllReduce)->low_start, Seconds(5.0));
  EXPECT_EQ(constants.collectives(sheet("A100"), CollectiveKind::AllReduce)->growth, 0.0);
  EXPECT_FALSE(constants.collectives(sheet("A100"), CollectiveKind::AllToAll).has_value());
  EXPECT_FALSE(constants.collectives(sheet("A40"), CollectiveKind::AllGather).has_value());
}

TEST(KernelConstants, OfAnotherFormatAreRefused) {
  Sets sets;
  sets.file["format"] = "meshwright-constants 2";
  EXPECT_NE(refusal([&] { (void)sets.read(); }).find("'meshwright-constants 2'"), std::string::npos);
}

TEST(DataSheets, AreInTheUnitsThatTheirFileSays) {
  const DataSheet& v100 = sheet("V100");
  EXPECT_NEAR(v100.memory.si(), 16e9, 1);
  EXPECT_NEAR(v100.memory_bandwidth.si(), 900e9, 1);
  EXPECT_NEAR(v100.network.si(), 50e9 / 8, 1);  // sold in bits
  EXPECT_NEAR(v100.rings.at(2).si(), 22.5e9, 1);
  EXPECT_NEAR(v100.all_to_all.at(8).si(), 42e9, 1);
  EXPECT_NEAR(v100.peak.at("f16").si(), 125e12, 1);
  EXPECT_EQ(sheet("GB200").domain, 72);
  EXPECT_EQ(v100.domain, 1);
  EXPECT_EQ(refusal([&] { (void)v100.unit("bf16"); }),
            "the data sheet of V100-SXM2-16GB has no peak for bf16, only for f16, f32, f64.");
}

TEST_F(ProfileFile, ComesBackAsItWas) {
  ASSERT_EQ(said(), "not refused");
  EXPECT_EQ(to_json(read_), json_);
  EXPECT_FALSE(read_.fitted);
  json_["fitted"] = {{"generations", {"volta"}}};
  ASSERT_EQ(said(), "not refused");
  EXPECT_TRUE(read_.fitted);
  EXPECT_EQ(read_.fitted_generations, std::vector<std::string>{"volta"});
}

TEST_F(ProfileFile, OfAnotherFormatIsRefused) {
  const std::string expected = path_ + ": 'format' is not \"meshwright-software-profile 1\"; give a software profile.";
  for (const Json& other : {Json("meshwright-software-profile 2"), Json(2)}) {
    json_["format"] = other;
    EXPECT_EQ(said(), expected);
  }
  json_.erase("format");
  EXPECT_EQ(said(), expected);
  json_ = Json::array();
  EXPECT_EQ(said(), expected);
}

TEST_F(ProfileFile, MayHaveNumbersUpToTheirLimitsAndNotBeyond) {
  for (const SoftwareNumber& number : software_numbers()) {
    const Json before = json_;
    for (const double limit : {number.low, number.high}) {
      json_[number.key] = limit;
      EXPECT_EQ(said(), "not refused") << number.key;
      EXPECT_EQ(read_.*number.member, limit);
    }
    for (const double beyond : {number.low - 1e-6, number.high * (1 + 1e-6)}) {
      json_[number.key] = beyond;
      EXPECT_NE(said().find(number.key), std::string::npos) << number.key;
    }
    json_ = before;
  }
  for (const char* spread : {"spread", "memory_spread"}) {
    for (const double fine : {0.0, 2.0}) {
      json_[spread] = fine;
      EXPECT_EQ(said(), "not refused");
    }
    for (const double wrong : {-0.01, 2.01}) {
      json_[spread] = wrong;
      EXPECT_NE(said().find("give 0 to 2"), std::string::npos);
    }
    json_[spread] = 1.0;
  }
  json_["colour"] = 1;
  EXPECT_NE(said().find("unknown member 'colour'"), std::string::npos);
}

TEST_F(ProfileFile, OfAnUnknownLikenessIsRefused) {
  json_["like"] = "megatorn";
  EXPECT_NE(said().find("like: "), std::string::npos);
}

// An outer range from 10 to 90 with one from 20 to 40 inside, and a later one from 50 to 60.
TEST(RangeTree, TheInnermostRangeIsOpenFromItsBeginningToItsEnd) {
  RangeTree tree;
  tree.add(7, {10, 90}, OpRange{});
  tree.add(7, {20, 40}, OpRange{});
  tree.add(7, {50, 60}, OpRange{});
  using At = std::pair<std::int64_t, std::optional<std::size_t>>;
  for (const auto& [time, range] : {At{9, {}}, At{10, 0}, At{19, 0}, At{20, 1}, At{40, 1}, At{41, 0}, At{50, 2},
                                    At{60, 2}, At{61, 0}, At{90, 0}, At{91, {}}})
    EXPECT_EQ(tree.innermost(7, time), range) << time;
  EXPECT_FALSE(tree.innermost(8, 30).has_value());
}

TEST(RangeTree, ARangeThatEndsWithItsParentIsInside) {
  RangeTree tree;
  tree.add(1, {10, 40}, OpRange{});
  tree.add(1, {10, 40}, OpRange{});
  tree.add(1, {20, 40}, OpRange{});
  EXPECT_EQ(tree.innermost(1, 15), 1U);
  EXPECT_EQ(tree.innermost(1, 40), 2U);
  EXPECT_THROW(tree.add(1, {19, 40}, OpRange{}), InternalError);
}

TEST(Measurements, AreMediansWithMedianDeviations) {
  const Measurement odd = measurement_of({50, 10, 20}), even = measurement_of({10, 20, 40, 90});
  EXPECT_NEAR(odd.median.si(), 20e-9, 1e-18);
  EXPECT_NEAR(odd.spread.si(), 10e-9, 1e-18);  // of 30, 10 and 0
  EXPECT_EQ(odd.samples, 3);
  EXPECT_NEAR(even.median.si(), 30e-9, 1e-18);
  EXPECT_NEAR(even.spread.si(), 15e-9, 1e-18);  // of 20, 10, 10 and 60
  EXPECT_THROW((void)measurement_of({}), InternalError);
}

TEST(UnionOf, CountsCommonPartsOnce) {
  EXPECT_EQ(union_of({}), Seconds(0.0));
  EXPECT_NEAR(union_of({{50, 60}, {0, 10}, {5, 20}, {6, 8}, {20, 25}}).si(), 35e-9, 1e-18);
}

}  // namespace meshwright::sheets_test
