// SPDX-License-Identifier: Apache-2.0
// What a script would run, found without running it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launch/syntax/shell.h"
#include "tests/refusal.h"

namespace meshwright::shell_test {
namespace {

// The words of the commands, joined by blanks; '$' before what is unresolved.
std::vector<std::string> run(const std::string& script, ShellInput input = {}) {
  std::vector<std::string> lines;
  for (const ShellCommand& command : read_shell(script, "run.sh", input).commands) {
    std::string line;
    for (const ShellWord& word : command.words) line += (line.empty() ? "<" : " <") + shown(word.text) + ">";
    lines.push_back(line);
  }
  return lines;
}
using Lines = std::vector<std::string>;

TEST(Shell, ArraysKeepTheirWordsAndLeaveOutComments) {
  EXPECT_EQ(run("A=(\n  --x 1  # one\n  # two\n  \"b c\" \\\n)\nA+=(--y)\np \"${A[@]}\" ${A[@]}\n"),
            (Lines{"<p> <--x> <1> <b c> <--y> <--x> <1> <b> <c> <--y>"}));
}

TEST(Shell, AStringWithContinuedLinesSplitsIntoWords) {
  EXPECT_EQ(run("N=7\nA=\" \\\n  --n $N \\\n  --m 'q' \\\n  \"\np $A\n"), (Lines{"<p> <--n> <7> <--m> <'q'>"}));
}

TEST(Shell, DefaultsHoldWhereAVariableIsUnsetOrEmpty) {
  EXPECT_EQ(run("E=\np ${X:-8} ${E:-9} ${E-0} ${Y:=3} $Y ${E:+no} ${Y:+yes}\n"), (Lines{"<p> <8> <9> <3> <3> <yes>"}));
  EXPECT_EQ(run("p ${X:-8}\n", {.variables = {{"X", "5"}}}), (Lines{"<p> <5>"}));
}

TEST(Shell, ArithmeticIsThatOfBash) {
  EXPECT_EQ(run("A=4; B=3\np $((A*B+2**3)) $(( (A+B)%5 )) $((A>B?1:0)) $(($A/$B)) $((0x10)) $[A-B]\n"),
            (Lines{"<p> <20> <2> <1> <1> <16> <1>"}));
}

TEST(Shell, PartsOfTextAreCutAsBashCutsThem) {
  EXPECT_EQ(run("F=a/b.tar.gz\np ${F##*/} ${F%.*} ${F%%.*} ${F#*/} ${#F} ${F/b/c} ${F:2:5} ${F^^}\n"),
            (Lines{"<p> <b.tar.gz> <a/b.tar> <a/b> <b.tar.gz> <10> <a/c.tar.gz> <b.tar> <A/B.TAR.GZ>"}));
}

TEST(Shell, PositionalArgumentsAndLoopsOverThem) {
  EXPECT_EQ(run("for A in \"$@\"; do IFS='=' read -r K V <<< \"$A\"; export \"$K\"=\"$V\"; done\np $1 $# $X\n",
                {.arguments = {"X=2", "Y=3"}}),
            (Lines{"<p> <X=2> <2> <2>"}));
}

TEST(Shell, NothingIsExecutedAndWhatACommandPrintsIsUnresolved) {
  const ShellResult result = read_shell("H=$(rm -rf / ; hostname)\np $H `date` $NOBODY\n", "run.sh", {});
  ASSERT_EQ(result.commands.size(), 1u);
  EXPECT_FALSE(is_resolved(result.commands[0].words[1].text));
  EXPECT_EQ(shown(result.commands[0].words[2].text), "${output_of_date}");
  EXPECT_TRUE(result.unresolved.contains("NOBODY"));
}

TEST(Shell, ArraysHaveNamesOrPlacesForElements) {
  EXPECT_EQ(
      run("declare -A S=([hidden]=64 [layers]=2)\nS[more]=1\np ${S[hidden]} \"${S[layers]}\" ${!S[@]} ${#S[@]}\n"),
      (Lines{"<p> <64> <2> <hidden> <layers> <more> <3>"}));
  EXPECT_EQ(run("declare -A S\nK=a\nS[$K]=x\nS[a]+=y\nS[$K]=z\np ${S[a]}\n"), (Lines{"<p> <z>"}));
  EXPECT_EQ(run("A=([1]=b [0]=a)\np ${A[0]} ${A[1]} ${!A[@]}\n"), (Lines{"<p> <a> <b> <0> <1>"}));
}

TEST(Shell, SetGivesArguments) {
  EXPECT_EQ(run("set -euo pipefail\nset -- a 'b c'\nX=\"$@\"\np \"$2\" $# $X\n"), (Lines{"<p> <b c> <2> <a> <b> <c>"}));
}

TEST(Shell, WhatEchoAndHereDocumentsPrintIsKnown) {
  EXPECT_EQ(run("N=4\nA=$(cat <<EOF\n --nodes $N\n --last\nEOF\n)\np $A\n"), (Lines{"<p> <--nodes> <4> <--last>"}));
  EXPECT_EQ(run("A=$(cat <<'EOF'\n a $N\nEOF\n)\np \"$A\"\n"), (Lines{"<p> < a $N>"}));
  EXPECT_EQ(run("X=8\np $(expr 32 / $X / 2) $(expr 2 \\* 3)\n"), (Lines{"<p> <2> <6>"}));
  EXPECT_EQ(run("X=8\np $(echo -n $X $((X / 2))) `echo $X`\n"), (Lines{"<p> <8> <4> <8>"}));
}

TEST(Shell, WhatDependsOnFilesOrProgramsIsNotTakenFromAnEcho) {
  for (const char* script : {"p $(echo *.sh)\n", "p $(echo a | awk 1)\n", "p $(cat file)\n", "p $(echo -e a)\n",
                             "p $(echo a > b)\n", "p $(expr length a)\n"}) {
    const ShellResult result = read_shell(script, "run.sh", {});
    ASSERT_EQ(result.commands.size(), 1u);
    EXPECT_FALSE(is_resolved(result.commands[0].words[1].text)) << script;
  }
}

TEST(Shell, DecidableTestsChooseTheirBranch) {
  EXPECT_EQ(run("A=1\nif [ \"$A\" = 1 ]; then p yes; else p no; fi\nif [[ $A -gt 1 || -z $A ]]; then p big; fi\n"
                "[ -n \"$A\" ] && p set\n[ $A == 2 ] || p not2\ncase $A in 0|1) p low;; *) p high;; esac\n"),
            (Lines{"<p> <yes>", "<p> <set>", "<p> <not2>", "<p> <low>"}));
}

TEST(Shell, AnUndecidableTestTakesNoBranchAndSaysSo) {
  const ShellResult result = read_shell("if [ \"$(nproc)\" = 8 ]; then p a; else p b; fi\n", "run.sh", {});
  EXPECT_TRUE(result.commands.empty());
  ASSERT_EQ(result.notes.size(), 1u);
  EXPECT_TRUE(result.notes[0].starts_with("run.sh:1: "));
}

TEST(Shell, AVariableThatNobodySetsIsEmptyInATest) {
  EXPECT_EQ(run("if [ -n \"${KEY}\" ]; then p with; else p without; fi\n"), (Lines{"<p> <without>"}));
}

TEST(Shell, HereDocumentsAreScriptsOrFiles) {
  const ShellResult result = read_shell(
      "N=4\nsbatch <<EOF\n#SBATCH --nodes=$N\nsrun p --rank \\$SLURM_PROCID $N\nEOF\ncat <<X > c.json\n{\"a\": "
      "$N}\nX\n",
      "run.sh", {});
  ASSERT_EQ(result.commands.size(), 1u);
  EXPECT_EQ(shown(result.commands[0].words[3].text), "${SLURM_PROCID}");
  EXPECT_EQ(result.commands[0].words[4].text, "4");
  EXPECT_EQ(result.written.at("c.json"), "{\"a\": 4}\n");
}

// What a launcher starts on every device, written by the script itself.
TEST(Shell, AFileThatEchoWritesIsAScript) {
  EXPECT_EQ(run("W=$(cat <<- EOM\n  if [ \"\\$RANK\" -eq \"0\" ]; then\n    sleep 3 ;\n  fi ;\n"
                "  nice python t.py --n \\\n    2\nEOM\n)\n"
                "echo \"$W\" > w.sh\ntorchrun --nnodes 4 --no-python bash w.sh\n"),
            (Lines{"<torchrun> <--nnodes> <4> <--no-python>", "<nice> <python> <t.py> <--n> <2>"}));
  EXPECT_EQ(run("srun bash other.sh\n"), (Lines{"<srun> <bash> <other.sh>"}));
}

TEST(Shell, SlurmsVariablesFollowFromItsDirectives) {
  EXPECT_EQ(run("#!/bin/bash\n#SBATCH --nodes=24   # hosts\n#SBATCH -n 96\np $SLURM_NNODES $SLURM_NTASKS\n"),
            (Lines{"<p> <24> <96>"}));
}

TEST(Shell, AStringGivenToAShellIsReadAgain) {
  EXPECT_EQ(run("C=\"p --a 'x y'\"\nsrun -l bash -c \"cd /; $C --b \\$Z\" 2>&1 | tee log\n"),
            (Lines{"<srun> <-l>", "<p> <--a> <x y> <--b> <${Z}>", "<tee> <log>"}));
}

TEST(Shell, FunctionsAndScriptsOfOtherFilesAreFollowed) {
  EXPECT_EQ(run("f() { p \"$1\" $N; }\nsource env.sh\nf one\nbash other.sh 5\n",
                {.files = {{"env.sh", "export N=3\n"}, {"other.sh", "q $1 $N\n"}}}),
            (Lines{"<p> <one> <3>", "<q> <5> <3>"}));
}

TEST(Shell, AScriptIsFollowedFromWhereItIsExecuted) {
  EXPECT_EQ(run("srun -n 2 bash -c \"RANK=1 exec bash '$DIR/run.sh'\"\nexec nohup bash run.sh 2\n",
                {.files = {{"run.sh", "p $RANK $1\n"}}}),
            (Lines{"<srun> <-n> <2>", "<p> <1> <${1}>", "<p> <1> <2>"}));
}

TEST(Shell, WordsGluedToABackslashGoOnInTheNextLine) {
  EXPECT_EQ(run("p base.yml\\\n  a=1\\\n  b=2\np on\\\ne\n"), (Lines{"<p> <base.yml> <a=1> <b=2>", "<p> <one>"}));
}

TEST(Shell, WhatHasNoEndIsRefusedWithItsLine) {
  EXPECT_TRUE(refusal([] { return read_shell("a\nb 'c\n", "run.sh", {}); }).starts_with("run.sh:2: "));
  EXPECT_TRUE(refusal([] { return read_shell("if true; then\n p\n", "run.sh", {}); }).starts_with("run.sh:1: 'fi'"));
  EXPECT_TRUE(refusal([] { return read_shell("A=(\n1\n", "run.sh", {}); }).starts_with("run.sh:1: the array"));
  EXPECT_TRUE(refusal([] { return read_shell("cat <<E\nx\n", "run.sh", {}); }).find("no line 'E'") !=
              std::string::npos);
}

TEST(Shell, ABracketWithoutANameIsNoArgument) { EXPECT_EQ(run("p ${} ${-x}\n"), (Lines{"<p> <${}> <x>"})); }

TEST(Shell, GrowthWithoutEndIsRefused) {
  std::string doubling = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) doubling += "A=$A$A\n";
  EXPECT_NE(refusal([&] { return read_shell(doubling + "p $A\n", "run.sh", {}); }).find("expand to more"),
            std::string::npos);
  EXPECT_NE(refusal([] { return read_shell("f() { f; }\nf\n", "run.sh", {}); }).find("too "), std::string::npos);
}

// "<PATH TO DATA>" is a word to be filled in; "< file" is read from.
TEST(Shell, PlaceholdersAreWords) {
  EXPECT_EQ(run("p --data <PATH TO DATA> --x 1 <your_path>/a <IN>\n"),
            (Lines{"<p> <--data> <<PATH TO DATA>> <--x> <1> <<your_path>/a> <<IN>>"}));
  EXPECT_EQ(run("A=<Path to checkpoint (e.g /345m)>\np $A\n"),
            (Lines{"<p> <<Path> <to> <checkpoint> <(e.g> </345m)>>"}));
  EXPECT_EQ(run("O=\"--a <A B> --fp16\"\nsrun sh -c \"p ${O}\"\n"), (Lines{"<srun>", "<p> <--a> <<A B>> <--fp16>"}));
  EXPECT_EQ(run("p a < file > out\np b <in >out c\n"), (Lines{"<p> <a>", "<p> <b> <c>"}));
  // No file's name follows it: the end of a line, or a flag.
  EXPECT_EQ(run("p --data <path/to/data> --x 1 <data> \\\n  --y <path>\n"),
            (Lines{"<p> <--data> <<path/to/data>> <--x> <1> <<data>> <--y> <<path>>"}));
}

TEST(Shell, PathsOfTheScriptAreRelativeToItsFolder) {
  EXPECT_EQ(run("D=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" >/dev/null 2>&1 && pwd)\np $D/a.json\n"),
            (Lines{"<p> <./a.json>"}));
  EXPECT_EQ(run("p $(dirname \"$(readlink -f \"$0\")\")/conf $(dirname $(realpath $0)) $(cd $(dirname $0)/..; pwd)\n"),
            (Lines{"<p> <./conf> <.> <..>"}));
  EXPECT_EQ(run("p $(basename a/b.tar .tar) $(basename \"$0\") `dirname a/b/../c/d`\n"),
            (Lines{"<p> <b> <run.sh> <a/c>"}));
  EXPECT_EQ(run("B=`pwd`\np ${B}/a.json $(pwd) $(pwd -P)\n"), (Lines{"<p> <./a.json> <.> <${output_of_pwd}>"}));
  // The name of the folder itself is nowhere in the script.
  EXPECT_EQ(run("p $(basename $(dirname $0)) $(readlink a) $(cd $X && pwd) $(cd a || pwd)\n"),
            (Lines{"<p> <${output_of_basename}> <${output_of_readlink}> <${output_of_cd}> <${output_of_cd_2}>"}));
}

TEST(Shell, ASourcedScriptIsNotTheOneThatWasCalled) {
  const std::string env = "H=$(dirname ${BASH_SOURCE[0]})\n[[ ${BASH_SOURCE[0]} == $0 ]] && p alone\n";
  const ShellInput input{.variables = {}, .arguments = {}, .files = {{"env.sh", env}}, .beside = {}};
  EXPECT_EQ(run("source lib/env.sh\np $H\n[[ \"${BASH_SOURCE[0]}\" == \"$0\" ]] && p main\n", input),
            (Lines{"<p> <lib>", "<p> <main>"}));
  EXPECT_EQ(run("bash lib/env.sh\n", input), (Lines{"<p> <alone>"}));
}

TEST(Shell, AScriptThatSubmitsItselfIsReadOnce) {
  const std::string script = "if [ -z $JOB ]; then\n  sbatch \"$0\"\n  exit\nfi\np --x 1\n";
  const ShellInput input{.variables = {}, .arguments = {}, .files = {}, .beside = [&](const std::string&) {
                           return std::optional(script);
                         }};
  EXPECT_EQ(run(script, input), (Lines{"<p> <--x> <1>"}));
}

TEST(Shell, OtherBatchSystemsAskForHostsAndDevices) {
  const auto directives = [](const std::string& script) {
    std::string text;
    for (const ShellWord& word : read_shell(script, "run.sh", {}).directives) text += word.text + " ";
    return text;
  };
  EXPECT_EQ(directives("#PBS -l walltime=1:00:00\n#PBS -l select=4:ncpus=64:ngpus=8\np\n"),
            "--nodes=4 --gpus-per-node=8 ");
  EXPECT_EQ(directives("#BSUB -nnodes 2\np\n"), "--nodes=2 ");
  EXPECT_EQ(directives("#PJM -L node=4\np\n"), "--nodes=4 ");
}

TEST(Shell, LoopsRunWhileTheirConditionIsKnownToHold) {
  const char* options =
      "while [[ $# -gt 0 ]]; do\n  case $1 in\n    --tp) TP=$2; shift 2;;\n    *) REST+=($1); shift;;\n  esac\ndone\n"
      "p $TP ${REST[@]}\n";
  EXPECT_EQ(run(options, {.arguments = {"a", "--tp", "4", "b"}}), (Lines{"<p> <4> <a> <b>"}));
  EXPECT_EQ(run("for ((i = 0; i < 3; i++)); do p $i; done\n"), (Lines{"<p> <0>", "<p> <1>", "<p> <2>"}));
  EXPECT_EQ(run("i=9; until ((i <= 7)); do let i-=1; done; p $i\n"), (Lines{"<p> <7>"}));
}

TEST(Shell, BreakAndContinueAreThoseOfTheInnermostLoopOrOfAsManyAsTheySay) {
  EXPECT_EQ(run("for i in 1 2 3; do [ $i = 2 ] && continue; p $i; done\n"), (Lines{"<p> <1>", "<p> <3>"}));
  EXPECT_EQ(run("for i in 1 2; do for j in a b; do [ $j = b ] && break; p $i$j; done; done\n"),
            (Lines{"<p> <1a>", "<p> <2a>"}));
  EXPECT_EQ(run("for i in 1 2; do for j in a b; do p $i$j; break 2; done; done\n"), (Lines{"<p> <1a>"}));
  EXPECT_EQ(run("for i in 1 2; do for j in a b; do p $i$j; continue 2; done; p no; done\n"),
            (Lines{"<p> <1a>", "<p> <2a>"}));
}

TEST(Shell, LoopsOfUnknownLengthAreLeftOutAndEndlessOnesAreReadOnce) {
  const ShellResult unknown = read_shell("while squeue -j 1; do p; done\n", "run.sh", {});
  EXPECT_EQ(unknown.commands.size(), 1u);  // squeue
  EXPECT_EQ(unknown.notes, (Lines{"run.sh:1: a loop is left out: how often it runs is not known without running it"}));
  const ShellResult endless = read_shell("while true; do p; done\n", "run.sh", {});
  EXPECT_EQ(endless.commands.size(), 1u);
  EXPECT_EQ(endless.notes, (Lines{"run.sh:1: a loop that changes nothing is read once"}));
}

TEST(Shell, WhatAProgramAnswersDecidesNoTest) {
  EXPECT_EQ(run("A=1\nif nvidia-smi; then A=2; else A=3; fi\np $A\n"), (Lines{"<nvidia-smi>", "<p> <1>"}));
  EXPECT_EQ(run("A=1\nif command -v nvidia-smi; then A=2; fi\np $A\n").back(), "<p> <2>");
  EXPECT_EQ(run("make && p\n"), (Lines{"<make>", "<p>"}));  // a chain is there to go on
}

TEST(Shell, WhatGrepFindsInKnownTextDecidesATest) {
  const std::string script = "X='--a 1 --b'\nif echo \"$X\" | grep -q -- \"--";
  EXPECT_EQ(run(script + "b\"; then p yes; else p no; fi\n"), (Lines{"<p> <yes>"}));
  EXPECT_EQ(run(script + "c\"; then p yes; else p no; fi\n"), (Lines{"<p> <no>"}));
  EXPECT_EQ(run("if echo $(date) | grep -q a; then p yes; else p no; fi\n"), (Lines{}));
}

TEST(Shell, ShiftDropsAsManyArgumentsAsItSays) {
  EXPECT_EQ(run("shift 2\np $1 $#\nshift 5\np $#\n", {.arguments = {"a", "b", "c", "d"}}),
            (Lines{"<p> <c> <2>", "<p> <2>"}));
}

TEST(Shell, ReadTakesAWholeDocumentWithoutADelimiter) {
  EXPECT_EQ(run("read -r -d '' A <<EOF\nq --n 4\n  --m\nEOF\np $A\n"), (Lines{"<p> <q> <--n> <4> <--m>"}));
  EXPECT_EQ(run("IFS=, read -ra A <<< 'x,y'\np ${A[1]}\n"), (Lines{"<p> <y>"}));
}

TEST(Shell, WhatReadTakesFromAPersonIsNotKnown) {
  EXPECT_EQ(run("read -p 'hosts? ' N\np $N\n"), (Lines{"<p> <${N}>"}));
  EXPECT_EQ(run("read -p 'hosts? ' N\np $N\n", {.variables = {{"N", "4"}}}), (Lines{"<p> <4>"}));
}

TEST(Shell, WhatAFunctionPrintsIsKnownWhereItOnlyPrints) {
  const std::string function =
      "f() {\n  local n=$1\n  echo said >&2\n  if [ $n -gt 4 ]; then echo big; return; fi\n  echo $((n * 2))\n}\n";
  EXPECT_EQ(run(function + "p $(f 3) $(f 5) `f 1` ${n}\n"), (Lines{"<p> <6> <big> <2> <${n}>"}));
  EXPECT_EQ(run("f() { echo A-B | cut -d- -f2; }\np $(f | tr B C)\n"), (Lines{"<p> <C>"}));
  EXPECT_EQ(run("f() { hostname; }\np $(f)\n"), (Lines{"<p> <${output_of_f}>"}));
  EXPECT_EQ(run("f() { echo $(f); }\np $(f)\n"), (Lines{"<p> <${output_of_f}>"}));
}

TEST(Shell, AFunctionReturnsWhereItSays) {
  EXPECT_EQ(run("f() { return 1; p never; }\nif f; then p yes; else p no; fi\n"), (Lines{"<p> <no>"}));
}

TEST(Shell, AScriptThatALauncherStartsIsFollowedWithWhatItExports) {
  const ShellInput input{.files = {{"run.sh", "p $N $1\nexit 0\n"}}};
  EXPECT_EQ(run("mpirun -np 8 -x N=4 bash jobs/run.sh a\np after\n", input),
            (Lines{"<mpirun> <-np> <8> <-x> <N=4>", "<p> <4> <a>", "<p> <after>"}));
  EXPECT_EQ(run("srun --export=ALL,N=2 ./run.sh b\n", input), (Lines{"<srun> <--export=ALL,N=2>", "<p> <2> <b>"}));
  EXPECT_EQ(run("chmod +x run.sh\n", input), (Lines{"<chmod> <+x> <run.sh>"}));
}

TEST(Shell, APipeIsLeftOutWhereItsFirstCommandIs) { EXPECT_EQ(run("false && a | b\np\n"), (Lines{"<p>"})); }

TEST(Shell, AFileThatSedMakesOfAKnownOneIsWritten) {
  const ShellInput input{.files = {{"t.json", "{\"batch\": BATCH,\n \"stage\": STAGE}\n"}}};
  const std::string made = "{\"batch\": 8,\n \"stage\": 3}\n";
  EXPECT_EQ(read_shell("N=8\nsed \"s/BATCH/${N}/\" t.json \\\n | sed \"s/STAGE/3/\" \\\n > c.json\n", "run.sh", input)
                .written.at("c.json"),
            made);
  EXPECT_EQ(
      read_shell("sed -e s/BATCH/8/ -e 's|STAGE|3|' conf/t.json > c.json\n", "run.sh", input).written.at("c.json"),
      made);
  EXPECT_EQ(read_shell("cp t.json c.json\nsed -i s/BATCH/8/ c.json; sed -i s/STAGE/3/ c.json\n", "run.sh", input)
                .written.at("c.json"),
            made);
  EXPECT_TRUE(read_shell("sed s/BATCH/$(date)/ t.json > c.json\n", "run.sh", input).written.empty());
}

TEST(Shell, ACommandIsOfTheScriptInWhichItStands) {
  const ShellResult result = read_shell("p 1\nbash run.sh\np 2\n", "job.sh", {.files = {{"run.sh", "\np 3\n"}}});
  Lines places;
  for (const ShellCommand& command : result.commands)
    places.push_back(command.file + ":" + std::to_string(command.line));
  EXPECT_EQ(places, (Lines{"job.sh:1", "run.sh:2", "job.sh:3"}));
}

}  // namespace
}  // namespace meshwright::shell_test
