#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts what run.py needs of a build into one archive, for a machine that has a GPU but not what Meshwright is built with.

    experiments/h200/carry.py build/release carried.tar.xz

In it, stripped: the command, the GPU tests, gpu_kernels, and the shared libraries of them that belong neither to the C and C++ run time nor to
CUDA, in lib/. There: unpack it beside the repository's files and run with lib/ on LD_LIBRARY_PATH and --build set to the unpacked folder.
"""
import lzma
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

# What every Linux of the same age or a later one has, and what comes with CUDA.
OF_THE_SYSTEM = re.compile(r"^(ld-linux|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|util|resolv)\.so|lib(cuda|cudart|cudnn|cublas|nccl|nvidia|nvrtc|cupti))")
PROGRAMS = ("meshwright", "tests/gpu_*_test", "bench/gpu_kernels")


def libraries_of(program):
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"(?m)^\s*(\S+) => (/\S+)", listed))
    return {name: path for name, path in found.items() if not OF_THE_SYSTEM.match(name)}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build, archive = map(pathlib.Path, sys.argv[1:])
    programs = [path for pattern in PROGRAMS for path in sorted(build.glob(pattern)) if path.is_file()]
    if not programs or not (build / "meshwright").is_file():
        sys.exit(f"{build} has no meshwright; build it with CUDA")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        libraries = {}
        for program in programs:
            to = folder / program.relative_to(build)
            to.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["strip", "-o", to, program], check=True)
            libraries.update(libraries_of(program))
        (folder / "lib").mkdir()
        for name, path in sorted(libraries.items()):
            shutil.copy(path, folder / "lib" / name)
            subprocess.run(["strip", "--strip-unneeded", folder / "lib" / name], check=True)
        # Every program has the same kernels: a window over all of them keeps them once.
        window = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 512 << 20}]
        with lzma.open(archive, "wb", filters=window) as packed, tarfile.open(fileobj=packed, mode="w|") as tar:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    tar.add(path, path.relative_to(folder))
    print(f"{archive}: {len(programs)} programs, {len(libraries)} libraries, {archive.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
