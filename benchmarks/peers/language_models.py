"""Language models beside PyTorch (nanoGPT-style), Hugging Face transformers and CTranslate2.

One run on the same cores: every contender is timed in turn, round after round. Training steps at
d 256, 6 blocks, 8 x 256 tokens; decoding of one GPT-2 model (124 million random parameters) that all
read from the same file and must continue alike; a small model; routed against dense; prompts.

    LAGOM_BENCH_THREADS=2   threads, and cores (1)
    LAGOM_BENCH_ROUNDS=5    rounds (3)
    LAGOM_BENCH_GROUPS=train,compile,gpt2,small,routed,prompt   which comparisons (all); `compile`
                            adds torch.compile to `train`: minutes of compiling, once and for all
    LAGOM_BENCH_CPU_TIME=1  CPU time of the process in place of time on the clock: for one thread on
                            a machine that is busy otherwise
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

THREADS = int(os.environ.get("LAGOM_BENCH_THREADS", 1))
CORES = sorted(os.sched_getaffinity(0))[-THREADS:]
if __name__ == "__main__":
    os.sched_setaffinity(0, CORES)
    os.environ.update(OMP_NUM_THREADS=str(THREADS), HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")

import ctranslate2
import torch
import torch.nn.functional as F
import transformers
from ctranslate2.converters.transformers import _MODEL_LOADERS

from _side_by_side import LAGOM, ROOT

BENCH = os.environ.get("LM_BENCH", str(ROOT / "build" / "bin" / "lm_bench"))
ROUNDS = int(os.environ.get("LAGOM_BENCH_ROUNDS", 3))
GROUPS = os.environ.get("LAGOM_BENCH_GROUPS", "train,compile,gpt2,small,routed,prompt").split(",")
CPU_TIME = bool(os.environ.get("LAGOM_BENCH_CPU_TIME"))
PROMPT, STEPS = 128, 32  # as in BM_DecodeModel
clock = time.process_time if CPU_TIME else time.perf_counter


def ours(name, model=None):
    """Seconds of one iteration of a benchmark, where those are few the last of two repetitions."""
    environment = {**os.environ, "LAGOM_BENCH_THREADS": str(THREADS)}
    if model:
        environment["LAGOM_BENCH_MODEL"] = str(model)
    command = [BENCH, f"--benchmark_filter=^{name}", "--benchmark_format=json",
               f"--benchmark_repetitions={1 if 'Decode' in name else 2}", "--benchmark_min_time=0.3"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    runs = json.loads(result.stdout or '{"benchmarks": []}')["benchmarks"]
    runs = [run for run in runs if run["run_type"] == "iteration"]
    if result.returncode or not runs or runs[-1].get("error_occurred"):
        sys.exit(f"language_models: {name} failed: {result.stderr[-500:]} {runs}")
    return runs[-1]["cpu_time" if CPU_TIME else "real_time"] / 1e3


def seconds(work):
    start = clock()
    work()
    return clock() - start


class Block(torch.nn.Module):
    """A block as nanoGPT writes it; keys and values may go to a cache made beforehand."""

    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = (torch.nn.LayerNorm(width, bias=bias) for _ in range(2))
        self.c_attn = torch.nn.Linear(width, 3 * width, bias=bias)
        self.c_proj = torch.nn.Linear(width, width, bias=bias)
        self.c_fc = torch.nn.Linear(width, 4 * width, bias=bias)
        self.c_out = torch.nn.Linear(4 * width, width, bias=bias)

    def forward(self, x, cache=None, position=0):
        rows, length, width = x.shape
        q, k, v = (part.view(rows, length, self.heads, -1).transpose(1, 2)
                   for part in self.c_attn(self.ln_1(x)).split(width, 2))
        if cache is not None:
            for kept, new in zip(cache, (k, v)):
                kept[:, :, position:position + length] = new
            k, v = (kept[:, :, :position + length] for kept in cache)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        x = x + self.c_proj(y.transpose(1, 2).reshape(rows, length, width))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class NanoGpt(torch.nn.Module):
    def __init__(self, vocab, length, width=256, layers=6, heads=4, bias=False):
        super().__init__()
        self.wte = torch.nn.Embedding(vocab, width)
        self.wpe = torch.nn.Embedding(length, width)
        self.h = torch.nn.ModuleList(Block(width, heads, bias) for _ in range(layers))
        self.ln_f = torch.nn.LayerNorm(width, bias=bias)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                torch.nn.init.normal_(parameter, 0, 0.02)

    def forward(self, tokens, targets=None, caches=None, position=0):
        places = torch.arange(position, position + tokens.shape[1])
        x = self.wte(tokens) + self.wpe(places)
        for i, block in enumerate(self.h):
            x = block(x, caches and caches[i], position)
        if targets is None:
            return F.linear(self.ln_f(x[:, -1]), self.wte.weight)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))

    def take(self, gpt2):
        """The weights of a Hugging Face GPT-2, whose matrices are [in, out]."""
        names = {"c_attn": "attn.c_attn", "c_proj": "attn.c_proj", "c_fc": "mlp.c_fc",
                 "c_out": "mlp.c_proj"}
        theirs = gpt2.transformer.state_dict()
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                layer = name.split(".")[-2]
                source = theirs[name.replace(layer, names.get(layer, layer))]
                parameter.copy_(source.t() if layer in names and source.dim() == 2 else source)
        return self


class Table:
    """Contenders timed in turn; a line for each."""

    def __init__(self, title, unit, convert):
        self.title, self.unit, self.convert = title, unit, convert
        self.contenders = {}

    def add(self, name, measure):
        self.contenders[name] = measure

    def run(self):
        times = {name: [] for name in self.contenders}
        for _ in range(ROUNDS):
            for name, measure in self.contenders.items():
                times[name].append(measure())
        print(f"\n{self.title}; {self.unit}: median [least, most] of {ROUNDS} rounds, and over the first")
        first = None
        for name, values in times.items():
            figures = [self.convert(value) for value in values]
            median = statistics.median(figures)
            first = first or median
            print(f"  {name:<42} {median:8.1f} [{min(figures):.1f}, {max(figures):.1f}]  {median / first:5.2f}x",
                  flush=True)


def train():
    table = Table("Training step, d 256, 6 blocks, 8 x 256 tokens", "steps a minute", lambda s: 60 / s)
    tokens, targets = (torch.randint(256, (8, 256)) for _ in range(2))

    def peer(forward, model, bf16):
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)

        def step():
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                loss = forward(tokens, targets)
            loss.backward()
            optimizer.step()
        step()  # once for the caches and the compiler
        return lambda: seconds(step)

    for bf16, name in ((False, "float32"), (True, "bfloat16 autocast")):
        model = NanoGpt(256, 256)
        table.add(f"PyTorch eager, {name}", peer(model, model, bf16))
    compiled = ((False, "float32"), (True, "bfloat16 autocast")) if "compile" in GROUPS else ()
    for bf16, name in compiled:
        model = NanoGpt(256, 256)
        try:
            start = time.perf_counter()
            step = peer(torch.compile(model), model, bf16)
            print(f"  torch.compile, {name}: {time.perf_counter() - start:.0f} s to compile",
                  flush=True)
            table.add(f"PyTorch compiled, {name}", step)
        except Exception as error:  # no compiler, no headers of Python
            print(f"  torch.compile does not work here: {str(error).strip().splitlines()[-1][:120]}")
            break
    for kind, name in ((0, "dense"), (1, "routed, every other block at 12.5 %")):
        for bf16, dtype in ((0, "float32"), (1, "bfloat16")):
            table.add(f"ours, {name}, {dtype}",
                      lambda kind=kind, bf16=bf16: ours(f"BM_TrainStep/kind:{kind}/bf16:{bf16}/"))
    table.run()


def greedy(step, prompt):
    """Seconds of a step of STEPS after the prompt, and what they wrote: [rows, STEPS + 1]."""
    with torch.inference_mode():
        token = step(prompt).argmax(-1, keepdim=True)
        written = [token]
        start = clock()
        for _ in range(STEPS):
            token = step(token).argmax(-1, keepdim=True)
            written.append(token)
        elapsed = clock() - start
    return elapsed / STEPS, torch.cat(written, 1)


def hugging_face(model, prompt):
    cache = transformers.DynamicCache(config=model.config)
    return greedy(lambda tokens: model(tokens, cache=cache, use_cache=True).logits[:, -1],
                  prompt)


def nano_gpt(model, prompt):
    heads, width = model.h[0].heads, model.wte.weight.shape[1]
    caches = [[torch.zeros(len(prompt), heads, PROMPT + STEPS + 2, width // heads) for _ in range(2)]
              for _ in model.h]
    read = [0]

    def step(tokens):
        logits = model(tokens, caches=caches, position=read[0])
        read[0] += tokens.shape[1]
        return logits
    return greedy(step, prompt)


def gpt2_model(folder, **shape):
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape)).eval()
    model.save_pretrained(folder / "hf")
    subprocess.run([LAGOM, "lm", "convert", str(folder / "hf"), str(folder / "ours")], check=True)
    return model


def check_ours(model, folder):
    """Ours must continue a prompt as Hugging Face does."""
    text = "".join(chr(32 + i * i % 95) for i in range(PROMPT))
    prompt = torch.tensor([list(text.encode())])  # without a tokenizer's file, bytes are tokens
    _, wanted = hugging_face(model, prompt)
    command = [LAGOM, "lm", "sample", str(folder / "ours"), "--prompt", text, "--json", "--set",
               "temperature=0", "--set", f"max_tokens={STEPS + 1}", "--set", "stop_at_end_of_text=false"]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    found = [token["id"] for token in json.loads(result.stdout)[0]["tokens"]]
    if found != wanted[0].tolist():
        sys.exit(f"language_models: ours continues differently: {found} is not {wanted[0].tolist()}")
    print(f"  greedy texts of {STEPS + 1} tokens agree ({len(set(found))} different tokens)", flush=True)


def ctranslate2_generator(model, folder, quantization):
    path = folder / f"ctranslate2-{quantization}"
    spec = _MODEL_LOADERS["GPT2Config"].get_model_spec(model)
    spec.register_vocabulary([f"t{i}" for i in range(model.config.vocab_size)])
    spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = "t50256"
    spec.validate()
    spec.optimize(quantization=quantization)
    path.mkdir()
    spec.save(str(path))
    return ctranslate2.Generator(str(path), device="cpu", compute_type=quantization,
                                 inter_threads=1, intra_threads=THREADS)


def ctranslate2_step(generator, rows):
    """Seconds of a step: the difference of two lengths, since the prompt is read with the first."""
    prompt = [[f"t{i}" for i in range(PROMPT)]] * rows

    def generate(count):
        generator.generate_batch(prompt, max_length=count, min_length=count, sampling_topk=1,
                                 include_prompt_in_result=False)
    short = seconds(lambda: generate(2))
    return (seconds(lambda: generate(2 + STEPS)) - short) / STEPS


def gpt2():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = gpt2_model(folder)
        check_ours(model, folder)
        generators = {kind: ctranslate2_generator(model, folder, kind) for kind in ("float32", "int8")}
        for rows in (1, 8):
            table = Table(f"Decoding, GPT-2 with 124 million parameters, batch {rows}", "tokens/s",
                          lambda s, rows=rows: rows / s)
            prompt = torch.randint(256, (rows, PROMPT))
            table.add("Hugging Face eager, float32", lambda: hugging_face(model, prompt)[0])
            for kind, generator in generators.items():
                table.add(f"CTranslate2, {kind}", lambda g=generator: ctranslate2_step(g, rows))
            for number, kind in enumerate(("float32", "bfloat16", "int8")):
                table.add(f"ours, {kind}", lambda n=number: ours(
                    f"BM_DecodeModel/format:{n}/rows:{rows}/", folder / "ours"))
            table.run()
    memory = Table("Reading as many bytes as its weights have", "GB/s", lambda gb_per_s: gb_per_s)
    for mib, kind in ((475, "float32"), (237, "bfloat16"), (118, "int8")):
        memory.add(f"a plain sum, {kind}",
                   lambda mib=mib: mib * 2**20 / 1e9 / ours(f"BM_ReadWeights/MiB:{mib}/"))
    memory.run()


def small():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = gpt2_model(folder, n_embd=256, n_layer=6, n_head=4, vocab_size=256, n_positions=256,
                           bos_token_id=0, eos_token_id=0)
        check_ours(model, folder)
        plain = NanoGpt(256, 256, bias=True).take(model).eval()
        prompt = torch.randint(256, (1, PROMPT))
        if not torch.equal(nano_gpt(plain, prompt)[1], hugging_face(model, prompt)[1]):
            sys.exit("language_models: the plain loop continues differently")
        table = Table("Decoding, d 256, 6 blocks, batch 1", "tokens/s", lambda s: 1 / s)
        table.add("PyTorch eager with a cache, float32", lambda: nano_gpt(plain, prompt)[0])
        table.add("Hugging Face eager, float32", lambda: hugging_face(model, prompt)[0])
        for number, kind in enumerate(("float32", "bfloat16", "int8")):
            table.add(f"ours, {kind}", lambda n=number: ours(f"BM_DecodeModel/format:{n}/rows:1/",
                                                             folder / "ours"))
        table.run()


def routed():
    for name, shape in (("BM_DecodeGpt2", "GPT-2's shape"), ("BM_DecodeSmall", "d 256, 6 blocks")):
        rows = "rows:1/" if name == "BM_DecodeGpt2" else ""
        for number, kind in ((0, "float32"), (1, "bfloat16")):
            table = Table(f"Ours, routed at 12.5 % against dense, {shape}, {kind}, batch 1", "tokens/s",
                          lambda s: 1 / s)
            for value, what in ((0, "dense"), (1, "every other block routed")):
                table.add(what, lambda v=value: ours(f"{name}/format:{number}/{rows}routed:{v}/"))
            table.run()


def prompt():
    table = Table("Ours, 8 x 256 tokens, d 256, 6 blocks", "thousand tokens/s", lambda s: 2.048 / s)
    table.add("forward half of a training step, float32", lambda: ours("BM_Forward/bf16:0/"))
    table.add("reading prompts, float32", lambda: ours("BM_Prefill/format:0/"))
    table.add("forward half of a training step, bfloat16", lambda: ours("BM_Forward/bf16:1/"))
    table.add("reading prompts, bfloat16", lambda: ours("BM_Prefill/format:1/"))
    table.add("reading prompts, int8", lambda: ours("BM_Prefill/format:2/"))
    table.run()


def main():
    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    transformers.utils.logging.disable_progress_bar()
    print(f"  {THREADS} thread(s) on core(s) {CORES}; {'CPU time' if CPU_TIME else 'time on the clock'}; "
          f"PyTorch {torch.__version__}, transformers {transformers.__version__}, "
          f"CTranslate2 {ctranslate2.__version__}")
    groups = {"train": train, "gpt2": gpt2, "small": small, "routed": routed, "prompt": prompt}
    for name, run in groups.items():
        if name in GROUPS:
            run()


if __name__ == "__main__":
    main()
