// SPDX-License-Identifier: Apache-2.0
#include "core/base/npy.h"

#include <gtest/gtest.h>

#include "tests/refusal.h"

namespace meshwright::npy_test {
namespace {

// A file of this header's text and so many bytes behind it.
std::string file_of(const std::string& text, std::size_t bytes) {
  std::string file("\x93NUMPY\x01", 7);
  file += '\0';
  file += static_cast<char>(text.size());
  file += '\0';
  return file + text + std::string(bytes, 'x');
}

std::string refused(const std::string& text, std::size_t bytes) {
  return refusal([&] { return read_npy_header(file_of(text, bytes), "f"); });
}

TEST(Npy, WhatIsWrittenIsRead) {
  const std::string head = npy_header("f8", {2, 3});
  EXPECT_EQ(head.size() % 64, 0U);
  const NpyHeader header = read_npy_header(head + std::string(48, 'x'), "f");
  EXPECT_EQ(header.type, "f8");
  EXPECT_EQ(header.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(header.begin, head.size());
  EXPECT_EQ(header.elements(), 6);
  EXPECT_FALSE(header.is_integer());
}

TEST(Npy, HeadersOfNumpyAreRead) {
  const NpyHeader row =
      read_npy_header(file_of("{'descr': '<i4', 'fortran_order': False, 'shape': (5,), }\n", 20), "f");
  EXPECT_EQ(row.shape, (std::vector<std::int64_t>{5}));
  EXPECT_TRUE(row.is_integer());
  const NpyHeader scalar =
      read_npy_header(file_of("{'descr': '|u1', 'fortran_order': False, 'shape': (), }\n", 1), "f");
  EXPECT_TRUE(scalar.shape.empty());
  EXPECT_EQ(scalar.elements(), 1);
}

TEST(Npy, WhatCannotBeReadIsRefused) {
  EXPECT_NE(refusal([] { return read_npy_header("PK\3\4", "f"); }).find("does not begin as"), std::string::npos);
  EXPECT_NE(refused("{'descr': '<i4', 'fortran_order': True, 'shape': (5,), }", 20).find("column by column"),
            std::string::npos);
  EXPECT_NE(refused("{'descr': '>i4', 'fortran_order': False, 'shape': (5,), }", 20).find("little-endian"),
            std::string::npos);
  EXPECT_NE(refused("{'descr': '<c8', 'fortran_order': False, 'shape': (5,), }", 40).find("the type '<c8'"),
            std::string::npos);
  EXPECT_NE(refused("{'descr': '<i4', 'fortran_order': False}", 20).find("no 'shape'"), std::string::npos);
  EXPECT_NE(refused("{'descr': '<i4', 'fortran_order': False, 'shape': 5, }", 20).find("no list of sizes"),
            std::string::npos);
}

TEST(Npy, ShapesThatLieAreRefused) {
  EXPECT_NE(refused("{'descr': '<i4', 'fortran_order': False, 'shape': (6,), }", 23).find("cut short"),
            std::string::npos);
  EXPECT_NE(
      refused("{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", 16).find("cut short"),
      std::string::npos);
  // An array without dimensions has one element; one with a dimension of 0 has none.
  EXPECT_NE(refused("{'descr': '<i4', 'fortran_order': False, 'shape': (), }", 3).find("cut short"), std::string::npos);
  EXPECT_EQ(read_npy_header(file_of("{'descr': '<i4', 'fortran_order': False, 'shape': (0, 7), }", 0), "f").elements(),
            0);
}

}  // namespace
}  // namespace meshwright::npy_test
