# SPDX-License-Identifier: Apache-2.0
"""Two hosts made of namespaces on one bridge; each has its own network, processes, name and shared memory. Needs root, iproute2 and unshare."""
import contextlib
import subprocess


def isolated(*command):
    """`command` where the network and the names of namespaces are its own, whatever another test makes or a killed one has left."""
    return ["unshare", "--net", "--mount", "sh", "-c", 'mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && exec "$@"', "sh", *command]


@contextlib.contextmanager
def two_hosts(folder, hosts, bridge, run):
    """A script that runs a command on one of `hosts` ({name: address}): SCRIPT HOST COMMAND... `run` runs a command and ends all if it fails."""
    try:
        run("ip", "link", "add", bridge, "type", "bridge")
        run("ip", "link", "set", bridge, "up")
        for name, address in hosts.items():
            run("ip", "netns", "add", name)
            run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", name, "master", bridge, "up")
            run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
        names = folder / "hosts"
        names.write_text("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in hosts.items()))
        script = folder / "on_host"
        script.write_text(f"""#!/bin/bash
host=$1; shift
exec ip netns exec "$host" unshare --uts --ipc --mount --pid --fork --kill-child --mount-proc bash -c '
hostname '"$host"'; mount --bind {names} /etc/hosts; mount -t tmpfs tmpfs /dev/shm; mount -t tmpfs tmpfs /var/tmp; exec bash -c "$*"' bash "$*"
""")
        script.chmod(0o755)
        yield script
    finally:
        for name in hosts:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        subprocess.run(["ip", "link", "delete", bridge], capture_output=True)


def limit(hosts, megabits, run):
    """Lets each host send so many megabits a second."""
    for name in hosts:
        run("ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", f"{megabits}mbit", "burst", "32kb",
            "latency", "50ms")
