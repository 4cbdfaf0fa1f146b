"""Samples with a number under each token: a table whose colours say nothing that is not written."""

from collections.abc import Mapping, Sequence
from html import escape

_WARM, _COOL = (255, 190, 110), (140, 195, 255)
_INK = "#111"


def heat_colour(value: float, limit: float) -> str:
    """Background of a token: white at 0, orange up to `limit`, blue down to -`limit`.

    Both ends are light, so that dark ink on them keeps a contrast above 7 : 1.

    Args:
        value: of the token.
        limit: where the colour is full.

    Raises:
        ValueError: a limit that is not above 0.

    """
    if limit <= 0:
        raise ValueError(f"limit must be above 0; got {limit}")
    share = min(1.0, abs(value) / limit)
    end = _WARM if value > 0 else _COOL
    mixed = (round(255 + share * (channel - 255)) for channel in end)
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def signed(value: float, digits: int) -> str:
    """The number with its sign and a true minus; 0 for what rounds to it."""
    return f"{value:+.{digits}f}".replace("-", "−") if round(value, digits) else "0"


def token_heat(
    tokens: Sequence[str], values: Sequence[float], *, limit: float = 2.0, unit: str = "nats"
) -> str:
    """One text as HTML: each token on its colour, with its number below and in its title.

    Args:
        tokens: words.
        values: one a token.
        limit: where the colour is full.
        unit: for the title.

    Returns:
        A span that wraps where the page is narrow.

    Raises:
        ValueError: different lengths.

    """
    if len(tokens) != len(values):
        raise ValueError(f"tokens and values must be as many; got {len(tokens)} and {len(values)}")
    cells = []
    for token, value in zip(tokens, values, strict=True):
        cells.append(
            f'<span title="{escape(token)}: {value:+.2f} {unit}" style="display:inline-block;'
            f"background:{heat_colour(value, limit)};color:{_INK};border-radius:3px;"
            'padding:0 .3em;margin:1px;text-align:center;line-height:1.25">'
            f'{escape(token)}<br><small style="font-size:.72em">{signed(value, 1)}</small></span>'
        )
    return f"<span>{' '.join(cells)}</span>"


def sample_table(
    rows: Sequence[Mapping[str, object]],
    *,
    caption: str,
    limit: float = 2.0,
    unit: str = "nats",
) -> str:
    """Prompts, answers with coloured tokens, and scores as one HTML table.

    Args:
        rows: each with "prompt" (text), "tokens", "values" and "scores" (name to number); all rows
            name the same scores.
        caption: what the table shows and what the numbers under the words are.
        limit: where the colour is full.
        unit: of the numbers under the words.

    Returns:
        A block of its own that scrolls sideways where the page is narrow.

    Raises:
        ValueError: no rows, or rows with different scores.

    """
    if not rows:
        raise ValueError("rows: a table needs at least one")
    names = list(rows[0]["scores"])  # type: ignore[call-overload]
    body = []
    for row in rows:
        scores: Mapping[str, float] = row["scores"]  # type: ignore[assignment]
        if list(scores) != names:
            raise ValueError(f"rows: one has the scores {list(scores)}, the first has {names}")
        heat = token_heat(row["tokens"], row["values"], limit=limit, unit=unit)  # type: ignore[arg-type]
        numbers = "".join(
            f'<td style="text-align:right;white-space:nowrap">{signed(scores[name], 2)}</td>'
            for name in names
        )
        prompt = escape(str(row["prompt"]))
        body.append(
            f'<tr style="vertical-align:top"><th scope="row" style="font-weight:normal;'
            f'text-align:left;min-width:7em">{prompt}</th>'
            f'<td style="min-width:15em;text-align:left">{heat}</td>{numbers}</tr>'
        )
    left = ' style="text-align:left"'
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    return (
        f'<div role="region" tabindex="0" aria-label="{escape(caption)}" style="overflow-x:auto">'
        f'<table><caption style="text-align:left">{escape(caption)}</caption><thead><tr>'
        f'<th scope="col"{left}>question</th><th scope="col"{left}>answer</th>{heads}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )
