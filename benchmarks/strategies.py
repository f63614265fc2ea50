#!/usr/bin/env python3
"""The table of benchmarks/strategies.sh.

usage: strategies.py OUT [STRATEGY...]

Final results are the fresh measurement at the end of each search. "After n measurements" is the best
that the search itself had measured by then; kernels and whole programs count alike, the default's own
measurement does not. Seeds are paired: a program counts where every strategy has it.
"""
import collections
import json
import math
import pathlib
import sys

import numpy as np

COUNTS = [5, 10, 20, 30, 50, 100]


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def final(result):
    return result["result"]["speedup"] if result["configuration"] else 1.0


def best_after(result, measurements):
    """The best speed-up that the search had measured, 1 for the default."""
    best = 1.0
    for trial in result["trials"]:
        count = trial["number"] + trial["kernel_trials"]
        if trial["origin"] != "final" and "result" in trial and count <= measurements:
            best = max(best, trial["result"]["speedup"])
    return best


def reached(result, target):
    """(seconds, measurements) of the first candidate that was so fast, or None."""
    for trial in result["trials"]:
        if "result" in trial and trial["result"]["speedup"] >= target:
            return trial["seconds"], trial["number"] + trial["kernel_trials"]
    return None


def interval(values, rng):
    """Of a geometric mean: 95 %, programs drawn again; values: by program, of each seed."""
    logs = np.array([np.mean(np.log(v)) for v in values])
    draws = rng.integers(len(logs), size=(5000, len(logs)))
    low, high = np.exp(np.percentile(logs[draws].mean(1), [2.5, 97.5]))
    return f"[{low:.2f}, {high:.2f}]"


def main():
    out = pathlib.Path(sys.argv[1])
    strategies = sys.argv[2:] or ["network", "measurements", "fixed", "genetic", "random"]
    results = collections.defaultdict(dict)
    for strategy in strategies:
        for path in out.glob(f"{strategy}/*/*.decisions.json"):
            run = path.name.split(".")[0], path.parent.name
            results[run][strategy] = json.loads(path.read_text())
    runs = sorted(run for run, found in results.items() if len(found) == len(strategies))
    programs = sorted({program for program, _ in runs})
    print(f"{len(programs)} programs, {len(runs)} pairs of program and seed\n")
    print("| program | " + " | ".join(strategies) + " |\n|" + "---|" * (len(strategies) + 1))
    for program in programs:
        cells = [mean([final(results[r][s]) for r in runs if r[0] == program]) for s in strategies]
        print(f"| {program} | " + " | ".join(f"{cell:.2f}x" for cell in cells) + " |")
    known = {p: max(final(results[r][s]) for r in runs if r[0] == p for s in strategies)
             for p in programs}
    rng = np.random.default_rng(1)

    def row(name, cell):
        print(f"| {name} | " + " | ".join(cell(s) for s in strategies) + " |")

    def of_runs(strategy, value):
        return [[value(results[r][strategy]) for r in runs if r[0] == p] for p in programs]

    def geometric(strategy, value):
        values = of_runs(strategy, value)
        return f"{mean([mean(v) for v in values]):.2f}x {interval(values, rng)}"

    row("geometric mean", lambda s: geometric(s, final))
    row("against the first", lambda s: "{:.3f} {}".format(
        mean([final(results[r][s]) / final(results[r][strategies[0]]) for r in runs]),
        interval([[final(results[r][s]) / final(results[r][strategies[0]]) for r in runs
                   if r[0] == p] for p in programs], rng)))
    for count in COUNTS:
        row(f"after {count} measurements",
            lambda s: f"{mean([best_after(results[r][s], count) for r in runs]):.2f}x")
    row("measurements of the whole + of kernels", lambda s: "{:.0f} + {:.0f}".format(
        np.mean([len(results[r][s]["trials"]) for r in runs]),
        np.mean([results[r][s]["kernel_trials"] for r in runs])))
    gaining = [r for r in runs if known[r[0]] > 1.05]

    def to_known(strategy):
        found = [reached(results[r][strategy], known[r[0]] ** 0.95) for r in gaining]
        found = [f for f in found if f]
        if not found:
            return "0"
        seconds, counts = mean([f[0] for f in found]), mean([f[1] for f in found])
        return f"{len(found)} of {len(gaining)}: {seconds:.1f} s, {counts:.0f}"

    def to_genetic(strategy):
        """How often a strategy comes within 2 % of genetic's result, and the share of genetic's
        measurements that it takes; where it does not, all that it made count."""
        shares, count = [], 0
        for run in gaining:
            genetic, result = results[run]["genetic"], results[run][strategy]
            found = reached(result, max(final(genetic) / 1.02, 1.0))
            count += found is not None
            made = len(result["trials"]) + result["kernel_trials"]
            used = max(found[1] if found else made, 1)
            shares.append(used / max(len(genetic["trials"]) + genetic["kernel_trials"], 1))
        return f"{count} of {len(gaining)}: {mean(shares):.2f}"

    if "genetic" in strategies:
        row("reach genetic's result within 2 %: share of its measurements", to_genetic)
    row("reach 95 % of the best known: after seconds, measurements", to_known)


if __name__ == "__main__":
    main()
