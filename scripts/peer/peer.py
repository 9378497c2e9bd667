"""A running Linux peer (scripts/peer/run), as tests use it: commands, and verbs-probe line by line.

Both go through virtio-serial ports, which QEMU shows as Unix sockets in the peer's state folder; nothing of it
touches the link under test.
"""

import base64
import fcntl
import os
import pathlib
import socket
import time

RUN = pathlib.Path(os.environ.get("PEER_RUN", "/run/h4a-interop"))
COMMAND_PORTS = 4


class PeerError(Exception):
    """The peer does not answer, or not as it should."""


class Peer:
    def __init__(self, name):
        self.state = RUN / name
        pid = (self.state / "pid").read_text(encoding="ascii").strip() if (self.state / "pid").exists() else "0"
        if pid == "0" or not pathlib.Path("/proc", pid).exists():
            raise PeerError(f"no peer {name} runs")

    def _free_port(self, seconds):
        end = time.monotonic() + seconds
        while True:
            for i in range(COMMAND_PORTS):
                lock = open(self.state / f"cmd{i}.lock", "w", encoding="ascii")
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return i, lock
                except OSError:
                    lock.close()
            if time.monotonic() > end:
                raise PeerError("all command ports of the peer are busy")
            time.sleep(0.1)

    def execute(self, command, seconds=60):
        """Runs a command of the peer's sh. → (exit status, stdout, stderr); 124 if it took longer."""
        port, lock = self._free_port(seconds)
        with lock, socket.socket(socket.AF_UNIX) as link:
            link.connect(str(self.state / f"cmd{port}.sock"))
            ident = b"%d.%d" % (os.getpid(), time.monotonic_ns())
            link.sendall(b"\n%s %d %s\n" % (ident, seconds, base64.b64encode(command.encode())))
            parts = {}
            for line in read_lines(link, time.monotonic() + seconds + 10):
                kind, _, rest = line.partition(b" ")
                who, _, value = rest.partition(b" ")
                if who != ident:
                    continue  # left over from a caller that went away
                parts[kind] = value
                if kind == b"R":
                    text = [base64.b64decode(parts.get(k, b"")).decode(errors="replace") for k in (b"O", b"E")]
                    return int(value), text[0], text[1]
        raise PeerError("no answer from the peer")

    def check(self, command, seconds=60):
        """The same for a command that must succeed. → stdout"""
        status, out, err = self.execute(command, seconds)
        if status != 0:
            raise PeerError(f"`{command}` ended with {status}: {(out + err).strip()}")
        return out

    def probe(self, port=0):
        """A probe port. `probe` starts a verbs-probe: lines of commands in, lines of results out, `exit N` last."""
        link = socket.socket(socket.AF_UNIX)
        link.connect(str(self.state / f"probe{port}.sock"))
        return link


def read_lines(link, end):
    """Yields whole lines from a socket until `end` (time.monotonic()) or until it is closed."""
    data = b""
    while (left := end - time.monotonic()) > 0:
        link.settimeout(left)
        try:
            got = link.recv(1 << 16)
        except (TimeoutError, ConnectionError):
            return
        if not got:
            return
        *lines, data = (data + got).split(b"\n")
        yield from lines
