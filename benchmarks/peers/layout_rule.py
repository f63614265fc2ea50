#!/usr/bin/env python3
"""Layout graphs with a known rule, of real programs: npz files of programs in, files of TpuGraphs' form out.

About 40 nodes of a graph get a layout in each of 100 random configurations. A
configuration's runtime is the sum over these nodes of w (1 + m): w is 1 + log(1 + degree) times a
weight by opcode, m is 1 where the layout begins with another dimension than the opcode prefers. So
each part of the graph has its share in the ranking, and neighbours count.

usage: layout_rule.py FOLDER_OF_NPZ OUT [LEAST_NODES]
"""
import pathlib
import sys

import numpy as np


def make(path, out, rng):
    graph = dict(np.load(path))
    nodes = len(graph["node_opcode"])
    opcode = graph["node_opcode"].astype(np.int64)
    degree = np.bincount(graph["edge_index"].reshape(-1), minlength=nodes)
    ids = np.arange(0, nodes, max(12, nodes // 40), dtype=np.int64)
    layouts = rng.integers(-1, 4, size=(100, len(ids), 18)).astype(np.float32)
    weight = (1 + np.log1p(degree[ids])) * (1 + opcode[ids] * 7 % 5)
    mismatch = layouts[:, :, 0] != (opcode[ids] % 4)[None, :]
    runtime = ((weight * (1 + mismatch)).sum(1) * 1000).astype(np.int64)
    graph.update(node_config_ids=ids, node_config_feat=layouts, config_runtime=runtime)
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out, **graph)


def main():
    source, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    least = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    rng = np.random.default_rng(1)
    number = 0
    for path in sorted(source.glob("*.npz")):
        if len(np.load(path)["node_opcode"]) < least:
            continue
        split = "valid" if number % 3 == 2 else "train"
        make(path, out / "layout/xla/random" / split / path.name, rng)
        number += 1
    print(f"{number} graphs in {out}")


if __name__ == "__main__":
    main()
