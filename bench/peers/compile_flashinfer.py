#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the FlashInfer modules that flashinfer_attention.py needs, on a machine without a GPU.

Each result is put where FlashInfer looks for modules compiled ahead of time
(flashinfer/data/aot/NAME/NAME.so), so the GPU machine needs neither network nor compiler. Sources
that no measured call uses (other masks, ragged prefill) are left out, which takes a third of the
time; what refers to them stays undefined, which the lazy loader accepts. About 15 minutes on two
cores. Made for FlashInfer 0.7.2, whose private functions it calls.

usage: FLASHINFER_CUDA_ARCH_LIST=9.0a CUDA_HOME=/usr/local/cuda [FLASHINFER_SITE=FOLDER]
       compile_flashinfer.py
"""

import os
import pathlib
import re
import shutil
import site
import sys
import time

for folder in filter(None, os.environ.get("FLASHINFER_SITE", "").split(":")):
    sys.path.insert(0, folder)
    site.addsitedir(folder)

import torch  # noqa: E402

from flashinfer.jit import env  # noqa: E402
from flashinfer.jit.attention import modules  # noqa: E402
from flashinfer.jit.xqa import gen_xqa_module  # noqa: E402

BF16, FP8, INDEX = torch.bfloat16, torch.float8_e4m3fn, torch.int32
XQA = [(BF16, 16, 128, 4), (BF16, 16, 128, 8), (BF16, 16, 256, 4), (BF16, 16, 256, 6),
       (BF16, 16, 256, 8), (BF16, 16, 256, 16), (BF16, 64, 128, 4), (FP8, 16, 128, 4),
       (FP8, 16, 256, 8)]  # dtype of K and V, page size, head dim, group


def all_modules():
    for dtype in (BF16, FP8):
        for head_dim in (128, 256):
            common = (BF16, dtype, BF16, INDEX, head_dim, head_dim, 0, False, False)
            yield modules._gen_batch_prefill_primary_module("fa2", *common, False)
            yield modules._gen_batch_attention_primary_module(*common)
    for dtype, page_size, head_dim, group in XQA:
        yield gen_xqa_module(BF16, dtype, page_size, head_dim, group, False, BF16, 1)
    for head_dim in (128, 256):
        yield modules.gen_batch_prefill_module("fa3", BF16, BF16, BF16, INDEX, head_dim, head_dim, 0,
                                               False, False, False)


def is_used(source):
    name = pathlib.Path(source).name
    mask = re.search(r"kernel_mask_(\d)", name)
    if mask is None:
        return True
    # 0: none, 1: causal. The fa3 kernels only serve causal prefill here.
    return "ragged" not in name and mask[1] in (("1",) if "sm90" in name else ("0", "1"))


def main():
    for module in all_modules():
        to = pathlib.Path(env.FLASHINFER_AOT_DIR) / module.name / f"{module.name}.so"
        if to.exists():
            continue
        module.sources = [source for source in module.sources if is_used(source)]
        begin = time.monotonic()
        module.build(verbose=False)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(pathlib.Path(env.FLASHINFER_JIT_DIR) / module.name / f"{module.name}.so", to)
        print(f"{module.name}: {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
