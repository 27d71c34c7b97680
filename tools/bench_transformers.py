#!/usr/bin/env python3
"""Measures transformers on one CPU thread in fp32: a peer for our own CPU numbers.

    python tools/bench_transformers.py MODEL_FOLDER [--shape prompt512 decode] [--repeat 3]

Prints one JSON line a measurement. Tokens are counted per second of process CPU time, which a busy
machine disturbs far less than wall time; still, compare only with numbers of the same run on the
same machine. Ids are random: weights and lengths decide the time, not the text.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any, Callable

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch reads it

try:
    import torch
    import transformers
except ImportError as error:
    sys.exit(f"{error}. Make the oracle environment first: see tools/README.md.")

PROMPT_TOKENS = 512
DECODE_PROMPT_TOKENS = 16
DECODE_TOKENS = 64
DECODE_BATCHES = (1, 8)
SHORT_RUN_TOKENS = 4  # a decode time is a long run less a short one: prefill cancels out
SHAPES = ("prompt512", "decode")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="folder with config.json and model.safetensors")
    parser.add_argument("--shape", nargs="+", choices=SHAPES, default=SHAPES)
    parser.add_argument("--repeat", type=int, default=3, help="best of this many (default 3)")
    parser.add_argument("--attention", choices=("eager", "sdpa"), default="sdpa")
    arguments = parser.parse_args()
    if not (arguments.model / "config.json").is_file():
        parser.error(f"{arguments.model} has no config.json")
    if arguments.repeat < 1:
        parser.error("--repeat takes 1 or more")

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(
        arguments.model, dtype=torch.float32, attn_implementation=arguments.attention
    ).eval()

    with torch.inference_mode():
        if "prompt512" in arguments.shape:
            seconds = best(arguments.repeat, lambda: prefill_seconds(model))
            report(arguments, "prompt512", 1, PROMPT_TOKENS / seconds)
        if "decode" in arguments.shape:
            for batch in DECODE_BATCHES:
                seconds = decode_seconds(model, batch, arguments.repeat)
                report(arguments, "decode", batch, batch * DECODE_TOKENS / seconds)
    return 0


def best(repeat: int, measure: Callable[[], float]) -> float:
    measure()  # warm-up: allocations, first touch of the weights
    return min(measure() for _ in range(repeat))


def prefill_seconds(model: torch.nn.Module) -> float:
    ids = random_ids(model, 1, PROMPT_TOKENS)
    start = time.process_time()
    model(input_ids=ids, use_cache=True, logits_to_keep=1)
    return time.process_time() - start


def decode_seconds(model: torch.nn.Module, batch: int, repeat: int) -> float:
    """CPU seconds of DECODE_TOKENS steps, as the difference of two runs from the same prompt.

    Each run's best is taken apart: the least difference would favour a disturbed short run.
    """
    long_run = best(repeat, lambda: run_seconds(model, batch, SHORT_RUN_TOKENS + DECODE_TOKENS))
    return long_run - best(repeat, lambda: run_seconds(model, batch, SHORT_RUN_TOKENS))


def run_seconds(model: torch.nn.Module, batch: int, tokens: int) -> float:
    ids = random_ids(model, batch, DECODE_PROMPT_TOKENS)
    start = time.process_time()
    result = model(input_ids=ids, use_cache=True, logits_to_keep=1)
    for _ in range(tokens):
        next_ids = result.logits[:, -1].argmax(dim=-1, keepdim=True)
        result = model(input_ids=next_ids, cache=result.past_key_values, use_cache=True)
    return time.process_time() - start


def random_ids(model: torch.nn.Module, batch: int, tokens: int) -> torch.Tensor:
    generator = random.Random(batch * 1000 + tokens)
    limit = model.config.get_text_config().vocab_size
    return torch.tensor([[generator.randrange(limit) for _ in range(tokens)] for _ in range(batch)])


def report(arguments: Any, shape: str, batch: int, tokens_per_cpu_s: float) -> None:
    line = {
        "bench": "cpu",
        "shape": shape,
        "batch": batch,
        "tokens_per_cpu_s": round(tokens_per_cpu_s, 1),
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "dtype": "fp32",
        "threads": 1,
        "attention": arguments.attention,
        "model": arguments.model.name,
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
