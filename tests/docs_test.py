#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds README.md and docs/ against the command: docs_test.py MESHWRIGHT   (ACCEPT=1: rewrites the tables of docs/verbs.md)

- The tables of options in docs/verbs.md are those of `meshwright VERB --help`, word for word.
- Every option that takes a value says what it is.
- Every method and schedule that the help names, and every exit code, has a row in its page.
- A page names no option that does not exist, and no command line gives a verb an option that it does not take.
- docs/models.md lists the model types of config.json files that are read.
- Commands in blocks marked `sh` succeed, each page in a folder of its own.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
VERBS = ["plan", "simulate", "run", "profile", "replay", "sweep", "diff", "explain", "export", "read", "advise", "import", "calibrate", "validate", "solve", "models", "clusters", "manual"]
# Options of other programs: compilers, launchers, frameworks, scripts of this repository.
OTHERS = {"--hostfile", "--map-by", "--mpi", "--ntasks-per-node", "--array", "--strict", "--open", "--worse", "--preset", "--build", "--install", "--prefix", "--trace=cuda,nvtx", "--type", "--recurse-submodules",
          "--mtp-num-layers", "--mtp-loss-scaling-factor", "--exp-avg-dtype", "--attention-backend", "--transformer-impl", "--cross-entropy-fusion-impl", "--module", "--config",
          "--hybrid-layer-pattern", "--window-size", "--window-attn-skip-freq",
          "--config-name", "--train_args_file", "--tensor-model-parallel", "--moe-token-dispatcher-type", "--recipe", "--model_recipe_name", "--gpu", "--global_batch_size"}
BEGIN, END = "<!-- options of {}: written by tests/docs_test.py -->", "<!-- end -->"


def help_of(meshwright, verb):
    return subprocess.run([meshwright, verb, "--help"], capture_output=True, text=True, check=True).stdout


def options_of(text):
    """{option as it is typed: (what it takes and its default, meaning)}, from the help of a verb."""
    found, name = {}, None
    section = text.split("Options:\n")[1].split("\n\n")[0]
    for line in section.splitlines():
        start = re.match(r"  (-\S+)( \S+(?: FILE)?(?: (?:\.\.\.|REQUIRED|Excludes:|Needs:|--\S+))*| )?(?: {2,}|$)?(.*)", line)
        if start:
            name = start.group(1).split(",")[-1]
            value = (start.group(2) or "").strip()
            value = re.sub(r" ?(REQUIRED|(Excludes|Needs):.*)", "", value)
            found[name] = (value, start.group(3).strip())
        elif name:
            found[name] = (found[name][0], (found[name][1] + " " + line.strip()).strip())
    return {name: parts for name, parts in found.items() if name != "--help"}


def table_of(verb, every):
    """The options of a verb as Markdown; those that mean the same for an earlier verb are only named."""
    rows, same = [], {}
    for name, (value, meaning) in every[verb].items():
        earlier = next((other for other in VERBS[:VERBS.index(verb)] if every[other].get(name) == (value, meaning)), None)
        if earlier and name != "--json":
            same.setdefault(earlier, []).append(name)
        elif name != "--json":
            default = value.partition("=")[2]
            rows.append(f"| `{name}` | {meaning.replace('|', chr(92) + '|')}{f' (default: {default})' if default else ''} |")
    lines = ["| option | meaning |", "|---|---|", *rows] if rows else []
    for other, names in same.items():
        lines += ["", f"As in [`{other}`](#{other}): " + ", ".join(f"`{name}`" for name in names) + "."]
    if "--json" in every[verb]:
        lines += ["", "`--json` prints the result as JSON."]
    return "\n".join(lines).strip()


def check_tables(every):
    page = ROOT / "docs" / "verbs.md"
    text, found = page.read_text(encoding="utf-8"), []
    for verb in VERBS:
        begin = BEGIN.format(verb)
        if begin not in text:
            found.append(f"docs/verbs.md: the line '{begin}' is missing")
            continue
        before, rest = text.split(begin, 1)
        old, after = rest.split(END, 1)
        new = f"\n{table_of(verb, every)}\n"
        if old != new and not os.environ.get("ACCEPT"):
            lines = next(((a, b) for a, b in zip((old + "\n").splitlines(), (new + "\n").splitlines()) if a != b), (old[-80:], new[-80:]))
            found.append(f"docs/verbs.md: {verb}: '{lines[0]}'; --help says '{lines[1]}'. Run with ACCEPT=1.")
        text = before + begin + new + END + after
    if os.environ.get("ACCEPT"):
        page.write_text(text, encoding="utf-8")
    return found


def check_names(every, main_help):
    found = []

    def expect(page, names):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        rows = [line for line in text.splitlines() if line.startswith("| ")]
        found.extend(f"docs/{page}: no row for '{name}'" for name in names
                     if not any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", row.split("|")[1]) for row in rows))

    methods = every["plan"]["--method"][1].partition(": ")[2]
    expect("methods.md", re.findall(r"(?:^|, |or |\()([a-z]+\d?)(?=[,:) ]|$)", re.sub(r"\[.*?\]|=[^ ]*", "", methods)))
    schedules = every["plan"]["--schedule"][1].partition(": ")[2].partition("; auto")[0]
    expect("schedules.md", re.findall(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.sub(r"\(.*?\)| or |:V", " ", schedules)))
    expect("exit-codes.md", re.findall(r"\b(\d) ", main_help.partition("Exit codes: ")[2].partition("\n")[0]))
    return found


def check_values(every):
    """What a value may be is known for every option, so that completions can offer it."""
    return [f"cli/manual/value_kinds.cpp: no row for {name} of {verb}, which takes a value"
            for verb, options in every.items() for name, (value, _) in options.items() if value.split("=")[0].split(" ")[0] == "TEXT"]


def commands_of(block):
    return re.sub(r"\\\n\s*", " ", block).splitlines()


def check_options(page, text, every):
    known = {name for options in every.values() for name in options} | {"--help", "--version"} | OTHERS
    found = []
    for name in re.findall(r"(?<![\w-])--[a-z][\w-]*(?:=cuda,nvtx)?", text):
        if name not in known:
            found.append(f"{page}: option {name} does not exist")
    for block in re.findall(r"```(?:sh|console)\n(.*?)```", text, re.S):
        for line in commands_of(block):
            for verb, rest in re.findall(r"\bmeshwright ([a-z]+)((?: [^#>&|;]*)?)", line):
                if verb not in every:
                    found.append(f"{page}: verb '{verb}' does not exist: {line}")
                    continue
                found += [f"{page}: {verb} has no option {name}: {line}" for name in re.findall(r"(?<!\S)(--[a-z][\w-]*|-o)", rest)
                          if name not in every[verb] and name != "-o" or name == "-o" and "--output" not in every[verb]]
    return found


def check_commands(meshwright, page, text):
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        (place / "bin").mkdir()
        (place / "bin" / "meshwright").symlink_to(meshwright)
        environment = {**os.environ, "PATH": f"{place / 'bin'}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": ""}
        for block in re.findall(r"```sh\n(.*?)```", text, re.S):
            for line in commands_of(block):
                done = subprocess.run(line, shell=True, cwd=place, env=environment, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    return [f"{page}: exit code {done.returncode}: {line}\n{done.stderr[-400:]}"]
    return []


def check_model_types():
    read = re.findall(r'\{"([^"]+)", hf::read', (ROOT / "core/graph/import/hf/hf_families.cpp").read_text(encoding="utf-8"))
    section = (ROOT / "docs/models.md").read_text(encoding="utf-8").split("### Model types\n")[1].strip().split("\n\n")[0]
    listed = re.findall(r"`([^`]+)`", section)
    return [] if listed == read else [f"docs/models.md: under 'Model types' {sorted(set(listed) ^ set(read))} differ from hf_families.cpp, or their order does"]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    meshwright = pathlib.Path(sys.argv[1]).resolve()
    every = {verb: options_of(help_of(meshwright, verb)) for verb in VERBS}
    main_help = subprocess.run([meshwright, "--help"], capture_output=True, text=True, check=True).stdout
    listed = set(re.findall(r"^  ([a-z]+)  ", main_help.split("Subcommands:")[1], re.M))
    found = [f"tests/docs_test.py: the verbs are {sorted(listed)}"] if listed != set(VERBS) else []
    found += check_tables(every) + check_names(every, main_help) + check_values(every) + check_model_types()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        name = page.relative_to(ROOT)
        found += check_options(name, text, every) + check_commands(meshwright, name, text)
        found += [f"{name}: the link {link} leads nowhere" for link in re.findall(r"\]\((?!http)([^)#]+)", text)
                  if not (page.parent / link).exists()]
    print("\n".join(found) if found else f"docs_test: {len(PAGES)} pages agree with the command")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
