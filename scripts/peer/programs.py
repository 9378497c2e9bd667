"""The programs that people know, in the peer, against ours: ibv_*_pingpong against `h4a pingpong`.

They tell each other where their queue pairs are over TCP, which our stack does not speak: the host's kernel has an
address of its own on the link for that, beside the stack's.
"""

import subprocess
import time

from sides import CaseFailed

KERNEL = "10.77.0.101"
LINUX = "10.77.0.2"


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
