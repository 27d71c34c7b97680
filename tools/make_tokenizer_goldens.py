#!/usr/bin/env python3
"""Trains small test tokenizers and writes what Hugging Face `tokenizers` makes of nasty strings.

    python tools/make_tokenizer_goldens.py                           # writes tests/golden/tokenizer
    python tools/make_tokenizer_goldens.py --check tests/golden/tokenizer

The tokenizer.json files have the structure that the published ones of each family have; only the
vocabulary is small. Needs `tokenizers` alone. See tools/README.md for the format of the goldens.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import tempfile
import unicodedata
from pathlib import Path
from typing import Any

os.environ["TOKENIZERS_PARALLELISM"] = "false"

try:
    import tokenizers
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
except ImportError as error:
    sys.exit(f"{error}. Make the oracle environment first: see tools/README.md.")

from tokenizer_texts import CORPUS, all_texts

TOKENIZERS_VERSION = "0.23.3"
UNICODE_VERSION = "14.0.0"
REPOSITORY = Path(__file__).resolve().parent.parent
DEFAULT_DIR = REPOSITORY / "tests" / "golden" / "tokenizer"
DEMO_TOKENIZER = REPOSITORY / "models" / "demo" / "tokenizer.json"
DECODE_CASES = 24
MAX_TOKENIZER_BYTES = 60_000

LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN3_5_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=DEFAULT_DIR, help="folder to write")
    parser.add_argument("--check", type=Path, metavar="DIR", help="compare DIR, write nothing")
    parser.add_argument("--demo", type=Path, default=DEMO_TOKENIZER, help="the demo tokenizer.json")
    arguments = parser.parse_args()

    if tokenizers.__version__ != TOKENIZERS_VERSION:
        sys.exit(f"tokenizers {TOKENIZERS_VERSION} is wanted, this is {tokenizers.__version__}")
    if unicodedata.unidata_version != UNICODE_VERSION:
        sys.exit(f"Python 3.11 is wanted: its Unicode is {UNICODE_VERSION}, the texts' own")
    if not arguments.demo.is_file():
        sys.exit(f"{arguments.demo} is missing; give its place with --demo")

    if arguments.check is None:
        write_all(arguments.out, arguments.demo)
        for file in sorted(arguments.out.iterdir()):
            print(f"{file.stat().st_size:7d} {file.name}")
        return 0
    with tempfile.TemporaryDirectory() as fresh:
        write_all(Path(fresh), arguments.demo)
        names = {file.name for f in (arguments.check, Path(fresh)) for file in f.iterdir()}
        bad = [n for n in sorted(names) if read(arguments.check / n) != read(Path(fresh) / n)]
    for name in sorted(names):
        print(f"{name}: {'DIFFERS' if name in bad else 'ok'}")
    return 1 if bad else 0


def read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def write_all(folder: Path, demo: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    texts = all_texts()
    (folder / "texts.json").write_text(json.dumps(texts, indent=0) + "\n")
    for name, document in test_tokenizers().items():
        data = json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"
        if len(data.encode()) > MAX_TOKENIZER_BYTES:
            raise SystemExit(f"{name}: tokenizer.json has {len(data.encode())} bytes")
        path = folder / f"{name}.tokenizer.json"
        path.write_text(data, encoding="utf-8")
        write_golden(folder / f"{name}.golden.json", path, path.name, texts)
    write_golden(folder / "demo.golden.json", demo, "models/demo/tokenizer.json", texts)


# ---- tokenizers -------------------------------------------------------------------------------


def test_tokenizers() -> dict[str, dict[str, Any]]:
    """tokenizer.json documents by name, key for key as the published ones have them."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    decoder = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
    decoder_regex = {**decoder, "use_regex": True}
    qwen_bytes = {"add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    qwen_byte_level = {"type": "ByteLevel", **qwen_bytes}

    gpt2_vocab, gpt2_merges = train(None, None, 900)
    llama3_vocab, llama3_merges = train(LLAMA3_PATTERN, None, 900)
    qwen2_vocab, qwen2_merges = train(QWEN2_PATTERN, "NFC", 700)
    qwen3_5_vocab, qwen3_5_merges = train(QWEN3_5_PATTERN, "NFC", 900)
    smollm_vocab, smollm_merges = train("digits", None, 600)

    # Words that no merge makes: with ignore_merges they are taken whole, without it never.
    unreachable = ["xyzzyplugh", "\u0120xyzzyplugh", "qwertzuiop", to_byte_level("\u6e2c\u8a66")]
    for vocab in (llama3_vocab, qwen2_vocab):
        for word in unreachable:
            vocab[word] = len(vocab)

    result = {}

    gpt2_vocab["<|endoftext|>"] = len(gpt2_vocab)  # GPT-2 keeps it in the vocabulary too
    result["gpt2"] = {
        **head([added(len(gpt2_vocab) - 1, "<|endoftext|>", special=True, normalized=True)]),
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": {**byte_level, "add_prefix_space": True, "trim_offsets": False},
        "decoder": decoder,
        "model": {  # an old file: no type, affixes empty instead of null
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "vocab": gpt2_vocab,
            "merges": as_strings(gpt2_merges),
        },
    }

    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_0|>", "<|reserved_1|>"]
    names += ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    bos = len(llama3_vocab)
    result["llama3"] = {
        **head([added(bos + i, name, special=True) for i, name in enumerate(names)]),
        "normalizer": None,
        "pre_tokenizer": split_then_bytes(LLAMA3_PATTERN, {**byte_level, "use_regex": False}),
        "post_processor": {
            "type": "Sequence",
            "processors": [
                {**decoder_regex, "trim_offsets": False},
                template("<|begin_of_text|>", bos),
            ],
        },
        "decoder": decoder_regex,
        "model": bpe(llama3_vocab, as_strings(llama3_merges), None, ignore_merges=True),
    }

    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    plain = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
    result["qwen2"] = {
        **head(qwen_added(len(qwen2_vocab), names, plain)),
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": split_then_bytes(QWEN2_PATTERN, qwen_byte_level),
        "post_processor": qwen_byte_level,
        "decoder": qwen_byte_level,
        "model": bpe(qwen2_vocab, as_strings(qwen2_merges), ""),
    }
    result["qwen3_5"] = {
        **head(qwen_added(len(qwen3_5_vocab), names, plain)),
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": split_then_bytes(QWEN3_5_PATTERN, qwen_byte_level),
        "post_processor": qwen_byte_level,
        "decoder": qwen_byte_level,
        "model": bpe(qwen3_5_vocab, qwen3_5_merges, ""),
    }

    result["added_tokens"] = {
        **head(odd_added_tokens(len(qwen2_vocab))),
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": split_then_bytes(QWEN2_PATTERN, qwen_byte_level),
        "post_processor": qwen_byte_level,
        "decoder": qwen_byte_level,
        "model": bpe(qwen2_vocab, qwen2_merges, ""),
    }

    result["smollm"] = {
        **head([added(len(smollm_vocab), "<|endoftext|>", special=True)]),
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {**byte_level, "use_regex": True},
            ],
        },
        "post_processor": None,
        "decoder": decoder_regex,
        "model": bpe(smollm_vocab, as_strings(smollm_merges), None),
    }
    return result


def odd_added_tokens(first_id: int) -> list[dict[str, Any]]:
    """Every flag, overlapping contents, and contents that the normaliser changes."""
    tokens = [
        ("<|endoftext|>", dict(special=True)),
        ("<|im_end|>", dict(special=True)),
        ("<left>", dict(lstrip=True)),
        ("<right>", dict(rstrip=True)),
        ("<both>", dict(lstrip=True, rstrip=True, special=True)),
        ("word", dict(single_word=True)),
        ("<wordleft>", dict(single_word=True, lstrip=True)),
        # Sought in normalised text, itself normalised. (Not e with an acute: every character of
        # it would be in the byte alphabet, and then tokenizers decodes a token as bytes.)
        ("e\u0323clair", dict(normalized=True)),
        ("n\u0303ota", dict()),  # sought as it is, before the normaliser
        ("<a>", dict()),
        ("<a><b>", dict()),
        ("<b>", dict(normalized=True)),
        ("\uff5cfim\u2581begin\uff5c", dict(special=True)),
        ("two words", dict(normalized=True, single_word=True)),
    ]
    return [added(first_id + i, text, **flags) for i, (text, flags) in enumerate(tokens)]


def train(
    pattern: str | None, normalizer: str | None, vocab_size: int
) -> tuple[dict[str, int], list[list[str]]]:
    """Vocabulary and merges of a byte-level BPE; pattern None is GPT-2's own."""
    tokenizer = Tokenizer(models.BPE())
    if normalizer == "NFC":
        tokenizer.normalizer = normalizers.NFC()
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    if pattern is None:
        tokenizer.pre_tokenizer = byte_level
    elif pattern == "digits":
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        digits = pre_tokenizers.Digits(individual_digits=True)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    else:
        split = pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator([CORPUS], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    vocab = dict(sorted(model["vocab"].items(), key=lambda item: item[1]))
    return vocab, [list(pair) for pair in model["merges"]]


def to_byte_level(text: str) -> str:
    return pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(text)[0][0]


def head(added_tokens: list[dict[str, Any]]) -> dict[str, Any]:
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens}


def added(token_id: int, content: str, **flags: bool) -> dict[str, Any]:
    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {"id": token_id, "content": content} | {n: flags.get(n, False) for n in names}


def qwen_added(first_id: int, special: list[str], plain: list[str]) -> list[dict[str, Any]]:
    contents = special + plain
    return [added(first_id + i, text, special=text in special) for i, text in enumerate(contents)]


def split_then_bytes(pattern: str, byte_level: dict[str, Any]) -> dict[str, Any]:
    split = {"pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [{"type": "Split", **split}, byte_level]}


def template(bos: str, bos_id: int) -> dict[str, Any]:
    first, second = ({"Sequence": {"id": x, "type_id": i}} for i, x in enumerate("AB"))
    special = [{"SpecialToken": {"id": bos, "type_id": i}} for i in (0, 1)]
    return {
        "type": "TemplateProcessing",
        "single": [special[0], first],
        "pair": [special[0], first, special[1], second],
        "special_tokens": {bos: {"id": bos, "ids": [bos_id], "tokens": [bos]}},
    }


def bpe(
    vocab: dict[str, int], merges: list[Any], affix: str | None, ignore_merges: bool = False
) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": affix,
        "end_of_word_suffix": affix,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": ignore_merges,
        "vocab": vocab,
        "merges": merges,
    }


def as_strings(merges: list[list[str]]) -> list[str]:
    return [" ".join(pair) for pair in merges]


# ---- goldens ----------------------------------------------------------------------------------


def write_golden(path: Path, tokenizer_path: Path, shown_path: str, texts: list[str]) -> None:
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    prefix = tokenizer.encode("", add_special_tokens=True).ids
    for text, expected in zip(texts, ids):
        if tokenizer.encode(text, add_special_tokens=True).ids != prefix + expected:
            raise SystemExit(f"{shown_path}: special tokens are not a prefix for {text!r}")

    decoded = [tokenizer.decode(row, skip_special_tokens=False) for row in ids]
    visible = [tokenizer.decode(row, skip_special_tokens=True) for row in ids]

    tokenizer.encode_special_tokens = True
    plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]

    golden = {
        "tokenizer": shown_path,
        "sha256": hashlib.sha256(tokenizer_path.read_bytes()).hexdigest(),
        "made_with": f"tokenizers {tokenizers.__version__}",
        "texts": "texts.json",
        "vocab_size": tokenizer.get_vocab_size(with_added_tokens=True),
        "special_prefix": prefix,
        "ids": ids,
        "plain_ids": differing(plain, ids),
        "decoded": differing(decoded, texts),
        "decoded_visible": differing(visible, decoded),
        "decode_cases": decode_cases(tokenizer),
    }
    path.write_text(dump_golden(golden))


def differing(values: list[Any], usual: list[Any]) -> dict[str, Any]:
    """Values by text index, only where they are not what one expects."""
    return {str(i): a for i, (a, b) in enumerate(zip(values, usual)) if a != b}


def decode_cases(tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """Random ids: broken UTF-8 that no encoder makes but every decoder meets."""
    generator = random.Random(7)
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    cases = []
    for _ in range(DECODE_CASES):
        ids = [generator.randrange(min(size, 300)) for _ in range(generator.randint(1, 8))]
        cases.append({"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=False)})
    return cases


def dump_golden(golden: dict[str, Any]) -> str:
    rows = []
    for key, value in golden.items():
        if isinstance(value, list) and value and isinstance(value[0], (list, dict)):
            text = "[\n" + ",\n".join(compact(item) for item in value) + "\n]"
        elif isinstance(value, dict) and value:
            items = (f"{compact(k)}: {compact(v)}" for k, v in value.items())
            text = "{\n" + ",\n".join(items) + "\n}"
        else:
            text = compact(value)
        rows.append(f"{compact(key)}: {text}")
    return "{\n" + ",\n".join(rows) + "\n}\n"


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    sys.exit(main())
