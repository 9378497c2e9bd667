#!/usr/bin/env python3
"""End to end: `h4a pingpong` against itself over memif, as a user runs it.

usage: pingpong_e2e_test.py H4A      TAP on standard output

Needs no privileges. Everything is in a temporary folder, and only processes that were started here are ended.
"""
import json
import os
import subprocess
import time

from e2e_support import H4A, free_port, path, run_cases, run_main, started


def play(kind, size, *extra, client_size=None, timeout=20):
    """Runs both ends. Returns what they report, which they do in every outcome, with their exit codes."""
    link, tcp = path("%d.sock" % len(started)), str(free_port())
    common = ["-p", tcp, "-n", "200", "-r", "20", "-c", "--json", "--timeout", str(timeout), *extra]
    server = subprocess.Popen([H4A, "pingpong", kind, "--ip", "10.99.3.1/24", "--port", "memif:%s,role=server" % link,
                               "-s", size, *common], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    started.append(server)
    for _ in range(500):
        if os.path.exists(link):
            break
        time.sleep(0.02)
    client = subprocess.run([H4A, "pingpong", kind, "127.0.0.1", "--ip", "10.99.3.2/24", "--port", "memif:" + link,
                             "-s", client_size or size, *common], capture_output=True, text=True, timeout=60)
    out, errors = server.communicate(timeout=60)
    reports = []
    for text, error in ((out, errors), (client.stdout, client.stderr)):
        assert text, "no report: " + error
        reports.append(json.loads(text))
    assert [r["exit_code"] for r in reports] == [server.returncode, client.returncode], reports
    return reports


def won(reports, kind):
    for report in reports:
        assert report["exit_code"] == 0 and report["received"] == 200 and report["transport"] == kind, report


def each_kind():
    for kind, size in (("rc", "1"), ("rc", "3000"), ("rc", "100000"), ("uc", "9000"), ("ud", "1000")):
        won(play(kind, size), kind)


def rc_in_spite_of_loss():
    won(play("rc", "5000", "--loss", "0.01"), "rc")


def link_local_addresses():
    reports = play("rc", "64", "--ip", "link-local", "-g", "1")
    won(reports, "rc")
    assert all(r["local"]["gid"].startswith("fe80::") for r in reports), reports


def sizes_that_differ_are_told():
    reports = play("rc", "3000", client_size="2000", timeout=2)
    assert all(r["exit_code"] == 1 for r in reports), reports
    assert any("same -s on both sides" in r["error"] for r in reports), reports


def nobody_serves():
    run = subprocess.run([H4A, "pingpong", "rc", "127.0.0.1", "--ip", "10.99.3.2/24", "--port",
                          "memif:%s,role=server" % path("none.sock"), "-p", str(free_port())], capture_output=True, text=True,
                         timeout=60)
    assert run.returncode == 1 and "no ping-pong server on 127.0.0.1" in run.stderr, run


CASES = [each_kind, rc_in_spite_of_loss, link_local_addresses, sizes_that_differ_are_told, nobody_serves]


if __name__ == "__main__":
    run_main(lambda: 1 if run_cases(CASES) else 0)
