"""Our npy and npz readers against numpy: every dtype, byte order, memory order and shape.

`lagom inspect --stats --json` must give the names, types, shapes, and the least, largest and sum of
the values that numpy computes, and refuse what numpy itself would have to unpickle.
"""

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAGOM = os.environ.get("LAGOM", str(ROOT / "build" / "bin" / "lagom"))
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
SHAPES = [(), (1,), (7,), (0,), (3, 0, 2), (2, 3), (5, 1, 4), (2, 1, 3, 2)]


def inspect(path):
    return subprocess.run([LAGOM, "inspect", "--stats", "--json", str(path)],
                          capture_output=True, text=True, check=False)


def arrays_of(path):
    result = inspect(path)
    assert result.returncode == 0, result.stderr
    return {a["name"]: a for a in json.loads(result.stdout)["arrays"]}


class Npz(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.random = np.random.default_rng(3)

    def tearDown(self):
        self.folder.cleanup()

    def make(self, dtype, shape):
        values = self.random.normal(size=shape) * 50
        if np.dtype(dtype).kind == "u":
            values = np.abs(values)
        return np.asarray(values).astype(dtype)

    def check(self, ours, array, name):
        with self.subTest(name=name):
            self.assertEqual(ours["dtype"], array.dtype.name)
            self.assertEqual(ours["shape"], list(array.shape))
            real = np.real(array).astype(np.float64)
            if array.size:
                self.assertEqual(ours["min"], real.min())
                self.assertEqual(ours["max"], real.max())
            self.assertTrue(math.isclose(ours["sum"], real.sum(), rel_tol=1e-12, abs_tol=1e-9))

    def test_every_type_order_and_shape(self):
        made = {}
        for dtype in DTYPES:
            for order in "<>":
                for layout in "CF":
                    for shape in SHAPES:
                        name = f"{dtype.replace('?', 'b')}{'l' if order == '<' else 'g'}{layout}" \
                               + "x".join(map(str, shape))
                        array = np.asarray(self.make(dtype, shape), order=layout)
                        made[name] = array.astype(np.dtype(dtype).newbyteorder(order),
                                                  order=layout)
        for save in (np.savez, np.savez_compressed):
            save(self.path / "all.npz", **made)
            ours = arrays_of(self.path / "all.npz")
            self.assertEqual(set(ours), set(made))
            for name, array in made.items():
                self.check(ours[name], array, name)

    def test_single_files_of_every_version(self):
        array = self.make("f4", (4, 5))
        for version in ((1, 0), (2, 0), (3, 0)):
            with open(self.path / "one.npy", "wb") as file:
                np.lib.format.write_array(file, array, version=version)
            self.check(arrays_of(self.path / "one.npy")[""], array, version)

    def test_streamed_archives_have_zip64_headers(self):
        array = self.make("i8", (1000,))
        with zipfile.ZipFile(self.path / "z.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            with archive.open("x.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array)
        self.check(arrays_of(self.path / "z.npz")["x"], array, "zip64")

    def test_objects_are_refused_and_never_run(self):
        class Bomb:
            def __reduce__(self):
                return (os.mkdir, (str(folder / "ran"),))

        folder = self.path
        np.savez(self.path / "bad.npz", x=np.array([Bomb()], dtype=object))
        result = inspect(self.path / "bad.npz")
        self.assertEqual(result.returncode, 1)
        self.assertIn("pickle", result.stderr)
        self.assertFalse((folder / "ran").exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[1:])
