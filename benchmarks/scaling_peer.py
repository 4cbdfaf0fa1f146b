"""A public tuned set-up beside ours: torchtitan 0.2 with a Llama of the same matrix products.

Its own model, checkpointing by operation, compilation by block, FSDP2 wrapping and compiled loss;
its defaults for all of them. Its command line, data loader and trainer are left out: the tokens are
random, the step is its trainer's (forward, backward, clip, fused AdamW on float32 weights).
"""

import gc
import importlib.util
import statistics
import sys
import time
import types
from pathlib import Path
from typing import Any

import torch
from qwen_shapes import QWEN
from scaling_update import Clock, figures, memory_gib
from torch.distributed.device_mesh import init_device_mesh
from transformers import Qwen2Config

from nbkit.parallel.counts import largest


def measure_peer(setting: dict[str, Any], world: Any) -> dict[str, Any]:
    """Steps of causal language modelling on random tokens; the same figures as of ours."""
    parts = load()
    device = world.device
    began = time.perf_counter()
    model = build(parts, setting, device)
    mesh = init_device_mesh(device.type, (world.size,))
    low = torch.bfloat16 if setting["precision"] == "bfloat16" else torch.float32
    parts.wrap.apply_ac(
        model,
        parts.jobs.ActivationCheckpoint(mode="selective", selective_ac_option="op"),
        model_compile_enabled=setting["compile"],
        op_sac_save_list=parts.wrap._op_sac_save_list,
        base_folder="",
    )
    if setting["compile"]:
        parts.wrap.apply_compile(model, parts.jobs.Compile(enable=True))
    parts.wrap.apply_fsdp(
        model, mesh, param_dtype=low, reduce_dtype=torch.float32, pp_enabled=False
    )
    model.train()
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=1e-6, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )
    gc.collect()
    prepared = time.perf_counter()
    loss_of = parts.loss.cross_entropy_loss
    if setting["compile"]:
        loss_of = torch.compile(loss_of)
    clock = Clock(device)
    generator = torch.Generator().manual_seed(17 + world.rank)
    shape = Qwen2Config(**QWEN[setting["shape"]])
    number, micro = setting["rows_per_gpu"] // setting["micro_rows"], setting["micro_rows"]
    ids = torch.randint(
        shape.vocab_size, (number, micro, setting["length"] + 1), generator=generator
    ).to(device)

    def step() -> dict[str, Any]:
        clock.clear()
        start = clock.now()
        total = torch.zeros((), device=device)
        count = number * micro * setting["length"] * world.size
        for part in ids:
            with clock.part("forward"):
                loss = loss_of(model(part[:, :-1]), part[:, 1:]) / count
            with clock.part("backward"):
                loss.backward()
            total += loss.detach()
        with clock.part("step"):
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
            optimiser.step()
            optimiser.zero_grad()
        return {
            "seconds": clock.now() - start,
            **clock.seconds(),
            "loss": float(total),
            "gradient_norm": float(norm.full_tensor()),
        }

    warm = [step()["seconds"] for _ in range(setting["warmup"])]
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    steps = [step() for _ in range(setting["steps"])]
    for taken in steps:
        taken["seconds"] = largest(taken["seconds"], device)
    return {
        **figures(setting, shape, world.size, steps),
        **memory_gib(lambda value: largest(value, device), setting["device"]),
        "steps": steps,
        "warmup_seconds": warm,
        "setup_seconds": {"prepare": prepared - began},
        "parameters": sum(p.numel() for p in model.parameters()),
        "torchtitan": parts.version,
        "median_loss": statistics.median(taken["loss"] for taken in steps),
    }


def load() -> Any:
    """The modules of torchtitan that take part.

    The package of its Llama would import data sets and tokenizers that play no part here, so its
    modules are imported beside it; and where `datasets` is missing, an empty one stands in.

    Raises:
        ImportError: it is not installed.

    """
    found = importlib.util.find_spec("torchtitan")
    if found is None or not found.submodule_search_locations:
        raise ImportError("torchtitan is not installed: pip install torchtitan==0.2.2")
    if importlib.util.find_spec("datasets") is None:
        stand_in("datasets", "Dataset", "load_dataset")
        stand_in("datasets.distributed", "split_dataset_by_node")
    root = Path(next(iter(found.submodule_search_locations)))
    name = "torchtitan.models.llama3"
    package = types.ModuleType(name)
    package.__path__ = [str(root / "models" / "llama3")]
    sys.modules.setdefault(name, package)
    from importlib.metadata import version

    from torchtitan.components import loss
    from torchtitan.config import job_config
    from torchtitan.models.llama3.infra import parallelize
    from torchtitan.models.llama3.model import args, model

    return types.SimpleNamespace(
        wrap=parallelize, jobs=job_config, loss=loss, args=args, model=model,
        version=version("torchtitan"),
    )  # fmt: skip


def stand_in(name: str, *attributes: str) -> None:
    """A module of which only the names are asked."""
    module = types.ModuleType(name)
    module.__path__ = []
    for attribute in attributes:
        setattr(module, attribute, None)
    sys.modules[name] = module


def build(parts: Any, setting: dict[str, Any], device: torch.device) -> Any:
    """A Llama with the matrices of a shape of ours, initialised on the device."""
    shape = QWEN[setting["shape"]]
    width, inner = int(shape["hidden_size"]), int(shape["intermediate_size"])
    found = parts.args.TransformerModelArgs(
        dim=width,
        n_layers=shape["num_hidden_layers"],
        n_heads=shape["num_attention_heads"],
        n_kv_heads=shape["num_key_value_heads"],
        vocab_size=shape["vocab_size"],
        # Its rule is 8/3 of the width times this, rounded up to a multiple.
        ffn_dim_multiplier=(inner - 1) / int(8 * width / 3),
        multiple_of=64 if inner % 256 else 256,
        max_seq_len=setting["length"],
        rope_theta=500_000,
    )
    torch.manual_seed(0)
    with device:
        model = parts.model.Transformer(found)
    with torch.no_grad():
        model.init_weights(buffer_device=device)
    wide = model.layers["0"].feed_forward.w1.weight.shape[0]
    if wide != inner:
        raise ValueError(f"torchtitan made an MLP of {wide}; wanted {inner}")
    return model
