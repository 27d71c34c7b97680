#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times FlashInfer's paged attention and its planning, one request at a time.

Reads one JSON request a line from stdin and answers with one JSON line a backend, then a line
{"done": true}. What was captured for a request is kept, so that the next round of the same request
is only timed again. scripts/bench-gpu is the usual caller.

  {"kind": "decode", "shape": "32x8x128", "batch": "128x640", "page_size": 16, "kv": "bf16",
   "query_len": 1, "samples": 15}
  {"kind": "prefill", "shape": "32x8x128", "batch": "4x2048+8192", "page_size": 16, ...}
  {"kind": "plan", "batch": 64}

FLASHINFER_SITE may name a folder that FlashInfer was unpacked to (README.md).
"""

import json
import os
import site
import statistics
import sys
import time

for folder in filter(None, os.environ.get("FLASHINFER_SITE", "").split(":")):
    sys.path.insert(0, folder)
    site.addsitedir(folder)

import torch  # noqa: E402

import flashinfer  # noqa: E402
from flashinfer import BatchAttention, BatchDecodeWithPagedKVCacheWrapper  # noqa: E402
from flashinfer import BatchPrefillWithPagedKVCacheWrapper  # noqa: E402
from flashinfer.decode import fast_decode_plan, xqa_batch_decode_with_kv_cache  # noqa: E402

ROUND_BYTES = 256e6  # as in attention_bench: a round reads this much, but of at most 64 copies
MAX_COPIES = 64
POOL_TOKENS = 256 * 2048 + 16384
SPLIT_TOKENS = 2048
# With an fp8 cache xqa computes in fp8 throughout, to 0.036.
TOLERANCE = {"bf16": 1e-2, "fp8": 5e-2}
BUSY_CYCLES = 4_000_000  # about 2 ms of GPU time
GPU = torch.device("cuda")
BF16 = torch.bfloat16
KV_DTYPES = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}


class Shared:
    """Buffers that all wrappers use: their kernels run one after another."""

    def __init__(self):
        self.workspace = torch.zeros(512 << 20, dtype=torch.uint8, device=GPU)
        self.xqa_workspace = torch.zeros(512 << 20, dtype=torch.uint8, device=GPU)
        self.pools = {}

    def pool(self, num_kv_heads, head_dim, page_size, kv):
        key = (num_kv_heads, head_dim, page_size, kv)
        if key not in self.pools:
            shape = (POOL_TOKENS // page_size, page_size, num_kv_heads, head_dim)
            self.pools[key] = tuple(
                torch.randn(shape, device=GPU, dtype=BF16).to(KV_DTYPES[kv]) for _ in range(2))
        return self.pools[key]


class Case:
    """A batch over scattered pages, in copies that read different ones."""

    def __init__(self, shared, request, rows):
        self.num_q_heads, self.num_kv_heads, self.head_dim = map(int, request["shape"].split("x"))
        self.page_size = request.get("page_size", 16)
        self.kv = request.get("kv", "bf16")
        self.rows = rows  # [(new tokens, tokens in all)]
        self.pages = shared.pool(self.num_kv_heads, self.head_dim, self.page_size, self.kv)
        lengths = [seq_len for _, seq_len in rows]
        token_bytes = 2 * self.num_kv_heads * self.head_dim * KV_DTYPES[self.kv].itemsize
        copies = max(1, min(MAX_COPIES, -(-int(ROUND_BYTES) // (sum(lengths) * token_bytes))))
        counts = [-(-n // self.page_size) for n in lengths]
        self.indptr = self.starts(counts)
        self.last_page_len = torch.tensor(
            [(n - 1) % self.page_size + 1 for n in lengths], dtype=torch.int32)
        self.lengths = torch.tensor(lengths, dtype=torch.int32)
        self.query_indptr = self.starts([n for n, _ in rows])
        order = torch.randperm(len(self.pages[0]), dtype=torch.int32)
        total = sum(counts)
        self.indices = [order.roll(-copy * total)[:total].contiguous() for copy in range(copies)]
        self.q = torch.randn(sum(n for n, _ in rows), self.num_q_heads, self.head_dim, device=GPU,
                             dtype=BF16)

    @staticmethod
    def starts(counts):
        starts = torch.zeros(len(counts) + 1, dtype=torch.int32)
        starts[1:] = torch.tensor(counts).cumsum(0)
        return starts

    @property
    def heads(self):
        return self.num_q_heads, self.num_kv_heads, self.head_dim

    @property
    def dtypes(self):
        return {"q_data_type": BF16, "kv_data_type": KV_DTYPES[self.kv]}

    def block_table(self, indices):
        table = torch.zeros(len(self.rows), int(self.indptr.diff().max()), dtype=torch.int32)
        for row in range(len(self.rows)):
            begin, end = int(self.indptr[row]), int(self.indptr[row + 1])
            table[row, :end - begin] = indices[begin:end]
        return table.to(GPU)


def decode_wrapper(shared, case, num_indices, graph=True, tensor_cores=True):
    buffers = {}
    if graph:
        rows = len(case.rows)
        buffers = {
            "use_cuda_graph": True,
            "paged_kv_indptr_buffer": torch.empty(rows + 1, dtype=torch.int32, device=GPU),
            "paged_kv_indices_buffer": torch.empty(num_indices, dtype=torch.int32, device=GPU),
            "paged_kv_last_page_len_buffer": torch.empty(rows, dtype=torch.int32, device=GPU),
        }
    return BatchDecodeWithPagedKVCacheWrapper(
        shared.workspace, "NHD", use_tensor_cores=tensor_cores,
        backend="fa2" if tensor_cores else "auto", **buffers)


def fa2_calls(shared, case, query_len, split):
    for indices in case.indices:
        wrapper = decode_wrapper(shared, case, len(indices), graph=not split)
        options = dict(case.dtypes)
        if query_len > 1:
            options["q_len_per_req"] = query_len
        if split:
            options["fixed_split_size"] = SPLIT_TOKENS // case.page_size
        wrapper.plan(case.indptr, indices.to(GPU), case.last_page_len, *case.heads, case.page_size,
                     **options)
        out = torch.empty_like(case.q)
        yield lambda wrapper=wrapper, out=out: wrapper.run(case.q, case.pages, out=out)


def holistic_calls(shared, case, query_len):
    for indices in case.indices:
        wrapper = BatchAttention("NHD", GPU)
        wrapper.float_workspace_buffer = shared.workspace
        wrapper.plan(case.query_indptr.to(GPU), case.indptr.to(GPU), indices.to(GPU),
                     case.lengths.to(GPU), *case.heads, case.head_dim, case.page_size,
                     causal=query_len > 1, sm_scale=case.head_dim ** -0.5, **case.dtypes)
        out = torch.empty_like(case.q)
        lse = torch.empty(case.q.shape[:2], device=GPU)
        yield lambda wrapper=wrapper, out=out, lse=lse: wrapper.run(
            case.q, case.pages, out=out, lse=lse)


def xqa_calls(shared, case):
    longest = int(case.lengths.max())
    lengths = case.lengths.to(GPU).view(torch.uint32)
    for indices in case.indices:
        table = case.block_table(indices)
        out = torch.empty_like(case.q)
        yield lambda table=table, out=out: xqa_batch_decode_with_kv_cache(
            case.q, case.pages, shared.xqa_workspace, table, lengths, longest,
            bmm1_scale=case.head_dim ** -0.5, bmm2_scale=1.0, out=out, kv_layout="NHD")


def prefill_calls(shared, case, backend):
    for indices in case.indices:
        wrapper = BatchPrefillWithPagedKVCacheWrapper(shared.workspace, "NHD", backend=backend)
        wrapper.plan(case.query_indptr, case.indptr, indices.to(GPU), case.last_page_len,
                     *case.heads, case.page_size, causal=True, **case.dtypes)
        out = torch.empty_like(case.q)
        yield lambda wrapper=wrapper, out=out: wrapper.run(case.q, case.pages, out=out)


class Graph:
    """The calls in one CUDA graph; times() replays it."""

    def __init__(self, calls):
        self.calls = calls if len(calls) > 1 else calls * 2
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.no_grad():
            for call in self.calls:
                call()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=stream):
            for call in self.calls:
                call()

    def sample_ms(self, replays):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(replays):
            self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    def median_us(self, samples):
        self.sample_ms(1)
        replays = max(1, round(2 / max(1e-3, self.sample_ms(2) / 2)))
        for _ in range(3):
            self.sample_ms(replays)
        times = [self.sample_ms(replays) for _ in range(samples)]
        return statistics.median(times) * 1e3 / replays / len(self.calls)


def exact_head(case, indices, row):
    """fp32 attention of the first new token of a row."""
    new, seq_len = case.rows[row]
    begin, end = int(case.indptr[row]), int(case.indptr[row + 1])
    pages = indices[begin:end].long().to(GPU)
    seen = seq_len - new + 1
    # Picked as bytes: not every dtype can be indexed.
    keys, values = (pool.view(torch.uint8)[pages].view(pool.dtype).flatten(0, 1)[:seen].float()
                    for pool in case.pages)
    group = case.num_q_heads // case.num_kv_heads
    q = case.q[int(case.query_indptr[row])].float()
    scores = torch.einsum("hd,nhd->hn", q, keys.repeat_interleave(group, 1))
    weights = torch.softmax(scores * case.head_dim ** -0.5, -1)
    return torch.einsum("hn,nhd->hd", weights, values.repeat_interleave(group, 1))


def error_of(case, out):
    want = exact_head(case, case.indices[0], len(case.rows) - 1)
    got = out[int(case.query_indptr[len(case.rows) - 1])].float()
    return float((got - want).norm() / want.norm())


def rows_of(request):
    text = request["batch"]
    query_len = request.get("query_len", 1)
    if text == "skew":
        return [(query_len, 131072)] + [(query_len, 512)] * 127
    count, tokens = text.split("x")
    if request["kind"] == "decode":
        return [(query_len, int(tokens))] * int(count)
    new, _, context = tokens.partition("+")
    return [(int(new), int(new) + int(context or 0))] * int(count)


class Attention:
    def __init__(self, shared):
        self.shared = shared
        self.graphs = {}

    def makers(self, request, case):
        query_len = request.get("query_len", 1)
        if request["kind"] == "prefill":
            return {"fa3": lambda: prefill_calls(self.shared, case, "fa3"),
                    "fa2": lambda: prefill_calls(self.shared, case, "fa2")}
        makers = {"fa2_tc": lambda: fa2_calls(self.shared, case, query_len, split=False),
                  "fa2_tc_split": lambda: fa2_calls(self.shared, case, query_len, split=True),
                  "holistic": lambda: holistic_calls(self.shared, case, query_len)}
        if query_len == 1:
            makers["xqa"] = lambda: xqa_calls(self.shared, case)
        return makers

    def capture(self, request):
        case = Case(self.shared, request, rows_of(request))
        graphs = {}
        for name, make in self.makers(request, case).items():
            if name not in request.get("backends", [name]):
                continue
            try:
                calls = list(make())
                out = calls[0]()
                out = out[0] if isinstance(out, tuple) else out
                error = error_of(case, out)
                if not error < TOLERANCE[case.kv]:
                    raise RuntimeError(f"wrong result, relative error {error:.3f}")
                graphs[name] = Graph(calls)
            except Exception as problem:  # a backend may lack the shape; the others go on
                graphs[name] = f"{type(problem).__name__}: {str(problem).strip()[:200]}"
        return graphs

    def answer(self, request):
        key = json.dumps(request, sort_keys=True)
        if key not in self.graphs:
            self.graphs[key] = self.capture(request)
        for name, graph in self.graphs[key].items():
            if isinstance(graph, str):
                yield {"peer": name, "us": None, "error": graph}
            else:
                yield {"peer": name, "us": round(graph.median_us(request.get("samples", 15)), 2)}


def host_us(call, busy, samples=40):
    """Median host time of call(); busy: the GPU has work queued when it begins."""
    times = []
    for _ in range(samples):
        torch.cuda.synchronize()
        if busy:
            torch.cuda._sleep(BUSY_CYCLES)
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e6)
    torch.cuda.synchronize()
    return statistics.median(times)


def plan_calls(shared, case):
    """Name → a call that plans the next step, for lengths that live on the host or on the GPU."""
    indices = case.indices[0].to(GPU)
    indptr, last_page_len = case.indptr.to(GPU), case.last_page_len.to(GPU)
    common = (*case.heads, case.page_size)

    def planned():
        wrapper = decode_wrapper(shared, case, len(indices))
        wrapper.plan(case.indptr, indices, case.last_page_len, *common, **case.dtypes)
        return wrapper

    host, device, fast = planned(), planned(), planned()
    whole = BatchAttention("NHD", GPU)
    queries, lengths = case.query_indptr.to(GPU), case.lengths.to(GPU)
    return {
        "plan(), lengths on the host": lambda: host.plan(
            case.indptr, indices, case.last_page_len, *common, **case.dtypes),
        "plan(), lengths on the GPU": lambda: device.plan(
            indptr, indices, last_page_len, *common, **case.dtypes),
        "fast_decode_plan()": lambda: fast_decode_plan(
            fast, indptr, indices, case.last_page_len, *common,
            global_override_indptr_cpu=case.indptr, **case.dtypes),
        "holistic plan()": lambda: whole.plan(
            queries, indptr, indices, lengths, *case.heads, case.head_dim, case.page_size,
            sm_scale=case.head_dim ** -0.5, **case.dtypes),
    }


def plan_answers(shared, request):
    """Host time of planning a decode step of equal rows: 32x8x128, 640 tokens, pages of 16."""
    batch = {"kind": "decode", "shape": "32x8x128", "batch": f"{request['batch']}x640"}
    case = Case(shared, batch, rows_of(batch))
    for name, call in plan_calls(shared, case).items():
        for busy in (False, True):
            label = name + (", GPU busy" if busy else "")
            try:
                for _ in range(5):
                    call()
                yield {"peer": label, "us": round(host_us(call, busy), 1)}
            except Exception as problem:
                yield {"peer": label, "us": None, "error": str(problem)[:200]}


def warm_clocks():
    """An idle GPU clocks down."""
    a = torch.randn(4096, 4096, device=GPU, dtype=BF16)
    end = time.perf_counter() + 0.3
    while time.perf_counter() < end:
        for _ in range(20):
            a @ a
        torch.cuda.synchronize()


def main():
    shared = Shared()
    attention = Attention(shared)
    print(json.dumps({"versions": f"FlashInfer {flashinfer.__version__}, torch {torch.__version__}"}),
          flush=True)
    idle_since = 0.0
    for line in sys.stdin:
        request = json.loads(line)
        if time.perf_counter() > idle_since + 0.2:
            warm_clocks()
        answers = (plan_answers(shared, request) if request["kind"] == "plan"
                   else attention.answer(request))
        for answer in answers:
            print(json.dumps(answer), flush=True)
        print(json.dumps({"done": True}), flush=True)
        idle_since = time.perf_counter()


if __name__ == "__main__":
    main()
