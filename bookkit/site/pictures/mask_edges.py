"""The still picture of the interactive figure `mask-edges`: two texts, their mask, what counts."""

from __future__ import annotations

from bookkit.site.pictures.svg import box, drawing, line, words

# Token, and its log-probability after the tokens before it; the first token has none.
Token = tuple[str, float | None]
TEXTS: tuple[tuple[Token, ...], ...] = (
    (
        *(("2", None), ("+", -1.6), ("2", -1.9), ("=", -0.4)),
        *(("4", -0.2), ("<eos>", -0.1), ("<pad>", -9.0), ("<pad>", -9.0)),
    ),
    (
        *(("7", None), ("·", -2.4), ("3", -1.8), ("=", -0.3)),
        *(("2", -1.2), ("1", -0.6), ("<eos>", -0.3), ("<pad>", -9.0)),
    ),
)
PROMPT = 4  # tokens
CELL = (58.0, 24.0)
ROW = 92.0


def chosen(text: int) -> list[int]:
    """Places of the tokens that the policy chose: behind the prompt, up to the end of the text."""
    tokens = [token for token, _ in TEXTS[text]]
    return list(range(PROMPT, tokens.index("<eos>") + 1))


def mean_loss(counted: list[list[int]]) -> tuple[float, float]:
    """Minus the mean log-probability over all tokens that count, and over the means of the rows."""
    rows = [[-(TEXTS[text][at][1] or 0.0) for at in places] for text, places in enumerate(counted)]
    tokens = [value for row in rows for value in row]
    means = [sum(row) / len(row) if row else 0.0 for row in rows]
    return (sum(tokens) / len(tokens) if tokens else 0.0), sum(means) / len(means)


def mask_edges() -> str:
    """Tokens with the mask above, log-probabilities below, each under its token."""
    shapes: list[str] = []
    for text, tokens in enumerate(TEXTS):
        top, kept = 8 + ROW * text, chosen(text)
        for at, (token, logprob) in enumerate(tokens):
            left = 4 + CELL[0] * at
            marked = at in kept
            stroke, size = ("break" if marked else "rule"), (CELL[0] - 3, CELL[1])
            shapes.append(box(left, top, *size, fill="none", stroke=stroke))
            shapes.append(words(left + size[0] / 2, top + 16, token, size=11))
            if logprob is None:
                continue
            stroke = "build" if marked else "rule"
            shapes.append(box(left, top + 44, *size, fill="none", stroke=stroke))
            value = f"{logprob:.2f}".replace("-", "−")
            tone = "build" if marked else "muted"
            shapes.append(words(left + size[0] / 2, top + 60, value, tone, size=11))
            if marked:
                middle = left + size[0] / 2
                shapes.append(line([(middle, top + 26), (middle, top + 42)], "muted", 1.2))
    width = 8 + CELL[0] * len(TEXTS[0])
    return drawing(*shapes, width=width, height=ROW * len(TEXTS))
