"""HLO readers side by side: XLA's parser (jaxlib) and ours, on one large module, one core, in turn.

`./run bench` calls it after the C++ benchmarks. Our times include freeing the module, XLA's do not.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import _side_by_side as side_by_side
from _side_by_side import LAGOM, ROOT, benchmark, seconds_of
from jaxlib import _hlo

INSTRUCTIONS = int(os.environ.get("LAGOM_BENCH_INSTRUCTIONS", 40000))


def large_text():
    """A real training step's computations, repeated under other names."""
    program = ROOT / "data" / "programs" / "bart_b1_32_train.hlo.pb.gz"
    with tempfile.TemporaryDirectory() as folder:
        text_path = pathlib.Path(folder) / "bart.hlo"
        subprocess.run([LAGOM, "convert", str(program), str(text_path)], check=True)
        # As XLA prints it: operand shapes, signatures, all constants.
        options = _hlo.HloPrintOptions()
        options.print_large_constants = True
        text = _hlo.hlo_module_from_text(text_path.read_text()).to_string(options)
    header, body = text.split("\n\n", 1)
    # Tables of source positions stand once, in front of the computations.
    tables = ""
    if body.lstrip().startswith("FileNames"):
        first = re.search(r"^(?:ENTRY )?%?[\w.-]+ .*\{$", body, re.M).start()
        tables, body = body[:first], body[first:]
    per_copy = len(re.findall(r"^\s+(?:ROOT )?%?[\w.-]+ = ", body, re.M))
    copies = -(-INSTRUCTIONS // per_copy)
    parts = []
    for copy in range(copies):
        part = re.sub(r"%([\w.-]+)", rf"%\1.c{copy}", body)
        parts.append(part if copy == copies - 1 else part.replace("ENTRY ", "", 1))
    return "\n\n".join([header, tables] + parts), copies * per_copy


def compare(name, path, xla, size, instructions, core):
    def ours():
        entry = benchmark("BM_ReadHloFile", "LAGOM_BENCH_HLO", path, core)
        read = int(entry["instructions"])
        assert read == instructions, (read, instructions)
        return entry["real_time"] / 1e3

    def describe(middle):
        return (f"{middle * 1e3:.1f} ms, {middle / instructions * 1e9:.0f} ns per instruction, "
                f"{size / middle / 1e6:.0f} MB/s")

    side_by_side.compare(name, "XLA", ours, lambda: seconds_of(xla), describe)


def main():
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    text, instructions = large_text()
    module = _hlo.hlo_module_from_text(text)
    proto = module.as_serialized_hlo_module_proto()
    del module
    print(f"HLO readers on {instructions} instructions, text {len(text) / 1e6:.1f} MB, "
          f"proto {len(proto) / 1e6:.1f} MB, core {core}, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        text_path = pathlib.Path(folder) / "large.hlo"
        text_path.write_text(text)
        proto_path = pathlib.Path(folder) / "large.pb"
        proto_path.write_bytes(proto)
        compare("text", text_path, lambda: _hlo.hlo_module_from_text(text), len(text),
                instructions, core)
        compare("proto", proto_path,
                lambda: _hlo.HloModule.from_serialized_hlo_module_proto(proto), len(proto),
                instructions, core)


if __name__ == "__main__":
    sys.exit(main())
