"""What the tiny random checkpoints are: one spec a checkpoint, and how their weights are drawn.

Knows transformers' configuration and model classes; knows nothing of files or golden values
(make_tiny_checkpoints.py does those). Everything is a pure function of the seed in the spec.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers

LINEAR, FULL = "linear_attention", "full_attention"


@dataclass(frozen=True)
class Spec:
    """One checkpoint. `config` goes to `config_class`; the rest says how it is written."""

    name: str
    about: str
    config_class: str
    model_class: str
    config: dict[str, Any]
    seed: int
    zero_centred_norms: bool = False  # RMSNorm multiplies by (1 + w); the gated norm never does
    transformers4_config: bool = False  # config.json as transformers 4 spelled it
    max_shard_size: str = "1GB"
    fp32_tensors: tuple[str, ...] = ()  # suffixes kept in fp32, everything else is bf16
    extra_tensors: dict[str, tuple[int, ...]] = field(default_factory=dict)  # to be skipped
    extra_text_config: dict[str, Any] = field(default_factory=dict)


def _llama(**changes: Any) -> dict[str, Any]:
    base = dict(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        rms_norm_eps=1e-5,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )
    return {**base, **changes}


def _hybrid(**changes: Any) -> dict[str, Any]:
    base = dict(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=4,
        layer_types=[LINEAR, LINEAR, LINEAR, FULL],
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=64,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        linear_conv_kernel_dim=4,
        max_position_embeddings=2048,
        rms_norm_eps=1e-6,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        tie_word_embeddings=True,
        rope_parameters=_hybrid_rope([3, 3, 2]),
    )
    return {**base, **changes}


def _hybrid_rope(mrope_section: list[int]) -> dict[str, Any]:
    return {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.25,
        "mrope_section": mrope_section,
        "mrope_interleaved": True,
    }


def _next_dense(**changes: Any) -> dict[str, Any]:
    config = _hybrid(
        num_hidden_layers=2,
        tie_word_embeddings=False,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
        mlp_only_layers=[0, 1],
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10000000.0,
            "partial_rotary_factor": 0.25,
        },
    )
    del config["layer_types"]  # as published: an interval instead of a list
    return {**config, "full_attention_interval": 2, **changes}


def _hybrid_spec(name: str, about: str, seed: int, config: dict[str, Any], **more: Any) -> Spec:
    return Spec(
        name=name,
        about=about,
        config_class="Qwen3_5TextConfig",
        model_class="Qwen3_5ForCausalLM",
        config=config,
        seed=seed,
        zero_centred_norms=True,
        **more,
    )


_VISION = dict(
    depth=1,
    hidden_size=16,
    intermediate_size=24,
    num_heads=2,
    in_channels=3,
    patch_size=2,
    spatial_merge_size=2,
    temporal_patch_size=2,
    out_hidden_size=64,
    num_position_embeddings=4,
)

SPECS: tuple[Spec, ...] = (
    Spec(
        name="llama_gqa_untied",
        about="Llama, two query heads a KV head, untied embeddings, default rope",
        config_class="LlamaConfig",
        model_class="LlamaForCausalLM",
        config=_llama(),
        seed=101,
    ),
    Spec(
        name="llama_llama3_tied",
        about="Llama 3.2 in small: tied, rope_type llama3, config spelled as transformers 4 did",
        config_class="LlamaConfig",
        model_class="LlamaForCausalLM",
        config=_llama(
            num_attention_heads=2,
            num_key_value_heads=1,
            tie_word_embeddings=True,
            max_position_embeddings=131072,
            rope_parameters={
                "rope_type": "llama3",
                "rope_theta": 500000.0,
                "factor": 32.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
        ),
        seed=132,
        transformers4_config=True,
    ),
    Spec(
        name="llama_linear",
        about="Llama, one layer, linear rope scaling in the oldest spelling (`type`)",
        config_class="LlamaConfig",
        model_class="LlamaForCausalLM",
        config=_llama(
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
        ),
        seed=103,
        transformers4_config=True,
    ),
    Spec(
        name="qwen3",
        about="Qwen3: q and k norms, three query heads a KV head, head_dim != hidden / heads",
        config_class="Qwen3Config",
        model_class="Qwen3ForCausalLM",
        config=_llama(
            num_attention_heads=3,
            num_key_value_heads=1,
            head_dim=32,
            rms_norm_eps=1e-6,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
        ),
        seed=174,
    ),
    _hybrid_spec(
        "qwen3_5",
        "Qwen3.5 text model: three GDN layers and one attention layer, Hv / Hk = 2, tied",
        2130,
        _hybrid(),
    ),
    _hybrid_spec(
        "qwen3_5_k_ne_v",
        "Qwen3.5 with K = 32, V = 16, Hv / Hk = 4; the attention layer comes first",
        432,
        _hybrid(
            num_hidden_layers=3,
            layer_types=[FULL, LINEAR, LINEAR],
            head_dim=32,
            linear_num_value_heads=8,
            linear_key_head_dim=32,
            rope_parameters=_hybrid_rope([2, 1, 1]),
        ),
    ),
    _hybrid_spec(
        "real_heads",
        "Qwen3.5 with the published head sizes: GDN 128 x 128, attention 256",
        243,
        _hybrid(
            num_hidden_layers=2,
            layer_types=[LINEAR, FULL],
            head_dim=256,
            linear_num_key_heads=1,
            linear_num_value_heads=2,
            linear_key_head_dim=128,
            linear_value_head_dim=128,
            rope_parameters=_hybrid_rope([11, 11, 10]),
        ),
    ),
    _hybrid_spec(
        "sharded",
        "Qwen3.5 in three shards with model.safetensors.index.json",
        224,
        _hybrid(num_hidden_layers=2, layer_types=[LINEAR, FULL], tie_word_embeddings=False),
        max_shard_size="100KB",
    ),
    Spec(
        name="qwen3_5_conditional",
        about="Qwen3_5ForConditionalGeneration: nested text_config, model.language_model.* names, "
        "vision and mtp.* tensors that a text loader skips, A_log and the gated norm in fp32",
        config_class="Qwen3_5Config",
        model_class="Qwen3_5ForConditionalGeneration",
        config=dict(
            text_config=_hybrid(
                num_hidden_layers=2, layer_types=[LINEAR, FULL], tie_word_embeddings=False
            ),
            vision_config=_VISION,
            tie_word_embeddings=False,
            image_token_id=252,
            video_token_id=253,
            vision_start_token_id=254,
            vision_end_token_id=255,
        ),
        seed=205,
        zero_centred_norms=True,
        fp32_tensors=("linear_attn.A_log", "linear_attn.norm.weight"),
        extra_tensors={
            "mtp.fc.weight": (64, 128),
            "mtp.layers.0.input_layernorm.weight": (64,),
            "mtp.norm.weight": (64,),
        },
        extra_text_config={
            "attn_output_gate": True,
            "full_attention_interval": 2,
            "mamba_ssm_dtype": "float32",
            "mtp_num_hidden_layers": 1,
            "mtp_use_dedicated_embeddings": False,
        },
    ),
    Spec(
        name="qwen3_next_dense",
        about="Qwen3-Next without experts (mlp_only_layers lists every layer): fused in_proj_qkvz "
        "and in_proj_ba, config spelled as transformers 4 did, full_attention_interval",
        config_class="Qwen3NextConfig",
        model_class="Qwen3NextForCausalLM",
        config=_next_dense(),
        seed=351,
        zero_centred_norms=True,
        transformers4_config=True,
    ),
)


def build_model(spec: Spec) -> torch.nn.Module:
    """The model with its random weights, all rounded to bf16 (kept fp32 where the spec says)."""
    config = getattr(transformers, spec.config_class)(**spec.config)
    model = getattr(transformers, spec.model_class)(config).eval()
    generator = torch.Generator().manual_seed(spec.seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            parameter.copy_(_draw(name, tuple(parameter.shape), spec, generator))
    model.to(torch.bfloat16)
    return model


def draw_extra(spec: Spec) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(spec.seed + 1000)
    return {
        name: _draw(name, shape, spec, generator).to(torch.bfloat16)
        for name, shape in sorted(spec.extra_tensors.items())
    }


def _draw(
    name: str, shape: tuple[int, ...], spec: Spec, generator: torch.Generator
) -> torch.Tensor:
    """Values that make every formula matter: no norm is 0 or 1, A reaches 16, decays are mixed."""
    noise = torch.randn(shape, generator=generator)
    if name.endswith("A_log"):  # A from 0.05 to 16, one of each
        return _shuffled(torch.linspace(math.log(0.05), math.log(16.0), shape[0]), generator)
    if name.endswith("dt_bias"):  # at rest: decays from almost none to several nats a token
        return _shuffled(torch.linspace(-5.0, 1.0, shape[0]), generator) + 0.1 * noise
    if name.endswith("linear_attn.norm.weight"):
        return 1.0 + 0.3 * noise
    if name.endswith(("q_norm.weight", "k_norm.weight")):
        return (0.4 if spec.zero_centred_norms else 1.4) + 0.3 * noise
    if "visual." not in name and name.endswith("norm.weight"):
        return (0.0 if spec.zero_centred_norms else 1.0) + 0.3 * noise
    if name.endswith(("embed_tokens.weight", "lm_head.weight")):
        return noise * (3.0 / math.sqrt(shape[1]))
    if len(shape) == 1:  # vision biases and norms: never read by the text model
        return 0.1 * noise
    if name.endswith("conv1d.weight"):
        return 0.6 * noise
    return noise * (1.3 / math.sqrt(math.prod(shape[1:])))


def _shuffled(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return values[torch.randperm(values.numel(), generator=generator)]
