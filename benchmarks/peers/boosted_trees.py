"""Boosted trees that rank configurations of measured kernels or programs: a peer of the cost model.

LightGBM with the pairwise lambdarank objective on hand-made features of the npz that
`lagom collect` writes. Prints the metrics of each file and their means; `--scores` writes the lines
that `lagom eval --scores` reads.

    python benchmarks/peers/boosted_trees.py data/kernel/train data/kernel/valid --scores trees.jsonl
    lagom eval --scores trees.jsonl

Needs lightgbm and numpy; not part of the build.
"""

import argparse
import json
import pathlib

import lightgbm
import numpy as np

FORMS = 64       # numbers of forms stay below it
OPCODES = 256
LEVELS = 31      # of relevance, LightGBM's default limit


def graph_features(npz):
    """What all configurations of a graph share: sizes, opcodes, sums over the nodes' columns."""
    opcodes = np.bincount(npz["node_opcode"], minlength=OPCODES).astype(np.float64)
    columns = np.sign(npz["node_feat"]) * np.log1p(np.abs(npz["node_feat"]))
    ids = npz["node_config_ids"]
    configurable = columns[ids].mean(0) if len(ids) else np.zeros(columns.shape[1])
    sizes = [len(columns), len(npz["edge_index"]), len(ids)]
    return np.concatenate([sizes, opcodes, columns.mean(0), configurable])


def config_features(npz):
    """[c, ...]: how often each form, barriers, layouts by place and value, flags."""
    forms, barriers = npz["node_config_form"], npz["node_config_barrier"]
    layouts, flags = npz["node_config_feat"], npz["config_flags"]
    counts = np.stack([np.bincount(row, minlength=FORMS) for row in forms])
    bits = sum((barriers >> bit) & 1 for bit in range(8)).sum(1, keepdims=True)
    # Of each of the 18 places: how many nodes decide it, and the mean of what they decide.
    decided = (layouts >= 0).sum(1)
    means = np.where(layouts >= 0, layouts, 0).sum(1) / np.maximum(decided, 1)
    return np.concatenate([counts, bits, decided, means, flags], axis=1).astype(np.float64)


def read(path):
    with np.load(path) as npz:
        data = {name: npz[name] for name in npz.files}
    configs = config_features(data)
    shared = np.broadcast_to(graph_features(data), (len(configs), len(graph_features(data))))
    # Against the default measured in turn; lower is faster.
    runtimes = data["config_runtime"] / data["config_runtime_normalizers"]
    return np.concatenate([configs, shared], axis=1), runtimes


def relevance(runtimes):
    """0 for the slowest to LEVELS - 1 for the fastest: ranks, evenly spread."""
    ranks = np.argsort(np.argsort(-runtimes, kind="stable"), kind="stable")
    return ranks * (LEVELS - 1) // max(len(runtimes) - 1, 1)


def train(graphs, seed, rounds):
    features = np.concatenate([f for f, _ in graphs])
    labels = np.concatenate([relevance(r) for _, r in graphs])
    data = lightgbm.Dataset(features, labels, group=[len(r) for _, r in graphs])
    # Gains that grow evenly: the whole order counts, not the top alone.
    options = {"objective": "lambdarank", "label_gain": list(range(LEVELS)),
               "lambdarank_truncation_level": 1000, "learning_rate": 0.05, "num_leaves": 31,
               "min_data_in_leaf": 5, "feature_fraction": 0.7, "bagging_fraction": 0.8,
               "bagging_freq": 1, "num_threads": 1, "seed": seed, "verbose": -1,
               "deterministic": True}
    return lightgbm.train(options, data, num_boost_round=rounds)


def metrics(costs, runtimes):
    """As lagom/rank/metrics.h; pairs in a plain double loop over numpy rows."""
    concordant = discordant = tied_costs = tied_runtimes = ordered = 0
    for i in range(len(costs)):
        a, b = np.sign(costs[i + 1:] - costs[i]), np.sign(runtimes[i + 1:] - runtimes[i])
        concordant += (a * b > 0).sum()
        discordant += (a * b < 0).sum()
        tied_costs += ((a == 0) & (b != 0)).sum()
        tied_runtimes += ((a != 0) & (b == 0)).sum()
        ordered += (b != 0).sum()
    product = float(concordant + discordant + tied_costs) * float(
        concordant + discordant + tied_runtimes)
    order = np.argsort(costs, kind="stable")
    row = {"kendall_tau": float(concordant - discordant) / product**0.5 if product else 0.0,
           "ordered_pair_accuracy": float(concordant / ordered) if ordered else 0.0}
    for k in (1, 5, 10):
        row[f"top{k}_slowdown"] = float(runtimes[order[:k]].min() / runtimes.min())
    return row


def npz_below(folder):
    paths = sorted(pathlib.Path(folder).rglob("*.npz"))
    if not paths:
        raise SystemExit(f"{folder}: holds no npz")
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train", nargs="?", help="folder of npz")
    parser.add_argument("valid", nargs="?", help="folder of npz")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3, help="models whose scores are averaged")
    parser.add_argument("--scores", help="file of lines for `lagom eval --scores`")
    arguments = parser.parse_args()
    if arguments.valid is None:  # as `./run bench` calls every peer
        print("left out: it needs the folders of a measured data set")
        return

    graphs = [read(path) for path in npz_below(arguments.train)]
    graphs = [(features, runtimes) for features, runtimes in graphs if len(runtimes) > 1]
    models = [train(graphs, seed, arguments.rounds) for seed in range(arguments.seeds)]
    rows, lines = [], []
    for path in npz_below(arguments.valid):
        features, runtimes = read(path)
        if len(runtimes) < 2:
            continue
        costs = -np.mean([model.predict(features) for model in models], axis=0)
        rows.append({"id": path.stem, **metrics(costs, runtimes)})
        lines.append(json.dumps({"id": path.stem, "scores": costs.tolist(),
                                 "runtimes": runtimes.tolist()}))
    names = [name for name in rows[0] if name != "id"]
    mean = {name: float(np.mean([row[name] for row in rows])) for name in names}
    print(json.dumps({"graphs": rows, "mean": mean}, indent=2))
    if arguments.scores:
        pathlib.Path(arguments.scores).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
