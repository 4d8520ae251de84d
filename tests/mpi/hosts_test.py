#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans on several hosts, which are namespaces of this one: hosts_test.py MESHWRIGHT MPIRUN

Each has its own network, processes, name and shared memory. Without root, iproute2 or the right to make namespaces only what needs one
host is tested, and the reason is printed.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from two_hosts import isolated, limit, two_hosts

HOSTS = {"mw-one": "10.78.0.1", "mw-two": "10.78.0.2"}
BRIDGE = "mw-hosts"
MODEL = "mlp:layers=2,hidden=64"
RATE = 100  # megabits per second
LONGEST = 240.0  # seconds, of a command


def run(*command, code=0, **options):
    result = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST, **options)
    assert result.returncode == code, f"{' '.join(map(str, command))}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout if code == 0 else result.stderr


def why_no_hosts():
    missing = [tool for tool in ("ip", "tc", "unshare") if not shutil.which(tool)]
    if missing:
        return f"no {', '.join(missing)}"
    if os.geteuid() != 0:
        return "not root"
    limited = "ip netns add mw-try && ip netns exec mw-try tc qdisc add dev lo root tbf rate 100mbit burst 32kb latency 50ms"
    tried = subprocess.run(isolated("sh", "-c", limited), capture_output=True, text=True)
    return "" if tried.returncode == 0 else tried.stderr.strip() or "no namespaces"


class Tests:
    def __init__(self, meshwright, mpirun, folder):
        self.meshwright, self.mpirun, self.folder = meshwright, mpirun, folder
        self.here = [mpirun, "--oversubscribe", "--bind-to", "none"]

    def plan(self, name, cluster, method, microbatches=1):
        path = self.folder / f"{name}.json"
        run(self.meshwright, "plan", "--model", MODEL, "--dtype", "f32", "--batch", 64, "--cluster", cluster, "--method", method, "--micro-batches",
            microbatches, "-o", path)
        return path

    def processes_of_one_host_are_measured(self):
        database = self.folder / "one.db"
        said = json.loads(run(*self.here, "-n", 2, self.meshwright, "profile", "--backend", "cpu", "--transport", "mpi", "--db", database, "--model",
                              MODEL, "--batch", 64, "--micro-batches", 1, "--quick", "--budget", 2, "--json"))
        assert said["cluster"]["name"] == "cpu:2" and said["cluster"]["hosts"] == 1, said["cluster"]
        with contextlib.closing(sqlite3.connect(database)) as rows:
            collectives = set(rows.execute("SELECT DISTINCT kind, ranks, hosts FROM collective_time"))
            apart = set(rows.execute("SELECT DISTINCT hosts_apart FROM transfer_time"))
            work, = rows.execute("SELECT median_s FROM overhead_time WHERE name = 'message work'").fetchone()
        assert collectives == {(kind, 2, 1) for kind in ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")}, collectives
        assert apart == {(0,)} and work >= 0.0, (apart, work)

    def places_are_printed(self):
        plan = self.plan("data", "cpu:4", "data")
        ran = json.loads(run(*self.here, "-n", 2, self.meshwright, "run", plan, "--transport", "mpi", "--steps", 1, "--json"))
        assert [(place["first_device"], place["devices"], place["plan_hosts"]) for place in ran["places"]] == [(0, 2, [0]), (2, 2, [0])], ran
        said = run(*self.here, "-n", 2, self.meshwright, "run", plan, "--transport", "mpi", "--steps", 1)
        assert f"# process 1 on {os.uname().nodename}: devices 2-3, of the plan's host 0" in said, said

    def sweeps_share_their_points(self):
        """Also where a process of the sweep is killed: no point is planned twice, and none is lost."""
        command = [self.meshwright, "sweep", "--model", "gpt:layers=4,hidden=64,heads=4,seq=64,vocab=256", "--cluster", "cpu:4", "--batch", "32",
                   "--dtype", "f32", "--layers", "2,3,4,5", "--micro-batches", "1,2,4", "--threads", "1"]
        alone = json.loads(run(*command, "--db", self.folder / "alone.db", "--json"))
        together = run(*self.here, "-n", 3, *command, "--db", self.folder / "together.db", "--json")
        assert json.loads(together)["points"] == alone["points"], together
        database = self.folder / "killed.db"
        processes = []
        for task in range(3):
            place = dict(os.environ, SLURM_ARRAY_TASK_ID=str(7 + task), SLURM_ARRAY_TASK_MIN="7", SLURM_ARRAY_TASK_COUNT="3")
            processes.append(subprocess.Popen([*command, "--db", database, "--json"], env=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        time.sleep(0.3)
        processes[1].send_signal(signal.SIGKILL)
        searched = []
        for number, process in enumerate(processes):
            out, err = process.communicate(timeout=LONGEST)
            searched += {line.split(":")[0].split(" (about")[0] for line in err.splitlines() if line.startswith("point ") and "stored" not in line}
            assert number == 1 or json.loads(out)["points"] == alone["points"], err
        assert not (self.folder / "killed.db-points").exists()
        with contextlib.closing(sqlite3.connect(database)) as rows:
            count, = rows.execute("SELECT count(*) FROM sweep_point").fetchone()
        assert count == len(alone["points"]), count

    def two_hosts_train_as_predicted(self):
        with two_hosts(self.folder, HOSTS, BRIDGE, run) as on_host:
            limit(HOSTS, RATE, run)
            network = ["--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0", "--mca", "orte_tmpdir_base", "/var/tmp", "--mca",
                       "btl", "tcp,self", "--mca", "plm_rsh_agent", on_host, "--bind-to", "none"]
            hostfile = self.folder / "hostfile"
            hostfile.write_text("".join(f"{name} slots=1\n" for name in HOSTS))

            def together(*command, code=0):
                return run(on_host, "mw-one", self.mpirun, *network, "--hostfile", hostfile, "-n", 2, self.meshwright, *command, code=code)

            database = self.folder / "two.db"
            profiled = json.loads(together("profile", "--backend", "cpu", "--transport", "mpi", "--db", database, "--model", MODEL, "--batch", 64,
                                           "--micro-batches", "1", "--quick", "--budget", 4, "--json"))
            cluster = profiled["cluster"]
            assert (cluster["hosts"], cluster["devices_per_host"]) == (2, 1), cluster
            with contextlib.closing(sqlite3.connect(database)) as rows:
                size, time = rows.execute("SELECT size_bytes, median_s FROM transfer_time WHERE hosts_apart ORDER BY size_bytes").fetchall()[-1]
            # What the headers of segments leave of it.
            assert size > 1 << 20 and 0.7 * RATE / 8 < size / time / 1e6 < RATE / 8, f"{size} bytes in {time} s over {RATE} Mbit/s"
            (self.folder / "two.json").write_text(json.dumps(cluster))
            # One that moves a megabyte and more each step, so that the network counts, not the processors.
            plan = self.folder / "two-data.json"
            run(self.meshwright, "plan", "--model", MODEL.replace("64", "512"), "--dtype", "f32", "--batch", 16, "--cluster", self.folder / "two.json",
                "--method", "data", "--micro-batches", 1, "--profile", database, "-o", plan)
            ran = json.loads(together("run", plan, "--transport", "mpi", "--steps", 3, "--profile", database, "--check", "--json"))
            assert [(place["host"], place["plan_hosts"]) for place in ran["places"]] == [("mw-one", [0]), ("mw-two", [1])], ran["places"]
            assert ran["comparable"] and ran["max_relative_difference"] < 1e-4, ran
            print(f"hosts_test: {RATE} Mbit/s: {ran['step_time_s']:.3f} s predicted, {ran['measured_step_time_s']:.3f} s measured "
                  f"({ran['error']:+.1%})", flush=True)
            # Generous: other programs may have the processors, and take the time of the messages' copies.
            assert abs(ran["error"]) < 0.5, ran["error"]
            one = self.plan("one-host", "cpu:2", "data")
            said = together("run", one, "--transport", "mpi", code=2)
            assert "process 0 (devices 0) is on mw-one and process 1 (devices 1) on mw-two; plan for a cluster with as many hosts" in said, said


def main():
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR="/tmp", LC_ALL="C.UTF-8")
    meshwright, mpirun = os.path.realpath(sys.argv[1]), sys.argv[2]
    if "Open" not in subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout:
        print("skipped: the options of another mpirun than Open MPI's are not known")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="meshwright-hosts-") as folder:
        tests = Tests(meshwright, mpirun, pathlib.Path(folder))
        claims = [tests.processes_of_one_host_are_measured, tests.places_are_printed, tests.sweeps_share_their_points]
        only = sys.argv[3:]
        for claim in [*claims, tests.two_hosts_train_as_predicted] if only else claims:
            if not only or claim.__name__ in only:
                claim()
                print(f"hosts_test: {claim.__name__}", flush=True)
    if only:
        return
    reason = why_no_hosts()
    if reason:
        print(f"hosts_test: no hosts of namespaces: {reason}")
        return
    sys.exit(subprocess.run(isolated(sys.executable, *sys.argv[:3], "two_hosts_train_as_predicted")).returncode)


if __name__ == "__main__":
    main()
