#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicted and measured step times over a network of known speed, between two hosts made of namespaces; see README.md.

    experiments/two_hosts/run.py MESHWRIGHT [--rates 1000,400,100] [--first] [--tries N] [--keep DIR]     (root; iproute2 and Open MPI)

Each host has its own network, processes, host name, /dev/shm and /var/tmp, and half of this machine's processors; a token bucket limits what
it sends. The costs of ops are those of two threads at once. Those of messages and collectives are measured between the two processes, at
each rate. Rows without a rate are of one process, with no network.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/mpi"))
from two_hosts import limit, two_hosts  # noqa: E402

HOSTS = {"mw-left": "10.77.0.1", "mw-right": "10.77.0.2"}
BRIDGE = "mw-net"
MODEL, BATCH, STEPS = "mlp:layers=2,hidden=1024", 256, 9
PLANS = [("2-way data", "data", 1), ("2 stages", "megatron:tp=1,pp=2", 4), ("2-way tensor", "megatron:tp=2,pp=1", 1)]
PORT, SENT = 7077, 16 << 20
LONGEST = 300.0  # seconds, of one command


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST,
                            **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {result.returncode}\n{result.stderr[-2000:]}")
    return result.stdout


def send_segments():
    """As on a wire: else 64 KiB pass at once, with one header."""
    for name in HOSTS:
        subprocess.run(["ip", "netns", "exec", name, "ethtool", "-K", "eth0", "tso", "off", "gso", "off"], capture_output=True)


SEND = f"""
import socket
connection = socket.create_connection(("{HOSTS['mw-right']}", {PORT}))
connection.sendall(bytes({SENT}))
connection.shutdown(socket.SHUT_WR)
connection.recv(1)
"""
RECEIVE = f"""
import socket, time
server = socket.create_server(("", {PORT}))
print("ready", flush=True)
connection, _ = server.accept()
received = len(connection.recv(1 << 20))
begin = time.monotonic()
while received < {SENT}:
    received += len(connection.recv(1 << 20))
print({SENT} / (time.monotonic() - begin), flush=True)
connection.send(b"!")
"""


def bandwidth():
    """Bytes per second that one connection brings from one host to the other."""
    receiver = subprocess.Popen(["ip", "netns", "exec", "mw-right", sys.executable, "-c", RECEIVE], stdout=subprocess.PIPE, text=True)
    try:
        receiver.stdout.readline()
        run("ip", "netns", "exec", "mw-left", sys.executable, "-c", SEND)
        return float(receiver.communicate(timeout=60)[0])
    finally:
        receiver.kill()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("meshwright")
    parser.add_argument("--rates", default="1000,400,100", help="megabits per second")
    parser.add_argument("--first", action="store_true", help="before other programs: two threads at a real-time priority, hosts by niceness")
    parser.add_argument("--tries", type=int, default=1, help="runs of each plan; the middle of their medians counts")
    parser.add_argument("--keep", help="folder for profiles and reports by op (default: none is kept)")
    arguments = parser.parse_args()
    meshwright = pathlib.Path(arguments.meshwright).resolve()
    missing = [tool for tool in ("ip", "tc", "unshare", "mpirun", "taskset") if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        sys.exit(f"needs root and {', '.join(missing) or 'nothing else'}; this makes network namespaces")
    # Of threads that differ in niceness alone, two may share a processor beside one that others have; a host has its own.
    threads_first = {"preexec_fn": lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))} if arguments.first else {}
    if arguments.first:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    with tempfile.TemporaryDirectory(prefix="meshwright-hosts-") as name:
        folder = pathlib.Path(name)
        kept = pathlib.Path(arguments.keep) if arguments.keep else None
        if kept:
            kept.mkdir(parents=True, exist_ok=True)
        database = folder / "profile.db"
        run(meshwright, "profile", "--backend", "cpu", "--db", database, "--model", MODEL, "--batch", BATCH, "--cluster", "cpu:2",
            "--micro-batches", "1,4", "--budget", "60", **threads_first)
        print(f"# {time.strftime('%Y-%m-%d')}; {MODEL}, batch {BATCH}; median of {STEPS} steps; seconds")
        print(f"{'rate':>5} {'of a socket':>12}  {'plan':<14} {'predicted':>10} {'measured':>10} {'error':>8}")
        print(f"{'Mbit':>5} {'MB/s':>12}")
        for plan, method, microbatches in PLANS:
            make_plan(meshwright, folder, database, "cpu:2", method, microbatches)
            show("none", "", plan, [run(meshwright, "run", folder / "plan.json", "--steps", STEPS, "--profile", database, "--json",
                                        **threads_first) for _ in range(arguments.tries)])
        with two_hosts(folder, HOSTS, BRIDGE, run) as on_host:
            send_segments()
            for rate in map(int, arguments.rates.split(",")):
                limit(HOSTS, rate, run)
                together = on_both_hosts(on_host, meshwright)
                network = folder / f"{rate}.db"
                shutil.copy(database, network)
                profiled = together("profile", "--backend", "cpu", "--transport", "mpi", "--db", network, "--model", MODEL, "--batch", BATCH,
                                    "--micro-batches", "1,4", "--budget", "5", "--json")
                (folder / "cluster.json").write_text(json.dumps(json.loads(profiled)["cluster"]))
                socket = f"{bandwidth() / 1e6:.1f}"
                for plan, method, microbatches in PLANS:
                    make_plan(meshwright, folder, network, folder / "cluster.json", method, microbatches)
                    show(rate, socket, plan, [together("run", folder / "plan.json", "--transport", "mpi", "--steps", STEPS, "--check", "--profile",
                                                       network, "--json") for _ in range(arguments.tries)])
                    if kept:
                        name = f"{rate}-{plan.replace(' ', '-')}"
                        shutil.copy(folder / "plan.json", kept / f"{name}.json")
                        (kept / f"{name}.txt").write_text(together("run", folder / "plan.json", "--transport", "mpi", "--steps", STEPS, "--report",
                                                                   "--profile", network))
                if kept:
                    shutil.copy(network, kept / f"{rate}.db")


def make_plan(meshwright, folder, database, cluster, method, microbatches):
    run(meshwright, "plan", "--model", MODEL, "--batch", BATCH, "--cluster", cluster, "--method", method, "--micro-batches", microbatches,
        "--profile", database, "-o", folder / "plan.json")


def show(rate, bandwidth_of_socket, plan, runs):
    runs = [json.loads(said) for said in runs]
    predicted, times = runs[0]["step_time_s"], sorted(run["measured_step_time_s"] for run in runs)
    took = statistics.median_low(times)
    spread = f"  {times[0]:.4f} to {times[-1]:.4f}" if len(times) > 1 else ""
    print(f"{rate:>5} {bandwidth_of_socket:>12}  {plan:<14} {predicted:>10.4f} {took:>10.4f} {(predicted - took) / took:>+8.1%}{spread}", flush=True)


def on_both_hosts(on_host, meshwright):
    """Runs a command in a process on each host. Each host has processors of its own, half of this machine's."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    network = ["--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0", "--mca", "orte_tmpdir_base", "/var/tmp"]
    processors = sorted(os.sched_getaffinity(0))
    each = max(1, len(processors) // len(HOSTS))

    def together(*command):
        parts = []
        for number, name in enumerate(HOSTS):
            own = ",".join(map(str, processors[number * each:(number + 1) * each] or processors))
            parts += [*([":"] if parts else []), "--host", f"{name}:1", "-n", 1, "taskset", "-c", own, meshwright, *command]
        return run(on_host, "mw-left", "mpirun", "--mca", "plm_rsh_agent", on_host, *network, "--mca", "btl", "tcp,self", "--bind-to", "none",
                   *parts, env=environment)

    return together


if __name__ == "__main__":
    main()
