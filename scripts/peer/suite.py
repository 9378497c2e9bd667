#!/usr/bin/env python3
"""The interop suite: our stack against Linux Soft-RoCE in a running peer (scripts/interop boots one and calls this).

Each case connects a queue pair of ours with one of the peer's and plays verbs on both, in both directions: what the
one end sends, the other has to receive, and errors must have the codes that the specification names, on both sides.
Prints TAP.

usage: suite.py NAME --build DIR --interface IFACE [--long] [--only REGEX] [--list] [--work DIR]
                [--pcap PREFIX] [--log FILE]
"""

import argparse
import json
import pathlib
import re
import sys
import time

import peer
from programs import Programs, pingpong, refused_by_linux, refused_by_us, rping
from sides import CaseFailed, OurSide, Pair, PeerSide

OURS = {1: "10.77.0.1/24", 2: "fd77::1/64"}
FAMILY = {"v4": 1, "v6": 2}
MTUS = (256, 512, 1024, 2048, 4096)
SOURCE, SINK = 0, 1 << 20  # where in the buffer
MIB = 1 << 20

SUCCESS, LOCAL_LENGTH, LOCAL_OPERATION, LOCAL_PROTECTION, FLUSHED = 0, 1, 2, 4, 5
REMOTE_INVALID, REMOTE_ACCESS, REMOTE_OPERATION, RETRY, RNR_RETRY = 9, 10, 11, 12, 13
STATE_ERROR = 6


class Bed:
    """The peer, the link, and our program on it, which serves one case after the other until one fails."""

    BUFFER = 1 << 23

    def __init__(self, args):
        self.peer = peer.Peer(args.name)
        self.long = args.long
        self.host_arguments = ["--no-hugepages", "--port", f"af_packet:{args.interface}", "--ip", OURS[1],
                               "--ip", OURS[2]]
        self.tool = str(pathlib.Path(args.build, "apps/h4a"))
        self.command = [str(pathlib.Path(args.build, "apps/verbs-script")), *self.host_arguments]
        self.log = pathlib.Path(args.work, "verbs-script.log")
        self.pcap = args.pcap
        self.starts = 0
        self.ours = None
        self.programs = Programs(self, args)

    def our_side(self):
        if self.ours is None:
            self.starts += 1
            capture = ["--pcap", f"{self.pcap}.{self.starts}.pcapng"] if self.pcap else []
            self.ours = OurSide(self.command + capture, self.log)
        return self.ours

    def peer_side(self):
        return PeerSide(self.peer)

    def discard(self):
        if self.ours is not None:
            self.ours.stop()
            self.ours = None

    def faults(self, text):
        """netem on what the peer sends and, through an ifb, on what it receives; '' takes it away."""
        clear = "tc qdisc del dev eth0 root; tc qdisc del dev eth0 ingress; ip link del ifb0; true"
        self.peer.check(f"({clear}) 2>/dev/null")
        if text:
            self.peer.check("modprobe -a ifb sch_netem act_mirred cls_matchall sch_ingress; "
                            "ip link add ifb0 type ifb 2>/dev/null; ip link set ifb0 up; set -e; "
                            "tc qdisc add dev eth0 ingress; tc filter add dev eth0 parent ffff: protocol all "
                            "matchall action mirred egress redirect dev ifb0; "
                            f"tc qdisc add dev ifb0 root netem limit 10000 {text}; "
                            f"tc qdisc add dev eth0 root netem limit 10000 {text}")


CASES = []


def case(name, long=False):
    def add(function):
        CASES.append((name, long, function))
        return function
    return add


def expect(what, found, wanted):
    if found != wanted:
        raise CaseFailed(f"{what}: {found}, expected {wanted}")


def printed(lines, text):
    """One of the lines has `text` in it."""
    if not any(text in line for line in lines):
        raise CaseFailed(f"no '{text}' in: {' | '.join(lines)}")


def state_of(side):
    return int(re.search(r"state=(\d+)", side.do("state")[-1]).group(1))


# ---- what one message is ------------------------------------------------------------------------------------

def send(one, other, length, seed, extra=""):
    other.do(f"recv off={SINK} len={max(length, 1)}")
    one.do(f"fill off={SOURCE} len={length} seed={seed}", f"send off={SOURCE} len={length} {extra}", "wait ms=30000")
    return other.do("wait ms=30000", f"check off={SINK} len={length} seed={seed}")


def write(one, other, length, seed, extra=""):
    one.do(f"fill off={SOURCE} len={length} seed={seed}", f"write off={SOURCE} roff={SINK} len={length} {extra}",
           "wait ms=30000")
    return other.do(f"check off={SINK} len={length} seed={seed}")


def read(one, other, length, seed, extra=""):
    other.do(f"fill off={SOURCE} len={length} seed={seed}")
    return one.do(f"read off={SINK} roff={SOURCE} len={length} {extra}", "wait ms=30000",
                  f"check off={SINK} len={length} seed={seed}")


def longest_of(bed, mtu):
    # A MiB in packets of 256 bytes takes the emulated peer seconds, so the short run does it where packets are larger.
    return MIB if bed.long or mtu >= 1024 else MIB // 16


def every_verb(one, other, sizes, seed):
    """SEND, WRITE and READ of all sizes by `one`, all posted at once, each with memory of its own at the sink."""
    places, at = {}, SINK
    for verb in ("send", "write", "read"):
        for size in sizes:
            places[verb, size] = at
            at += (size + 63) // 64 * 64
    other.do(f"fill off={SOURCE} len={max(sizes)} seed={seed + 1}",
             *(f"recv off={places['send', size]} len={size}" for size in sizes))
    one.do(f"fill off={SOURCE} len={max(sizes)} seed={seed}",
           *(f"send off={SOURCE} len={size}" for size in sizes),
           *(f"write off={SOURCE} roff={places['write', size]} len={size}" for size in sizes),
           *(f"read off={places['read', size]} roff={SOURCE} len={size}" for size in sizes),
           f"wait n={3 * len(sizes)} ms=50000",
           *(f"check off={places['read', size]} len={size} seed={seed + 1}" for size in sizes))
    received = other.do(f"wait n={len(sizes)}",
                        *(f"check off={places[verb, size]} len={size} seed={seed}"
                          for verb in ("send", "write") for size in sizes))
    for size in sizes:
        printed(received, f"len={size}")


def every_length(bed, gid, mtu):
    with Pair(bed, gid, mtu) as pair:
        for one, other in pair.both():
            every_verb(one, other, (0, 1, mtu - 1, mtu, mtu + 1, longest_of(bed, mtu)), mtu + gid)


for family, gid_index in FAMILY.items():
    for path_mtu in MTUS:
        case(f"rc {family} mtu {path_mtu}: SEND, WRITE, READ of every length, both ways")(
            lambda bed, g=gid_index, m=path_mtu: every_length(bed, g, m))


# ---- immediate, invalidate, gather, order -------------------------------------------------------------------

def immediate(bed, gid):
    with Pair(bed, gid) as pair:
        for one, other in pair.both():
            for length in (0, 5, 3000):
                printed(send(one, other, length, length + 1, f"imm={0xdead0000 + length:#x} solicited=1"),
                        f"imm={0xdead0000 + length:#x}")
                other.do("recv len=0")
                write(one, other, length, length + 2, f"imm={0xbeef0000 + length:#x}")
                printed(other.do("wait"), f"imm={0xbeef0000 + length:#x}")


case("rc v4: immediate data of SEND and WRITE, both ways")(lambda bed: immediate(bed, 1))
case("rc v6: immediate data of SEND and WRITE, both ways")(lambda bed: immediate(bed, 2))


@case("rc: SEND with Invalidate of a memory window, then a WRITE through it is refused, both ways")
def invalidate(bed):
    for turn in (0, 1):
        with Pair(bed) as pair:
            one, other = pair.both()[turn]
            key = re.search(r"mw rkey=(\S+)", " ".join(other.do(f"mw off={SINK} len=4096", "wait"))).group(1)
            write(one, other, 4096, 3, f"rkey={key}")
            read_back = f"read off={SINK} roff={SINK} len=4096 rkey={key}"
            one.do(read_back, "wait", f"check off={SINK} len=4096 seed=3")
            received = send(one, other, 100, 4, f"inv={key}")
            if other is pair.h4a:  # rxe keeps the key for itself
                printed(received, f"inv={key}")
            one.do(f"write len=64 roff={SINK} rkey={key}", f"wait status={REMOTE_ACCESS}")
            expect(f"state of {one.name}", state_of(one), STATE_ERROR)


@case("rc: our lists of four pieces are gathered and scattered")
def pieces(bed):
    with Pair(bed) as pair:
        for length in (4, 1023, 4096, 100001):
            for verb in (send, write, read):
                verb(pair.h4a, pair.linux, length, length, "sges=4")


@case("rc: fifty work requests at once, both ways at the same time")
def many(bed):
    with Pair(bed, ours="depth=128", theirs="depth=128") as pair:
        count, size = 50, 3000
        for side in (pair.h4a, pair.linux):
            side.do(f"fill off={SOURCE} len={count * size} seed=9",
                    *(f"recv off={SINK + i * size} len={size}" for i in range(count)))
        for side in (pair.h4a, pair.linux):
            side.start(*(f"send off={SOURCE + i * size} len={size}" for i in range(count)), f"wait n={2 * count} ms=30000")
        for side in (pair.h4a, pair.linux):
            side.finish()
            side.do(f"check off={SINK} len={count * size} seed=9")


@case("rc: sixteen READs outstanding, more than the peer serves at a time")
def many_reads(bed):
    with Pair(bed, connect_ours="rd=16", connect_theirs="rd=16") as pair:
        for one, other in pair.both():
            other.do(f"fill off={SOURCE} len=80000 seed=2")
            one.do(*(f"read off={SINK + i * 5000} roff={SOURCE + i * 5000} len=5000" for i in range(16)),
                   "wait n=16 ms=30000", f"check off={SINK} len=80000 seed=2")


@case("rc: compare-and-swap and fetch-and-add, both ways")
def atomics(bed):
    with Pair(bed) as pair:
        for one, other in pair.both():
            other.do(f"set off={SINK} value=100")
            lines = one.do(f"cas off=0 roff={SINK} compare=100 swap=0x1122334455667788", "wait", "get off=0",
                           f"cas off=8 roff={SINK} compare=1 swap=2", "wait", "get off=8",
                           f"faa off=16 roff={SINK} add=1", f"faa off=24 roff={SINK} add=0xffffffffffffffff",
                           "wait n=2", "get off=16", "get off=24")
            expect(f"what {one.name} found", [line for line in lines if line.startswith("u64")],
                   ["u64 0x64", "u64 0x1122334455667788", "u64 0x1122334455667788", "u64 0x1122334455667789"])
            expect(f"what stands at {other.name}", other.do(f"get off={SINK}")[-1], "u64 0x1122334455667788")


@case("rc: packet numbers wrap, both ways")
def psn_wrap(bed):
    with Pair(bed, ours="psn=0xfffffe", theirs="psn=0xfffffd") as pair:
        for one, other in pair.both():
            send(one, other, 4000, 1)
            read(one, other, 4000, 2)
            write(one, other, 4000, 3)


def marks(bed, gid):
    path = "tos=0xb9 hop=32"
    with Pair(bed, gid, connect_ours=path, connect_theirs=path) as pair:
        for one, other in pair.both():
            send(one, other, 3000, 1)
            read(one, other, 3000, 2)


case("rc v4: DSCP, ECN and TTL are set, and left out of the ICRC")(lambda bed: marks(bed, 1))
case("rc v6: traffic class and hop limit are set, and left out of the ICRC")(lambda bed: marks(bed, 2))


# ---- UC and UD ----------------------------------------------------------------------------------------------

def unacknowledged(bed, gid, mtu):
    """UC: WRITEs first, so that they have arrived when the SENDs behind them have."""
    sizes = (0, 1, mtu - 1, mtu, mtu + 1, 20000)
    with Pair(bed, gid, mtu, ours="type=uc", theirs="type=uc") as pair:
        # Only so many packets wait for a neighbour that is not known yet, and nothing lost here is sent again.
        send(pair.h4a, pair.linux, 8, 1)
        for one, other in pair.both():
            places = {size: SINK + i * 32768 for i, size in enumerate(sizes)}
            other.do(*(f"recv off={at + (1 << 20)} len={size}" for size, at in places.items()), "recv len=0")
            one.do(f"fill off={SOURCE} len={max(sizes)} seed={gid}",
                   *(f"write off={SOURCE} roff={at} len={size}" for size, at in places.items()),
                   *(f"send off={SOURCE} len={size} imm={size + 1}" for size in sizes),
                   "write off=0 roff=0 len=0 imm=0x77", f"wait n={2 * len(sizes) + 1}")
            lines = other.do(f"wait n={len(sizes) + 1} ms=30000",
                             *(f"check off={at + more} len={size} seed={gid}"
                               for size, at in places.items() for more in (0, 1 << 20)))
            for size in sizes:
                printed(lines, f"imm={size + 1:#x}")
            printed(lines, "imm=0x77")


for family, gid_index in FAMILY.items():
    for path_mtu in (256, 1024, 4096):
        case(f"uc {family} mtu {path_mtu}: SEND and WRITE of every length, with immediate, both ways")(
            lambda bed, g=gid_index, m=path_mtu: unacknowledged(bed, g, m))

GRH = 40


def datagrams(bed, gid):
    with Pair(bed, gid, 4096, ours="type=ud", theirs="type=ud") as pair:
        for one, other in pair.both():
            for size in (0, 1, 1000, 4096):
                other.do(f"recv off={SINK} len={size + GRH}")
                one.do(f"fill off={SOURCE} len={size} seed={size}", f"send off={SOURCE} len={size} imm={size + 9}", "wait")
                lines = other.do("wait", f"check off={SINK + GRH} len={size} seed={size}")
                printed(lines, f"len={size + GRH} imm={size + 9:#x}")
                printed(lines, f"src_qp={int(one.local['qpn'], 0):#x}")
            # One with another Q_Key is dropped; the next one takes the receive.
            other.do(f"recv off={SINK} len={64 + GRH}")
            one.do("send len=32 qkey=0x2222", "send len=64", "wait n=2")
            printed(other.do("wait"), f"len={64 + GRH}")


case("ud v4: SEND of 0 to 4096 bytes with immediate, Q_Key, both ways")(lambda bed: datagrams(bed, 1))
case("ud v6: SEND of 0 to 4096 bytes with immediate, Q_Key, both ways")(lambda bed: datagrams(bed, 2))


# ---- what is refused ----------------------------------------------------------------------------------------

# What is tried, how the responder is opened, the requester's status, the responder's state afterwards.
REFUSALS = (
    ("WRITE with a wrong key", "write len=64 rkey=0x12345678", "", REMOTE_ACCESS),
    ("READ with a wrong key", "read len=64 rkey=0x12345678", "", REMOTE_ACCESS),
    ("WRITE of 3000 with a wrong key", "write len=3000 rkey=0x12345678", "", REMOTE_ACCESS),
    ("WRITE beyond the end", f"write len=64 roff={Bed.BUFFER - 63}", "", REMOTE_ACCESS),
    ("READ beyond the end", f"read len=64 roff={Bed.BUFFER - 63}", "", REMOTE_ACCESS),
    ("WRITE of 3000 beyond the end", f"write len=3000 roff={Bed.BUFFER - 2999}", "", REMOTE_ACCESS),
    ("READ before the beginning", "read len=64 roff=-1", "", REMOTE_ACCESS),
    ("WRITE to memory without the right", "write len=64", "rights=r", REMOTE_ACCESS),
    ("READ of memory without the right", "read len=64", "rights=w", REMOTE_ACCESS),
    ("an atomic with a wrong key", "faa rkey=0x12345678", "", REMOTE_ACCESS),
    ("an atomic beyond the end", f"faa roff={Bed.BUFFER}", "", REMOTE_ACCESS),
    ("an atomic on memory without the right", "faa", "rights=rw", REMOTE_ACCESS),
    ("an atomic at a queue pair without the right", "cas", "qp_rights=rw", REMOTE_INVALID),
    ("WRITE to a queue pair without the right", "write len=64", "qp_rights=r", REMOTE_INVALID),
    ("READ from a queue pair without the right", "read len=64", "qp_rights=w", REMOTE_INVALID),
)


def refused(bed, turn, command, options, status):
    opened = {"theirs" if turn == 0 else "ours": options}
    with Pair(bed, **opened) as pair:
        one, other = pair.both()[turn]
        one.do(command, f"wait status={status}")
        expect(f"state of {one.name}", state_of(one), STATE_ERROR)
        one.do("send len=8", f"wait status={FLUSHED}")
        expect(f"state of {other.name}", state_of(other), STATE_ERROR)


for side_index, side_name in enumerate(("linux", "h4a")):
    for what, line, opening, code in REFUSALS:
        case(f"rc: {side_name} refuses {what} (status {code})")(
            lambda bed, t=side_index, c=line, o=opening, s=code: refused(bed, t, c, o, s))


@case("rc: linux refuses an atomic that is not aligned (status 9)")  # it would not post one itself
def unaligned(bed):
    refused(bed, 0, "cas roff=4", "", REMOTE_INVALID)


@case("rc: a SEND longer than the receive is refused by linux")
def too_long_for_linux(bed):
    with Pair(bed) as pair:
        pair.linux.do("recv len=64")
        # rxe says 'remote operational error' where IBA vol. 1 §9.7.5.2.4 has 'invalid request' (peer README).
        pair.h4a.do("send len=3000", f"wait status={REMOTE_OPERATION}")
        pair.linux.do(f"wait status={LOCAL_OPERATION}")


@case("rc: a SEND longer than the receive is refused by h4a")
def too_long_for_us(bed):
    with Pair(bed) as pair:
        pair.h4a.do("recv len=64")
        pair.linux.do("send len=3000", f"wait status={REMOTE_INVALID}")
        pair.h4a.do(f"wait status={LOCAL_LENGTH}")


@case("rc: the longest message, 2^31 bytes, is refused where the memory is not so long")
def longest(bed):
    with Pair(bed, ours="buf=0x80001000") as pair:
        pair.h4a.do("write len=0x80000000", f"wait status={REMOTE_ACCESS} ms=30000")
    with Pair(bed, ours="buf=0x80001000") as pair:
        pair.h4a.do("read len=0x80000000", f"wait status={REMOTE_ACCESS} ms=30000")


# ---- waiting for the other end ------------------------------------------------------------------------------

@case("rc: RNR: the receive comes 100 ms late, both ways")
def not_ready(bed):
    with Pair(bed, ours="rnr=20", theirs="rnr=20") as pair:
        for one, other in pair.both():
            one.do(f"fill off={SOURCE} len=3000 seed=8")
            one.start(f"send off={SOURCE} len=3000", "wait ms=30000")
            other.do("sleep ms=100", f"recv off={SINK} len=3000", "wait ms=30000", f"check off={SINK} len=3000 seed=8")
            one.finish()


@case("rc: RNR for ever: the retries are used up, both ways")
def never_ready(bed):
    for turn in (0, 1):
        with Pair(bed, ours="rnr=14", theirs="rnr=14", connect_ours="rnr_retry=2", connect_theirs="rnr_retry=2") as pair:
            one, _ = pair.both()[turn]
            one.do("send len=64", f"wait status={RNR_RETRY} ms=30000")
            expect(f"state of {one.name}", state_of(one), STATE_ERROR)


@case("rc: nobody answers: the retries are used up, both ways")
def nobody(bed):
    for turn in (0, 1):
        with Pair(bed, connect_ours="retry=2 timeout=14", connect_theirs="retry=2 timeout=14") as pair:
            one, other = pair.both()[turn]
            other.start("close", "open gid=1")  # another number: packets for the old one are dropped
            other.opened()
            one.do("send len=64", f"wait status={RETRY} ms=30000")
            expect(f"state of {one.name}", state_of(one), STATE_ERROR)


# ---- a bad network ------------------------------------------------------------------------------------------

FAULTS = (
    ("1% loss", "loss 1%"),
    ("5% loss", "loss 5%"),
    ("1% duplication", "duplicate 1%"),
    ("5% duplication", "duplicate 5%"),
    ("1% reordering", "delay 2ms reorder 99%"),
    ("5% reordering", "delay 2ms reorder 95%"),
    ("5% loss, duplication and reordering", "loss 5% duplicate 5% delay 2ms reorder 95%"),
)


def faulty(bed, gid, netem):
    sizes = (1, 1024, 5000, 65536, 200000) if bed.long else (1, 5000, 65536)
    bed.faults(netem)
    try:
        with Pair(bed, gid, connect_ours="timeout=16", connect_theirs="timeout=16") as pair:
            for one, other in pair.both():
                every_verb(one, other, sizes, 40 + gid)
                counter = bed.BUFFER - 8  # each fetch-and-add is executed once, however often it is sent
                one.do(*(f"faa off={bed.BUFFER - 16} roff={counter} add=3" for _ in range(20)), "wait n=20 ms=50000")
                expect(f"the counter at {other.name}", other.do(f"get off={counter}")[-1], "u64 0x3c")
    finally:
        bed.faults("")


for family, gid_index in FAMILY.items():
    for what, netem_text in FAULTS:
        case(f"rc {family}: data is whole with {what}", long=family == "v6")(
            lambda bed, g=gid_index, n=netem_text: faulty(bed, g, n))


# ---- programs -----------------------------------------------------------------------------------------------

for family, gid_index in FAMILY.items():
    for kind, size, path_mtu in (("rc", 3000, 1024), ("rc", 10000, 4096), ("uc", 3000, 1024), ("ud", 1000, 0)):
        for serves in (True, False):
            case(f"{kind} {family}: ibv_{kind}_pingpong, {size} bytes, h4a pingpong is "
                 f"{'server' if serves else 'client'}", long=size == 10000)(
                lambda bed, k=kind, g=gid_index, w=serves, s=size, m=path_mtu:
                pingpong(bed.programs, k, g, w, s, m))


for family, gid_index in FAMILY.items():
    for serves in (True, False):
        case(f"cm {family}: rping, h4a rping is {'server' if serves else 'client'}")(
            lambda bed, g=gid_index, w=serves: rping(bed.programs, g, w))
    case(f"cm {family}: linux refuses a connection to a port where nobody listens")(
        lambda bed, g=gid_index: refused_by_linux(bed.programs, g))
    case(f"cm {family}: h4a refuses a connection to a port where nobody listens")(
        lambda bed, g=gid_index: refused_by_us(bed.programs, g))


# ---- running them -------------------------------------------------------------------------------------------

def run(bed, name, function):
    """→ what is wrong, or ''"""
    try:
        function(bed)
    except (CaseFailed, peer.PeerError) as problem:
        return str(problem)
    except OSError as problem:
        bed.discard()
        return f"{type(problem).__name__}: {problem}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("name", help="of the running peer")
    parser.add_argument("--build", default="build")
    parser.add_argument("--interface", required=True, help="our end of the link")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", default=".", help="cases whose name matches")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--work", default=".")
    parser.add_argument("--pcap", help="capture what our program sees into PCAP.N.pcapng, a file each time it starts")
    parser.add_argument("--log", help="append the results for scripts/test_results.py")
    args = parser.parse_args()

    chosen = [(n, f) for n, long, f in CASES if (args.long or not long) and re.search(args.only, n)]
    if args.list:
        print("\n".join(n for n, _ in chosen))
        return 0
    bed = Bed(args)
    lines, failed = [f"1..{len(chosen)}"], 0
    print(lines[0], flush=True)
    for number, (name, function) in enumerate(chosen, 1):
        began = time.monotonic()
        problem = run(bed, name, function)
        failed += bool(problem)
        lines.append(f"{'not ok' if problem else 'ok'} {number} - {name}")
        print(f"{lines[-1]} # {time.monotonic() - began:.1f} s", flush=True)
        if problem:
            print(f"# {problem}", flush=True)
    bed.discard()
    if args.log:
        result = {"name": "interop", "result": "FAIL" if failed else "OK", "returncode": int(failed > 0),
                  "stdout": "\n".join(lines) + "\n"}
        with open(args.log, "a", encoding="utf-8") as log:
            log.write(json.dumps(result) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
