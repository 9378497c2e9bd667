#!/usr/bin/env python3
"""test_results.py on made-up logs: cases are counted, a crash among good cases is a failure, nothing run fails."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile

import test_results

TESTS = [  # (what meson logs, expected line, expected exit code)
    ([{"name": "a", "result": "OK", "stdout": "1..2\nok 1 - x\nok 2 - y\n"}], "2 passed, 0 failed, 0 skipped", 0),
    ([{"name": "a", "result": "OK", "stdout": "1..2\nok 1 # SKIP x\nok 2 - y\n"}], "1 passed, 0 failed, 1 skipped", 0),
    ([{"name": "a", "result": "ERROR", "stdout": "ok 1 - x\nnot ok 2 - y\n"}], "1 passed, 1 failed, 0 skipped", 1),
    ([{"name": "a", "result": "ERROR", "stdout": "1..2\nok 1 - x\n"}], "1 passed, 1 failed, 0 skipped", 1),
    ([{"name": "a", "result": "TIMEOUT", "stdout": ""}], "0 passed, 1 failed, 0 skipped", 1),
    ([{"name": "a", "result": "SKIP"}, {"name": "b", "result": "OK"}], "1 passed, 0 failed, 1 skipped", 0),
    ([{"name": "a", "result": "SKIP"}], "0 passed, 0 failed, 1 skipped", 1),
    ([], "0 passed, 0 failed, 0 skipped", 1),
]


def run(tests):
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log.json"
        log.write_text("".join(json.dumps(t) + "\n" for t in tests))
        sys.argv = ["test_results.py", str(log)]
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            code = test_results.main()
    return output.getvalue().splitlines()[-1], code


def main():
    failed = 0
    for tests, line, code in TESTS:
        if run(tests) != (line, code):
            failed += 1
            print(f"{tests}: expected {(line, code)}, got {run(tests)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
