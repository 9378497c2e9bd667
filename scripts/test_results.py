#!/usr/bin/env python3
"""Adds up what `meson test` logged: prints names of failed and skipped cases, then `N passed, N failed, N skipped`.

A TAP test counts each of its cases, any other test counts once. A TAP test that meson calls failed though each of
its lines is fine (it crashed, or ran out of time) adds one failure.

usage: test_results.py [--also-failed N] [TESTLOG.JSON...]; exit code 1 if anything failed or nothing ran.
"""

import argparse
import json
import pathlib
import re
import sys

CASE = re.compile(r"^(not )?ok\b\s*\d*\s*(.*)$")


def read_cases(test):
    """→ [(name, 'passed' | 'failed' | 'skipped')]"""
    whole = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}.get(test["result"], "failed")
    cases = []
    for line in test.get("stdout", "").splitlines():
        match = CASE.match(line)
        if match:
            skipped = "# SKIP" in line.upper()
            name = match.group(2).replace("# SKIP", "").strip(" -")
            cases.append((f"{test['name']}: {name}", "skipped" if skipped else "failed" if match.group(1) else "passed"))
    if not cases:
        return [(test["name"], whole)]
    if whole == "failed" and all(result != "failed" for _, result in cases):
        cases.append((f"{test['name']}: {test['result'].lower()}, exit code {test.get('returncode')}", "failed"))
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--also-failed", type=int, default=0)
    parser.add_argument("logs", nargs="*", type=pathlib.Path)
    args = parser.parse_args()

    count = {"passed": 0, "failed": args.also_failed, "skipped": 0}
    for log in args.logs:
        for line in log.read_text(encoding="utf-8").splitlines():
            for name, result in read_cases(json.loads(line)):
                count[result] += 1
                if result != "passed":
                    print(f"{result}: {log.parts[0]}: {name}")
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
