"""Our HLO text and proto forms against XLA's own parser, printer and proto reader (jaxlib).

For every example program: XLA's text -> our reader -> our proto -> XLA gives the module that XLA's
own parser makes of the text, compared as XLA prints it with all constants; and XLA's proto and text
of one module give the same module to our readers.
"""

import glob
import gzip
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from jaxlib import _hlo

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAGOM = os.environ.get("LAGOM", str(ROOT / "build" / "bin" / "lagom"))
DATA = pathlib.Path(os.environ.get("LAGOM_TEST_DATA", ROOT / "data"))


def read(path):
    return gzip.open(path).read() if str(path).endswith(".gz") else pathlib.Path(path).read_bytes()


def full_text(module):
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    options.print_percent = True
    return module.to_string(options)


def convert(source, target):
    result = subprocess.run([LAGOM, "convert", str(source), str(target)], capture_output=True,
                            text=True)
    if result.returncode != 0:
        raise AssertionError(f"{source}: {result.stderr.strip()}")


def without_header(text):
    """The header line holds options that only text has; ids differ nowhere else."""
    return text.split("\n", 1)[1]


def blocks(path):
    return sorted(block.strip() for block in without_header(path.read_text()).split("\n\n"))


class HloFormats(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return pathlib.Path(self.folder.name) / name

    def check_module(self, name, module):
        text = full_text(module)
        self.path("xla.hlo").write_text(text)
        self.path("xla.pb").write_bytes(module.as_serialized_hlo_module_proto())
        # XLA's parser applied to XLA's text: printing is not a fixed point there for all modules.
        expected = full_text(_hlo.hlo_module_from_text(text))

        convert(self.path("xla.hlo"), self.path("ours.pb"))
        ours = _hlo.HloModule.from_serialized_hlo_module_proto(self.path("ours.pb").read_bytes())
        self.assertEqual(without_header(full_text(ours)), without_header(expected), name)

        convert(self.path("xla.pb"), self.path("from_proto.hlo"))
        convert(self.path("xla.hlo"), self.path("from_text.hlo"))
        # XLA orders computations differently in its two forms; each has callees first.
        self.assertEqual(blocks(self.path("from_proto.hlo")), blocks(self.path("from_text.hlo")),
                         name)

        again = full_text(_hlo.hlo_module_from_text(self.path("from_proto.hlo").read_text()))
        self.assertEqual(without_header(again), without_header(expected), name)

    def test_texts(self):
        for path in sorted(glob.glob(str(DATA / "hlo" / "*"))):
            text = read(path).decode()
            if "{...}" in text:
                continue  # constants without values
            try:
                module = _hlo.hlo_module_from_text(text)
            except Exception:  # XLA itself refuses it
                print("XLA refuses", path)
                continue
            with self.subTest(path=path):
                convert(path, self.path("ours.pb"))
                ours = _hlo.HloModule.from_serialized_hlo_module_proto(
                    self.path("ours.pb").read_bytes())
                self.assertEqual(without_header(full_text(ours)),
                                 without_header(full_text(module)))
                self.check_module(path, module)

    def test_programs(self):
        paths = sorted(glob.glob(str(DATA / "programs" / "*.hlo.pb.gz")))
        self.assertGreater(len(paths), 20)
        for path in paths:
            with self.subTest(path=path):
                module = _hlo.HloModule.from_serialized_hlo_module_proto(read(path))
                self.check_module(path, module)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"] + sys.argv[1:])
