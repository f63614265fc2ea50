"""Programs compiled by XLA: ours against XLA's own conversion, and tuned results run from JAX.

* A program that went text -> our reader -> our proto gives bit-identical outputs to the same text
  converted by jaxlib, both compiled and run by the plugin.
* The lines of docs/using-the-result.md run a tuned program in JAX, with the numbers of the original.
"""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from jaxlib import _hlo

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAGOM = os.environ.get("LAGOM", str(ROOT / "build" / "bin" / "lagom"))
PROGRAMS = ROOT / "data" / "programs"
sys.path.insert(0, str(ROOT / "examples"))
import run_tuned  # noqa: E402

# Small, quick, of different families; texts with loops, gathers and shardings below.
NAMES = os.environ.get("LAGOM_ORACLE_PROGRAMS", " ".join([
    "cnn3d_ct_b1_32_train", "eqx_gru_rnn_b64_t24_infer", "fcn_timeseries_b4_500_infer",
    "flax_ogbg_graphnet_256n_train", "gmlp_b8_64_infer", "hk_mobilenet_v1_b1_96_infer",
    "jraph_sat_512n_train", "mobilenet_v2_bf16_b1_64_infer", "vit_b2_96_infer"])).split()
TEXTS = ["bench_scan_N2000_M3.hlo", "sharded_computation.hlo", "resnet50_keras_jax_f32.hlo",
         "while_with_known_trip_count_noheader.hlo"]


def lagom(*args):
    result = subprocess.run([LAGOM, *map(str, args)], capture_output=True, text=True)
    if result.returncode != 0:
        raise AssertionError(f"lagom {' '.join(map(str, args))}: {result.stderr}{result.stdout}")
    return result.stdout


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def check_identical(self, name, module):
        options = _hlo.HloPrintOptions()
        options.print_large_constants = True
        (self.folder / "program.hlo").write_text(module.to_string(options))
        reference = _hlo.hlo_module_from_text((self.folder / "program.hlo").read_text())
        (self.folder / "xla.pb").write_bytes(reference.as_serialized_hlo_module_proto())
        lagom("convert", self.folder / "program.hlo", self.folder / "ours.pb")
        answer = json.loads(lagom("run", self.folder / "xla.pb", "--compare",
                                  self.folder / "ours.pb", "--json", "--budget-seconds", "0.1"))
        self.assertTrue(answer["outputs_identical"], (name, answer))

    def test_programs_give_identical_outputs(self):
        for name in NAMES:
            with self.subTest(name=name):
                proto = gzip.open(PROGRAMS / f"{name}.hlo.pb.gz").read()
                self.check_identical(name, _hlo.HloModule.from_serialized_hlo_module_proto(proto))

    def test_texts_give_identical_outputs(self):
        for name in TEXTS:
            with self.subTest(name=name):
                text = (ROOT / "data" / "hlo" / name).read_text()
                self.check_identical(name, _hlo.hlo_module_from_text(text))

    def test_tuned_program_runs_in_jax(self):
        name = "mobilenet_v3_small_b4_96_infer"
        lagom("tune", PROGRAMS / f"{name}.hlo.pb.gz", "--out", self.folder, "--budget-seconds", "25",
              "--database", "none", "--strategy", "greedy", "--quiet")
        original = self.folder / "original.hlo.pb"
        original.write_bytes(gzip.open(PROGRAMS / f"{name}.hlo.pb.gz").read())
        tuned = self.folder / f"{name}.tuned.hlo.pb"
        flags = self.folder / f"{name}.flags.json"
        random = np.random.default_rng(0)
        shapes = run_tuned.parameter_shapes(original)
        self.assertEqual(shapes, run_tuned.parameter_shapes(tuned))
        inputs = [random.uniform(-0.1, 0.1, dims).astype(dtype) if len(dims) > 1 else
                  random.uniform(0.5, 1.5, dims).astype(dtype) for dims, dtype in shapes]
        expected = run_tuned.load(original)(*inputs)
        found = run_tuned.load(tuned, flags)(*inputs)
        self.assertEqual(len(expected), len(found))
        for e, f in zip(expected, found):
            e, f = np.asarray(e), np.asarray(f)
            np.testing.assert_allclose(f, e, rtol=0, atol=1e-4 * np.abs(e).max())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[1:])
