"""The programs that people know, in the peer, against ours: ibv_*_pingpong and rping against `h4a`'s.

The ping-pongs tell each other where their queue pairs are over TCP, which our stack does not speak: the host's kernel
has an address of its own on the link for that, beside the stack's. rping needs RDMA-CM alone.
"""

import subprocess
import time

from sides import CaseFailed

KERNEL = "10.77.0.101"
LINUX = "10.77.0.2"
ADDRESSES = {1: ("10.77.0.1", LINUX), 2: ("fd77::1", "fd77::2")}  # by GID index: ours, the peer's


class Programs:
    def __init__(self, bed, args):
        self.bed = bed
        self.h4a = bed.tool
        self.host = bed.host_arguments
        self.log = bed.log
        subprocess.run(["ip", "address", "replace", f"{KERNEL}/24", "dev", args.interface], check=True)

    def ours(self, *command):
        """Starts one of our commands."""
        return subprocess.Popen([self.h4a, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def end(self, process, seconds=60):
        try:
            out = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            out = process.communicate()[0]
            raise CaseFailed(f"h4a does not end: {last(out)}") from None
        if process.returncode != 0:
            raise CaseFailed(f"h4a ended with {process.returncode}: {last(out)}")
        return out

    def theirs_in_background(self, command):
        self.bed.peer.check(f"rm -f /run/program.*; (({command}) >/run/program.out 2>&1; echo $? >/run/program.rc) & sleep 0.3")

    def end_of_theirs(self):
        script = "n=0; while [ ! -s /run/program.rc ] && [ $n -lt 300 ]; do sleep 0.1; n=$((n + 1)); done; " \
                 "cat /run/program.out; exit $(cat /run/program.rc)"
        status, out, err = self.bed.peer.execute(script, 60)
        if status != 0:
            raise CaseFailed(f"linux: ended with {status}: {last(out + err)}")
        return out


def last(text):
    return " | ".join(text.strip().splitlines()[-3:])


def pingpong(programs, kind, gid, we_serve, size, mtu):
    """Twenty messages each way; both programs check what they received where they can."""
    bed = programs.bed
    bed.discard()  # one program of ours at a time has the link
    options = f"-n 20 -s {size}" + ("" if kind == "ud" else f" -m {mtu}")
    own = ["pingpong", kind, *programs.host, "-g", str(gid - 1), *options.split(), "--timeout", "20"]
    if we_serve:
        process = programs.ours(*own)
        try:
            client = f"ibv_{kind}_pingpong -g {gid} {options} {KERNEL}"
            # Until ours listens.
            for _ in range(40):
                status, out, err = bed.peer.execute(client, 60)
                if "Couldn't connect" not in err or process.poll() is not None:
                    break
                time.sleep(0.25)
            if status != 0:
                raise CaseFailed(f"linux: ended with {status}: {last(out + err)}; h4a: {stopped(process)}")
            programs.end(process)
        finally:
            stopped(process)
    else:
        programs.theirs_in_background(f"timeout 60 ibv_{kind}_pingpong -g {gid} {options}")
        programs.end(programs.ours(*own, LINUX))
        programs.end_of_theirs()


def rping(programs, gid, we_serve):
    """Five pings of 500 bytes, compared by the client."""
    bed = programs.bed
    bed.discard()
    ours, theirs = ADDRESSES[gid]
    pings = "-C 5 -S 500 -V"
    if we_serve:
        process = programs.ours("rping", *programs.host, "-s", "-a", ours)
        try:
            rping_client(bed, process, f"rping -c -a {ours} {pings}")
            programs.end(process)
        finally:
            stopped(process)
    else:
        programs.theirs_in_background(f"timeout 60 rping -s -a {theirs} {pings}")
        programs.end(programs.ours("rping", *programs.host, "-c", "-a", theirs, *pings.split()))
        programs.end_of_theirs()


def rping_client(bed, process, command):
    """Tries again until our server is there."""
    for _ in range(20):
        status, out, err = bed.peer.execute(f"timeout 30 {command}", 60)
        if status == 0:
            return
        if process.poll() is not None:
            break
        time.sleep(0.5)
    raise CaseFailed(f"linux: ended with {status}: {last(out + err)}; h4a: {stopped(process)}")


def refused_by_linux(programs, gid):
    """Nobody listens on that port: our client says so, and does not wait for ever."""
    programs.bed.discard()
    process = programs.ours("rping", *programs.host, "-c", "-a", ADDRESSES[gid][1], "-p", "9999", "-C", "1")
    out = process.communicate(timeout=60)[0]
    if process.returncode == 0 or "refus" not in out.lower() and "reject" not in out.lower():
        raise CaseFailed(f"h4a ended with {process.returncode}: {last(out)}")


def refused_by_us(programs, gid):
    """The peer's client is told so at once: RDMA_CM_EVENT_REJECTED, and not unreachable."""
    bed = programs.bed
    bed.discard()
    ours = ADDRESSES[gid][0]
    process = programs.ours("rping", *programs.host, "-s", "-a", ours)
    try:
        for _ in range(20):
            status, out, err = bed.peer.execute(f"timeout 30 rping -c -a {ours} -p 9999 -C 1", 60)
            if "REJECTED" in out + err:
                break
            time.sleep(0.5)
        else:
            raise CaseFailed(f"linux: ended with {status}: {last(out + err)}")
        # The server is none the worse for it.
        rping_client(bed, process, f"rping -c -a {ours} -C 2 -V")
    finally:
        stopped(process)


def stopped(process):
    if process.poll() is None:
        process.terminate()
    try:
        return last(process.communicate(timeout=10)[0])
    except subprocess.TimeoutExpired:
        process.kill()
        return last(process.communicate()[0])
    except ValueError:
        return ""  # read already
