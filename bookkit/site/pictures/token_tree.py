"""The token view of chapter 2 as a tree: states are prefixes, actions are tokens."""

from __future__ import annotations

from bookkit.site.pictures.svg import Point, box, drawing, line, words

FIGURE_WIDTH = 360.0
SIZE = 11.5
EOS = "EOS"
POLICY = {"a": 0.5, "b": 0.25, EOS: 0.25}  # the same in every state; at the limit EOS is certain
LIMIT = 2  # letters of a text
SAMPLED = ("a", "b", EOS)
LEFT, STEP, ROW, TOP = 28.0, 101.0, 36.0, 42.0
WIDE, HIGH = 52.0, 30.0

Prefix = tuple[str, ...]


def choices(prefix: Prefix) -> dict[str, float]:
    """Probability of each next token; none after EOS."""
    if prefix and prefix[-1] == EOS:
        return {}
    return {EOS: 1.0} if len(prefix) == LIMIT else POLICY


def final_return(text: Prefix) -> float:
    """1 if the finished text contains "ab", else 0."""
    return float("ab" in "".join(text[:-1]))


def value(prefix: Prefix) -> float:
    """Expected return from a prefix on."""
    following = choices(prefix)
    if not following:
        return final_return(prefix)
    return sum(p * value((*prefix, token)) for token, p in following.items())


def leaves(prefix: Prefix = ()) -> list[Prefix]:
    """Every finished text, in the order of the drawing."""
    following = choices(prefix)
    if not following:
        return [prefix]
    return [leaf for token in following for leaf in leaves((*prefix, token))]


def probability(text: Prefix) -> float:
    """Product of the probabilities of its tokens."""
    result = 1.0
    for place, token in enumerate(text):
        result *= choices(text[:place])[token]
    return result


def place(prefix: Prefix) -> Point:
    """A leaf in its row; any other state in the middle of its leaves."""
    rows = [row for row, leaf in enumerate(leaves()) if leaf[: len(prefix)] == prefix]
    return LEFT + STEP * len(prefix), TOP + ROW * sum(rows) / len(rows)


def token_tree() -> str:
    """All texts of at most two letters; one of them is sampled."""
    shapes: list[str] = []
    for depth, name in enumerate(("s₀", "s₁", "s₂", "s₃")):
        shapes.append(words(LEFT + STEP * depth, 16, name, size=12.5, weight=650))
    boxes: list[str] = []
    _draw((), shapes, boxes)
    bottom = TOP + ROW * (len(leaves()) - 1) + HIGH / 2
    factors = " · ".join(f"{choices(SAMPLED[:i])[t]:g}" for i, t in enumerate(SAMPLED))
    chance = f"{factors} = {probability(SAMPLED):g}"
    told = f"sampled: {', '.join(SAMPLED)}, with probability {chance}"
    shapes.append(words(FIGURE_WIDTH / 2, bottom + 24, told, "build", SIZE))
    return drawing(*shapes, *boxes, width=FIGURE_WIDTH, height=bottom + 34)


def _draw(prefix: Prefix, edges: list[str], boxes: list[str]) -> None:
    """The state of a prefix and all behind it; edges are drawn under the boxes."""
    x, y = place(prefix)
    sampled = prefix == SAMPLED[: len(prefix)]
    following = choices(prefix)
    tone = "build" if sampled else "muted"
    fill = "surface" if following else "none"
    boxes.append(box(x - WIDE / 2, y - HIGH / 2, WIDE, HIGH, fill, tone, 4 if following else 14))
    title = ("".join(prefix) or "prompt") if following else EOS
    told = f"V = {value(prefix):g}" if following else f"return {final_return(prefix):g}"
    ink = "break" if not following and final_return(prefix) else "ink"
    boxes.append(words(x, y - 2, title, size=SIZE, weight=650))
    boxes.append(words(x, y + 11, told, ink, SIZE))
    for token, chance in following.items():
        end_x, end_y = place((*prefix, token))
        taken = sampled and SAMPLED[len(prefix)] == token
        start, end = (x + WIDE / 2, y), (end_x - WIDE / 2, end_y)
        edges.append(line([start, end], "build" if taken else "muted", 2.4 if taken else 1.2))
        boxes.append(_on_edge(start, end, f"{chance:g}"))
        _draw((*prefix, token), edges, boxes)


def _on_edge(start: Point, end: Point, text: str) -> str:
    """The probability of a token, where its edge arrives: on the side that the edge leaves free."""
    falls = end[1] > start[1]
    return words(end[0] - 4, end[1] + (13 if falls else -5), text, size=SIZE, anchor="end")
