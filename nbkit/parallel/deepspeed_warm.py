"""Imported once by the server that ranks are forked from, so that DeepSpeed starts at once in each.

Its first engine imports the compiler of torch and loads a helper in C++, which takes seconds.
"""

import os

# Ranks do not inherit these; they are for the imports here.
os.environ.setdefault("DS_ACCELERATOR", "cpu")

from nbkit.parallel.deepspeed_setup import build

build("cpu")

import deepspeed.runtime.zero.muon.muon_optimizer  # noqa: E402

__all__ = ["deepspeed"]
