#!/usr/bin/env python3
"""Writes tiny random checkpoints and what transformers computes from them (golden.json).

    python tools/make_tiny_checkpoints.py                      # writes tests/golden/tiny
    python tools/make_tiny_checkpoints.py --check tests/golden/tiny

Each checkpoint is drawn from a seed, saved in bf16, loaded again from the files and run on the CPU
in fp32 (weights widened, eager attention, torch fallbacks). --check makes everything anew in a
temporary folder and compares it with the committed files. See tools/README.md for the format.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

try:
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
except ImportError as error:  # the oracle is never needed to build or test, so say how to get it
    sys.exit(f"{error}. Make the oracle environment first: see tools/README.md.")

from tiny_models import SPECS, Spec, build_model, draw_extra

DEFAULT_DIR = Path(__file__).resolve().parent.parent / "tests" / "golden" / "tiny"
PROMPT_LENGTHS = (1, 63, 64, 65, 130)
PROMPT_TOKENS = max(PROMPT_LENGTHS)
GREEDY_PROMPT_TOKENS = 65
GREEDY_TOKENS = 32
FIRST_VALUES = 16
CHECK_TOLERANCE = 2e-5  # another CPU sums in another order
MAX_SELF_NOISE = 2e-5  # chunked prefill against token by token: well under the 1e-4 of the tests
MIN_GREEDY_GAP = 2e-2
MIN_LOGIT_SPREAD = 5.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=DEFAULT_DIR, help="folder to write")
    parser.add_argument("--check", type=Path, metavar="DIR", help="compare DIR, write nothing")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these checkpoints only")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()

    specs = [spec for spec in SPECS if arguments.only is None or spec.name in arguments.only]
    if arguments.only and len(specs) != len(set(arguments.only)):
        parser.error(f"--only takes names of {', '.join(spec.name for spec in SPECS)}")

    failures = 0
    for spec in specs:
        if arguments.check is None:
            write_checkpoint(spec, arguments.out / spec.name)
            continue
        with tempfile.TemporaryDirectory() as fresh:
            write_checkpoint(spec, Path(fresh), quiet=True)
            problems = compare_folders(arguments.check / spec.name, Path(fresh))
        print(f"{spec.name}: {'ok' if not problems else 'DIFFERS'}")
        for problem in problems:
            print(f"  {problem}")
        failures += bool(problems)
    return 1 if failures else 0


# ---- writing ----------------------------------------------------------------------------------


def write_checkpoint(spec: Spec, folder: Path, quiet: bool = False) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    build_model(spec).save_pretrained(folder, max_shard_size=spec.max_shard_size)
    (folder / "generation_config.json").unlink(missing_ok=True)
    finish_tensors(spec, folder)
    finish_config(spec, folder)

    for file in folder.iterdir():
        file.chmod(0o644)  # safetensors makes its files private

    golden = make_golden(spec, folder)
    (folder / "golden.json").write_text(dump_golden(golden))
    if not quiet:
        kilobytes = sum(file.stat().st_size for file in folder.iterdir()) / 1000
        summary = golden["summary"]
        print(
            f"{spec.name}: {kilobytes:.0f} kB, logit spread {summary['logit_spread_min']:.3g}, "
            f"smallest greedy gap {summary['greedy_gap_min']:.3g}, "
            f"self noise {summary['self_noise']:.2g}"
        )


def finish_tensors(spec: Spec, folder: Path) -> None:
    """Widens the tensors that real checkpoints keep in fp32 and adds those a loader must skip."""
    if not spec.fp32_tensors and not spec.extra_tensors:
        return
    file = folder / "model.safetensors"
    tensors = load_file(file)
    for name, tensor in tensors.items():
        if name.endswith(spec.fp32_tensors):
            # No bf16 value any more, so that a loader which narrows it is found out.
            tensors[name] = tensor.to(torch.float32) * 1.001
    tensors.update(draw_extra(spec))
    save_file(tensors, file, metadata={"format": "pt"})


def finish_config(spec: Spec, folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config.get("text_config", {}).update(spec.extra_text_config)
    path.write_text(dump_config(config))
    if spec.transformers4_config:
        path.rename(folder / "config.transformers5.json")
        path.write_text(dump_config(spell_as_transformers4(config)))


def spell_as_transformers4(config: dict[str, Any]) -> dict[str, Any]:
    """rope_parameters -> rope_theta, rope_scaling, partial_rotary_factor; dtype -> torch_dtype."""
    config = dict(config)
    rope = dict(config.pop("rope_parameters"))
    config["rope_theta"] = rope.pop("rope_theta")
    partial = rope.pop("partial_rotary_factor", None)
    if partial is not None:
        config["partial_rotary_factor"] = partial
    if rope["rope_type"] == "default":
        config["rope_scaling"] = None
    elif rope["rope_type"] == "linear":  # before 4.43 the key was `type`
        config["rope_scaling"] = {"type": "linear", "factor": rope["factor"]}
    else:
        config["rope_scaling"] = rope
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.57.0"
    if config["model_type"] == "qwen3_next":
        config["full_attention_interval"] = config.pop("layer_types").index("full_attention") + 1
    return config


def dump_config(config: dict[str, Any]) -> str:
    return json.dumps(config, indent=2, sort_keys=True) + "\n"


# ---- golden values ----------------------------------------------------------------------------


def make_golden(spec: Spec, folder: Path) -> dict[str, Any]:
    model = load_model(spec, folder)
    config = model.config.get_text_config()
    ids = prompt_ids(spec, config.vocab_size)

    logits = {length: run(model, ids[:length]).logits[0, -1] for length in PROMPT_LENGTHS}
    cache = run(model, ids).past_key_values
    greedy = run_greedy(model, ids[:GREEDY_PROMPT_TOKENS])

    summary = {
        "logit_spread_min": min(round7(float(x.max() - x.min())) for x in logits.values()),
        "greedy_gap_min": min(greedy["gaps"]),
        "self_noise": round7(self_noise(model, ids, logits)),
    }
    if summary["self_noise"] > MAX_SELF_NOISE:
        raise SystemExit(f"{spec.name}: badly conditioned, self noise {summary['self_noise']}")
    if summary["greedy_gap_min"] < MIN_GREEDY_GAP:
        raise SystemExit(f"{spec.name}: a greedy gap of {summary['greedy_gap_min']}; take a seed")
    if summary["logit_spread_min"] < MIN_LOGIT_SPREAD:
        raise SystemExit(f"{spec.name}: logit spread {summary['logit_spread_min']}")

    return {
        "name": spec.name,
        "about": spec.about,
        "made_with": {
            "tool": "tools/make_tiny_checkpoints.py",
            "transformers": transformers.__version__,
            "torch": torch.__version__,
            "how": "CPU, fp32 (weights widened from bf16), eager attention, torch fallbacks",
        },
        "seed": spec.seed,
        "vocab_size": config.vocab_size,
        "prompt_ids": ids,
        "logits_f32_base64": {str(length): encode(x) for length, x in logits.items()},
        "layers": layer_states(config, cache),
        "greedy": greedy,
        "summary": summary,
    }


def load_model(spec: Spec, folder: Path) -> torch.nn.Module:
    model, info = getattr(transformers, spec.model_class).from_pretrained(
        folder,
        dtype=torch.float32,
        attn_implementation="eager",
        output_loading_info=True,
    )
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        names = [name for name in info[what] if name not in spec.extra_tensors]
        if names:
            raise SystemExit(f"{spec.name}: {what}: {sorted(names)}")
    return model.eval()


def prompt_ids(spec: Spec, vocab_size: int) -> list[int]:
    # Ids that stand for pictures would send a conditional model down another path.
    limit = min([vocab_size] + [v for k, v in spec.config.items() if k.endswith("_token_id") and v])
    generator = random.Random(spec.seed)
    return [generator.randrange(limit) for _ in range(PROMPT_TOKENS)]


@torch.no_grad()
def run(model: torch.nn.Module, ids: list[int], cache: Any = None) -> Any:
    more = {} if cache is None else {"cache": cache}
    return model(input_ids=torch.tensor([ids]), use_cache=True, **more)


def run_greedy(model: torch.nn.Module, ids: list[int]) -> dict[str, Any]:
    tokens, gaps = [], []
    result = run(model, ids)
    for _ in range(GREEDY_TOKENS):
        best = result.logits[0, -1].topk(2)
        tokens.append(int(best.indices[0]))
        gaps.append(round7(float(best.values[0] - best.values[1])))
        result = run(model, tokens[-1:], result.past_key_values)
    return {"prompt_tokens": len(ids), "tokens": tokens, "gaps": gaps}


def self_noise(model: torch.nn.Module, ids: list[int], expected: dict[int, torch.Tensor]) -> float:
    """How far the logits move when the same prompt is fed token by token."""
    cache, noise = None, 0.0
    for length, token in enumerate(ids, start=1):
        result = run(model, [token], cache)
        cache = result.past_key_values
        if length in expected:
            noise = max(noise, float((result.logits[0, -1] - expected[length]).abs().max()))
    return noise


def layer_states(config: Any, cache: Any) -> list[dict[str, Any]]:
    layers = []
    for index, cached in enumerate(cache.layers):
        linear = hasattr(cached, "recurrent_states")
        if linear:
            window = config.linear_conv_kernel_dim - 1
            # transformers keeps one column more than is needed, and S as [Hv, K, V].
            conv = only(cached.conv_states)[0][:, -window:]
            state = only(cached.recurrent_states)[0].transpose(1, 2)
            values = {"conv_window": tensor_digest(conv), "state": tensor_digest(state)}
            values["state"]["l2_per_head"] = [round7(float(head.norm())) for head in state]
        else:
            # transformers keeps [Hkv, tokens, D]; ours has tokens first.
            keys, heads_values = cached.keys[0].transpose(0, 1), cached.values[0].transpose(0, 1)
            values = {"keys": tensor_digest(keys), "values": tensor_digest(heads_values)}
            for digest, tensor in zip(values.values(), (keys, heads_values)):
                digest["last_token_first"] = floats(tensor[-1].reshape(-1)[:FIRST_VALUES])
        layers.append({"layer": index, "type": "gdn" if linear else "attention", **values})
    return layers


def only(states: Any) -> torch.Tensor:
    return next(iter(states.values())) if isinstance(states, dict) else states


def tensor_digest(tensor: torch.Tensor) -> dict[str, Any]:
    return {
        "shape": list(tensor.shape),
        "l2": round7(float(tensor.double().norm())),
        "first": floats(tensor.reshape(-1)[:FIRST_VALUES]),
    }


def floats(tensor: torch.Tensor) -> list[float]:
    return [round7(float(x)) for x in tensor]


def round7(value: float) -> float:
    return float(f"{value:.7g}")


def encode(tensor: torch.Tensor) -> str:
    return base64.b64encode(tensor.to(torch.float32).numpy().astype("<f4").tobytes()).decode()


def decode(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.float32)


def dump_golden(value: Any) -> str:
    """JSON with one line for each list of numbers, so that a diff can be read."""
    return _dump(value, "") + "\n"


def _dump(value: Any, indent: str) -> str:
    deeper = indent + " "
    if isinstance(value, dict):
        rows = [f"{deeper}{json.dumps(k)}: {_dump(v, deeper)}" for k, v in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        rows = [f"{deeper}{_dump(v, deeper)}" for v in value]
        return "[\n" + ",\n".join(rows) + f"\n{indent}]"
    return json.dumps(value)


# ---- checking ---------------------------------------------------------------------------------


def compare_folders(committed: Path, fresh: Path) -> list[str]:
    if not committed.is_dir():
        return [f"{committed} is missing"]
    names = {file.name for file in committed.iterdir()} | {file.name for file in fresh.iterdir()}
    problems = []
    for name in sorted(names):
        old, new = committed / name, fresh / name
        if not old.exists() or not new.exists():
            problems.append(f"{name}: only in the {'fresh' if new.exists() else 'committed'} files")
        elif name == "golden.json":
            problems += compare_goldens(json.loads(old.read_text()), json.loads(new.read_text()))
        elif name.endswith(".safetensors"):
            problems += compare_tensors(name, load_file(old), load_file(new))
        elif json.loads(old.read_text()) != json.loads(new.read_text()):
            problems.append(f"{name}: differs")
    return problems


def compare_tensors(file: str, old: dict, new: dict) -> list[str]:
    problems = [f"{file}: {name}: only on one side" for name in sorted(old.keys() ^ new.keys())]
    for name in sorted(old.keys() & new.keys()):
        if old[name].dtype != new[name].dtype or not torch.equal(old[name], new[name]):
            problems.append(f"{file}: {name}: differs")
    return problems


def compare_goldens(old: Any, new: Any, path: str = "golden.json") -> list[str]:
    if path.endswith((".made_with", ".summary", ".about")):
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        if old.keys() != new.keys():
            return [f"{path}: other keys"]
        return [p for key in old for p in compare_goldens(old[key], new[key], f"{path}.{key}")]
    if ".logits_f32_base64" in path:
        delta = float((decode(old) - decode(new)).abs().max())
        return [] if delta <= CHECK_TOLERANCE else [f"{path}: logits differ by {delta:.2g}"]
    if isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            return [f"{path}: other length"]
        pairs = enumerate(zip(old, new))
        return [p for i, (a, b) in pairs for p in compare_goldens(a, b, f"{path}[{i}]")]
    if isinstance(old, float) and isinstance(new, float):
        close = abs(old - new) <= CHECK_TOLERANCE * max(1.0, abs(old))
        return [] if close else [f"{path}: {old} became {new}"]
    return [] if old == new else [f"{path}: {old} became {new}"]


if __name__ == "__main__":
    sys.exit(main())
