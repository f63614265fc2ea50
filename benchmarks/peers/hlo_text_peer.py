"""HLO readers side by side: XLA's parser (jaxlib) and ours, on one large module, one core, in turn.

`./run bench` calls it after the C++ benchmarks. Each round times ours, XLA, ours, XLA; the ratios
of the two equal times are what the machine's noise makes of equal work. Our times include freeing
the module, XLA's do not.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from jaxlib import _hlo

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = os.environ.get("LAGOM_BENCH", str(ROOT / "build" / "bin" / "lagom_bench"))
LAGOM = os.environ.get("LAGOM", str(ROOT / "build" / "bin" / "lagom"))
INSTRUCTIONS = int(os.environ.get("LAGOM_BENCH_INSTRUCTIONS", 40000))
ROUNDS = int(os.environ.get("LAGOM_BENCH_ROUNDS", 9))


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


def seconds_of(work):
    start = time.perf_counter()
    result = work()
    elapsed = time.perf_counter() - start
    del result
    return elapsed


def ours(path, core):
    """Median seconds of reading the file once, of some repetitions in a process of its own."""
    command = [BENCH, "--benchmark_filter=BM_ReadHloFile", "--benchmark_format=json",
               "--benchmark_min_time=0.2"]
    result = subprocess.run(command, capture_output=True, text=True, check=True,
                            env={**os.environ, "LAGOM_BENCH_HLO": str(path)},
                            preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    entry = json.loads(result.stdout)["benchmarks"][0]
    return entry["real_time"] / 1e3, int(entry["instructions"])


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]"


def self_ratios(times):
    return [second / first for first, second in zip(times[::2], times[1::2])]


def compare(name, path, xla, size, instructions, core):
    ours(path, core), seconds_of(xla)  # once for the caches
    own, theirs = [], []
    for _ in range(2 * ROUNDS):
        seconds, read = ours(path, core)
        own.append(seconds)
        theirs.append(seconds_of(xla))
    assert read == instructions, (read, instructions)
    for who, times in (("XLA", theirs), ("ours", own)):
        middle = statistics.median(times)
        print(f"  {name}, {who}: {middle * 1e3:.1f} ms, {middle / instructions * 1e9:.0f} ns per "
              f"instruction, {size / middle / 1e6:.0f} MB/s")
    print(f"  {name}, median and quartiles of {ROUNDS} rounds: ours / XLA "
          f"{quartiles([o / t for o, t in zip(own, theirs)])}, ours / ours "
          f"{quartiles(self_ratios(own))}, XLA / XLA {quartiles(self_ratios(theirs))}")


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
