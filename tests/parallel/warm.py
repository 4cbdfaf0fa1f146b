"""Imported once by the fork server, so that the processes of a test start at once."""

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from nbkit.parallel.deepspeed_setup import build

torch.set_num_threads(1)
build("cpu")

__all__ = ["Qwen2Config", "Qwen2ForCausalLM"]
