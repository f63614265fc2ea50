"""How well the gains of kernels measured alone foresee the gain of the whole program.

    python3 benchmarks/composition.py STUDY

STUDY is the output folder of `lagom tune PROGRAMS --out STUDY`. Taken are the candidates that consist
of nothing but forms whose kernels were measured alone; what those save, summed over all places, is
held against what the candidate saved in the whole. Needs no packages.
"""

import collections
import json
import pathlib
import statistics
import sys

Candidate = collections.namedtuple("Candidate", "program foreseen measured kernels_share")


def foreseen_saving(result, configuration):
    """Seconds saved by the forms as a share of the default's time; None where one is unknown."""
    kernel_of = {name: k for k in result["kernels"] for name in k["instructions"]}
    saved = 0.0
    for line in configuration.strip().splitlines():
        parts = line.split(" form ")
        if len(parts) != 2 or parts[0] not in kernel_of:
            return None
        kernel = kernel_of[parts[0]]
        times = [f["result"]["speedup"] for f in kernel["forms"] if f["form"] == parts[1]]
        if not times or not times[0]:
            return None
        saved += kernel["default_ms"] * (1 - 1 / times[0])
    return saved / result["default_ms"] if configuration.strip() else None


def candidates(folder):
    for path in sorted(pathlib.Path(folder).rglob("*.decisions.json")):
        result = json.loads(path.read_text())
        alone = sum(k["default_ms"] * len(k["instructions"]) for k in result["kernels"])
        for trial in result["trials"]:
            speedup = trial.get("result", {}).get("speedup")
            if trial["origin"] != "greedy" or not speedup:
                continue
            foreseen = foreseen_saving(result, trial["configuration"])
            if foreseen is not None:
                yield Candidate(result["program"], foreseen, 1 - 1 / speedup,
                                alone / result["default_ms"])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = list(candidates(sys.argv[1]))
    print(f"{len(found)} candidates of {len({c.program for c in found})} programs")
    for low, high in ((-1, 0.05), (0.05, 0.15), (0.15, 0.4), (0.4, 1)):
        group = [c for c in found if low <= c.foreseen < high]
        if len(group) < 2:
            continue
        times = [(1 - c.measured) / (1 - c.foreseen) for c in group]
        quartiles = statistics.quantiles(times, n=4)
        kept = statistics.median(c.measured for c in group)
        print(f"foreseen saving {low:5.2f} to {high:.2f}: {len(group):3d} candidates, measured "
              f"{kept:5.2f} (median); time over foreseen {quartiles[0]:.2f} {quartiles[1]:.2f} "
              f"{quartiles[2]:.2f} (quartiles)")
    fused = [c for c in found if c.kernels_share > 1.1 and c.foreseen >= 0.05]
    others = [c for c in found if c.kernels_share <= 1.1 and c.foreseen >= 0.05]
    for name, group in (("sum over 1.1 of the program's time", fused), ("sum up to 1.1", others)):
        if group:
            kept = sum(c.measured for c in group) / sum(c.foreseen for c in group)
            print(f"kernels' default times, {name}: {len(group)} candidates, "
                  f"{100 * kept:.0f} % of what was foreseen (over 0.05) came")


if __name__ == "__main__":
    main()
