#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Start-up times: `--help`, and `generate` to the first token. Prints medians of 5 against their
targets and fails at three times a target. CPU time, so that a busy machine does not matter."""

import os
import resource
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def children_cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def median_cpu_seconds(command):
    seconds = []
    for _ in range(5):
        before = children_cpu_seconds()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        seconds.append(children_cpu_seconds() - before)
    return statistics.median(seconds)


def main():
    program = os.path.join(ROOT, sys.argv[1], "headrace")
    generate = [program, "generate", "--model", os.path.join(ROOT, "models/demo"), "--prompt",
                "Ge 1\nIn the beginning", "--max-tokens", "1"]
    failed = False
    for name, command, target in [("--help", [program, "--help"], 0.030),
                                  ("generate to first token", generate, 0.300)]:
        seconds = median_cpu_seconds(command)
        over = seconds > 3 * target
        failed |= over
        print(f"note: {name}: {1e3 * seconds:.0f} ms of CPU time, target {1e3 * target:.0f} ms"
              + (" FAILED: above three times the target" if over else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
