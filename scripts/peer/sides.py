"""The two ends of a connection under test: verbs-probe in the Linux peer, and our verbs-script on its link.

Both read commands as lines and print results as lines. `Side.do` sends commands and returns what they printed, when
the last of them is done; a command that fails ends the program, and then the test (CaseFailed).
"""

import os
import re
import select
import subprocess
import time

LOCAL = re.compile(r"local qpn=(\S+) psn=(\S+) gid=(\S+) rkey=(\S+) addr=(\S+) len=(\d+)")
PATIENCE = 60  # seconds for one step; the peer is emulated, and the machine may be busy


class CaseFailed(Exception):
    """What a test found out."""


class Side:
    """Commands in, lines out, through a descriptor each."""

    def __init__(self, name, read_fd, write_fd):
        self.name = name
        self.read_fd = read_fd
        self.write_fd = write_fd
        self.data = b""
        self.marks = 0
        self.local = None
        self.ended = False

    def start(self, *commands):
        """Sends commands and a mark behind them, for finish()."""
        self.marks += 1
        text = "".join(f"{command}\n" for command in commands) + f"say mark-{self.marks}\n"
        os.write(self.write_fd, text.encode())

    def finish(self, seconds=PATIENCE):
        """→ the lines that the commands of the last start() printed"""
        lines = []
        end = time.monotonic() + seconds
        mark = f"mark-{self.marks}"
        while True:
            line = self._line(end)
            if line is None:
                raise CaseFailed(f"{self.name} says nothing more; last: {' | '.join(lines[-3:])}")
            if line == mark:
                return lines
            lines.append(line)
            if re.fullmatch(r"exit \d+", line):
                self.ended = True
                raise CaseFailed(f"{self.name}: {' | '.join(lines[-3:-1])}")

    def do(self, *commands):
        self.start(*commands)
        return self.finish()

    def _line(self, end):
        while b"\n" not in self.data:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.read_fd], [], [], left)[0]:
                return None
            got = os.read(self.read_fd, 1 << 16)
            if not got:
                return None
            self.data += got
        line, _, self.data = self.data.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")

    def opened(self):
        """Takes what `open` printed: what the other side connects to."""
        lines = self.finish()
        match = LOCAL.match(lines[-1]) if lines else None
        if not match:
            raise CaseFailed(f"{self.name}: open printed {lines}")
        self.local = dict(zip(("qpn", "psn", "gid", "rkey", "addr"), match.groups()))


def open_both(sides, options):
    for side, text in zip(sides, options):
        side.start(f"open {text}")
    for side in sides:
        side.opened()


def connect_both(sides, options):
    """The time-out is a second unless `options` say otherwise: a busy machine is no lossy network."""
    for side, other, text in zip(sides, reversed(sides), options):
        to = " ".join(f"{key}={value}" for key, value in other.local.items())
        side.start(f"connect {to} {text} {'' if 'timeout=' in text else 'timeout=18'}")
    for side in sides:
        side.finish()


class PeerSide(Side):
    """verbs-probe in the peer."""

    def __init__(self, peer, port=0):
        self.link = peer.probe(port)
        super().__init__("linux", self.link.fileno(), self.link.fileno())
        for attempt in range(6):
            if self._begin(f"hello-{os.getpid()}-{time.monotonic_ns()}"):
                return
            os.write(self.write_fd, b"quit\n")  # to one that an aborted run has left
            time.sleep(0.1 * 2**attempt)
        raise CaseFailed("linux: verbs-probe does not start")

    def _begin(self, hello):
        os.write(self.write_fd, f"\nprobe\nsay {hello}\n".encode())
        end = time.monotonic() + 15
        while (line := self._line(end)) is not None:
            if line == hello:
                return True
            if re.fullmatch(r"exit \d+", line):
                return False
        return False

    def stop(self):
        """Waits for the end of verbs-probe: one that still runs would read what the next one is told."""
        end = time.monotonic() + PATIENCE
        try:
            if not self.ended:
                os.write(self.write_fd, b"quit\n")
            while not self.ended and (line := self._line(end)) is not None and not re.fullmatch(r"exit \d+", line):
                pass
        finally:
            self.link.close()


class OurSide(Side):
    """verbs-script on the host's end of the peer's link."""

    def __init__(self, command, log):
        self.log = open(log, "a", encoding="utf-8")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log)
        super().__init__("h4a", self.process.stdout.fileno(), self.process.stdin.fileno())

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()


class Pair:
    """A queue pair at each end, connected. Use it with `with`."""

    def __init__(self, bed, gid=1, mtu=1024, ours="", theirs="", connect_ours="", connect_theirs=""):
        self.bed = bed
        self.h4a = bed.our_side()
        self.linux = bed.peer_side()
        self.sides = [self.h4a, self.linux]
        common = f"gid={gid} mtu={mtu} buf={bed.BUFFER}"
        # The first of two words with one key counts.
        self.open_options = [f"{ours} {common}", f"{theirs} {common}"]
        self.connect_options = [connect_ours, connect_theirs]

    def __enter__(self):
        try:
            open_both(self.sides, self.open_options)
            connect_both(self.sides, self.connect_options)
        except BaseException:
            self.bed.discard()
            raise
        return self

    def __exit__(self, kind, value, trace):
        try:
            self.linux.stop()
            if kind is None:
                self.h4a.do("close")
                return
        except CaseFailed:
            if kind is None:
                self.bed.discard()
                raise
        self.bed.discard()

    def both(self):
        """(requester, responder) both ways round."""
        return ((self.h4a, self.linux), (self.linux, self.h4a))
