#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks who includes whom: a folder of src/ may include only itself, the folders listed above it
and include/headrace; the program and the server use the public headers alone; public headers bring
in neither CUDA nor third-party types. Also that no file is long enough to hold two ideas."""

import pathlib
import re
import sys
import tempfile

FOLDERS = ["base", "tensor", "metadata", "attention", "gdn", "ops", "model", "text", "engine"]
PUBLIC_ONLY = ["server", "cli"]  # besides their own folder
# Test code may also use what tests share.
TEST_FILE = re.compile(r"_(test|fuzz|bench)\.(cc|cu)$|_test_[a-z_]+\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)
PUBLIC_SYSTEM = re.compile(r"^[a-z_]+$")  # standard headers have no slash and no .h
MAX_LINES = 600


def violations_of_source(folder, path, text):
    """Yields one line for each include in src/<folder>/ that breaks the layering."""
    allowed = {"headrace"}
    if folder in PUBLIC_ONLY:
        allowed.add(folder)
    else:
        allowed.update(FOLDERS[: FOLDERS.index(folder) + 1])
    if TEST_FILE.search(path.name):
        allowed.add("tests")
    for kind, target in INCLUDE.findall(text):
        top = target.split("/")[0]
        if kind == '"' and top not in allowed:
            yield f"{path}: src/{folder} may not include \"{target}\" (allowed: {sorted(allowed)})"


def violations_of_public_header(path, text):
    for kind, target in INCLUDE.findall(text):
        if kind == '"' and not target.startswith("headrace/"):
            yield f"{path}: a public header may not include \"{target}\""
        if kind == "<" and not PUBLIC_SYSTEM.match(target):
            yield f"{path}: a public header may not include <{target}>"


def check(root):
    found = []
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in {".cc", ".h", ".cu", ".cuh"}:
            continue
        folder = path.relative_to(root / "src").parts[0]
        text = path.read_text(encoding="utf-8")
        if folder not in FOLDERS + PUBLIC_ONLY:
            found.append(f"{path}: src/{folder} is no folder of the design")
            continue
        found += violations_of_source(folder, path, text)
        lines = text.count("\n")
        if lines > MAX_LINES:
            found.append(f"{path}: {lines} lines; above {MAX_LINES} a file holds two ideas")
    for path in sorted((root / "include").rglob("*.h")):
        found += violations_of_public_header(path, path.read_text(encoding="utf-8"))
    return found


def self_test():
    """A check that finds nothing must be one that could have found something."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for file, text in {
            "src/base/a.cc": '#include "tensor/view.h"\n',
            "src/cli/b.cc": '#include "engine/scheduler.h"\n',
            "src/other/c.cc": "",
            "src/gdn/d.cc": '#include "tests/support/paths.h"\n',
            "src/gdn/d_test.cc": '#include "tests/support/paths.h"\n#include "gdn/gdn_params.h"\n',
            "src/gdn/d_test_util.h": '#include "tests/support/paths.h"\n',
            "src/text/long.cc": "\n" * (MAX_LINES + 1),
            "include/headrace/e.h": "#include <cuda_runtime.h>\n",
            "include/headrace/f.h": "#include <vector>\n#include \"headrace/status.h\"\n",
        }.items():
            path = root / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        found = "\n".join(check(root))
        for file in ["a.cc", "b.cc", "c.cc", "d.cc", "long.cc", "e.h"]:
            assert f"/{file}:" in found, f"the check missed {file}:\n{found}"
        for file in ["d_test.cc", "d_test_util.h", "f.h"]:
            assert f"/{file}:" not in found, f"the check blamed {file}:\n{found}"


def main():
    self_test()
    found = check(pathlib.Path(__file__).resolve().parent.parent)
    for line in found:
        print(line)
    print(f"layering: {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
