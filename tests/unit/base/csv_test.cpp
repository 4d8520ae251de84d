// SPDX-License-Identifier: Apache-2.0
#include "core/base/csv.h"

#include <gtest/gtest.h>

#include "core/base/errors.h"

namespace meshwright::csv_test {

namespace {

std::string sentence_of(std::string_view text) {
  try {
    (void)CsvTable::parse(text, "t.csv");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// The first cell of a row may be empty, too.
TEST(Csv, ReadsBackTheRowsThatWereWritten) {
  const std::vector<std::string> cells = {"", "a,b", "say \"c\"", "two\nlines", "", "plain"};
  const std::string row = csv_row(cells);
  EXPECT_EQ(row, ",\"a,b\",\"say \"\"c\"\"\",\"two\nlines\",,plain\n");
  const CsvTable table = CsvTable::parse("a,b,c,d,e,f\n" + row, "here");
  ASSERT_EQ(table.rows().size(), 1u);
  for (std::size_t c = 0; c < cells.size(); ++c)
    EXPECT_EQ(table.rows()[0].text(std::string(1, static_cast<char>('a' + c))), cells[c]);
}

}  // namespace

TEST(Csv, QuotedCellsHoldCommasQuotesAndLineEnds) {
  const CsvTable table = CsvTable::parse("name,note\r\na,\"x, \"\"y\"\"\nz\"\r\nb,\r\n", "t.csv");
  ASSERT_EQ(table.rows().size(), 2u);
  EXPECT_EQ(table.rows()[0].text("note"), "x, \"y\"\nz");
  EXPECT_EQ(table.rows()[1].text("name"), "b");
  EXPECT_EQ(table.rows()[1].text("note"), "");
  EXPECT_EQ(table.rows()[1].line(), 4);  // the quoted line end counts
}

TEST(Csv, AMarkOfTheByteOrderIsNoPartOfAName) {
  EXPECT_TRUE(CsvTable::parse("\xEF\xBB\xBFname\na\n", "t.csv").has("name"));
}

TEST(Csv, NumbersAreReadWholeOrNotAtAll) {
  const CsvTable table = CsvTable::parse("a,b,c,d,e\n12.5,,7x,inf,3\n", "t.csv");
  const CsvTable::Row& row = table.rows().front();
  EXPECT_EQ(row.number("a"), 12.5);
  EXPECT_EQ(row.number("b"), std::nullopt);
  EXPECT_EQ(row.number("of no column"), std::nullopt);
  EXPECT_THROW((void)row.number("c"), InputError);
  EXPECT_THROW((void)row.number("d"), InputError);
  EXPECT_EQ(row.integer("e", 1, 3), 3);
  EXPECT_THROW((void)row.integer("e", 4, 9), InputError);
  EXPECT_THROW((void)row.integer("a", 1, 99), InputError);
}

TEST(Csv, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_EQ(sentence_of(""), "t.csv is empty; expected a first row with the names of the columns.");
  EXPECT_EQ(sentence_of("a,b\n"), "t.csv has no rows below the names of its columns; add some.");
  EXPECT_EQ(sentence_of("a,a\n1,2\n"), "t.csv: two columns are named 'a'; rename one.");
  EXPECT_EQ(sentence_of("a,b\n1,2\n3\n"), "t.csv, line 3: 1 cells, but the table has 2 columns.");
  EXPECT_EQ(sentence_of("a\n\"x\n"), "t.csv, line 2: a quote does not close; add the closing '\"'.");
  EXPECT_EQ(sentence_of("a\n\"x\"y\n"),
            "t.csv, line 2: text follows a closing quote; put a comma or the end of the line there.");
}

TEST(Csv, APlaceNamesFileLineAndColumn) {
  const CsvTable table = CsvTable::parse("a,b\n1,2\n", "t.csv");
  EXPECT_EQ(table.rows().front().place("b"), "t.csv, line 2, column 'b'");
}

}  // namespace meshwright::csv_test
