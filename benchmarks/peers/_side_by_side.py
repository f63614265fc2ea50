"""Two readers timed in turn on one core, ours through a benchmark of `lagom_bench`.

Each round times ours, theirs, ours, theirs; the ratios of the two equal times are what the machine's
noise makes of equal work.
"""

import json
import os
import pathlib
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = os.environ.get("LAGOM_BENCH", str(ROOT / "build" / "bin" / "lagom_bench"))
LAGOM = os.environ.get("LAGOM", str(ROOT / "build" / "bin" / "lagom"))
ROUNDS = int(os.environ.get("LAGOM_BENCH_ROUNDS", 9))


def seconds_of(work):
    start = time.perf_counter()
    result = work()
    elapsed = time.perf_counter() - start
    del result
    return elapsed


def benchmark(name, variable, path, core):
    """The benchmark's figures on a file, the median of some repetitions in a process of its own."""
    command = [BENCH, f"--benchmark_filter={name}", "--benchmark_format=json",
               "--benchmark_min_time=0.2"]
    result = subprocess.run(command, capture_output=True, text=True, check=True,
                            env={**os.environ, variable: str(path)},
                            preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    return json.loads(result.stdout)["benchmarks"][0]


def quartiles(values):
    if len(values) == 1:
        return f"{values[0]:.3f}"
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]"


def self_ratios(times):
    return [second / first for first, second in zip(times[::2], times[1::2])]


def compare(name, peer, ours, theirs, describe):
    """ours, theirs: calls that give seconds. describe: a line for the median of either."""
    ours(), theirs()  # once for the caches
    own, others = [], []
    for _ in range(2 * ROUNDS):
        own.append(ours())
        others.append(theirs())
    for who, times in ((peer, others), ("ours", own)):
        print(f"  {name}, {who}: {describe(statistics.median(times))}")
    print(f"  {name}, median and quartiles of {ROUNDS} rounds: ours / {peer} "
          f"{quartiles([o / t for o, t in zip(own, others)])}, ours / ours "
          f"{quartiles(self_ratios(own))}, {peer} / {peer} {quartiles(self_ratios(others))}")
