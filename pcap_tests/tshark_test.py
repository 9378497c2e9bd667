#!/usr/bin/env python3
"""Lets tshark read our own captures: every packet must be dissected as what it is, in the clear and, with our key
file, inside ESP. Then `h4a replay` is asked the same.

usage: tshark_test.py MAKE_CAPTURE REPLAY; exit code 77 (skipped) where tshark is missing.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

FIELDS = ["frame.number", "infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn",
          "infiniband.invariant.crc"]
CNP = 0x81  # tshark 4.0 shows no ICRC of a congestion notification


def number(text):
    return int(text, 0) if text else None


def tshark(capture, keys):
    """What tshark says of each frame: (opcode, destination QP, PSN, ICRC)."""
    command = ["tshark", "-n", "-r", str(capture), "-T", "fields"]
    for field in FIELDS:
        command += ["-e", field]
    if keys:
        command += ["-o", "esp.enable_encryption_decode:TRUE"]
        for line in keys.read_text().splitlines():
            if not line.startswith("#"):
                command += ["-o", "uat:esp_sa:" + line]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    frames = {}
    for line in out.splitlines():
        frame, opcode, qp, psn, icrc = (line.split("\t") + [""] * 5)[:5]
        frames[int(frame)] = (number(opcode), number(qp), number(psn), number(icrc))
    return frames


def replay(program, capture, keys):
    """What `h4a replay` says of each frame: (verdict, icrc, icv, destination QP, PSN)."""
    command = [program, "replay", "--json", str(capture)]
    if keys:
        command += ["--esp-keys", str(keys)]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    return {r["frame"]: (r["verdict"], r["icrc"], r.get("icv"), r["dest_qp"], r["psn"]) for r in lines[:-1]}


def compare(folder, name, expected, replay_program):
    capture = folder / name
    keys = folder / "esp.keys" if name.startswith("esp") else None
    dissected = tshark(capture, keys)
    replayed = replay(replay_program, capture, keys)
    wrong = 0
    for frame, (opcode, qp, psn, icrc) in sorted(expected.items()):
        compared = 3 if opcode == CNP else 4
        if dissected.get(frame, ())[:compared] != (opcode, qp, psn, icrc)[:compared]:
            print(f"{name}: frame {frame}: wanted {(opcode, qp, psn, hex(icrc))}, tshark says {dissected.get(frame)}")
            wrong += 1
        if replayed.get(frame) != ("ok", "ok", "ok" if keys else None, qp, psn):
            print(f"{name}: frame {frame}: h4a replay says {replayed.get(frame)}")
            wrong += 1
    if len(dissected) != len(expected) or len(replayed) != len(expected):
        print(f"{name}: {len(expected)} frames written, tshark read {len(dissected)}, h4a replay {len(replayed)}")
        wrong += 1
    print(f"{name}: {len(expected)} frames compared")
    return wrong


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if shutil.which("tshark") is None:
        print("skipped: tshark is not installed")
        sys.exit(77)
    make_capture, replay_program = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        listed = subprocess.run([make_capture, name], check=True, capture_output=True, text=True).stdout
        files = {}
        for line in listed.splitlines():
            file, frame, opcode, qp, psn, icrc = line.split()
            files.setdefault(file, {})[int(frame)] = (int(opcode), int(qp), int(psn), int(icrc, 16))
        wrong = sum(compare(folder, file, expected, replay_program) for file, expected in files.items())
    sys.exit(1 if wrong or len(files) != 3 else 0)


if __name__ == "__main__":
    main()
