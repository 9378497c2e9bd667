#!/usr/bin/env python3
"""Every .h and .cc file is as clang-format leaves it (suite style). Exit code 77, skipped, without clang-format.

usage: check_format.py [--fix] [ROOT]
Formatting differs between major versions; the tree follows version 14, and another one is skipped too.
"""

import pathlib
import re
import shutil
import subprocess
import sys

SOURCE_DIRS = ("lib", "drivers_glue", "apps", "pcap_tests", "bindings")
SKIPPED = 77


def find_tool():
    for name in ("clang-format-14", "clang-format"):
        if shutil.which(name):
            version = subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout
            if re.search(r"version 14\.", version):
                return name
    return None


def main():
    fix = "--fix" in sys.argv[1:]
    roots = [a for a in sys.argv[1:] if not a.startswith("--")]
    root = pathlib.Path(roots[0] if roots else pathlib.Path(__file__).resolve().parent.parent)
    tool = find_tool()
    if not tool:
        print("clang-format 14 is not here")
        return SKIPPED
    files = sorted(str(f) for top in SOURCE_DIRS for f in (root / top).rglob("*") if f.suffix in (".h", ".cc"))
    if fix:
        return subprocess.run([tool, "-i", *files], check=False).returncode
    run = subprocess.run([tool, "--dry-run", "-Werror", *files], capture_output=True, text=True, check=False)
    wrong = sorted({line.split(":", 1)[0] for line in run.stderr.splitlines() if ": error:" in line})
    for file in wrong:
        print(f"{pathlib.Path(file).relative_to(root)}: run scripts/check_format.py --fix")
    print(f"{len(files)} files, {len(wrong)} not formatted")
    return 1 if run.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
