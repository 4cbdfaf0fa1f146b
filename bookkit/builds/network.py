"""The network of build 32: small, the same for the judge and for the learner's processes."""

import torch
from torch import nn

FEATURES, WIDTH, CLASSES = 6, 24, 5


def network(seed: int = 0) -> nn.Sequential:
    """Three layers, features (…, F) to logits (…, C); the seed draws its weights."""
    generator = torch.Generator().manual_seed(seed)
    sizes = ((FEATURES, WIDTH), (WIDTH, WIDTH), (WIDTH, CLASSES))
    first, second, last = (nn.Linear(inputs, outputs) for inputs, outputs in sizes)
    model = nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), last)
    with torch.no_grad():
        for parameter in model.parameters():
            scale = 0.4 if parameter.ndim == 2 else 0.1
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))
    return model
