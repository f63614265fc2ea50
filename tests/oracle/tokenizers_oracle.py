"""Byte-pair encoding against Hugging Face's tokenizers and OpenAI's tiktoken.

Vocabularies are trained here on tiny shakespeare; every text is a line of JSON for
`lagom lm tokenize`, whose shard must hold the ids that the other package gives, each text's followed
by the end-of-text token.
"""

import base64
import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

import numpy
import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAGOM = os.environ.get("LAGOM", str(ROOT / "build" / "bin" / "lagom"))
CORPUS = (ROOT / "data" / "text" / "tinyshakespeare.txt").read_text()

END = "<|endoftext|>"
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = ("|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"]))

ODD_TEXTS = [
    "", " ", "  ", "\n", "\n\n \n", "\t\tx", "a", "  a  b   c    ", "line\r\nline\r\n\r\n", "\u00a0x\u2003y\u3000",
    "don't DON'T you'll YOU'LL we've it's IT'S I'd i'm 'tis ''s 'S' 're", "1 12 123 1234 12345 3.14159 1,000,000",
    "\u0661\u0662\u0663\u0664 \u00bd \u2163 x\u00b2", "na\u00efve caf\u00e9 cafe\u0301 \u00c5ngstr\u00f6m \u01c5",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002 \u3053\u3093\u306b\u3061\u306f \uc548\ub155", "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd \u0928\u092e\u0938\u094d\u0924\u0947",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea\u2764\ufe0f", "\x00\x01\x7f\u0085\u200b\ufeff",
    "if (x != 0) { return ~x; } // done\n\treturn /* a/b */ 'c';\n", "HTTPServer camelCase snake_case A1b2C3",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    f"one{END}two {END} three{END}{END}", "<|endoftext", "<<|endoftext|>>",
    "x zqxjkv zqxjkvs ~~~~~~~~ ~00900 ~00001500 ~00001500x",  # pieces that are tokens no merge makes
]


def texts():
    rng = random.Random(5)
    characters = list("abcdeETS '\"\n\r\t 0123,.;-_/") + ["'s", "'LL", "  ", "\u00e9", "\u0301", "\u4e16", "\U0001f600",
                                                        "\u00a0", "\u0663", "\u01c5", " the", "\u2028", "\u00df"]
    for _ in range(400):
        yield "".join(rng.choice(characters) for _ in range(rng.randrange(1, 40)))
    for _ in range(100):
        at = rng.randrange(len(CORPUS) - 500)
        yield CORPUS[at:at + rng.randrange(500)]
    yield CORPUS[:200000]


TEXTS = ODD_TEXTS + list(texts())


def train(pre_tokenizer, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(CORPUS.splitlines(keepends=True), trainers.BpeTrainer(
        vocab_size=1000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_special_tokens([AddedToken(END, normalized=False)])
    return tokenizer


def byte_of():
    """The bytes of the characters that byte-level vocabularies are written with."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {**{chr(b): b for b in printable}, **{chr(256 + i): b for i, b in enumerate(others)}}


class Tokenizers(unittest.TestCase):
    def compare(self, tokenizer_file, encode, end):
        with tempfile.TemporaryDirectory() as folder:
            corpus, shard = pathlib.Path(folder, "texts.jsonl"), pathlib.Path(folder, "ids.bin")
            corpus.write_text("".join(json.dumps({"text": t}) + "\n" for t in TEXTS))
            subprocess.run([LAGOM, "lm", "tokenize", str(tokenizer_file), str(corpus), str(shard)],
                           check=True, stderr=subprocess.DEVNULL)
            bits = 16 if numpy.fromfile(shard, "<i4", 1)[0] == 20240520 else 32
            ours = numpy.fromfile(shard, f"<u{bits // 8}", offset=1024).tolist()
        for text in TEXTS:
            theirs = encode(text) + [end]
            self.assertEqual(ours[:len(theirs)], theirs, repr(text[:200]))
            ours = ours[len(theirs):]
        self.assertEqual(ours, [])

    def compare_json(self, tokenizer):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "tokenizer.json")
            tokenizer.save(str(path))
            self.compare(path, lambda text: tokenizer.encode(text).ids, tokenizer.token_to_id(END))

    def compare_ranks(self, pattern, count):
        """A trained vocabulary, then words that no merge makes, up to a published size."""
        trained = train(pre_tokenizers.ByteLevel(add_prefix_space=False)).get_vocab()
        byte = byte_of()
        tokens = [bytes(byte[c] for c in token) for token, _ in
                  sorted(trained.items(), key=lambda item: item[1]) if token != END]
        tokens += [b" zqxjkv", b"~~~~~~~~"]
        tokens += [b"~%08d" % i for i in range(len(tokens), count)]
        ranks = {token: rank for rank, token in enumerate(tokens)}
        theirs = tiktoken.Encoding("test", pat_str=pattern, mergeable_ranks=ranks,
                                   special_tokens={END: len(ranks)})
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "ranks.tiktoken")
            path.write_text("".join(f"{base64.b64encode(t).decode()} {r}\n" for t, r in ranks.items()))
            self.compare(path, lambda text: theirs.encode(text, allowed_special="all"), len(ranks))
            self.assertEqual(theirs.encode(" zqxjkv"), [ranks[b" zqxjkv"]])

    def test_gpt2(self):
        self.compare_json(train(pre_tokenizers.ByteLevel(add_prefix_space=False)))

    def test_prefix_space(self):
        self.compare_json(train(pre_tokenizers.ByteLevel(add_prefix_space=True)))

    def test_digits_apart(self):
        self.compare_json(train(pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False)])))

    def test_llama3(self):
        self.compare_json(train(pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(LLAMA3), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), ignore_merges=True))

    def test_tiktoken_gpt2(self):
        self.compare_ranks(GPT2, 1100)

    def test_tiktoken_cl100k(self):
        self.compare_ranks(LLAMA3, 60000)

    def test_tiktoken_o200k(self):
        self.compare_ranks(O200K, 160000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
