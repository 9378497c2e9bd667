#!/usr/bin/env python3
"""Prints for scripts/demo what `h4a get --json` and `h4a replay --json` said.

usage: demo_report.py get JSON                           one fetch: protocol, size, time, rate, drops
       demo_report.py pick OPENED                        number of the frame to show: a protected RDMA WRITE
       demo_report.py frame CAPTURE CLOSED OPENED N      frame N as octets, and what replay says of it
       demo_report.py summary OPENED                     the capture as a whole; exit code 1 if anything is wrong in it
"""

import json
import struct
import sys

HEX_ROWS = 6


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def frames(path):
    return [line for line in read_lines(path) if "frame" in line]


def pcapng_packets(path):
    """Octets of each Enhanced Packet Block (type 6); the other blocks are stepped over."""
    with open(path, "rb") as file:
        data = file.read()
    order = "<" if data[8:12] == b"\x4d\x3c\x2b\x1a" else ">"
    offset = 0
    while offset + 12 <= len(data):
        kind, length = struct.unpack_from(order + "II", data, offset)
        if kind == 6:
            captured = struct.unpack_from(order + "I", data, offset + 20)[0]
            yield data[offset + 28:offset + 28 + captured]
        offset += max(length, 12)


def hex_rows(octets, rows=HEX_ROWS):
    for offset in range(0, min(len(octets), rows * 16), 16):
        row = octets[offset:offset + 16]
        text = "".join(chr(b) if 32 <= b < 127 else "." for b in row)
        print(f"   {offset:04x}  {row.hex(' '):47}  {text}")
    if len(octets) > rows * 16:
        print(f"   …     {len(octets) - rows * 16} octets more")


def show_get(path):
    report = read_lines(path)[-1]
    mib, seconds = report["size"] / 2**20, report["seconds"]
    protocol = {"h4a": "HTTP/4A (RoCEv2 in ESP)", "https": "HTTPS"}.get(report["protocol"], report["protocol"])
    print(f"   {protocol}: {mib:.1f} MiB in {seconds:.3f} s, {report['bits_per_second'] / 1e9:.2f} Gb/s; "
          f"{report['retransmitted_packets']} packets sent again")
    for reason, count in report["drops"].items():
        print(f"   dropped: {count} {reason}")
    return 0 if report["protocol"] == "h4a" else 1


def pick(path):
    """The first middle packet of a protected RDMA WRITE: its payload is nothing but body."""
    for report in frames(path):
        if report.get("opcode") == "RC_RDMA_WRITE_MIDDLE" and report.get("icv") == "ok":
            print(report["frame"])
            return 0
    print("no protected RDMA WRITE in the capture", file=sys.stderr)
    return 1


def describe(report):
    keys = ("protocol", "source", "destination", "spi", "sequence", "icv", "inner_protocol", "opcode", "dest_qp", "psn",
            "payload_bytes", "icrc", "verdict", "reason")
    return "  ".join(f"{key} {report[key]}" for key in keys if key in report)


def show_frame(capture, closed, opened, number):
    for index, octets in enumerate(pcapng_packets(capture), 1):
        if index == number:
            print(f"   frame {number}, {len(octets)} octets:")
            hex_rows(octets)
    for title, path in (("without keys", closed), ("with keys", opened)):
        for report in frames(path):
            if report["frame"] == number:
                print(f"   {title:12}  {describe(report)}")
    return 0


def show_summary(path):
    summary = read_lines(path)[-1]["summary"]
    counts = ", ".join(f"{count} {name}" for name, count in summary["protocols"].items())
    print(f"   {summary['frames']} frames: {counts}; {summary['ok']} ok, {summary['drop']} drop, "
          f"{summary['unchecked']} unchecked")
    wrong = summary["drop"] or summary["icv"].get("bad") or summary["icrc"].get("bad")
    clear = [r["frame"] for r in frames(path) if r.get("opcode") and "spi" not in r]
    if clear:
        print(f"   RoCE outside ESP in frames {clear[:10]}")
    return 1 if wrong or clear or not summary["icv"].get("ok") else 0


def main():
    command, *words = sys.argv[1:] or ["help"]
    if command == "get" and len(words) == 1:
        return show_get(words[0])
    if command == "pick" and len(words) == 1:
        return pick(words[0])
    if command == "frame" and len(words) == 4:
        return show_frame(*words[:3], int(words[3]))
    if command == "summary" and len(words) == 1:
        return show_summary(words[0])
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())
