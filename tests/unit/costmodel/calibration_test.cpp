// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "core/base/errors.h"
#include "core/base/random.h"
#include "costmodel/calibration/fit_kernels.h"
#include "costmodel/calibration/minimize.h"
#include "costmodel/sheets/data_sheet.h"

namespace meshwright::calibration_test {

namespace {

constexpr const char* kColumns =
    "device,op,dtype,m,n,k,batch,heads,kv_heads,head_dim,seq_q,seq_kv,causal,direction,size_bytes,ranks,hosts,topology,"
    "algorithm,time_us,source_row\n";

KernelRows rows_of(const std::string& lines) { return read_kernel_rows(CsvTable::parse(kColumns + lines, "k.csv")); }

// Products of random sizes on an A100 that take what `constants` say, times a factor of up to 1 +- `noise`.
std::vector<KernelRow> product_rows(int count, const ProductConstants& constants, double noise) {
  Random random(3);
  const ProductUnit unit = find_data_sheet("A100")->unit("bf16");
  std::vector<KernelRow> rows;
  for (int i = 0; i < count; ++i) {
    KernelRow row;
    row.device = "A100-SXM4-80GB";
    row.dtype = "bf16";
    const auto size = [&](int most) { return static_cast<std::int64_t>(1) << random.below(most); };
    const ProductShape shape{1, size(14), 64 * size(9) + 8 * random.below(8), 64 * size(9)};
    row.kernel = shape;
    row.time = (1 + noise * (2 * random.unit() - 1)) * product_time(shape, unit, constants);
    rows.push_back(row);
  }
  return rows;
}

double value_of(const KernelFit& fit, const std::string& name) {
  for (const FittedConstant& constant : fit.constants)
    if (constant.name == name) return constant.value;
  ADD_FAILURE() << "no constant '" << name << "'";
  return 0;
}

}  // namespace

TEST(Minimize, FindsTheBottomOfAValleyThatBends) {
  // Rosenbrock's function of the logarithms: its only minimum is at (e, e).
  const auto loss = [](const std::vector<double>& v) {
    const double x = std::log(v[0]), y = std::log(v[1]);
    return 1 + (1 - x) * (1 - x) + 100 * (y - x * x) * (y - x * x);
  };
  const FitResult fit = minimize(loss, {{"x", 0.4, 0.01, 100}, {"y", 3, 0.01, 100}});
  EXPECT_NEAR(fit.values[0], std::exp(1.0), 0.05);
  EXPECT_NEAR(fit.values[1], std::exp(1.0), 0.05);
}

// Ripples on a bowl: where neither side of the worst corner is better, the simplex shrinks towards its best one, and so
// it ends.
TEST(Minimize, ShrinksIntoAMinimumAmongRipples) {
  int calls = 0;
  const auto loss = [&calls](const std::vector<double>& at) {
    ++calls;
    const double x = std::log(at[0]) - 1, y = std::log(at[1]) - 2;
    return x * x + y * y + 0.5 * std::sin(20 * x) * std::sin(20 * y);
  };
  const FitResult fit = minimize(loss, {{"x", 0.4, 0.01, 100}, {"y", 3, 0.01, 100}}, {.count = 1, .seed = 1});
  EXPECT_LT(fit.loss, -0.389);
  EXPECT_LT(calls, 400);
}

TEST(Minimize, StaysWithinBounds) {
  const FitResult fit =
      minimize([](const std::vector<double>& v) { return -v[0] + 1 / v[1]; }, {{"up", 1, 0.5, 2}, {"too", 1, 0.5, 4}});
  EXPECT_DOUBLE_EQ(fit.values[0], 2);
  EXPECT_DOUBLE_EQ(fit.values[1], 4);
}

TEST(Residuals, AreSummarizedAsSharesOfTheMeasurement) {
  Residuals residuals;
  for (const double predicted : {0.9, 1.0, 1.1, 2.0}) residuals.add(Seconds(predicted), Seconds(1.0));
  const ErrorSummary errors = residuals.summary();
  EXPECT_EQ(errors.rows, 4);
  EXPECT_NEAR(errors.mean, (0.1 + 0 + 0.1 + 1) / 4, 1e-12);
  EXPECT_NEAR(errors.median, 0.1, 1e-12);
  EXPECT_NEAR(errors.p90, 1.0, 1e-12);
  EXPECT_NEAR(errors.bias, (-0.1 + 0 + 0.1 + 1) / 4, 1e-12);
}

TEST(KeptBack, IsAShareOfTheGroupsThatTheSeedChooses) {
  int kept = 0, same = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::string group = "product " + std::to_string(i);
    kept += kept_back(group, 0.3, 1) ? 1 : 0;
    same += kept_back(group, 0.3, 1) == kept_back(group, 0.3, 2) ? 1 : 0;
  }
  EXPECT_NEAR(kept / 1e4, 0.3, 0.02);
  EXPECT_NEAR(same / 1e4, 0.3 * 0.3 + 0.7 * 0.7, 0.02);  // independent of each other
}

TEST(KernelRows, AreReadByTheirKind) {
  const KernelRows read = rows_of(
      "A100,gemm,bf16,128,256,512,,,,,,,,fwd,,,,,lib TN,10.5,r1\n"
      "H100,attention,bf16,,,,2,32,8,128,4096,8192,1,bwd,,,,,lib v_dim=64,900,r2\n"
      "H100,all_reduce,fp16,,,,,,,,,,,,1048576,8,1,nvswitch,nccl,40,r3\n"
      "H100,layernorm,fp32,4096,1024,,,,,,,,,bwd,16777216,,,,eager,30,r4\n"
      "H100,moe_ffn,bf16,1,2,3,,,,,,,,,,,,,lib,1,r5\n");
  ASSERT_EQ(read.rows.size(), 4u);
  EXPECT_TRUE(read.rejected.empty());
  ASSERT_EQ(read.unused.size(), 1u);
  EXPECT_EQ(read.unused[0].reason, "no term predicts 'moe_ffn'");
  EXPECT_EQ(read.rows[0].device, "A100-SXM4-80GB");
  EXPECT_EQ(std::get<ProductShape>(read.rows[0].kernel).k, 512);
  EXPECT_NEAR(read.rows[0].time.si(), 10.5e-6, 1e-18);
  const AttentionShape& attention = std::get<AttentionShape>(read.rows[1].kernel);
  EXPECT_EQ(attention.keys, 8192);
  EXPECT_EQ(attention.value_width, 64);
  EXPECT_TRUE(attention.backward && attention.causal);
  EXPECT_EQ(std::get<MeasuredCollective>(read.rows[2].kernel).ranks, 8);
  EXPECT_EQ(std::get<MeasuredPass>(read.rows[3].kernel).kind, "layernorm backward");
}

TEST(KernelRows, AWrongRowIsNamedAndTheOthersAreRead) {
  const KernelRows read = rows_of(
      "A100,gemm,bf16,128,256,512,,,,,,,,fwd,,,,,lib,-1,r1\n"
      "A100,gemm,bf17,128,256,512,,,,,,,,fwd,,,,,lib,1,r2\n"
      "A100,gemm,bf16,128,256,nan,,,,,,,,fwd,,,,,lib,1,r3\n"
      "A100,attention,bf16,,,,2,32,5,128,4096,,1,fwd,,,,,lib,1,r4\n"
      "A100,gemm,bf16,128,256,512,,,,,,,,fwd,,,,,lib,1,r5\n");
  EXPECT_EQ(read.rows.size(), 1u);
  ASSERT_EQ(read.rejected.size(), 4u);
  EXPECT_EQ(read.rejected[0].reason, "k.csv, line 2, column 'time_us': '-1' is not a number above 0.");
  EXPECT_EQ(read.rejected[1].place, "k.csv, line 3");
  EXPECT_NE(read.rejected[2].reason.find("column 'k'"), std::string::npos);
  EXPECT_NE(read.rejected[3].reason.find("32 query heads cannot share 5"), std::string::npos);
}

TEST(FitKernels, FindsTheConstantsThatRowsWereMadeWith) {
  const ProductConstants truth{0.9, 0.75, BytesPerSecond(4e12), Seconds(6e-6), 200, 0.02};
  KernelFitOptions options;
  options.terms = {"matmul"};
  const KernelFits fits = fit_kernels(product_rows(800, truth, 0.02), options);
  ASSERT_EQ(fits.fits.size(), 1u);
  const KernelFit& fit = fits.fits.front();
  EXPECT_LT(fit.held_back.mean, 0.02);
  EXPECT_GT(fit.held_back.rows, 100);
  EXPECT_NEAR(value_of(fit, "peak share"), truth.peak_share, 0.05);
  EXPECT_NEAR(value_of(fit, "memory share"), truth.memory_share, 0.05);
  EXPECT_NEAR(value_of(fit, "start s"), truth.start.si(), 0.5e-6);
}

TEST(FitKernels, IsTheSameForRowsInAnotherOrder) {
  std::vector<KernelRow> rows = product_rows(300, {}, 0.05);
  KernelFitOptions options;
  const KernelFit fit = fit_kernels(rows, options).fits.at(0);
  std::reverse(rows.begin(), rows.end());
  const KernelFit again = fit_kernels(rows, options).fits.at(0);
  for (std::size_t i = 0; i < fit.constants.size(); ++i)
    EXPECT_NEAR(again.constants[i].value / fit.constants[i].value, 1.0, 1e-3) << fit.constants[i].name;
}

TEST(FitKernels, LeavesOutWhatItCannotFit) {
  std::vector<KernelRow> rows = product_rows(10, {}, 0.0);
  rows.front().device = "a device of no data sheet";
  const KernelFits fits = fit_kernels(rows, {});
  EXPECT_TRUE(fits.fits.empty());
  ASSERT_EQ(fits.unused.size(), 2u);
  EXPECT_NE(fits.unused[0].reason.find("rows for 6 constants"), std::string::npos);
  EXPECT_EQ(fits.unused[1].reason, "no data sheet has this device");
  KernelFitOptions options;
  options.terms = {"matmull"};
  EXPECT_THROW((void)fit_kernels(rows, options), InputError);
  options = {};
  options.holdout = 1.5;
  EXPECT_THROW((void)fit_kernels(rows, options), InputError);
}

// Three minima, the least far from the start.
TEST(Minimize, FindsTheLeastOfSeveralMinima) {
  const auto loss = [](const std::vector<double>& v) {
    const double x = std::log(v[0]);
    return 2 + 0.02 * x - std::cos(2 * x);
  };
  EXPECT_NEAR(std::log(minimize(loss, {{"x", 20, 0.005, 40}}).values[0]), -3.14, 0.05);
}

TEST(KernelRows, AWindowShortensTheKeys) {
  const KernelRows read = rows_of(
      "H100,attention,bf16,,,,2,32,8,128,4096,4096,1,fwd,,,,,cudnn gpt window=128,90,r1\n"
      "H100,attention,bf16,,,,2,32,8,128,64,64,1,fwd,,,,,cudnn gpt window=128,90,r2\n");
  ASSERT_EQ(read.rows.size(), 2u);
  const AttentionShape& long_one = std::get<AttentionShape>(read.rows[0].kernel);
  EXPECT_EQ(long_one.keys, 128);
  EXPECT_FALSE(long_one.causal);
  EXPECT_EQ(std::get<AttentionShape>(read.rows[1].kernel).keys, 64);
  EXPECT_EQ(implementation(read.rows[0]), "cudnn windowed");
}

TEST(KernelRows, AreOfOneImplementationWhateverTheVersion) {
  KernelRow row;
  row.kernel = AttentionShape{};
  for (const auto& [library, name] :
       std::map<std::string, std::string>{{"vllm-0.24.0:vllm_flash_attn_fa3", "vllm:vllm_flash_attn_fa3"},
                                          {"trtllm-1.3.0rc20 TN", "trtllm"},
                                          {"cublas (CUDA 10.1.243) col-major NN", "cublas"}}) {
    row.library = library;
    EXPECT_EQ(implementation(row), name);
  }
}

TEST(FitKernels, LeavesOutATypeThatTheDeviceHasNoPeakFor) {
  std::vector<KernelRow> rows = product_rows(60, {}, 0.0);
  for (KernelRow& row : rows) row.dtype = "f8";
  const std::vector<KernelRow> possible = product_rows(60, {}, 0.0);
  rows.insert(rows.end(), possible.begin(), possible.end());
  const KernelFits fits = fit_kernels(rows, {});
  EXPECT_EQ(fits.fits.size(), 1u);
  ASSERT_EQ(fits.impossible.size(), 1u);
  EXPECT_EQ(fits.impossible[0].place, "products A100-SXM4-80GB f8");
  EXPECT_EQ(fits.impossible[0].reason, "the data sheet has no peak for f8 (60 rows)");
}

// Times rise and fall with m as no constant can say: the rows near tell it.
TEST(FitKernels, RowsNearInShapeCorrectTheFit) {
  std::vector<KernelRow> rows = product_rows(1500, {}, 0.02);
  for (KernelRow& row : rows)
    row.time = (1 + 0.4 * std::sin(std::log2(static_cast<double>(std::get<ProductShape>(row.kernel).m)))) * row.time;
  const KernelFits fits = fit_kernels(rows, {});
  ASSERT_EQ(fits.fits.size(), 1u);
  EXPECT_LT(fits.fits[0].held_back_near.mean, 0.8 * fits.fits[0].held_back.mean);
  ASSERT_EQ(fits.by_device.size(), 1u);
  EXPECT_EQ(fits.by_device[0].held_back.rows, fits.fits[0].held_back.rows);
  EXPECT_DOUBLE_EQ(fits.by_device[0].held_back_near.median, fits.fits[0].held_back_near.median);
}

// Medians on shapes kept back, one point above what was seen.
TEST(FitKernels, PredictsPublishedProductsOfUnseenShapes) {
  const char* data = std::getenv("MESHWRIGHT_DATA");
  if (data == nullptr) GTEST_SKIP() << "MESHWRIGHT_DATA is not set: no measured kernels here";
  const std::string folder = std::string(data) + "/kernels/aiconfigurator/";
  for (const auto& [file, most] : std::map<std::string, double>{{"gemm_a100_sxm_bfloat16_trtllm", 0.06},
                                                                {"gemm_h100_sxm_bfloat16_trtllm", 0.07},
                                                                {"gemm_h100_sxm_fp8_trtllm", 0.045}}) {
    const KernelRows read = read_kernel_rows(CsvTable::read(folder + file + ".csv.gz"));
    ASSERT_TRUE(read.rejected.empty());
    const KernelFits fits = fit_kernels(read.rows, {});
    ASSERT_EQ(fits.fits.size(), 1u);
    EXPECT_GT(fits.fits[0].held_back.rows, 500);
    EXPECT_LT(fits.fits[0].held_back.median, most) << file;
  }
}

}  // namespace meshwright::calibration_test
