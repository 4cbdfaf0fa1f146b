"""Films of agents: shown only where a recorded result names them, and still for who asks for it.

`nbkit book build` hands over the films that results name, by the digest of their bytes (see
`bookkit.site.films`), with a still picture and words of each. A film of class `opening` plays when
the page opens, unless the reader has asked for less motion. Any other waits for a press, and is not
loaded before.
"""

from __future__ import annotations

import hashlib

from renderer.errors import ContentError
from renderer.measured import film_of, measured_line, state_of
from renderer.nodes import element, opening

RIFF, WEBP = b"RIFF", b"WEBP"
ANIMATION, FRAME = b"ANIM", b"ANMF"
OPENING = "opening"  # the class of a film that plays by itself


def is_film(content: bytes) -> bool:
    """Whether a file is a WebP of several pictures."""
    return ANIMATION in _chunks(content)


def film_html(source: str, content: bytes, classes: list[str]) -> str:
    """A film with its still picture, and the result that it comes from.

    Args:
        source: the film's address in the page.
        content: its bytes.
        classes: of the picture's node.

    """
    film = film_of(hashlib.sha256(content).hexdigest())
    if film is None:
        raise ContentError(
            f"the film {source!r} is in no recorded result, or not as it was recorded; "
            "run the study that made it, and build with `nbkit book build`"
        )
    still = f"data:image/webp;base64,{film['still']}"
    plays = OPENING in classes
    picture = opening(
        "img",
        src=source if plays else still,
        alt=film["alt"],
        decoding="async",
        width=film["size"][0],
        height=film["size"][1],
        class_="film-picture",
    )
    if plays:
        paused = opening("source", srcset=still, media="(prefers-reduced-motion: reduce)")
        picture = element("picture", paused + picture)
    line = element("span", measured_line(film["result"], state_of(film["result"])["facts"]))
    return element(
        "span",
        picture + element("span", line, class_="film-line measured"),
        class_="film",
        data_film=source,
        data_seconds=f"{seconds(content):.1f}",
        data_kilobytes=str(round(len(content) / 1000)),
    )


def seconds(content: bytes) -> float:
    """How long a film plays, all its turns together; infinite where it plays for ever."""
    frames = [body for kind, body in _parts(content) if kind == FRAME]
    turns = next(
        int.from_bytes(body[4:6], "little") for kind, body in _parts(content) if kind == ANIMATION
    )
    once = sum(int.from_bytes(body[12:15], "little") for body in frames) / 1000
    return once * turns if turns else float("inf")


def _chunks(content: bytes) -> list[bytes]:
    return [kind for kind, _ in _parts(content)]


def _parts(content: bytes) -> list[tuple[bytes, bytes]]:
    """The chunks of a WebP: their kinds and what they hold; none of another file."""
    if content[:4] != RIFF or content[8:12] != WEBP:
        return []
    found, place = [], 12
    while place + 8 <= len(content):
        length = int.from_bytes(content[place + 4 : place + 8], "little")
        found.append((content[place : place + 4], content[place + 8 : place + 8 + length]))
        place += 8 + length + length % 2
    return found
