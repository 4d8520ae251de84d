// SPDX-License-Identifier: Apache-2.0
#include "core/planner/stages/stage_profile_csv.h"

#include "tests/refusal.h"
#include "tests/unit/stage_profile_fixture.h"

namespace meshwright::stage_profile_csv_test {
namespace {

TEST(StageProfileCsv, ComesBackToTheLastBit) {
  const StageProfileTable table = sample();
  const std::string text = to_csv(table);
  const StageProfileTable read = stage_profile_from_csv(text, "t.csv");
  expect_same(read, table);
  EXPECT_EQ(to_csv(read), text);
}

TEST(StageProfileCsv, IsWrittenForPeople) {
  StageProfileTable table(key_of());
  table.add(name_of(0, 2), entry_of(0.5));
  const std::string text = to_csv(table);
  EXPECT_EQ(text.substr(text.find("\nfirst_layer") + 1),
            "first_layer,last_layer,hosts,devices_per_host,host_group,logical_shape,batch_axis,option,sharding,"
            "forward_s,backward_s,step_s,resident_bytes,saved_bytes,recomputed_bytes,repeated_bytes,working_bytes,"
            "boundary_in_bytes,"
            "boundary_out_bytes,basis,samples,forward_mad_s,backward_mad_s,step_mad_s\n"
            "0,2,1,4,0,2x2,,0,,0.5,5,50,500,5000,50000,250000,500000,3.5,4.5,modelled,,,,\n");
  EXPECT_EQ(text.substr(0, 38), "# meshwright-stage-profile 1\n# key: {\"");
}

TEST(StageProfileCsv, TakesColumnsInAnyOrder) {
  std::string text = to_csv(sample());
  std::size_t line = text.find("\nfirst_layer") + 1;
  std::string swapped = text.substr(0, line);
  for (std::size_t at = line; at < text.size();) {
    const std::size_t end = text.find('\n', at), comma = text.find(',', at);
    swapped += text.substr(comma + 1, end - comma - 1) + "," + text.substr(at, comma - at) + "\n";
    at = end + 1;
  }
  expect_same(stage_profile_from_csv(swapped, "t.csv"), sample());
}

// One entry's line, or the header, with one thing replaced.
std::string refused_csv(const std::string& from, const std::string& to) {
  StageProfileTable table(key_of());
  table.add(name_of(0, 2), entry_of(0.5));
  std::string text = to_csv(table);
  const std::size_t at = text.rfind(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return refusal([&] { return stage_profile_from_csv(text, "t.csv").entries().size(); });
}

TEST(StageProfileCsv, NamesEveryBadCellByLineAndColumn) {
  EXPECT_EQ(refused_csv(",0.5,5,", ",-0.5,5,"),
            "t.csv: line 4, column 'forward_s': '-0.5' is not a finite number from 0 upwards.");
  EXPECT_EQ(refused_csv(",0.5,5,", ",nan,5,"),
            "t.csv: line 4, column 'forward_s': 'nan' is not a finite number from 0 upwards.");
  EXPECT_EQ(refused_csv(",0.5,5,50,", ",0.5,5,inf,"),
            "t.csv: line 4, column 'step_s': 'inf' is not a finite number from 0 upwards.");
  EXPECT_EQ(refused_csv(",0.5,5,", ",0.5s,5,"),
            "t.csv: line 4, column 'forward_s': '0.5s' is not a finite number from 0 upwards.");
  EXPECT_EQ(refused_csv(",0.5,5,", ",1e999,5,"),
            "t.csv: line 4, column 'forward_s': '1e999' is not a finite number from 0 upwards.");
  EXPECT_EQ(refused_csv(",0.5,5,", ",,5,"),
            "t.csv: line 4, column 'forward_s': the cell is empty; every entry needs one.");
  EXPECT_EQ(refused_csv(",500,", ",,"),
            "t.csv: line 4, column 'resident_bytes': the cell is empty; every entry needs one.");
  EXPECT_NE(refused_csv("2x2", "2x").find("t.csv: line 4, column 'logical_shape'"), std::string::npos);
  EXPECT_NE(refused_csv("0,2,1,4", "0,2.5,1,4").find("t.csv: line 4, column 'last_layer'"), std::string::npos);
  EXPECT_NE(refused_csv("0,2,1,4", "0,2,0,4").find("t.csv: line 4, column 'hosts'"), std::string::npos);
  EXPECT_NE(refused_csv("2x2,,0,", "2x2,,-1,").find("t.csv: line 4, column 'option'"), std::string::npos);
  EXPECT_EQ(refused_csv("2x2,,0,,", "2x2,,,abc,"),
            "t.csv: line 4, column 'sharding': 'abc' is not a fingerprint of 16 digits 0-9a-f.");
  EXPECT_EQ(refused_csv("2x2,,0,,", "2x2,,0,0123456789abcdef,"),
            "t.csv: line 4, column 'option': '0' stands there, but the entry is of a sharding; leave the cell empty.");
  EXPECT_EQ(refused_csv("modelled,", "guessed,"),
            "t.csv: line 4, column 'basis': unknown name 'guessed'; expected modelled or measured.");
  EXPECT_EQ(refused_csv("modelled,,", "modelled,3,"),
            "t.csv: line 4, column 'samples': '3' stands there, but the entry is modelled; leave the cell empty.");
  EXPECT_EQ(refused_csv("modelled,,", "measured,,"),
            "t.csv: line 4, column 'samples': the cell is empty; every entry needs one.");
  EXPECT_EQ(refused_csv("0,2,1,4", "0,9,1,4"),
            "t.csv: line 4: stage profile: layers 0..9 on 1x4 as 2x2: the key has the layers 0..3; give spans of "
            "these.");
}

TEST(StageProfileCsv, RefusesWhatIsNoTable) {
  const auto refused = [](const std::string& text) {
    return refusal([&] { return stage_profile_from_csv(text, "t.csv").entries().size(); });
  };
  const std::string good = to_csv(sample());
  EXPECT_EQ(refused(""), "t.csv: the file is empty; `meshwright plan ... --write-stage-profile t.csv` fills it.");
  EXPECT_EQ(refused("a,b\n1,2\n"),
            "t.csv: line 1 is not '# meshwright-stage-profile 1'; is it another kind of file, or of a newer "
            "meshwright?");
  EXPECT_EQ(refused("# meshwright-stage-profile 1\n"),
            "t.csv: after line 1 the key and the columns are missing; export the file again.");
  EXPECT_EQ(refused(good.substr(0, good.size() - 3)),
            "t.csv: the last line does not end; the file has been cut, export it again.");
  EXPECT_EQ(refused(good + "0,0\n"), "t.csv: line 8: 2 cells, but line 3 names 24 columns.");
  EXPECT_EQ(refused_csv("\n0,2,", "\r\n0,2,"), "t.csv: lines end with a carriage return; save with Unix line ends.");
  EXPECT_EQ(refused_csv("# key: ", "# kay: "),
            "t.csv: line 2 does not begin with '# key: '; keep the key that was exported.");
  EXPECT_NE(refused_csv("# key: {", "# key: ").find("t.csv: line 2: key"), std::string::npos);
  EXPECT_EQ(refused_csv("forward_s,", "forward_ms,"),
            "t.csv: line 3: unknown column 'forward_ms'; the nearest known are forward_s, forward_mad_s, backward_s.");
  EXPECT_EQ(refused_csv("forward_s,", "backward_s,"),
            "t.csv: line 3: column 'backward_s' stands there twice; give every column once.");
  EXPECT_EQ(refused_csv(",step_mad_s", ""),
            "t.csv: line 3: column 'step_mad_s' is missing; every column must be there, its cells may be empty where "
            "that means something.");
  const std::size_t last = good.rfind('\n', good.size() - 2) + 1;
  EXPECT_EQ(refused(good + good.substr(last)),
            "t.csv: line 8: layers 3..3 on 2x8 as 4x4, batch on axis 1, option 0 stands in line 7 already; give every "
            "entry once.");
}

}  // namespace
}  // namespace meshwright::stage_profile_csv_test
