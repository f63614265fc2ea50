"""`lagom eval` and `lagom submit` against scipy and numpy."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from scipy import stats

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAGOM = os.environ.get("LAGOM", str(ROOT / "build" / "bin" / "lagom"))


def lagom(command, lines, *arguments):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("\n".join(json.dumps(line) for line in lines))
        file.flush()
        return subprocess.run([LAGOM, command, "--scores", file.name, *arguments],
                              capture_output=True, text=True, check=False)


def opa(scores, runtimes):
    s = scores[:, None] > scores[None, :]
    y = runtimes[:, None] > runtimes[None, :]
    return (s & y).sum() / y.sum() if y.any() else 0.0


def slowdown(scores, runtimes, k):
    return runtimes[np.argsort(scores, kind="stable")[:k]].min() / runtimes.min()


class Metrics(unittest.TestCase):
    def test_against_scipy(self):
        random = np.random.default_rng(1)
        lines = []
        for i in range(200):
            n = int(random.integers(2, 300))
            distinct = int(random.integers(1, 400))
            scores = random.integers(0, distinct, n) / 7
            runtimes = (random.integers(1, distinct + 1, n) * 1000 + i).astype(np.float64)
            lines.append({"id": f"layout:xla:random:{i}", "scores": scores.tolist(),
                          "runtimes": runtimes.tolist()})
        result = lagom("eval", lines, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        ours = json.loads(result.stdout)
        taus = []
        for line, graph in zip(lines, ours["graphs"], strict=True):
            scores, runtimes = np.array(line["scores"]), np.array(line["runtimes"])
            tau = stats.kendalltau(scores, runtimes).statistic
            taus.append(0.0 if np.isnan(tau) else tau)
            self.assertAlmostEqual(graph["kendall_tau"], taus[-1], delta=1e-12)
            self.assertAlmostEqual(graph["ordered_pair_accuracy"], opa(scores, runtimes),
                                   delta=1e-12)
            for k in (1, 5, 10):
                self.assertEqual(graph[f"top{k}_slowdown"], slowdown(scores, runtimes, k))
        self.assertAlmostEqual(ours["mean"]["kendall_tau"], np.mean(taus), delta=1e-12)
        self.assertAlmostEqual(ours["collections"]["layout:xla:random"], np.mean(taus), delta=1e-12)

    def test_submission(self):
        random = np.random.default_rng(2)
        lines = [{"id": f"layout:nlp:default:{i}", "scores": random.integers(0, 50, 100).tolist()}
                 for i in range(20)]
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "s.csv")
            self.assertEqual(lagom("submit", lines, "--out", out).returncode, 0)
            rows = pathlib.Path(out).read_text().splitlines()
        self.assertEqual(rows[0], "ID,TopConfigs")
        for line, row in zip(lines, rows[1:], strict=True):
            order = np.argsort(line["scores"], kind="stable")
            self.assertEqual(row, line["id"] + "," + ";".join(map(str, order)))

    def test_placeholder_labels_are_refused(self):
        result = lagom("eval", [{"id": "layout:xla:random:t", "scores": [1, 2], "runtimes": [0, 0]}])
        self.assertEqual(result.returncode, 1)
        self.assertIn("placeholders", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[1:])
