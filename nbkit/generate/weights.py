"""Reading the weights of a Hugging Face decoder in place.

What the engine needs of a layer is four matrices; queries, keys and values, and the gate and the
up-projection of the MLP, are parts of two of them. Everything here is the module's own memory.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from nbkit.text.scalar_models import SharedActorCritic

SHAPES = ("llama", "qwen2", "qwen3", "gpt2")
_ROPE = ("default", "linear", "llama3", "yarn")


@dataclass(frozen=True)
class Geometry:
    """What a decoder looks like; sizes are counts, `scale` multiplies q·k."""

    family: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    eps: float
    scale: float
    longest: int | None
    activation: Callable[[Tensor], Tensor]
    gated: bool
    silu: bool


@dataclass(frozen=True)
class Matrix:
    """y = x Wᵀ + b. The weight is (out, in); the parts, if several, are joined along `out`."""

    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...]


@dataclass(frozen=True)
class Layer:
    """The weights of one block, as parts (from the module) or joined (in the engine)."""

    norm: tuple[Tensor, ...]
    qkv: Matrix
    q_norm: Tensor | None
    k_norm: Tensor | None
    out: Matrix
    mlp_norm: tuple[Tensor, ...]
    up: Matrix
    down: Matrix


@dataclass(frozen=True)
class Weights:
    """All weights of a decoder."""

    embedding: Tensor
    positions: Tensor | None
    layers: tuple[Layer, ...]
    norm: tuple[Tensor, ...]
    head: Matrix
    inverse_frequencies: Tensor | None
    rope_scale: float

    def tensors(self) -> Iterator[Tensor]:
        """Every tensor that a forward pass reads."""
        yield self.embedding
        if self.positions is not None:
            yield self.positions
        yield from (*self.norm, *self.head.weights, *self.head.biases)
        for layer in self.layers:
            for matrix in (layer.qkv, layer.out, layer.up, layer.down):
                yield from (*matrix.weights, *matrix.biases)
            yield from (*layer.norm, *layer.mlp_norm)
            if layer.q_norm is not None and layer.k_norm is not None:
                yield from (layer.q_norm, layer.k_norm)


def causal(policy: object) -> nn.Module:
    """The language model that ``nbkit.generate`` runs, whatever stands around it."""
    return unwrap(policy.model if isinstance(policy, SharedActorCritic) else policy)


def unwrap(model: object) -> nn.Module:
    """The transformers module inside a policy, a compiled module or a DDP wrapper."""
    from nbkit.text.policies import HuggingFacePolicy

    inner: Any = model
    while True:
        if isinstance(inner, HuggingFacePolicy):
            inner = inner.model
        elif isinstance(inner, nn.parallel.DistributedDataParallel):
            inner = inner.module
        elif hasattr(inner, "_orig_mod"):
            inner = inner._orig_mod
        else:
            return inner


def geometry(model: Any) -> Geometry:
    """Read the shape of a decoder; ValueError names what the engine does not know."""
    config = getattr(model, "config", None)
    family = getattr(config, "model_type", type(model).__name__)
    if family not in SHAPES or not hasattr(model, "lm_head"):
        raise ValueError(
            f"model: the engine runs causal language models of the shapes {', '.join(SHAPES)}; "
            f"got {family} ({type(model).__name__}); use its own generate"
        )
    assert config is not None
    if family == "gpt2":
        for name, wanted in (
            ("scale_attn_by_inverse_layer_idx", False),
            ("reorder_and_upcast_attn", False),
            ("scale_attn_weights", True),
            ("add_cross_attention", False),
        ):
            if getattr(config, name, wanted) != wanted:
                raise ValueError(f"model: GPT-2 with {name}={not wanted} is not supported")
        head_dim = config.n_embd // config.n_head
        return Geometry(
            *(family, config.n_layer, config.n_embd, config.n_head, config.n_head, head_dim),
            vocabulary=model.lm_head.weight.shape[0],
            eps=config.layer_norm_epsilon,
            scale=head_dim**-0.5,
            longest=config.n_positions,
            activation=model.transformer.h[0].mlp.act,
            gated=False,
            silu=False,
        )
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"}:
        raise ValueError(
            f"model: layers of kind {', '.join(sorted(kinds - {'full_attention'}))} are not "
            "supported; the engine attends to the whole sequence"
        )
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rope not in _ROPE:
        raise ValueError(
            f"model: rotary positions of type {rope!r} change with the length of the sequence "
            f"and are not supported; supported are {', '.join(_ROPE)}"
        )
    attention = model.model.layers[0].self_attn
    head_dim = attention.head_dim
    if 2 * model.model.rotary_emb.inv_freq.numel() != head_dim:
        raise ValueError("model: partly rotated heads are not supported")
    return Geometry(
        *(family, config.num_hidden_layers, config.hidden_size, config.num_attention_heads),
        kv_heads=config.num_key_value_heads,
        head_dim=head_dim,
        vocabulary=model.lm_head.weight.shape[0],
        eps=config.rms_norm_eps,
        scale=head_dim**-0.5,
        longest=None,
        activation=model.model.layers[0].mlp.act_fn,
        gated=True,
        silu=config.hidden_act == "silu",
    )


def read(model: Any) -> Weights:
    """The module's own tensors, not one of them copied."""
    if model.config.model_type == "gpt2":
        body = model.transformer
        layers = tuple(
            Layer(
                norm=_norm(block.ln_1),
                qkv=_matrix(block.attn.c_attn),
                q_norm=None,
                k_norm=None,
                out=_matrix(block.attn.c_proj),
                mlp_norm=_norm(block.ln_2),
                up=_matrix(block.mlp.c_fc),
                down=_matrix(block.mlp.c_proj),
            )
            for block in body.h
        )
        return Weights(
            embedding=body.wte.weight.detach(),
            positions=body.wpe.weight.detach(),
            layers=layers,
            norm=_norm(body.ln_f),
            head=_matrix(model.lm_head),
            inverse_frequencies=None,
            rope_scale=1.0,
        )
    body = model.model
    found = []
    for block in body.layers:
        attention, mlp = block.self_attn, block.mlp
        normed = hasattr(attention, "q_norm")
        found.append(
            Layer(
                norm=_norm(block.input_layernorm),
                qkv=_matrix(attention.q_proj, attention.k_proj, attention.v_proj),
                q_norm=attention.q_norm.weight.detach() if normed else None,
                k_norm=attention.k_norm.weight.detach() if normed else None,
                out=_matrix(attention.o_proj),
                mlp_norm=_norm(block.post_attention_layernorm),
                up=_matrix(mlp.gate_proj, mlp.up_proj),
                down=_matrix(mlp.down_proj),
            )
        )
    return Weights(
        embedding=body.embed_tokens.weight.detach(),
        positions=None,
        layers=tuple(found),
        norm=_norm(body.norm),
        head=_matrix(model.lm_head),
        inverse_frequencies=body.rotary_emb.inv_freq,
        rope_scale=float(body.rotary_emb.attention_scaling),
    )


def _norm(module: Any) -> tuple[Tensor, ...]:
    bias = getattr(module, "bias", None)
    own = (module.weight.detach(),)
    return own if bias is None else (*own, bias.detach())


def _matrix(*modules: Any) -> Matrix:
    weights, biases = [], []
    for module in modules:
        name = type(module).__name__
        if type(module) is not nn.Linear and name != "Conv1D":
            raise ValueError(
                f"model: one of its linear maps is a {name}; the engine reads plain weights, so "
                "merge adapters and undo quantisation first"
            )
        weight = module.weight.detach()
        if not weight.is_floating_point():
            raise ValueError(f"model: weights of {weight.dtype} are not supported")
        weights.append(weight.t() if name == "Conv1D" else weight)
        if module.bias is not None:
            biases.append(module.bias.detach())
    if biases and len(biases) != len(weights):
        raise ValueError("model: some of its joined linear maps have a bias and others have none")
    return Matrix(tuple(weights), tuple(biases))
