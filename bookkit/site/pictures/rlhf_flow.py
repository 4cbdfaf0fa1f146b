"""One update of PPO-RLHF as a flow of tensors, by the names and shapes of chapter 21."""

from __future__ import annotations

from bookkit.site.pictures.svg import arrow, box, drawing, line, words

FIGURE_WIDTH = 360.0
SIZE = 11.5
TRAINED, FROZEN = "trained", "frozen"
# The four models that read the samples: name, state, what each gives for them.
MODELS = (
    ("policy", TRAINED, "logprobs", "(B, T)"),
    ("reference", FROZEN, "ref_logprobs", "(B, T)"),
    ("reward model", FROZEN, "scores", "(B,)"),
    ("value model", TRAINED, "values", "(B, T)"),
)
TONES = {TRAINED: ("none", "build", "build"), FROZEN: ("surface", "muted", "ink")}
COLUMN, FIRST, BOX = 83.0, 55.5, 76.0


def centre(column: int) -> float:
    """Middle of a column."""
    return FIRST + COLUMN * column


def rlhf_data_flow() -> str:
    """From prompts to the two losses; dashed: the gradient of each loss, to the model it trains."""
    middle, last = FIGURE_WIDTH / 2, centre(3)
    shapes = [
        *_model(middle - 72, 30, 144, "policy samples an answer", TRAINED),
        words(middle, 12, "prompts (B)", size=SIZE),
        arrow((middle, 17), (middle, 29)),
        arrow((middle, 68), (middle, 81)),
        words(middle - 10, 93, "ids, attention (B, P+T)", size=SIZE, anchor="end"),
        words(middle + 10, 93, "mask (B, T)", size=SIZE, anchor="start"),
    ]
    for column, (name, state, tensor, shape) in enumerate(MODELS):
        x = centre(column)
        shapes += [
            arrow((x, 110), (x, 122)),
            *_model(x - BOX / 2, 123, BOX, name, state),
            arrow((x, 161), (x, 173)),
            words(x, 186, tensor, size=SIZE),
            words(x, 200, shape, size=SIZE),
            arrow((x, 206), (x, 291 if column == 3 else 222)),
        ]
    shapes += [
        line([(middle, 84), (middle, 110)]),
        line([(centre(0), 110), (last, 110)]),
        *_step(centre(0) - BOX / 2, 223, 2 * COLUMN + BOX, "reward of each token"),
        words(centre(1), 254, "−β (logprobs − ref_logprobs)", size=SIZE),
        words(centre(1), 269, "+ score, at the last token", size=SIZE),
        arrow((centre(1), 276), (centre(1), 291)),
        words(centre(1) + 8, 288, "rewards (B, T)", size=SIZE, anchor="start"),
        box(centre(0) - BOX / 2, 292, 3 * COLUMN + BOX, 22, "none", "muted", 4),
        words(middle, 307, "GAE over tokens, γ = 1", size=SIZE),
    ]
    for x, name, weighted, formula in (
        (centre(0) + 44, "policy loss", "advantages (B, T)", "clipped ratio × advantage"),
        (last - 44, "value loss", "returns (B, T)", "½ (value − return)²"),
    ):
        shapes += [
            arrow((x, 314), (x, 345)),
            words(x + 7, 333, weighted, size=SIZE, anchor="start"),
            box(x - 74, 346, 148, 40, "none", "break", 4),
            words(x, 362, name, "break", SIZE, weight=650),
            words(x, 378, formula, size=SIZE),
        ]
    for side, loss, model in (
        (7.0, centre(0) - 30, centre(0) - BOX / 2),
        (FIGURE_WIDTH - 7, last + 30, last + BOX / 2),
    ):
        way = [(loss, 386), (loss, 398), (side, 398), (side, 142), (model, 142)]
        shapes.append(line(way[:-1], "break", 1.5, "4 3"))
        shapes.append(arrow(way[-2], way[-1], "break"))
    shapes.append(words(middle, 402, "gradients", "break", SIZE))
    return drawing(*shapes, width=FIGURE_WIDTH, height=410)


def _model(x: float, y: float, width: float, name: str, state: str) -> list[str]:
    """A box of a model: its name, and whether it is trained."""
    fill, stroke, ink = TONES[state]
    return [
        box(x, y, width, 38, fill, stroke, 4),
        words(x + width / 2, y + 16, name, size=SIZE, weight=650),
        words(x + width / 2, y + 31, state, ink, SIZE),
    ]


def _step(x: float, y: float, width: float, title: str) -> list[str]:
    """A box of a computation, with its title."""
    return [
        box(x, y, width, 53, "none", "muted", 4),
        words(x + width / 2, y + 15, title, size=SIZE, weight=650),
    ]
