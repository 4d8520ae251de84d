#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many small faults in the planner, the plan, the cost model and the simulator do the tests notice?

    tests/mutation/run.py TREE [--count 500] [--seed 1] [--jobs 1] [--only core/planner] [--again FILE]

TREE is a copy of the repository that may be changed (`git worktree add TREE`), best with a built build/release. --count mutants are drawn and
compiled into one build; a number in the environment makes one of them active (mutate.py, mutant.h). Every test is run once to see which mutants
it evaluates; then each mutant is run by the tests that evaluate it, until one fails or does not end: those of the test programs first, then
the commands of tests/golden and tests/error. Prints the share
caught per folder and each survivor; TREE/build/mutation.json keeps the answers. Survivors of experiments/mutation/no_result.txt, which gives for
each the reason why no result can change, are not counted. --again, which may be given several times, runs the survivors of earlier results
beside those drawn, with a table of their own; with --count 0 alone. Needs git, cmake,
libclang's Python module (python3-clang). Exit code 1 where a share is below --at-least.
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mutate  # noqa: E402

FOLDERS = ("core/planner", "core/plan", "costmodel", "simulator")
# Those of the test programs that link what is mutated.
TESTS = [f"{label}_{folder}_test" for label in ("unit", "oracle") for folder in ("plan", "planner", "costmodel", "simulator", "sharding", "schedule")]
TESTS += ["unit_validation_test", "unit_report_test", "unit_launch_test", "unit_executor_test", "oracle_executor_test", "oracle_exact_test"]
# Scripts of tests/ that run the program itself; each stands for a test program whose tests are the files of its folder.
SCRIPTS = {"golden": "run_golden.py", "error": "run_error.py"}
TRANSCRIPT = 12  # times --slowest: there are few, and each has many commands
TESTS += SCRIPTS
NO_RESULT = pathlib.Path(__file__).resolve().parents[2] / "experiments/mutation/no_result.txt"
MEMORY_BYTES = 4 << 30


def say(text):
    print(text, flush=True)


def sources_of(tree, only):
    chosen = []
    for folder in FOLDERS:
        for path in sorted((tree / folder).rglob("*.cpp")):
            name = str(path.relative_to(tree))
            if not only or any(name.startswith(each) for each in only):
                chosen.append(name)
    return chosen


def write_mutants(tree, sources, left_out):
    mutants, number = [], 1
    for source in sources:
        body, more = source.mutated(left_out.get(source.path, set()), number)
        path = tree / source.path
        if path.read_bytes() != body:
            path.write_bytes(body)
        number += len(more)
        mutants += more
    return mutants


def build(tree, targets, jobs):
    return subprocess.run(["cmake", "--build", "--preset", "release", f"-j{jobs}", "--target", *targets, "--", "-k0"], cwd=tree,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def sites_at_fault(sources, log, tree):
    """The sites on lines that the compiler names. Every error names such a line, or the line that asked for a function of mutant.h."""
    found = {}
    for match in re.finditer(r"^(?:In file included from )?(\S+?):(\d+)(?::\d+)?[:,]", log, re.M):
        name = match.group(1)
        line = int(match.group(2))
        for source in sources:
            if name.endswith(source.path) and "Unity" not in name:
                for index, site in enumerate(source.sites):
                    if site["line"] <= line <= site["end_line"]:
                        found.setdefault(source.path, set()).add(index)
    return found


def draw(sources, seed, count):
    """Places in the order drawn, (file, site, kind): a quarter more than wanted, as some do not compile or types do not allow them."""
    places = [(source.path, index, kind) for source in sources for index, site in enumerate(source.sites) for kind in site["kinds"]]
    return random.Random(seed).sample(places, min(count + (count + 3) // 4, len(places)))


def build_mutants(tree, sources, targets, jobs, places):
    """Only the sites of these places; returns their mutants, and how many sites do not compile."""
    wanted = {(path, index) for path, index, _ in places}
    unwanted = {source.path: {i for i in range(len(source.sites)) if (source.path, i) not in wanted} for source in sources}
    left_out = {path: set(sites) for path, sites in unwanted.items()}
    for attempt in range(12):
        mutants = write_mutants(tree, sources, left_out)
        result = build(tree, targets, jobs)
        if result.returncode == 0:
            return mutants, sum(len(left_out[path] - unwanted[path]) for path in left_out)
        found = sites_at_fault(sources, result.stdout, tree)
        new = {path: sites - left_out.get(path, set()) for path, sites in found.items()}
        if not any(new.values()):
            sys.exit("mutation: the tree does not compile, and no mutant's line is named:\n" + result.stdout[-4000:])
        for path, sites in new.items():
            left_out.setdefault(path, set()).update(sites)
        say(f"mutation: attempt {attempt + 1}: {sum(len(s) for s in new.values())} more sites do not compile, left out")
    sys.exit("mutation: the tree still does not compile; the last answers:\n" + result.stdout[-4000:])


def limit_to(seconds):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    most = math.ceil(seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))


def run_tests(tree, program, names, seconds, extra):
    """0, another exit code, or "late", and the processor seconds taken: a busy machine changes neither. What only waits is late in the end, too."""
    environment = {**os.environ, **extra}
    command = [str(tree / "build/release/tests" / program), "--gtest_fail_fast", "--gtest_brief=1", "--gtest_filter=" + ":".join(names)]
    if program in SCRIPTS:
        [name] = names
        folder = tree / "tests" / program
        command = [sys.executable, "-B", str(folder / SCRIPTS[program]), str(tree / "build/release/meshwright"), str(folder / name)]
    process = subprocess.Popen(command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               preexec_fn=lambda: limit_to(seconds))
    killer = threading.Timer(60 + 10 * seconds, process.kill)
    killer.start()
    _, status, used = os.wait4(process.pid, 0)
    killer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    late = process.returncode in (-signal.SIGXCPU, -signal.SIGKILL)
    return "late" if late else process.returncode, used.ru_utime + used.ru_stime


def list_tests(tree, program):
    if program in SCRIPTS:
        return sorted(path.name for path in (tree / "tests" / program).glob("*.txt"))
    text = subprocess.run([str(tree / "build/release/tests" / program), "--gtest_list_tests"], stdout=subprocess.PIPE, text=True, check=True).stdout
    suite, names = "", []
    for line in text.splitlines():
        if not line.startswith(" "):
            suite = line.split("#")[0].strip()
        else:
            names.append(suite + line.split("#")[0].strip())
    return [name for name in names if ".DISABLED_" not in name]


def reach(tree, program, name, slowest):
    """Processor seconds and mutants of one test, or None where it takes longer than `slowest`, or fails as it is."""
    if program in SCRIPTS:
        slowest *= TRANSCRIPT
    with tempfile.NamedTemporaryFile() as seen:
        result, seconds = run_tests(tree, program, [name], slowest, {"MESHWRIGHT_MUTANTS_SEEN": seen.name})
        if result != 0 or seconds > slowest:
            return None
        return seconds, sorted({int(line) for line in pathlib.Path(seen.name).read_text().split()})


def key_of(mutant):
    return mutant["file"], mutant["kind"], mutant["text"]


def without_result():
    """The mutants of no_result.txt: `FILE: KIND: EXPRESSION`, then the reason, indented."""
    found = set()
    for line in NO_RESULT.read_text().splitlines():
        if line and not line.startswith((" ", "#")):
            file, kind, text = line.split(": ", 2)
            found.add((file, kind, text))
    return found


def survivors_of(result):
    """The survivors of an earlier result: (file, kind, expression)."""
    found, among = set(), False
    for line in result.read_text().splitlines():
        if among and ": " in line:
            file, kind, text = line.split(": ", 2)
            found.add((file.rsplit(":", 1)[0], kind.replace(" (no test evaluates it)", ""), text))
        among = among or line == "survivors:"
    return found


def judge(tree, mutant, tests):
    """Who noticed: a test's program, or None. The quick tests of each program come first."""
    by_program = {}
    for program, name, seconds in tests:
        by_program.setdefault(program, []).append((seconds, name))
    for program, timed in sorted(by_program.items(), key=lambda item: (item[0] in SCRIPTS, sum(t for t, _ in item[1]))):
        timed.sort()
        at_once = 1 if program in SCRIPTS else 40
        for at in range(0, len(timed), at_once):
            part = timed[at:at + at_once]
            result, _ = run_tests(tree, program, [name for _, name in part], 20 + 10 * sum(t for t, _ in part), {"MESHWRIGHT_MUTANT": str(mutant["number"])})
            if result != 0:
                return f"{program} ({'does not end' if result == 'late' else 'fails'})"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="compilers or tests at a time")
    parser.add_argument("--slowest", type=float, default=5, help="tests that take more processor seconds than this (transcripts: twelve times as many) are left out")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--tests", action="append", default=[], help="these test programs alone, or `golden`, `error`")
    parser.add_argument("--again", type=pathlib.Path, action="append", default=[], help="run the survivors that this earlier result lists, too")
    parser.add_argument("--at-least", type=float, default=0, help="the share to be caught, in per cent")
    arguments = parser.parse_args()
    tree = arguments.tree.resolve()
    programs = arguments.tests or TESTS
    if tree == pathlib.Path(__file__).resolve().parents[2]:
        sys.exit("mutation: TREE is this repository itself; give a copy, its sources are overwritten")
    names = sources_of(tree, arguments.only)
    subprocess.run(["git", "checkout", "-q", "--", *FOLDERS], cwd=tree, check=True)
    if any(b"mw_mutant::" in (tree / name).read_bytes() for name in names):
        sys.exit("mutation: the sources that TREE's last commit holds are mutated; give a tree of another commit")
    if not (tree / "build/release/compile_commands.json").exists():
        subprocess.run(["cmake", "--preset", "release", "-DMESHWRIGHT_CUDA=OFF"], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    sources = []
    for source, broken in mutate.find_sites(tree, names):
        if broken:
            say(f"mutation: libclang cannot read all of {source.path}: {broken[0]}")
        sources.append(source)
    drawn = draw(sources, arguments.seed, arguments.count)
    earlier = set().union(*(survivors_of(result) for result in arguments.again))
    again = [(source.path, index, kind) for source in sources for index, site in enumerate(source.sites) for kind in site["kinds"]
             if (source.path, kind, site["text"]) in earlier]
    mutants, dropped = build_mutants(tree, sources, ["meshwright" if each in SCRIPTS else each for each in programs], arguments.jobs, drawn + again)
    say(f"mutation: {len(mutants)} mutants of {sum(len(site['kinds']) for s in sources for site in s.sites)} in {len(sources)} sources are compiled; "
        f"{dropped} sites do not compile")

    pool = concurrent.futures.ThreadPoolExecutor(arguments.jobs)
    listed = [(program, name) for program in programs for name in list_tests(tree, program)]
    reached = list(pool.map(lambda each: reach(tree, *each, arguments.slowest), listed))
    tests_of, absent = {}, set()
    for (program, name), found in zip(listed, reached):
        for number in found[1] if found else []:
            if number < 0:
                absent.add(-number)
            else:
                tests_of.setdefault(number, []).append((program, name, found[0]))
    mutants = [mutant for mutant in mutants if mutant["number"] not in absent or mutant["number"] in tests_of]
    say(f"mutation: {sum(1 for each in reached if each)} of {len(listed)} tests evaluate {len(tests_of)} of the mutants")

    by_place = {(mutant["file"], mutant["site"], mutant["kind"]): mutant for mutant in mutants}
    drawn = [by_place[place] for place in drawn if place in by_place][:arguments.count]
    numbers = {mutant["number"] for mutant in drawn}
    again = [by_place[place] for place in again if place in by_place]
    both = drawn + [mutant for mutant in again if mutant["number"] not in numbers]
    (tree / "build/mutants.json").write_text(json.dumps({"mutants": mutants, "tests_of": tests_of}))
    known, answers = without_result(), []

    def answer(mutant):
        by = judge(tree, mutant, tests_of.get(mutant["number"], []))
        return {**mutant, "reached": mutant["number"] in tests_of, "caught_by": by, "no_result": not by and key_of(mutant) in known}

    for done, each in enumerate(pool.map(answer, both), 1):
        answers.append(each)
        (tree / "build/mutation.json").write_text(json.dumps(answers, indent=1))
        if done % 25 == 0:
            say(f"mutation: {done}/{len(both)}, {sum(1 for a in answers if a['caught_by'])} caught")
    below = report(answers[:len(drawn)], arguments.at_least)
    if again:
        of_again = {mutant["number"] for mutant in again}
        say("survivors of earlier results:")
        below = report([answer for answer in answers if answer["number"] in of_again], arguments.at_least) or below
    sys.exit(1 if below else 0)


def report(answers, at_least):
    """Prints the shares and the survivors; whether some share is below what is asked for."""
    below = False
    say("folder | drawn | no result | caught | not reached | share")
    for folder in (*FOLDERS, ""):
        of = [a for a in answers if a["file"].startswith(folder + "/" if folder else "")]
        if not of:
            continue
        caught = sum(1 for a in of if a["caught_by"])
        excused = sum(1 for a in of if a["no_result"])
        share = 100 * caught / max(1, len(of) - excused)
        below = below or share < at_least
        say(f"{folder or 'all'} | {len(of)} | {excused} | {caught} | {sum(1 for a in of if not a['reached'])} | {share:.1f} %")
    say("survivors:")
    for a in sorted((a for a in answers if not a["caught_by"] and not a["no_result"]), key=lambda a: (a["file"], a["line"])):
        say(f"{a['file']}:{a['line']}: {a['kind']}{'' if a['reached'] else ' (no test evaluates it)'}: {a['text']}")
    return below


if __name__ == "__main__":
    main()
