"""Write an edited page so that only the edited lines differ from the file that was there."""

from difflib import SequenceMatcher


def smallest_edit(old: str, before: str, after: str) -> str:
    """The edit from `before` to `after`, made in `old`.

    A tool that writes a page from its cells sets blank lines and options in its own way. `before`
    is what it makes of the unedited page, `after` of the edited one: where both agree, the lines
    of `old` stay.

    Args:
        old: the file, as its author wrote it.
        before: the same page as the tool writes it.
        after: the edited page as the tool writes it.
    """
    old_lines, lines, new = (text.splitlines(keepends=True) for text in (old, before, after))
    starts = _places(old_lines, lines)
    edited: list[str] = []
    for kind, i, j, k, m in SequenceMatcher(None, lines, new, autojunk=False).get_opcodes():
        edited += old_lines[starts[i] : starts[j]] if kind == "equal" else new[k:m]
    return "".join(edited)


def _places(old: list[str], lines: list[str]) -> list[int]:
    """For each border between two of the tool's lines, the one in the file that it stands for."""
    places = [0] * (len(lines) + 1)
    for kind, i, j, k, m in SequenceMatcher(None, lines, old, autojunk=False).get_opcodes():
        for border in range(i, j + 1):
            places[border] = k + border - i if kind == "equal" else (m if border == j else k)
    places[-1] = len(old)
    return places
