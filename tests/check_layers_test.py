#!/ usr / bin / env python3
#SPDX - License - Identifier : Apache - 2.0
"""check_layers.py must report each kind of violation at its place, and nothing else: a check that cannot fail proves nothing."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

#One file per rule, the breach always on line 2; None : the file keeps the law.
CASES = {
    "core/base/up.h": ('"core/graph/graph.h"', "core/base may not include core/graph"),
    "core/graph/models/up.h": ('"core/mesh/cluster.h"', "core/graph may not include core/mesh"),
    "core/mesh/out.h": ('"simulator/program/program_graph.h"', "core may not include simulator"),
    "core/solver/problem/up.h": ('"core/solver/portfolio/portfolio.h"', "core/solver/problem may not include core/solver/portfolio"),
    "core/planner/search/up.h": ('"core/planner/make_plan.h"', "core/planner/search may not include core/planner/."),
    "core/planner/search/down.h": ('"core/planner/plan_request.h"', None),
    "core/planner/new_room/new.h": ('"core/base/units.h"', None),
    "core/planner/other_room/new.h": ('"core/planner/layers/a.h"', "core/planner/other_room is not in the order"),
    "kernels/cuda_on_cpu/beside.h": ('"kernels/cuda/runtime/stream.h"', None),
    "core/odd/odd.h": ('"core/base/units.h"', "core/odd is not in the order of ARCHITECTURE.md"),
    "simulator/across.cpp": ('"executor/executor.h"', "simulator may not include executor"),
    "kernels/cpu/up.cpp": ('"core/base/units.h"', "kernels may not include core"),
    "executor/near.cpp": ('"near.h"', '"near.h" is not a path from the root of the repository'),
    "core/planner/search/ilp.cpp": ("<glpk.h>", "core may not include <glpk.h> here"),
    "costmodel/clock.cpp": ("<chrono>", "costmodel may not include <chrono> here"),
    "core/plan/new.cpp": ("<range/v3/all.hpp>", "<range/v3/all.hpp> is in no row"),
    "core/solver/glpk/solve_by_glpk.cpp": ("<glpk.h>", None),
    "core/planner/down.cpp": ('"core/base/units.h"', None),
    "costmodel/down.cpp": ('"core/mesh/cluster.h"', None),
    "cli/all.cpp": ('"executor/executor.h"', None),
    "core/base/standard.h": ("<vector>", None),
}


def run(root):
    return subprocess.run([sys.executable, "-B", HERE / "check_layers.py", root], capture_output=True, text=True, check=False)


def main():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        shutil.copy(HERE.parent / "ARCHITECTURE.md", root)
        if run(root).returncode == 0:
            failures.append("a tree without sources passed")
        for file, (include, _) in CASES.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(f"// a file\n#include {include}\n", encoding="utf-8")
        result = run(root)
        lines = result.stdout.splitlines()
        expected = {f"{file}:2: {why}" for file, (_, why) in CASES.items() if why}
        failures += [f"not reported: {line}" for line in expected if not any(got.startswith(line) for got in lines)]
        failures += [f"reported though allowed: {got}" for got in lines if not any(got.startswith(line) for line in expected)]
        if result.returncode != 1:
            failures.append(f"exit code {result.returncode} for a tree with violations, expected 1")
        for file in (file for file, (_, why) in CASES.items() if why):
            (root / file).unlink()
        if run(root).returncode != 0:
            failures.append("a tree that keeps the law did not pass")
    print("\n".join(failures) if failures else f"{len(CASES)} cases judged as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
