"""What an equation may give a value to: a name, and not a sum of unknowns.

``x = 5``, ``f(x) = 2x`` and ``BC^2 = 19`` say what something is, and stand for it. The plane
``5x - 7y + 4 = 0`` and the circle ``x^2 + y^2 = 25`` say nothing of the kind: 0 and 25 are other
answers.
"""

import re

_GREEK = (
    "alpha|beta|gamma|delta|epsilon|varepsilon|zeta|eta|theta|vartheta|kappa|lambda|mu|nu|xi|rho|"
    "sigma|tau|phi|varphi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Phi|Psi|Omega|ell"
)
_LETTER = rf"(?:\\(?:{_GREEK})(?![A-Za-z])|[A-Za-zα-ωΑ-Ω])"
_OVER = r"\\(?:hat|bar|vec|tilde|dot|ddot|overline|overrightarrow|mathbf|mathcal|mathbb|boldsymbol)"
_INDEX = r"(?:\s*_\s*(?:\{[^{}]*\}|\w))?(?:'+|\^\s*\{?\s*(?:\\prime|\*)\s*\}?)?"
_SYMBOL = rf"(?:{_LETTER}|{_OVER}\s*(?:\{{\s*\\?[A-Za-z]+\s*\}}|[A-Za-z])){_INDEX}"
_POINTS = r"[A-Z](?:\s*[A-Z]){1,4}(?![a-z])"
_SEGMENT = rf"(?:\|\s*{_POINTS}\s*\||\[\s*{_POINTS}\s*\]|{_POINTS})"
_ANGLE = rf"(?:m\s*)?\\(?:angle|measuredangle|triangle)\s*(?:{_POINTS}|{_LETTER})"
_CORNER = rf"(?:\\angle\s*)?(?:{_POINTS}|[A-Z]|\\(?:{_GREEK})(?![A-Za-z])|[α-ω])"
_VALUES = (
    _SYMBOL,
    # f(x), f^{-1}(x), P(A), E[X]; but k(x+1) is a product
    rf"{_SYMBOL}(?:\s*\^\s*(?:\{{[^{{}}]*\}}|\d))?\s*\(\s*-?[\w\s,\\{{}}()^|']*\)",
    rf"(?:[PE]|{_OVER}\s*\{{?\s*[PE]\s*\}}?){_INDEX}\s*[(\[][^=]*[)\]]",
    rf"{_SEGMENT}(?:\s*\^\s*(?:\{{\s*\d\s*\}}|\d))?",
    rf"\\frac\s*\{{\s*{_SEGMENT}\s*\}}\s*\{{\s*{_SEGMENT}\s*\}}",
    rf"{_SEGMENT}\s*[:/]\s*{_SEGMENT}|{_SYMBOL}(?:\s*:\s*{_SYMBOL})+",
    _ANGLE,
    rf"\\(?:sin|cos|tan|cot|sec|csc)\s*(?:\^\s*\{{?\s*\d\s*\}}?)?\s*\(?\s*{_CORNER}\s*\)?",
    r"\\(?:lim|max|min|gcd|lcm|det|Pr|deg|dim|sup|inf)(?![A-Za-z])[^=]*",
    r"\\(?:sum|prod|int)\s*_[^=]+=[^=]+|\\(?:sum|prod|int)\s*_[^=]+",
    r"\\frac\s*\{\s*d[^{}]*\}\s*\{\s*d[^{}]*\}",
)
_VALUE = re.compile("|".join(f"(?:{pattern})" for pattern in _VALUES))


def names_a_value(left: str, right: str = "") -> bool:
    """Whether the left side of an equation is a name for its right side.

    ``x = 5 - x`` gives no value to x: what stands on both sides is still sought.

    Args:
        left: LaTeX of the side that may be a name.
        right: the other side.

    """
    left = left.strip()
    if _VALUE.fullmatch(left) is None:
        return False
    if not re.fullmatch(_LETTER, left):
        return True
    rest = re.sub(r"\\[A-Za-z]+", " ", right) if len(left) == 1 else right
    return re.search(rf"(?<![A-Za-z]){re.escape(left)}(?![A-Za-z])", rest) is None


def stem(name: str) -> str:
    """Return a name without its index: ``x_1`` and ``x_2`` are two values of x."""
    return re.sub(r"\s*_\s*(?:\{\s*\d+\s*\}|\d+)\s*$", "", name.strip())
