"""Two hosts on one machine: network namespaces, each with its own interface, host name, /etc/hosts
and mounts, joined by a bridge whose ports can be cut and slowed.

The whole test runs in a PID namespace of its own (enter), so the kernel ends every process and
removes every interface with it, however it ends. Needs util-linux's unshare and nsenter, iproute2,
and root or unprivileged user namespaces.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

INSIDE = "MOONRING_TEST_NAMESPACE"
INTERFACE = "link0"


def enter() -> None:
    """Starts the test again in namespaces of its own; returns in the started test. Ends it with
    exit code 1, and says why, if this machine does not allow that."""
    if INSIDE in os.environ:
        return
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # of tc and bridge
    command = ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--mount-proc"]
    if os.geteuid() != 0:
        command += ["--user", "--map-root-user"]
    command += ["--kill-child"]
    add = "ip link add probe type veth peer name other && ip link add switch type bridge"
    probe = ["sh", "-c", add]
    try:
        done = subprocess.run([*command, *probe], capture_output=True, text=True)
        why = done.stderr.strip() if done.returncode != 0 else ""
    except FileNotFoundError as missing:
        why = str(missing)
    if why:
        print(
            "this machine makes no network namespaces, so nothing was tested: expected root or "
            f"unprivileged user namespaces, unshare (util-linux), ip (iproute2): {why}"
        )
        sys.exit(1)
    os.environ[INSIDE] = "1"
    os.execvp(command[0], [*command, sys.executable, *sys.argv])


def call(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")


class Host:
    """One network namespace. `port`: the bridge's end of its link."""

    def __init__(self, number: int, names: pathlib.Path):
        self.name, self.port = f"node{number}", f"port{number}"
        self.address = f"10.77.0.{number}"
        self.linked = False
        # cat keeps the namespaces open until its input ends.
        self.keeper = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "sh", "-c", "echo made; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            self.keeper.stdout.readline()
            self.connect(names)
        except BaseException:
            self.close()
            raise

    def connect(self, names: pathlib.Path) -> None:
        peer = ["peer", "name", INTERFACE, "netns", str(self.keeper.pid)]
        call("ip", "link", "add", self.port, "type", "veth", *peer)
        self.linked = True
        call("ip", "link", "set", self.port, "master", "switch", "up")
        for words in (
            ["hostname", self.name],
            ["mount", "--bind", str(names), "/etc/hosts"],
            ["ip", "link", "set", "lo", "up"],
            ["ip", "address", "add", f"{self.address}/24", "dev", INTERFACE],
            ["ip", "link", "set", INTERFACE, "up"],
        ):
            call(*self.inside(*words))

    def inside(self, *words: str) -> list[str]:
        """The command that runs `words` on this host."""
        pid = str(self.keeper.pid)
        return ["nsenter", "--target", pid, "--net", "--mount", "--uts", "--", *words]

    def close(self) -> None:
        if self.linked:
            call("ip", "link", "del", self.port)  # the kernel itself would take a moment
        self.keeper.stdin.close()
        self.keeper.wait()
        self.keeper.stdout.close()


class Network:
    """The hosts and the bridge between them."""

    def __init__(self, hosts: int = 2):
        call("ip", "link", "set", "lo", "up")
        call("ip", "link", "add", "switch", "type", "bridge")
        self.hosts = []
        try:
            call("ip", "link", "set", "switch", "up")
            names = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))) / "hosts"
            names.write_text(
                "127.0.0.1 localhost\n"
                + "".join(f"10.77.0.{n} node{n}\n" for n in range(1, hosts + 1))
            )
            for n in range(1, hosts + 1):
                self.hosts.append(Host(n, names))
        except BaseException:
            self.close()
            raise

    def drop(self, host: Host) -> None:
        """The bridge drops every frame from and to this host; neither end notices."""
        call("bridge", "link", "set", "dev", host.port, "state", "0")

    def forward(self, host: Host) -> None:
        call("bridge", "link", "set", "dev", host.port, "state", "3")

    def unplug(self, host: Host) -> None:
        """Takes the host's own interface down: it loses its routes, so its own calls can fail at
        once. (A pulled cable leaves the routes, and drops frames as drop() does.)"""
        call(*host.inside("ip", "link", "set", INTERFACE, "down"))

    def plug(self, host: Host) -> None:
        call(*host.inside("ip", "link", "set", INTERFACE, "up"))

    def firewall(self, port: str) -> None:
        """Each host drops TCP from the other one, except of connections to this port."""
        for host in self.hosts:
            rule = host.inside("ip", "rule")
            # The table "local" comes first; behind rules of our own, these can drop packets.
            call(*rule, "add", "priority", "100", "lookup", "local")
            call(*rule, "del", "priority", "0")
            coming = ["iif", INTERFACE, "ipproto", "tcp"]
            call(*rule, "add", "priority", "10", *coming, "dport", port, "lookup", "local")
            call(*rule, "add", "priority", "11", *coming, "sport", port, "lookup", "local")
            call(*rule, "add", "priority", "12", *coming, "blackhole")

    def limit(self, rate: str) -> None:
        """Limits the link of each host to a rate such as 100mbit, in each direction."""
        for host in self.hosts:
            shape = ["root", "tbf", "rate", rate, "burst", "256kb", "latency", "50ms"]
            call("tc", "qdisc", "replace", "dev", host.port, *shape)
            call(*host.inside("tc", "qdisc", "replace", "dev", INTERFACE, *shape))

    def unlimit(self) -> None:
        for host in self.hosts:
            call("tc", "qdisc", "del", "dev", host.port, "root")
            call(*host.inside("tc", "qdisc", "del", "dev", INTERFACE, "root"))

    def close(self) -> None:
        for host in self.hosts:
            host.close()
        call("ip", "link", "del", "switch")
