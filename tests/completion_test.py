#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completes command lines with what `meshwright manual` writes: completion_test.py MESHWRIGHT

Each line is completed in bash, zsh and fish, where they are installed; every manual page is read by `man`, which may warn of nothing.
"""
import os
import pathlib
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time

# A line as typed, what is offered for it, and what is not.
LINES = [
    ("meshwright pl", ["plan"], ["simulate"]),
    ("meshwright plan --optimizer ad", ["adam", "adafactor"], ["sgd"]),
    ("meshwright sweep --network f", ["fluid", "fifo"], ["static"]),
    ("meshwright plan --cluster dgx-h", ["dgx-h100:", "dgx-h200:"], ["dgx-a100:"]),
    ("meshwright plan --model gpt-1", ["gpt-1.3b", "gpt-125m"], ["gpt-2.6b"]),
    ("meshwright --quiet plan --schedule zb-h", ["zb-h1", "zb-h2"], ["zb-v"]),
    ("meshwright simulate pl", ["plan one.json", "plan2.json"], ["other.csv"]),
    ("meshwright plan --dump fo", ["folder1", "folder2"], ["follow.json"]),
    ("meshwright plan --max", ["--max-latency", "--max-norm", "--max-price"], ["--momentum"]),
]
BASH = """source "$1"; COMP_LINE=$2; COMP_POINT=${#2}; _meshwright; printf '%s\\n' "${COMPREPLY[@]}" """
FISH = """source $argv[1]; complete -C $argv[2] | string replace -r '\\t.*' '' | string unescape"""


def offered_by_bash(share, line, place):
    script = share / "bash-completion/completions/meshwright"
    done = subprocess.run(["bash", "--norc", "-c", BASH, "bash", script, line], cwd=place, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def offered_by_fish(share, line, place):
    script = share / "fish/vendor_completions.d/meshwright.fish"
    environment = {**os.environ, "HOME": str(place), "XDG_CONFIG_HOME": str(place), "XDG_DATA_HOME": str(place)}
    done = subprocess.run(["fish", "--no-config", "-c", FISH, script, line], cwd=place, env=environment, capture_output=True, text=True, check=True)
    return [word.rstrip("/") for word in done.stdout.splitlines()]


def offered_by_zsh(share, line, place):
    """zsh completes at a terminal alone: one is held for it, and what it lists below the line is read."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(place)
        os.environ["TERM"] = "dumb"
        os.execvp("zsh", ["zsh", "-f", "-i"])
    seen = b""

    def read_until(mark, times):
        nonlocal seen
        end = time.monotonic() + 30.0
        while seen.count(mark) < times and time.monotonic() < end:
            if select.select([terminal], [], [], 0.2)[0]:
                try:
                    seen += os.read(terminal, 65536)
                except OSError:
                    return

    setup = (f"PS1='> '; fpath=({share}/zsh/vendor-completions $fpath); autoload -U compinit; compinit -D -u; setopt no_always_last_prompt no_list_ambiguous;"
             " LISTMAX=0; zstyle ':completion:*' list-rows-first yes; zle-line-init() {{ print -n 'RE''ADY' }}; zle -N zle-line-init\n")
    os.write(terminal, setup.encode())
    read_until(b"READY", 1)
    seen = b""
    # Ctrl-D behind a word lists what completes it, and then shows the line again.
    os.write(terminal, (line + "\x04").encode())
    read_until(line.encode(), 2)
    os.close(terminal)
    os.waitpid(pid, 0)
    return seen.decode(errors="replace").replace("\r", "\n").replace("/", "").splitlines()


def is_offered(word, offered, shell):
    """zsh lists several words in a line, and explanations behind them."""
    if shell == "zsh":
        text = " " + " ".join(offered).replace("\\ ", " ") + " "
        return f" {word} " in text
    return word in offered


def check_completions(share, place):
    found, shells = [], []
    for name in ("plan one.json", "plan2.json", "other.csv", "follow.json"):
        (place / name).touch()
    for name in ("folder1", "folder2"):
        (place / name).mkdir()
    for shell, offered_by in (("bash", offered_by_bash), ("zsh", offered_by_zsh), ("fish", offered_by_fish)):
        if not shutil.which(shell):
            continue
        shells.append(shell)
        for line, expected, unexpected in LINES:
            offered = offered_by(share, line, place)
            found += [f"{shell}: '{line}' does not offer '{word}': {offered}" for word in expected if not is_offered(word, offered, shell)]
            found += [f"{shell}: '{line}' offers '{word}'" for word in unexpected if is_offered(word, offered, shell)]
    return found, shells


def check_pages(share):
    found = []
    pages = sorted((share / "man/man1").glob("*.1"))
    for page in pages:
        done = subprocess.run(["man", "--warnings=w", "--local-file", page], capture_output=True, text=True, check=False,
                              env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8", "MANPAGER": "cat"})
        if done.returncode != 0 or done.stderr:
            found.append(f"{page.name}: man says: {done.stderr[:300]}")
    return found, len(pages)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        share = place / "share"
        subprocess.run([sys.argv[1], "manual", share], check=True, capture_output=True)
        work = place / "work"
        work.mkdir()
        found, shells = check_completions(share, work)
        pages = "no man here"
        if shutil.which("man"):
            wrong, count = check_pages(share)
            found += wrong
            pages = f"{count} pages"
    print("\n".join(found) if found else f"completion_test: {len(LINES)} lines in {', '.join(shells)}; {pages}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
