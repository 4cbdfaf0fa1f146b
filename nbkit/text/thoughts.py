"""What a completion says aloud: its text without the thoughts that it wrote before."""

import re

_OPENING = (
    r"<(?:think|thinking|thought|thoughts|reasoning)>|\[think\]|<\|begin_of_thought\|>|◁think▷"
)
_CLOSING = (
    r"</(?:think|thinking|thought|thoughts|reasoning)>|\[/think\]|<\|end_of_thought\|>|◁/think▷"
)
_TAG = re.compile(rf"(?P<opening>{_OPENING})|{_CLOSING}", re.IGNORECASE)


def without_thoughts(text: str) -> str:
    """Return ``text`` without its thoughts; thoughts that never end last to its end.

    One closing tag ends thoughts, however often they were opened. One without an opening tag ends
    thoughts that the prompt began: what stands before it goes too.
    """
    spoken, thinking, start = "", False, 0
    for tag in _TAG.finditer(text):
        if tag["opening"]:
            spoken += "" if thinking else text[start : tag.start()]
            thinking = True
        else:
            spoken = spoken if thinking else ""
            thinking, start = False, tag.end()
    return spoken if thinking else spoken + text[start:]
