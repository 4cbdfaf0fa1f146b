"""The decoder of build 31: whole sequences only, its parts open to a sampler that keeps a cache."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY, WIDTH, HEADS, LAYERS, LONGEST = 24, 32, 4, 2, 320


class Block(nn.Module):
    """Norm, attention, norm, perceptron; both added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_attention, self.norm_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def heads_of(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (B, H, T, D / H) of (B, T, D)."""
        parts = self.qkv(self.norm_attention(x)).view(*x.shape[:2], 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        return query, key, value

    def finish(self, x: Tensor, mixed: Tensor) -> Tensor:
        """What leaves the block: x (B, T, D) and mixed values (B, H, T, D / H)."""
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norm_mlp(x))


class Decoder(nn.Module):
    """A small decoder; `forward` maps ids (B, T) without padding to logits (B, T, V)."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.position = (
            nn.Embedding(VOCABULARY, WIDTH),
            nn.Embedding(LONGEST, WIDTH),
        )
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def begin(self, ids: Tensor, positions: Tensor) -> Tensor:
        """What enters the first block: ids and positions (B, T) to (B, T, D)."""
        return self.embedding(ids) + self.position(positions)

    def end(self, x: Tensor) -> Tensor:
        """Logits (B, T, V) of what left the last block."""
        return self.head(self.norm(x))

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (B, T, V); place t sees places 0 to t."""
        x = self.begin(ids, torch.arange(ids.shape[1]).expand(ids.shape))
        for block in self.blocks:
            assert isinstance(block, Block)
            query, key, value = block.heads_of(x)
            x = block.finish(x, F.scaled_dot_product_attention(query, key, value, is_causal=True))
        return self.end(x)


def decoder(seed: int) -> Decoder:
    """A decoder in float64 whose next token depends on what stands before it."""
    generator = torch.Generator().manual_seed(seed)
    model = Decoder().double().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            scale = 1.0 if "embedding" in name or "position" in name else 2.0 / WIDTH**0.5
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator).double())
    return model
