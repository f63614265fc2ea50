"""How well configurations of whole programs are ranked: every predictor on the same measured rows.

    build/bin/program_study KERNEL_MODEL KERNELS... --programs PROGRAMS > programs.tsv
    lagom eval MODEL PROGRAMS/graph/test --scores ours.jsonl
    python benchmarks/peers/program_predictors.py programs.tsv ours=ours.jsonl[,MORE.jsonl]

Prints the means over the test programs of Kendall's tau, ordered pair accuracy and the slowdown of
the best of the top 1, 5, 10 against the best known. A random order is the mean of 200. Boosted
trees (LightGBM) learn the pairs of the train programs from the table's columns, with and without
the sums over kernels. Score files of one name with commas between are seeds: their mean, and
the least and largest tau.

Needs numpy and lightgbm; not part of the build.
"""

import argparse
import csv
import json
import pathlib

import numpy as np

from boosted_trees import LEVELS, metrics, relevance

SUMS = ["prior", "neighbours", "model"]
NOT_FEATURES = ["split", "id", "row", "log_ratio"]


def column(rows, name):
    return np.array([float(row[name]) for row in rows])


def trees(programs, names, seed):
    import lightgbm

    learned = [rows for rows in programs.values() if rows[0]["split"] == "train"]
    features = np.concatenate([np.stack([column(r, n) for n in names], 1) for r in learned])
    labels = np.concatenate([relevance(column(r, "log_ratio")) for r in learned])
    options = {"objective": "lambdarank", "label_gain": list(range(LEVELS)),
               "lambdarank_truncation_level": 1000, "learning_rate": 0.05, "num_leaves": 8,
               "min_data_in_leaf": 20, "feature_fraction": 0.7, "bagging_fraction": 0.8,
               "bagging_freq": 1, "num_threads": 1, "seed": seed, "verbose": -1,
               "deterministic": True}
    data = lightgbm.Dataset(features, labels, group=[len(r) for r in learned])
    model = lightgbm.train(options, data, num_boost_round=150)
    return lambda rows: -model.predict(np.stack([column(rows, n) for n in names], 1))


def print_line(name, test, predictors):
    """predictors: a seed each, costs from rows."""
    figures = np.array([np.mean([list(metrics(costs(rows), np.exp(column(rows, "log_ratio"))).values())
                                 for rows in test.values()], axis=0) for costs in predictors])
    tau, pairs, *slowdowns = figures.mean(axis=0)
    spread = f" ({figures[:, 0].min():.2f} to {figures[:, 0].max():.2f})" if len(figures) > 1 else ""
    print(f"| {name} | {tau:.3f}{spread} | {pairs:.3f} | " +
          " | ".join(f"{s:.3f}" for s in slowdowns) + " |", flush=True)


def read_scores(path):
    scores = {}
    for line in pathlib.Path(path).read_text().splitlines():
        program = json.loads(line)
        scores[program["id"]] = np.array(program["scores"])
    return lambda rows: scores[rows[0]["id"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", nargs="?", help="of program_study")
    parser.add_argument("scores", nargs="*", help="NAME=FILE,...")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--split", default="test")
    arguments = parser.parse_args()
    if arguments.table is None:  # as `./run bench` calls every peer
        print("left out: it needs a table of build/bin/program_study")
        return

    programs = {}
    with open(arguments.table, newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            programs.setdefault(row["id"], []).append(row)
    test = {k: rows for k, rows in programs.items() if rows[0]["split"] == arguments.split}
    print(f"{len(test)} programs, {sum(map(len, test.values()))} configurations\n")
    print("| predictor | tau | ordered pairs | top 1 | top 5 | top 10 |")
    print("|---|---|---|---|---|---|")
    random = np.random.default_rng(1)
    draws = [lambda rows: random.random(len(rows))] * 200
    figures = np.mean([np.mean([list(metrics(d(r), np.exp(column(r, "log_ratio"))).values())
                                for r in test.values()], axis=0) for d in draws], axis=0)
    print("| random order | " + " | ".join(f"{f:.3f}" for f in figures) + " |")
    for name in ["analytic", "disagreements", *SUMS]:
        print_line(name + (" (summed)" if name in SUMS else ""), test,
                   [lambda rows, n=name: column(rows, n)])
    names = [n for n in next(iter(programs.values()))[0] if n not in NOT_FEATURES]
    print_line("boosted trees, without sums", test,
               [trees(programs, [n for n in names if n not in SUMS], s)
                for s in range(arguments.seeds)])
    print_line("boosted trees", test, [trees(programs, names, s) for s in range(arguments.seeds)])
    for name, files in (a.split("=", 1) for a in arguments.scores):
        print_line(name, test, [read_scores(f) for f in files.split(",")])


if __name__ == "__main__":
    main()
