"""Imported once by the fork server, so that the processes of a test start at once."""

import gc
import os

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from nbkit.parallel.deepspeed_setup import build

torch.set_num_threads(1)
os.environ.setdefault("TORCH_WARM_POOL", "0")  # threads of torch's compiler survive no fork
build("cpu")

# What `deepspeed.initialize` imports at its first call: half a thousand modules of the compiler.
from deepspeed.runtime.zero.muon import muon_optimizer  # noqa: E402

gc.freeze()  # DeepSpeed collects garbage when it starts; what all share need not be looked at

__all__ = ["Qwen2Config", "Qwen2ForCausalLM", "muon_optimizer"]
