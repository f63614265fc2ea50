"""Constants of every element type against XLA's own reader, writer and protos (jaxlib).

XLA's text -> our proto -> XLA, and XLA's proto -> our text -> XLA, give the constant that XLA itself
makes of the text, bit for bit as its proto holds it.
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

from jaxlib import _hlo

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAGOM = os.environ.get("LAGOM", str(ROOT / "build" / "bin" / "lagom"))

CONSTANTS = [
    ("pred[3]", "{1, 0, 1}"), ("pred[]", "true"),
    ("s2[5]", "{1, -2, 0, -1, 1}"), ("u2[4]", "{0, 1, 2, 3}"),
    ("s4[3,3]{0,1}", "{ {1, -2, 3}, {-8, 7, 0}, {-1, 4, -5} }"), ("u4[5]", "{0, 1, 7, 8, 15}"),
    ("s8[2]", "{127, -128}"), ("u8[2]", "{0, 255}"),
    ("s16[2]", "{32767, -32768}"), ("u16[2]", "{0, 65535}"),
    ("s32[2]", "{2147483647, -2147483648}"), ("u32[2]", "{0, 4294967295}"),
    ("s64[2]", "{9223372036854775807, -9223372036854775808}"),
    ("u64[2]", "{18446744073709551615, 0}"),
    ("f32[6]", "{nan, -nan, nan(0x1), -nan(0x7fffff), inf, -inf}"),
    ("f32[4]", "{3.40282347e+38, 1.40129846e-45, -0.0, 0.1}"),
    ("f64[3]", "{1.7976931348623157e+308, 5e-324, nan(0x1)}"),
    ("f16[4]", "{65504, 5.96046448e-08, nan, -inf}"), ("bf16[4]", "{3.38953139e+38, nan, -nan, 0.1}"),
    ("f8e5m2[4]", "{57344, inf, -inf, 1.52587891e-05}"),
    ("f8e4m3[3]", "{240, -inf, 0.001953125}"), ("f8e4m3fn[4]", "{448, -448, nan, 0.001953125}"),
    ("f8e4m3b11fnuz[3]", "{30, -30, 0.5}"), ("f8e5m2fnuz[3]", "{57344, -1, 0.5}"),
    ("f8e4m3fnuz[3]", "{240, -1, 0.5}"), ("f8e3m4[3]", "{15.5, -1, inf}"),
    ("f8e8m0fnu[3]", "{1, 2, 0.5}"), ("f4e2m1fn[8]", "{0, 0.5, 1, 1.5, 2, 3, 4, -6}"),
    ("c64[2]", "{(1, -2), (inf, 0)}"), ("c128[]", "(1e+300, -0.0)"),
    ("f32[0]", "{}"), ("f32[3,0]", "{ {}, {}, {} }"), ("f32[2,0,3]", "{ {  }, {  } }"),
    ("(f32[], s32[2])", "( 1, {2, 3} )"), ("((s4[2]), ())", "( ( {1, -8} ), (  ) )"),
]


def full_text(module):
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    return module.to_string(options).split("\n", 1)[1]


def convert(source, target):
    subprocess.run([LAGOM, "convert", str(source), str(target)], check=True)


class Literals(unittest.TestCase):
    def test_every_constant(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for shape, value in CONSTANTS:
                with self.subTest(shape=shape, value=value):
                    text = f"HloModule m\nENTRY e {{\n ROOT a = {shape} constant({value})\n}}\n"
                    theirs = _hlo.hlo_module_from_text(text)
                    (folder / "xla.hlo").write_text(text)
                    (folder / "xla.pb").write_bytes(theirs.as_serialized_hlo_module_proto())

                    convert(folder / "xla.hlo", folder / "ours.pb")
                    convert(folder / "xla.pb", folder / "ours.hlo")
                    from_proto = _hlo.HloModule.from_serialized_hlo_module_proto(
                        (folder / "ours.pb").read_bytes())
                    from_text = _hlo.hlo_module_from_text((folder / "ours.hlo").read_text())

                    self.assertEqual(full_text(from_proto), full_text(theirs))
                    self.assertEqual(full_text(from_text), full_text(theirs))
                    # Printing hides a NaN's bits and the unused bits of small types; the proto not.
                    again = from_text.as_serialized_hlo_module_proto()
                    self.assertEqual(literal(again), literal((folder / "xla.pb").read_bytes()))
                    self.assertEqual(literal((folder / "ours.pb").read_bytes()),
                                     literal((folder / "xla.pb").read_bytes()))


def fields(message):
    """(number, value) of a protobuf message's fields."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(tag & 7) or varint()
        yield tag >> 3, message[at:at + size]
        at += size


def literal(module):
    """The values of the one constant: LiteralProto without its shape, tuples flattened."""
    [computation] = [v for n, v in fields(module) if n == 3]
    [instruction] = [v for n, v in fields(computation) if n == 2]
    [value] = [v for n, v in fields(instruction) if n == 8]

    def values(message):
        return [values(v) if n == 10 else (n, v) for n, v in fields(message) if n != 1]

    return values(value)


if __name__ == "__main__":
    unittest.main(verbosity=2)
