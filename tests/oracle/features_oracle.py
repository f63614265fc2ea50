"""TpuGraphs' arrays as `lagom convert` writes them, read by numpy: md5 sums of the raw samples.

The sums are those of an independent implementation of the data set's encoder.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAGOM = os.environ.get("LAGOM", str(ROOT / "build" / "bin" / "lagom"))
SAMPLES = ROOT / "data" / "tpugraphs"


def convert(sample, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([LAGOM, "convert", str(SAMPLES / sample), f"{folder}/out.npz", *arguments],
                       check=True, capture_output=True)
        return {path.stem: dict(np.load(path)) for path in pathlib.Path(folder).glob("*.npz")}


def md5(array):
    return hashlib.md5(np.ascontiguousarray(array).tobytes()).hexdigest()


class Features(unittest.TestCase):
    def test_layout_sample(self):
        arrays = convert("module_tuning_data_layout.pb")["out"]
        self.assertEqual(md5(arrays["node_feat"]), "83e5738e35ae053de7a7999530ffe849")
        self.assertEqual(md5(arrays["node_opcode"]), "6711175a2823a366c8ae8d98aa830974")
        self.assertEqual(md5(arrays["edge_index"]), "c371d6a4aeeaca82261e152b6fa3b823")
        sorted_edges = convert("module_tuning_data_layout.pb", "--sort-edges")["out"]["edge_index"]
        self.assertEqual(md5(sorted_edges), "630119e3c960e91ca819e2757df5cad5")
        expected = {"node_opcode": ("uint8", (3163,)), "node_feat": ("float32", (3163, 140)),
                    "edge_index": ("int64", (5112, 2)), "node_splits": ("int64", (1, 8)),
                    "config_runtime": ("int64", (112,)),
                    "config_runtime_normalizers": ("int64", (112,)),
                    "node_config_ids": ("int64", (62,)),
                    "node_config_feat": ("float32", (112, 62, 18)),
                    "feature_version": ("int32", ()), "list_padding": ("int32", ())}
        self.assertEqual({n: (a.dtype.name, a.shape) for n, a in arrays.items()}, expected)

    def test_second_feature_set_begins_with_the_first(self):
        first = convert("module_tuning_data_layout.pb")["out"]
        second = convert("module_tuning_data_layout.pb", "--features", "2")["out"]
        self.assertEqual(second["feature_version"], 2)
        self.assertEqual(second["node_feat"].shape, (3163, 275))
        np.testing.assert_array_equal(second["node_feat"][:, :140], first["node_feat"])

    def test_tile_sample(self):
        files = convert("op_tuning_data.pb")
        self.assertEqual(len(files), 15)
        self.assertEqual(sum(len(a["config_runtime"]) for a in files.values()), 752)
        self.assertEqual(sum(len(a["node_opcode"]) for a in files.values()), 294)
        for arrays in files.values():
            self.assertEqual(arrays["config_feat"].shape, (len(arrays["config_runtime"]), 24))
            self.assertEqual(arrays["node_splits"].tolist(), [[0, len(arrays["node_opcode"])]])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[1:])
