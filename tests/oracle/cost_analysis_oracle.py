"""Our cost analysis against XLA's HloCostAnalysis (jaxlib), on every example program.

Programs with loops are left out, as XLA counts one iteration and we count all of them, and so are
those with FFTs, whose operations we count differently (see lagom/hlo/cost_analysis.h).
"""

import glob
import gzip
import json
import os
import pathlib
import subprocess
import sys
import unittest

import jax
from jaxlib import _hlo, _jax

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAGOM = os.environ.get("LAGOM", str(ROOT / "build" / "bin" / "lagom"))
DATA = pathlib.Path(os.environ.get("LAGOM_TEST_DATA", ROOT / "data"))
# XLA adds up in float32.
TOLERANCE = 1e-5


class CostAnalysis(unittest.TestCase):
    def test_programs(self):
        client = jax.devices("cpu")[0].client
        compared = 0
        for path in sorted(glob.glob(str(DATA / "programs" / "*.hlo.pb.gz"))):
            result = subprocess.run([LAGOM, "inspect", "--json", path], capture_output=True,
                                    text=True, check=True)
            ours = json.loads(result.stdout)
            ours = ours[0] if isinstance(ours, list) else ours
            self.assertNotIn("problem", ours, path)
            if any(opcode in ours["opcodes"] for opcode in ("while", "fft")):
                continue
            module = _hlo.HloModule.from_serialized_hlo_module_proto(gzip.open(path).read())
            theirs = _jax.hlo_module_cost_analysis(client, module)
            with self.subTest(path=path):
                for name, key in (("flops", "flops"), ("transcendentals", "transcendentals"),
                                  ("bytes_accessed", "bytes accessed")):
                    expected = theirs.get(key, 0)
                    self.assertAlmostEqual(ours[name], expected, msg=name,
                                           delta=TOLERANCE * abs(expected))
            compared += 1
        self.assertGreater(compared, 20)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[1:])
