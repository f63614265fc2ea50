#!/usr/bin/env python3
"""Layout graphs with a known rule, of real programs: npz files of programs in, files of TpuGraphs' form out.

About 40 nodes of a graph get a layout in each of 100 random configurations. A
configuration's runtime is the sum over these nodes of w (1 + m): w is 1 + log(1 + degree) times a
weight by opcode, m is 1 where the layout begins with another dimension than the opcode prefers. So
each part of the graph has its share in the ranking, and neighbours count.

With JOINED_NODES each graph is several of these programs side by side, drawn until there are so many
nodes: the size of the largest graphs of TpuGraphs. A program is of one split only.

usage: layout_rule.py FOLDER_OF_NPZ OUT [LEAST_NODES [JOINED_NODES]]
"""
import pathlib
import sys

import numpy as np


def label(path, rng):
    """The program's graph with layouts of about 40 nodes and the runtimes of 100 configurations."""
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
    return graph


def join(graphs):
    """The graphs side by side: ids shifted, runtimes summed."""
    starts = np.cumsum([0] + [len(graph["node_opcode"]) for graph in graphs[:-1]])
    joined = dict(graphs[0])
    for name in ["edge_index", "node_splits", "node_config_ids"]:
        axis = 1 if name == "node_splits" else 0
        shifted = [graph[name] + start for graph, start in zip(graphs, starts)]
        joined[name] = np.concatenate(shifted, axis=axis)
    for name in ["node_opcode", "node_feat"]:
        joined[name] = np.concatenate([graph[name] for graph in graphs])
    joined["node_config_feat"] = np.concatenate([g["node_config_feat"] for g in graphs], axis=1)
    joined["config_runtime"] = sum(graph["config_runtime"] for graph in graphs)
    return joined


def graphs_of(programs, joined_nodes, rng):
    """(name, graph) of each program; or joined graphs, two for three programs."""
    if not joined_nodes:
        for path in programs:
            yield path.name, label(path, rng)
        return
    for number in range(2 * len(programs) // 3):
        parts = []
        while sum(len(part["node_opcode"]) for part in parts) < joined_nodes:
            parts.append(label(programs[rng.integers(len(programs))], rng))
        yield f"joined_{number}.npz", join(parts)


def main():
    if len(sys.argv) < 3:  # as `./run bench` calls every peer
        print("left out: it needs a folder of npz and one for what it makes")
        return
    source, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    least = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    joined_nodes = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    rng = np.random.default_rng(1)
    paths = [p for p in sorted(source.glob("*.npz")) if len(np.load(p)["node_opcode"]) >= least]
    valid = paths[2::3]
    for split, programs in ("train", [p for p in paths if p not in valid]), ("valid", valid):
        folder = out / "layout/xla/random" / split
        folder.mkdir(parents=True, exist_ok=True)
        for name, graph in graphs_of(programs, joined_nodes, rng):
            np.savez_compressed(folder / name, **graph)
    print(f"{len(paths)} programs in {out}")


if __name__ == "__main__":
    main()
