// SPDX-License-Identifier: Apache-2.0
// What a fit says of its constants and what near measurements say of a shape, against the formulas of their headers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "costmodel/calibration/fit_kernels.h"
#include "costmodel/calibration/minimize.h"
#include "costmodel/calibration/neighbours.h"
#include "costmodel/sheets/data_sheet.h"

namespace meshwright::fitted_constants_test {

namespace {

const DataSheet& a100() { return *find_data_sheet("A100"); }

// A pass that takes `start` and so many times what one operand takes.
KernelRow pass_row(double megabytes, double start, double passes, double error = 1.0) {
  KernelRow row;
  row.device = a100().name;
  row.dtype = "bf16";
  row.kernel = MeasuredPass{"gelu", Bytes(1e6 * megabytes)};
  row.time = error * pass_time(Bytes(1e6 * megabytes), a100().memory_bandwidth, {Seconds(start), passes});
  return row;
}
// Passes of 1 to 512 MB; errors of plus and minus a tenth in turn where `noisy`.
std::vector<KernelRow> passes(double start, double passes, bool noisy = false) {
  std::vector<KernelRow> rows;
  for (int i = 0; i < 10; ++i) {
    const double error = !noisy ? 1.0 : i % 2 == 0 ? 1.1 : 0.9;
    rows.push_back(pass_row(std::exp2(i), start, passes, error));
  }
  return rows;
}
KernelFit fit(const std::vector<KernelRow>& rows) {
  KernelFitOptions options;
  options.holdout = 0.0;
  return fit_kernels(rows, options).fits.at(0);
}

// The mean pseudo-Huber loss of the logarithms, with its corner at 0.05.
double loss_of(const std::vector<KernelRow>& rows, double start, double passes) {
  double sum = 0.0;
  for (const KernelRow& row : rows) {
    const Bytes operand = std::get<MeasuredPass>(row.kernel).operand;
    const double off =
        std::log(pass_time(operand, a100().memory_bandwidth, {Seconds(start), passes}) / row.time) / 0.05;
    sum += 0.05 * 0.05 * (std::sqrt(1 + off * off) - 1);
  }
  return sum / static_cast<double>(rows.size());
}

}  // namespace

TEST(FitKernels, OfPassesFindsTheStartAndTheirNumber) {
  const KernelFit found = fit(passes(20e-6, 3.0));
  EXPECT_EQ(found.term, "memory");
  EXPECT_EQ(found.what, "gelu bf16");
  ASSERT_EQ(found.constants.size(), 2U);
  EXPECT_NEAR(found.constants[0].value, 20e-6, 0.1e-6);
  EXPECT_NEAR(found.constants[1].value, 3.0, 0.01);
  EXPECT_FALSE(found.constants[0].at_bound || found.constants[1].at_bound);
  EXPECT_EQ(found.fitted.rows, 10);
  EXPECT_EQ(found.held_back.rows, 0);
}

TEST(FitKernels, AConstantThatWouldPassItsBoundIsAtIt) {
  // Fewer than 0.3 passes and more than 60 of them, starts above a millisecond and below a tenth of a microsecond.
  const KernelFit low = fit(passes(20e-6, 0.1)), high = fit(passes(20e-6, 100.0));
  EXPECT_TRUE(low.constants[1].at_bound);
  EXPECT_NEAR(low.constants[1].value, 0.3, 1e-4);
  EXPECT_TRUE(high.constants[1].at_bound);
  EXPECT_NEAR(high.constants[1].value, 60.0, 0.01);
  EXPECT_TRUE(fit(passes(5e-3, 3.0)).constants[0].at_bound);
  EXPECT_TRUE(fit(passes(1e-9, 3.0)).constants[0].at_bound);
}

TEST(FitKernels, SensitivityIsHowMuchTheLossGrowsATenthAway) {
  const std::vector<KernelRow> rows = passes(20e-6, 3.0, true);
  const KernelFit found = fit(rows);
  const double start = found.constants[0].value, number = found.constants[1].value;
  const double least = loss_of(rows, start, number);
  for (const double other : {0.999, 1.001}) {
    EXPECT_GE(loss_of(rows, other * start, number), least * (1 - 1e-4));
    EXPECT_GE(loss_of(rows, start, other * number), least * (1 - 1e-4));
  }
  const double of_start = (loss_of(rows, 1.1 * start, number) + loss_of(rows, start / 1.1, number)) / 2 / least - 1;
  const double of_number = (loss_of(rows, start, 1.1 * number) + loss_of(rows, start, number / 1.1)) / 2 / least - 1;
  EXPECT_NEAR(found.constants[0].sensitivity, of_start, 1e-9);
  EXPECT_NEAR(found.constants[1].sensitivity, of_number, 1e-9);
  EXPECT_GT(of_number, of_start);
}

TEST(FitKernels, NeedThreeRowsForEachConstant) {
  std::vector<KernelRow> rows = passes(20e-6, 3.0);
  KernelFitOptions options;
  options.holdout = 0.0;
  rows.resize(6);
  EXPECT_EQ(fit_kernels(rows, options).fits.size(), 1U);
  rows.resize(5);
  const KernelFits none = fit_kernels(rows, options);
  EXPECT_TRUE(none.fits.empty());
  ASSERT_EQ(none.unused.size(), 1U);
  EXPECT_EQ(none.unused[0].reason, "5 rows for 2 constants");
  options.holdout = 0.9;
  EXPECT_NO_THROW((void)fit_kernels(rows, options));
  options.holdout = 0.91;
  EXPECT_THROW((void)fit_kernels(rows, options), InputError);
  options.holdout = -0.01;
  EXPECT_THROW((void)fit_kernels(rows, options), InputError);
}

TEST(Minimize, AStartAtABoundIsOneWithin) {
  const auto loss = [](const std::vector<double>& v) { return std::abs(std::log(v[0] / 3)) + 1; };
  for (const double start : {1.0, 10.0}) EXPECT_NEAR(minimize(loss, {{"x", start, 1, 10}}).values[0], 3, 1e-3);
  EXPECT_EQ(minimize(loss, {{"x", 2, 2, 2}}).values[0], 2);  // nothing to choose
  EXPECT_THROW((void)minimize(loss, {{"x", 0.9, 1, 10}}), InternalError);
  EXPECT_THROW((void)minimize(loss, {{"x", 11, 1, 10}}), InternalError);
  EXPECT_THROW((void)minimize(loss, {{"x", 1, 0, 10}}), InternalError);
}

TEST(Minimize, OfManyParametersFindsEach) {
  // A bowl around (2, 3, 4, 5), four times as steep along each next axis.
  std::vector<FitParameter> parameters;
  for (const char* name : {"a", "b", "c", "d"}) parameters.push_back({name, 1, 0.1, 100});
  const FitResult found = minimize(
      [](const std::vector<double>& v) {
        double sum = 0.1, steep = 1.0;
        for (std::size_t i = 0; i < v.size(); ++i, steep *= 4) {
          const double off = std::log(v[i] / static_cast<double>(i + 2));
          sum += steep * off * off;
        }
        return sum;
      },
      parameters);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(found.values[i], static_cast<double>(i + 2), 0.02) << i;
  EXPECT_NEAR(found.loss, 0.1, 1e-5);
}

TEST(Minimize, OfOneStartStaysInItsValley) {
  // Valleys at log x of about -3.14, 0 and 3.14, each deeper than the one behind it.
  const auto loss = [](const std::vector<double>& v) {
    return 2 + 0.02 * std::log(v[0]) - std::cos(2 * std::log(v[0]));
  };
  const std::vector<FitParameter> parameters = {{"x", 20, 0.005, 40}};
  EXPECT_NEAR(std::log(minimize(loss, parameters, {1, 1}).values[0]), 3.14, 0.05);
  EXPECT_NEAR(std::log(minimize(loss, parameters, {4, 1}).values[0]), -3.14, 0.05);
}

TEST(Minimize, ASimplexThatFindsNothingBetterShrinks) {
  // A pit of radius 0.01 on a hill that falls to all sides, begun halfway from the pit's middle to its edge.
  const auto loss = [](const std::vector<double>& v) {
    const double away = std::abs(std::log(v[0]));
    return away < 0.01 ? away : 2 - away;
  };
  EXPECT_NEAR(minimize(loss, {{"x", std::exp(0.005), 0.5, 2}}, {1, 1}).loss, 0.0, 1e-6);
}

TEST(Neighbours, AFactorIsTheWeightedMeanOfLogarithmsWithTheModelAsOne) {
  // Four times as long at the point itself would be 4^(1 / 1.3); as an exact row it decides alone.
  const ShapePoint here{}, near{0.8};
  const double away = std::exp(-0.5);  // one width
  const Neighbours one({{near, std::log(4.0)}});
  EXPECT_NEAR(one.at(here).weight, away, 1e-12);
  EXPECT_NEAR(one.at(here).factor, std::pow(4.0, away / (away + 0.3)), 1e-12);
  EXPECT_FALSE(one.at(here).exact);
  const Neighbours two({{near, std::log(4.0)}, {here, std::log(9.0)}});
  EXPECT_TRUE(two.at(here).exact);
  EXPECT_NEAR(two.at(here).factor, 9.0, 1e-9);
  EXPECT_NEAR(two.at(here).weight, 1 + away, 1e-12);
  // Without itself a row has what its neighbour says.
  const Correction others = two.without({here, std::log(9.0)});
  EXPECT_NEAR(others.factor, std::pow(4.0, away / (away + 0.3)), 1e-12);
  EXPECT_NEAR(others.weight, away, 1e-12);
  EXPECT_FALSE(others.exact);
  // Two rows of one shape: their geometric mean, and each is still exact without itself.
  const Neighbours twice({{here, std::log(4.0)}, {here, std::log(9.0)}});
  EXPECT_NEAR(twice.at(here).factor, 6.0, 1e-9);
  EXPECT_TRUE(twice.without({here, std::log(9.0)}).exact);
}

TEST(Neighbours, NothingIsSaidBeyondThreeWidths) {
  const Neighbours one({{ShapePoint{}, std::log(4.0)}});
  EXPECT_GT(one.at(ShapePoint{2.39}).weight, 0.0);
  EXPECT_EQ(one.at(ShapePoint{2.41}).weight, 0.0);
  EXPECT_EQ(one.at(ShapePoint{2.41}).factor, 1.0);
}

TEST(Correction, IsInterpolatedFromTheModelsOwnWeightOn) {
  EXPECT_EQ((Correction{1.0, 0.3, false}.basis()), Basis::Interpolated);
  EXPECT_EQ((Correction{1.0, 0.299, false}.basis()), Basis::Modelled);
  EXPECT_EQ((Correction{1.0, 0.0, true}.basis()), Basis::Measured);
}

TEST(ShapePoint, CountsOctaves) {
  const auto distance = [](const ShapePoint& a, const ShapePoint& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
    return sum;
  };
  const ProductShape product{2, 64, 128, 256, Bytes(2), Bytes(2)};
  const ShapePoint of_product = shape_point(product);
  for (std::int64_t ProductShape::*size :
       {&ProductShape::batch, &ProductShape::m, &ProductShape::n, &ProductShape::k}) {
    ProductShape longer = product;
    longer.*size *= 8;
    EXPECT_NEAR(distance(shape_point(longer), of_product), 3.0, 1e-12);
  }
  ProductShape wide = product;
  wide.result_element = Bytes(4);
  EXPECT_NEAR(distance(shape_point(wide), of_product), 1.0, 1e-12);

  AttentionShape attention;
  attention.batch = 2, attention.heads = 32, attention.kv_heads = 8;
  attention.queries = attention.keys = 1024;
  attention.key_width = attention.value_width = 64;
  const ShapePoint of_attention = shape_point(attention);
  AttentionShape grouped = attention, longer = attention, narrower = attention;
  grouped.kv_heads = 4;      // 8 query heads for each in the place of 4
  longer.keys *= 4;          // than its queries
  narrower.value_width = 0;  // half of both widths together
  EXPECT_NEAR(distance(shape_point(grouped), of_attention), 1.0, 1e-12);
  EXPECT_NEAR(distance(shape_point(longer), of_attention), 2.0, 1e-12);
  EXPECT_NEAR(distance(shape_point(narrower), of_attention), 1.0, 1e-12);
  // Longer queries beside keys that are as much longer.
  AttentionShape both = longer;
  both.queries *= 4;
  EXPECT_NEAR(distance(shape_point(both), of_attention), 2.0, 1e-12);

  EXPECT_NEAR(distance(shape_point(Bytes(8e6), 4), shape_point(Bytes(1e6), 4)), 3.0, 1e-12);
  EXPECT_NEAR(distance(shape_point(Bytes(1e6), 8), shape_point(Bytes(1e6), 4)), 4.0, 1e-12);  // as a factor of 16
}

TEST(KernelRows, OfAttentionHaveTheSizesOfTheirColumns) {
  const KernelRows read = read_kernel_rows(
      CsvTable::parse("device,op,dtype,batch,heads,kv_heads,head_dim,seq_q,seq_kv,causal,direction,time_us\n"
                      "A100,attention,bf16,2,32,8,128,4096,8192,0,fwd,900\n"
                      "A100,attention,fp32,3,16,,64,512,,1,bwd,900\n",
                      "k.csv"));
  ASSERT_EQ(read.rows.size(), 2U);
  const auto sizes = [&](std::size_t row) {
    const AttentionShape& shape = std::get<AttentionShape>(read.rows[row].kernel);
    return std::vector<double>{static_cast<double>(shape.batch),
                               static_cast<double>(shape.heads),
                               static_cast<double>(shape.kv_heads),
                               static_cast<double>(shape.queries),
                               static_cast<double>(shape.keys),
                               static_cast<double>(shape.key_width),
                               static_cast<double>(shape.value_width),
                               shape.element.si(),
                               shape.causal ? 1.0 : 0.0,
                               shape.backward ? 1.0 : 0.0};
  };
  EXPECT_EQ(sizes(0), (std::vector<double>{2, 32, 8, 4096, 8192, 128, 128, 2, 0, 0}));
  EXPECT_EQ(sizes(1), (std::vector<double>{3, 16, 16, 512, 512, 64, 64, 4, 1, 1}));
}

TEST(KernelRows, OfProductsHaveTheResultThatTheirAlgorithmSays) {
  const auto product = [](const char* dtype, const char* algorithm) {
    const KernelRows read = read_kernel_rows(CsvTable::parse(
        fmt::format("device,op,dtype,m,n,k,batch,algorithm,time_us\nA100,bmm,{},2,3,5,7,{},1\n", dtype, algorithm),
        "k.csv"));
    if (read.rows.empty()) return std::vector<double>{};
    const ProductShape& shape = std::get<ProductShape>(read.rows[0].kernel);
    return std::vector<double>{static_cast<double>(shape.batch), static_cast<double>(shape.m),
                               static_cast<double>(shape.n),     static_cast<double>(shape.k),
                               shape.operand_element.si(),       shape.result_element.si()};
  };
  EXPECT_EQ(product("bf16", "lib"), (std::vector<double>{7, 2, 3, 5, 2, 2}));
  EXPECT_EQ(product("fp8", "lib"), (std::vector<double>{7, 2, 3, 5, 1, 2}));  // results of 16 bits
  EXPECT_EQ(product("bf16", "lib out=fp32"), (std::vector<double>{7, 2, 3, 5, 2, 4}));
  EXPECT_EQ(product("bf16", "lib out=fp32 accumulate"), (std::vector<double>{7, 2, 3, 5, 2, 8}));  // read and written
  EXPECT_EQ(product("bf16", "lib dgrad+wgrad"), std::vector<double>{});
}

TEST(KernelRows, ArePartedByShapeAndKind) {
  KernelRow row;
  row.library = "lib-1.0";
  row.kernel = ProductShape{3, 2, 64, 16};
  EXPECT_EQ(shape_group(row), "product 16x64");
  EXPECT_EQ(kernel_family(row), "batched products");
  row.kernel = ProductShape{1, 2, 16, 64};
  EXPECT_EQ(shape_group(row), "product 16x64");  // whichever is the weight's
  EXPECT_EQ(kernel_family(row), "products");
  row.library = "lib incl. launch";
  EXPECT_EQ(kernel_family(row), "products with launch");
  AttentionShape attention;
  attention.batch = 2, attention.heads = 3, attention.key_width = 64, attention.causal = true,
  attention.backward = true;
  row.kernel = attention;
  row.library = "lib deterministic window=8";
  EXPECT_EQ(shape_group(row), "attention 6x64");
  EXPECT_EQ(kernel_family(row), "attention causal backward deterministic windowed");
  row.kernel = MeasuredCollective{CollectiveKind::AllGather, 8, 2, "nvswitch", Bytes(4097)};
  row.library = "nccl-2.1";
  EXPECT_EQ(shape_group(row), "all-gather 12");  // from 4096 to 8191
  EXPECT_EQ(kernel_family(row), "all-gather over 2 hosts");
  EXPECT_EQ(implementation(row), "nccl: nvswitch");
  row.kernel = MeasuredPass{"gelu", Bytes(64)};
  EXPECT_EQ(shape_group(row), "gelu 64");
  EXPECT_FALSE(kernel_family(row).has_value());
  EXPECT_FALSE(shape_point(row).has_value());
}

}  // namespace meshwright::fitted_constants_test
