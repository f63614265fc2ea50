"""The cost model's training step beside the competition's winning network in PyTorch Geometric.

Both take the same weights, graph and configurations, which our benchmark saves, and must give the
same loss and gradients; then their steps, and their ranking, are timed in turn: CPU time of one thread,
which other work on the core disturbs least. Both have taken a step before. Without cross-configuration
attention and dropout; the shapes are our benchmark's.
"""

import json
import os
import pathlib
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from torch_geometric.nn import SAGEConv

from _side_by_side import ROOT, quartiles, self_ratios

BENCH = os.environ.get("COST_MODEL_BENCH", str(ROOT / "build" / "bin" / "cost_model_bench"))
ROUNDS = int(os.environ.get("LAGOM_BENCH_ROUNDS", 2))
CORE = max(os.sched_getaffinity(0))
DTYPES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "I8": torch.int8}


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = torch.frombuffer(bytearray(data[begin:end]),
                                         dtype=DTYPES[entry["dtype"]]).view(entry["shape"]).clone()
    return tensors


class Block(torch.nn.Module):
    """Instance norm over nodes, squeeze-excite, a residual in the graph blocks, GELU."""

    def __init__(self, weights, name):
        super().__init__()
        self.down, self.up = (linear(weights, f"{name}.attention.{part}") for part in ("down", "up"))

    def attend(self, x):
        return x * torch.sigmoid(self.up(F.relu(self.down(x))))


def linear(weights, name):
    weight, bias = weights[name + ".weight"], weights.get(name + ".bias")
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer


def instance_norm(x):  # [C, N, F], over nodes
    return F.instance_norm(x.transpose(1, 2)).transpose(1, 2)


class FirstPlace(torch.nn.Module):
    """The network as its authors wrote it: every configuration has all nodes' inputs."""

    def __init__(self, weights):
        super().__init__()
        self.opcodes = torch.nn.Parameter(weights["input.opcode_embedding"])
        self.layouts = torch.nn.Parameter(weights["input.layout_embedding"])
        node, config = linear(weights, "input.node"), weights["input.config.weight"]
        self.input = torch.nn.Linear(node.in_features + config.shape[1], node.out_features)
        with torch.no_grad():
            self.input.weight.copy_(torch.cat([node.weight, config], 1))
            self.input.bias.copy_(node.bias)
        self.blocks = torch.nn.ModuleList(Block(weights, f"linear.{i}") for i in range(2))
        self.second = linear(weights, "linear.1")
        self.convs, self.tails = torch.nn.ModuleList(), torch.nn.ModuleList()
        for i in range(2):
            conv = SAGEConv(256, 256)
            for layer, part in ((conv.lin_l, "neighbors"), (conv.lin_r, "self")):
                layer.load_state_dict(linear(weights, f"convs.{i}.conv.{part}").state_dict())
            self.convs.append(conv)
            self.tails.append(Block(weights, f"convs.{i}"))
        self.head = linear(weights, "head")

    def forward(self, data):
        configs, nodes = data["layouts"].shape[1], data["node_feat"].shape[0]
        own = F.embedding(data["node_layout"] + 2, self.layouts).flatten(1)
        fixed = torch.cat([data["node_feat"], F.embedding(data["node_opcode"], self.opcodes), own], 1)
        codes = torch.zeros(configs, nodes, 18, dtype=torch.int64)  # -2: not configurable
        codes[:, data["config_nodes"]] = data["layouts"].transpose(0, 1).long() + 2
        x = torch.cat([fixed.expand(configs, -1, -1), F.embedding(codes, self.layouts).flatten(2)], 2)
        x = F.gelu(self.blocks[0].attend(instance_norm(self.input(x))))
        x = F.gelu(self.blocks[1].attend(instance_norm(self.second(x))))
        for conv, tail in zip(self.convs, self.tails):
            x = F.gelu(tail.attend(conv(instance_norm(x), data["edge_index"])) + x)
        return self.head(x.mean(1)).squeeze(-1)


def hinge(costs, runtimes):
    slower = runtimes[:, None] > runtimes[None, :]
    return torch.relu(1 - (costs[:, None] - costs[None, :]))[slower].mean()


def benchmark(name):
    """The figures of our benchmark."""
    result = subprocess.run([BENCH, f"--benchmark_filter={name}", "--benchmark_format=json"],
                            capture_output=True, text=True, check=True,
                            preexec_fn=lambda: os.sched_setaffinity(0, {CORE}))
    return json.loads(result.stdout)["benchmarks"][0]


def seconds_of(work):
    start = time.process_time()
    result = work()
    elapsed = time.process_time() - start
    del result
    return elapsed


def step(model, data, bf16):
    model.zero_grad(set_to_none=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=bool(bf16)):
        costs = model(data)
    loss = hinge(costs.float(), data["runtimes"])
    loss.backward()
    return loss


def rank(model, data, bf16):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=bool(bf16)):
        return model(data)


def compare(name, filter_, theirs):
    """Prints seconds and ratios; our peaks of memory in MB."""
    own, others, peaks = [], [], []
    for _ in range(2 * ROUNDS):
        figures = benchmark(filter_)
        own.append(figures["cpu_time"] / 1e3)
        peaks.append(figures.get("peak_MB", 0))
        others.append(seconds_of(theirs))
    print(f"  {name}: ours {statistics.median(own):.2f} s, PyG {statistics.median(others):.2f} s; "
          f"PyG / ours {quartiles([t / o for o, t in zip(own, others)])}, ours / ours "
          f"{quartiles(self_ratios(own))}, PyG / PyG {quartiles(self_ratios(others))}", flush=True)
    return peaks


def main():
    os.sched_setaffinity(0, {CORE})
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "step.safetensors")
        subprocess.run([BENCH, "--benchmark_filter=BM_TrainingStep/bf16:0/cross:0/fused:1/"],
                       env={**os.environ, "LAGOM_BENCH_SAVE": path}, check=True,
                       capture_output=True)
        data = read_safetensors(path)
    # The workload has some edges twice, which our batches have once.
    data["edge_index"] = torch.unique(data["edge_index"], dim=1)
    weights = {name[len("model."):]: value for name, value in data.items()
               if name.startswith("model.")}
    model = FirstPlace(weights)
    loss = step(model, data, 0)
    want, norm = data["loss"].item(), data["head_gradient"].norm().item()
    found = model.head.weight.grad.norm().item()
    print(f"  loss: ours {want:.7f}, PyG {loss.item():.7f}; "
          f"|head gradient|: ours {norm:.6e}, PyG {found:.6e}")
    if abs(loss.item() - want) > 1e-6 * abs(want) or abs(found - norm) > 1e-4 * norm:
        sys.exit("first_place_peer: the two networks differ")
    for bf16 in (0, 1):
        name = "bfloat16 products" if bf16 else "float32"
        peaks = compare(f"training step, {name}",
                        f"BM_TrainingStep/bf16:{bf16}/cross:0/fused:1/",
                        lambda: step(model, data, bf16))
        print(f"  peak memory: ours {max(peaks):.0f} MB, "
              f"PyG {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
        compare(f"ranking 64 configurations, {name}", f"BM_Ranking/bf16:{bf16}/",
                lambda: rank(model, data, bf16))


if __name__ == "__main__":
    main()
