"""Compact graphs as docs/formats.md describes their bytes, read by numpy, against the npz.

Also the statistics of the training columns, repeats and noise, against numpy's on the npz.
"""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAGOM = os.environ.get("LAGOM", str(ROOT / "build" / "bin" / "lagom"))
SAMPLES = ROOT / "data" / "tpugraphs"
DTYPES = {1: "?", 2: "i1", 3: "i2", 4: "i4", 5: "i8", 6: "u1", 7: "u2", 8: "u4", 9: "u8",
          11: "f4", 12: "f8"}


def lagom(*arguments):
    result = subprocess.run([LAGOM, *map(str, arguments)], capture_output=True, text=True)
    if result.returncode != 0:
        raise AssertionError(f"lagom {arguments}: {result.stderr}")
    return result.stdout


def read_compact(path):
    """By the byte layout of docs/formats.md."""
    data = path.read_bytes()
    magic, version, count, directory, size, crc, header_crc = struct.unpack_from("<8sIIQQII", data)
    assert magic == b"LGMARRAY" and version == 1 and size == len(data)
    assert zlib.crc32(data[:36]) == header_crc and zlib.crc32(data[directory:]) == crc
    arrays = {}
    for at in range(directory, directory + 96 * count, 96):
        name, kind, rank, *dims, offset, checksum, _ = struct.unpack_from("<40sII4qQII", data, at)
        array = np.frombuffer(data, DTYPES[kind], int(np.prod(dims[:rank])), offset)
        assert offset % 64 == 0 and zlib.crc32(array.tobytes()) == checksum
        arrays[name.rstrip(b"\0").decode()] = array.reshape(dims[:rank])
    return arrays


class Cache(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.npz = self.folder / "npz" / "layout/xla/random/train"
        self.npz.mkdir(parents=True)
        self.tiles = self.folder / "npz" / "tile/xla/train"
        self.tiles.mkdir(parents=True)
        lagom("convert", SAMPLES / "module_tuning_data_layout.pb", self.npz / "a.4x4.npz")
        lagom("convert", SAMPLES / "op_tuning_data.pb", self.tiles / "net_k.npz")
        # As numpy writes them, with some rows more.
        arrays = dict(np.load(self.npz / "a.4x4.npz"))
        rows = np.random.default_rng(5).integers(0, 112, 300)
        for name in ("node_config_feat", "config_runtime", "config_runtime_normalizers"):
            arrays[name] = arrays[name][rows]
        arrays["config_runtime"] = arrays["config_runtime"] + np.arange(300)
        np.savez_compressed(self.npz / "b.4x4.npz", **arrays)
        # Column by column, and as integers.
        arrays["node_config_feat"] = np.asfortranarray(arrays["node_config_feat"].astype(">i2"))
        np.savez(self.npz / "c.4x4.npz", **arrays)
        lagom("convert", self.folder / "npz", self.folder / "out")

    def compact(self, path):
        return self.folder / "out" / path.relative_to(self.folder / "npz").with_suffix(".graph")

    def test_arrays_are_those_of_the_npz(self):
        for path in list(self.npz.iterdir()) + list(self.tiles.iterdir()):
            with self.subTest(path=path.name):
                expected = dict(np.load(path))
                found = read_compact(self.compact(path))
                if "node_config_feat" in expected:
                    codes = found.pop("node_config_codes")
                    self.assertEqual(codes.dtype, np.uint16)
                    found["node_config_feat"] = found.pop("node_config_layouts")[codes]
                found.pop("graph_cache"), found.pop("source")
                expected["node_splits"] = expected["node_splits"].reshape(-1)
                self.assertEqual(set(found), set(expected))
                for name, array in expected.items():
                    np.testing.assert_array_equal(found[name], array, name)

    def test_statistics_of_the_training_columns(self):
        found = json.loads(lagom("inspect", self.folder / "out", "--stats", "--json"))["statistics"]
        for collection, folder in (("layout:xla:random", self.npz), ("tile:xla", self.tiles)):
            files = [dict(np.load(path)) for path in folder.iterdir()]
            statistics, = [s for s in found if s["collection"] == collection]
            configs = "node_config_feat" if collection.startswith("layout") else "config_feat"
            for ours, theirs in (("node_feat", "node_feat"), ("config_feat", configs)):
                rows = np.concatenate([f[theirs].reshape(-1, f[theirs].shape[-1]) for f in files])
                rows = rows.astype(np.float64)
                for key, expected in (("min", rows.min(0)), ("max", rows.max(0)),
                                      ("mean", rows.mean(0)), ("deviation", rows.std(0))):
                    values = [column[key] for column in statistics[ours]]
                    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)

    def test_repeats_and_noise(self):
        audits = json.loads(lagom("inspect", self.folder / "out", "--audit", "--json"))["audit"]
        for path in list(self.npz.iterdir()) + list(self.tiles.iterdir()):
            arrays = dict(np.load(path))
            is_layout = "node_config_feat" in arrays
            configs = arrays["node_config_feat" if is_layout else "config_feat"]
            times = arrays["config_runtime"].astype(np.float64)
            if not is_layout:
                times = times / arrays["config_runtime_normalizers"]
            _, groups = np.unique(configs.reshape(len(configs), -1), axis=0, return_inverse=True)
            groups = groups.reshape(-1)
            squares, repeats, spread = 0.0, 0, 0.0
            for group in range(groups.max() + 1):
                values = times[groups == group]
                squares += ((values / values.mean() - 1) ** 2).sum()
                repeats += len(values) - 1
                spread = max(spread, values.max() / values.min() - 1)
            prefix = "layout:xla:random:" if is_layout else "tile:xla:"
            audit, = [a for a in audits if a["id"] == prefix + path.name.removesuffix(".npz")]
            with self.subTest(path=path.name):
                self.assertEqual(audit["distinct"], groups.max() + 1)
                noise = np.sqrt(squares / repeats) if repeats else 0
                self.assertAlmostEqual(audit["noise"], noise, delta=1e-12)
                self.assertAlmostEqual(audit["largest_repeat_spread"], spread, delta=1e-12)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[1:])
