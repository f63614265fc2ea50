"""npz readers side by side: numpy and ours, on files like TpuGraphs', one core, in turn.

`./run bench` calls it after the C++ benchmarks. The largest layout file that the data set could have
is made compact first, and its peak memory stated.
"""

import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import zipfile

import _side_by_side as side_by_side
import numpy as np
from _side_by_side import LAGOM, benchmark, seconds_of

CONFIGS = int(os.environ.get("LAGOM_BENCH_CONFIGS", 100000))
CONFIG_NODES = int(os.environ.get("LAGOM_BENCH_CONFIG_NODES", 200))


def graph_arrays(random, nodes):
    features = np.zeros((nodes, 140), np.float32)
    features[:, 21:29] = random.integers(0, 1024, (nodes, 8))
    features[np.arange(nodes), random.integers(2, 20, nodes)] = 1
    edges = np.stack([np.arange(1, nodes), random.integers(0, np.arange(1, nodes))], axis=1)
    return {"node_opcode": random.integers(1, 120, nodes).astype(np.uint8),
            "node_feat": features, "edge_index": edges.astype(np.int64),
            "node_splits": np.array([[0, nodes]])}


def layouts(random, configs, nodes):
    """Some nodes change from one configuration to the next, as in a search."""
    choices = np.full((64, 18), -1, np.float32)
    for choice in choices:
        for tensor in range(3):
            rank = random.integers(2, 6)
            choice[6 * tensor:6 * tensor + rank] = random.permutation(rank)
    codes = random.integers(0, 64, (1, nodes)).repeat(configs, axis=0)
    changed = random.random((configs, nodes)) < 0.2
    codes[changed] = random.integers(0, 64, changed.sum())
    return choices[codes]


def numpy_load(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def compare(name, path, core):
    size = sum(array.nbytes for array in numpy_load(path).values())

    def ours():
        entry = benchmark("BM_ReadNpz", "LAGOM_BENCH_NPZ", path, core)
        read = int(entry["bytes"])
        assert read == size, (read, size)
        return entry["real_time"] / 1e3

    side_by_side.compare(name, "numpy", ours, lambda: seconds_of(lambda: numpy_load(path)),
                         lambda middle: f"{middle * 1e3:.2f} ms, {size / middle / 1e6:.0f} MB/s")


def large_layout_file(path, random):
    """Written in pieces: it does not fit into memory either."""
    nodes, piece = 10000, 1000
    np.savez_compressed(path, **graph_arrays(random, nodes),
                        node_config_ids=np.sort(random.permutation(nodes)[:CONFIG_NODES]),
                        config_runtime=random.integers(10**6, 10**7, CONFIGS))
    header = (f"{{'descr': '<f4', 'fortran_order': False, "
              f"'shape': ({CONFIGS}, {CONFIG_NODES}, 18), }}")
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("node_config_feat.npy", "w", force_zip64=True) as member:
            member.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") +
                         header.encode())
            for begin in range(0, CONFIGS, piece):
                rows = layouts(random, min(piece, CONFIGS - begin), CONFIG_NODES)
                member.write(rows.astype("<f4").tobytes())


def transcode_large(folder, random):
    path, out = folder / "large.npz", folder / "large.graph"
    large_layout_file(path, random)
    seconds = seconds_of(lambda: subprocess.run([LAGOM, "convert", path, out], check=True))
    inflated = CONFIGS * CONFIG_NODES * 18 * 4
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    print(f"  transcode of 10000 nodes x {CONFIGS} configurations of {CONFIG_NODES} nodes: "
          f"{seconds:.1f} s, {inflated / 1e9:.2f} GB inflated, npz "
          f"{path.stat().st_size / 1e6:.0f} MB, compact {out.stat().st_size / 1e6:.0f} MB, "
          f"peak memory at most {peak:.0f} MB")


def main():
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    random = np.random.default_rng(0)
    print(f"npz readers, core {core}, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # First: the peak is that of all children so far.
        transcode_large(folder, random)
        np.savez_compressed(folder / "tile.npz", **graph_arrays(random, 60),
                            config_feat=random.integers(0, 64, (2000, 24)).astype(np.float32),
                            config_runtime=random.integers(1000, 10**6, 2000),
                            config_runtime_normalizers=np.full(2000, 5000))
        compare("tile kernel", folder / "tile.npz", core)
        np.savez_compressed(folder / "layout.npz", **graph_arrays(random, 10000),
                            node_config_ids=np.arange(166),
                            node_config_feat=layouts(random, 5000, 166),
                            config_runtime=random.integers(10**6, 10**7, 5000))
        compare("layout graph", folder / "layout.npz", core)


if __name__ == "__main__":
    sys.exit(main())
