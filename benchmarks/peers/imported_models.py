"""Models of transformers, saved by it and read by ours: greedy texts and log-probabilities must agree.

usage: imported_models.py    (./run peers imported_models)

Small models with random weights: GPT-2 with a tied and an untied head; Llama with grouped key heads,
with a tied head and another rotary base. Scaled rotary embedding must be refused. Needs torch and
transformers; not part of the build.
"""
import json
import subprocess
import sys
import tempfile

import torch
import transformers

from _side_by_side import LAGOM

TEXT = "To be, or not"
STEPS = 12
TOLERANCE = 1e-4  # of log-probabilities; float32 sums in another order differ by some 1e-6


def gpt2(**options):
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=256, n_positions=64, n_embd=48, n_layer=3, n_head=4, initializer_range=0.3,
        **options))


def llama(**options):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=256, hidden_size=48, intermediate_size=96, num_hidden_layers=3,
        num_attention_heads=4, max_position_embeddings=64, initializer_range=0.3, **options))


def rope(kind, **options):
    return {"rope_parameters": {"rope_type": kind, **options}}


MODELS = {
    "gpt2": lambda: gpt2(),
    "gpt2, untied head": lambda: gpt2(tie_word_embeddings=False),
    "llama, grouped keys": lambda: llama(num_key_value_heads=2),
    "llama, tied head, base 500000": lambda: llama(tie_word_embeddings=True,
                                                   **rope("default", rope_theta=500000.0)),
}


def sample(folder):
    """Ours: a process; without a tokenizer's file, bytes are tokens."""
    return subprocess.run(
        [LAGOM, "lm", "sample", folder, "--prompt", TEXT, "--json", "--set", "temperature=0",
         "--set", f"max_tokens={STEPS}", "--set", "stop_at_end_of_text=false"],
        capture_output=True, text=True, check=False)


@torch.no_grad()
def greedy(model):
    tokens = torch.tensor([list(TEXT.encode())])
    found = []
    for _ in range(STEPS):
        probable = model(tokens).logits[0, -1].log_softmax(-1).max(0)
        found.append((probable.indices.item(), probable.values.item()))
        tokens = torch.cat([tokens, probable.indices.view(1, 1)], 1)
    return found


def main():
    torch.manual_seed(1)
    for name, make in MODELS.items():
        model = make().eval()
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            result = sample(folder)
        if result.returncode:
            sys.exit(f"{name}: {result.stderr}")
        ours = [(t["id"], t["log_probability"]) for t in json.loads(result.stdout)[0]["tokens"]]
        theirs = greedy(model)
        if [token for token, _ in ours] != [token for token, _ in theirs]:
            sys.exit(f"{name}: ours continues differently: {ours} is not {theirs}")
        worst = max(abs(a[1] - b[1]) for a, b in zip(ours, theirs))
        if not worst < TOLERANCE:
            sys.exit(f"{name}: log-probabilities differ by {worst}")
        print(f"{name}: {STEPS} tokens agree, log-probabilities to {worst:.1g}")
    with tempfile.TemporaryDirectory() as folder:
        llama(**rope("linear", rope_theta=10000.0, factor=2.0)).save_pretrained(folder)
        result = sample(folder)
    if result.returncode == 0 or "linear" not in result.stderr:
        sys.exit(f"scaled rotary embedding is not refused: {result.stderr}")
    print("scaled rotary embedding is refused")


if __name__ == "__main__":
    main()
