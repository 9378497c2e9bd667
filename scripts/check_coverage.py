#!/usr/bin/env python3
"""Checks docs/SPEC_COVERAGE.md: each test that it names exists. Run as a test (suite style).

A test is named in a table cell as `file: case, case` after the last column bar: `x` is a file x_test.cc somewhere in the
tree, a case is a function in it (a trailing * stands for the rest of the name). `x_test` alone names the file.

usage: check_coverage.py [ROOT]; prints one line a violation, exit code 1 if there is any.
"""

import pathlib
import re
import sys

CASE = re.compile(r"`([^`]+)`")


def functions(root: pathlib.Path) -> dict[str, set[str]]:
    """Names of void functions by test file, as `atomic` for atomic_test.cc."""
    found: dict[str, set[str]] = {}
    for folder in ("lib", "apps", "pcap_tests", "drivers_glue"):
        for path in (root / folder).rglob("*_test.cc"):
            names = set(re.findall(r"^void (\w+)\(void\*\*", path.read_text(), re.M))
            found.setdefault(path.name.removesuffix("_test.cc"), set()).update(names)
    return found


def check_cell(cell: str, known: dict[str, set[str]]) -> list[str]:
    errors = []
    file = ""
    for text in CASE.findall(cell):
        if ": " in text:
            file, case = text.split(": ", 1)
        elif text.endswith("_test"):
            file, case = text.removesuffix("_test"), ""
        else:
            case = text
        if file == "" and case in ("seeds", "model"):
            continue
        if case in ("seeds", "model"):
            file, case = case, ""
        if file not in known:
            errors.append(f"no file {file}_test.cc")
        elif case and not any(re.fullmatch(case.replace("*", r"\w*"), n) for n in known[file]):
            errors.append(f"no case {case} in {file}_test.cc")
    return errors


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    known = functions(root)
    page = root / "docs" / "SPEC_COVERAGE.md"
    bad = 0
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if not line.startswith("| ") or line.startswith(("| clause", "| ---")):
            continue
        cells = [c.strip() for c in line.strip().strip("|").split(" | ")]
        if cells[-1] in ("", "-") or len(cells) < 4:
            print(f"{page}:{number}: a row without a test belongs to the gaps")
            bad += 1
            continue
        for error in check_cell(cells[-1], known):
            print(f"{page}:{number}: {error}")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
