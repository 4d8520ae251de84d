// SPDX-License-Identifier: Apache-2.0
#include "core/base/safetensors.h"

#include <gtest/gtest.h>

#include "tests/refusal.h"

namespace meshwright::safetensors_test {
namespace {

// A file of this header and so many bytes behind it.
std::string file_of(const std::string& header, std::size_t bytes) {
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + std::string(bytes, 'x');
}

std::string refused(const std::string& header, std::size_t bytes) {
  return refusal([&] { return read_safetensors_header(file_of(header, bytes), "f"); });
}

TEST(Safetensors, WhatIsWrittenIsRead) {
  std::vector<StoredTensor> tensors = {{"b", "F32", {2, 3}}, {"a", "BF16", {5}}, {"scalar", "F64", {}}};
  const std::string head = safetensors_header(tensors, {{"format", "pt"}});
  EXPECT_EQ(head.size() % 8, 0U);
  const SafetensorsHeader header = read_safetensors_header(head + std::string(24 + 10 + 8, 'x'), "f");
  ASSERT_EQ(header.tensors.size(), 3U);
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(header.tensors[0].name, "b");
  EXPECT_EQ(header.tensors[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(header.tensors[0].begin, head.size());
  EXPECT_EQ(header.tensors[1].type, "BF16");
  EXPECT_EQ(header.tensors[1].begin, head.size() + 24);
  EXPECT_EQ(header.tensors[2].end, head.size() + 24 + 10 + 8);
}

TEST(Safetensors, AnEmptyTensorTakesNoBytes) {
  const auto header =
      read_safetensors_header(file_of(R"({"a":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]}})", 0), "f");
  EXPECT_EQ(header.tensors[0].begin, header.tensors[0].end);
}

TEST(Safetensors, OffsetsOutsideTheFileAreRefused) {
  EXPECT_EQ(
      refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7),
      "f: tensor 'a': its bytes 0 to 8 are not in the 7 bytes behind the header; the file is cut short or damaged.");
  EXPECT_NE(refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8).find("its bytes 8 to 0"),
            std::string::npos);
  EXPECT_NE(refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[18446744073709551615,0]}})", 8).find("its bytes"),
            std::string::npos);
  EXPECT_NE(refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}})", 8).find("two whole numbers"),
            std::string::npos);
}

TEST(Safetensors, SizesThatLieAreRefused) {
  EXPECT_EQ(refused(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
            "f: tensor 'a': its shape and type make 12 bytes, but it has 8.");
  // 2^33 * 2^33 elements would wrap around to 0.
  EXPECT_NE(refused(R"({"a":{"dtype":"U8","shape":[8589934592,8589934592],"data_offsets":[0,0]}})", 0)
                .find("more bytes than 64 bits count"),
            std::string::npos);
}

TEST(Safetensors, OverlapsAndUnknownTypesAreRefused) {
  EXPECT_EQ(
      refused(
          R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
          3),
      "f: the bytes of tensors 'a' and 'b' overlap; the file is damaged.");
  EXPECT_EQ(
      refused(R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8),
      "f: tensor 'a' is of the unknown type 'F31'; the format has BOOL, U8, I8, F8_E5M2, F8_E4M3, I16, U16, F16, BF16, "
      "I32, U32, F32, I64, F64; the file is damaged.");
}

TEST(Safetensors, HeadersThatAreNoneAreRefused) {
  EXPECT_NE(refusal([] { return read_safetensors_header("short", "f"); }).find("5 bytes, fewer than"),
            std::string::npos);
  EXPECT_NE(refusal([] { return read_safetensors_header(std::string(8, '\xff') + "{}", "f"); }).find("but 2 follow"),
            std::string::npos);
  EXPECT_NE(refused("[]", 0).find("an object of tensors by name"), std::string::npos);
  EXPECT_NE(refused(R"({"a":7})", 0).find("dtype, shape and data_offsets"), std::string::npos);
  EXPECT_NE(refused(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}})", 0).find("whole numbers"),
            std::string::npos);
}

}  // namespace
}  // namespace meshwright::safetensors_test
