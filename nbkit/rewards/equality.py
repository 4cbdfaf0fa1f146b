"""Exact equality of two mathematical answers, by structure and then by SymPy. May take long.

Called in the worker process of ``symbolic``, which is stopped when it takes too long. LaTeX becomes
SymPy through math-verify's parser; nothing is ever passed to ``eval`` (SymPy's own ``sympify`` and
``parse_expr`` run the text as Python). math-verify's ``verify`` is not used: it rounds, and it
forgets the order of tuples.
"""

import re
from typing import Any

import sympy
from latex2sympy2_extended import latex2sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, NormalizationConfig

from nbkit.rewards.notation import Leaf, Relation, Sequence, Text, Tree, Unordered, read
from nbkit.rewards.unfinished import unfinished
from nbkit.text.numerals import Quantity

_PARSER = ConversionConfig(
    interpret_as_mixed_fractions=True,
    interpret_simple_eq_as_assignment=False,
    interpret_contains_as_eq=False,
    lowercase_symbols=False,
)
_NORMALISE = NormalizationConfig(basic_latex=True, units=False, boxed="none")
MAX_POWER = 10_000
MAX_ARGUMENT = 500  # of factorials and the like
_NAME = re.compile(r"\\?[A-Za-z]+(?:_\{?\w+\}?)?")
DIGITS = 60
POINTS = (
    (sympy.Rational(7, 5), sympy.Rational(3, 11), sympy.Rational(13, 9)),
    (sympy.Rational(-5, 7), sympy.Rational(17, 6), sympy.Rational(2, 13)),
)


class NotReadableError(ValueError):
    """A text that is no mathematical answer in the notation that the verifier knows."""


def equal(answer: str, gold: str, arithmetic: bool = False) -> bool:
    """Return whether an answer equals the gold, exactly.

    Args:
        answer: of the model.
        gold: the reference.
        arithmetic: where the gold is a plain number, take a sum or a product of numbers too, which
            is the question rather than its answer (``58+77`` for ``135``).

    Raises:
        NotReadableError: the gold cannot be read. An answer that cannot be read is unequal.

    """
    try:
        reference = read(gold)
        _check_leaves(reference)
    except ValueError as error:
        raise NotReadableError(f"gold: {error}") from error
    try:
        given = read(answer)
        _check_leaves(given)
    except ValueError:
        return False
    given, reference = _bare(given, reference), _bare(reference, given)
    return _same(given, reference) and (arithmetic or not _leaves_work(given, reference))


def _leaves_work(given: Tree, gold: Tree) -> bool:
    """Whether a plain number of the gold stands as a sum or product in an answer equal to it."""
    if isinstance(gold, Quantity):
        return isinstance(given, Leaf) and unfinished(given.latex, _expression(given.latex))
    if isinstance(gold, Relation) and isinstance(given, Relation):
        sides, written = (gold.left, gold.right), (given.left, given.right)
        numbers = [side for side in sides if isinstance(side, Quantity)]
        names = [side for side in sides if isinstance(side, Leaf) and _NAME.fullmatch(side.latex)]
        if not numbers or not names:
            return False  # the line y - 2x = 1 is no solved equation
        name = names[0]
        solved = any(_same(side, name) for side in written)  # x - 58 = 77 is not
        return not solved or any(_leaves_work(side, numbers[0]) for side in written)
    if isinstance(gold, Sequence | Unordered) and isinstance(given, Sequence | Unordered):
        if isinstance(gold, Sequence):
            return any(map(_leaves_work, given.parts, gold.parts))
        return any(_leaves_work(x, y) for x in given.parts for y in gold.parts if _same(x, y))
    return False


def _bare(tree: Tree, other: Tree) -> Tree:
    """``x = 5`` beside an answer that is no equation means 5."""
    if isinstance(tree, Relation) and tree.sign == "=" and not isinstance(other, Relation):
        return tree.right if isinstance(tree.left, Leaf | Text) else tree
    if isinstance(tree, Unordered) and isinstance(other, Unordered) and tree.kind == "set":
        # x = 3 or x = -3, beside a set of numbers
        links = [part for part in tree.parts if isinstance(part, Relation)]
        names = {link.left for link in links if link.sign == "="}
        plain = not any(isinstance(part, Relation) for part in other.parts)
        if plain and len(names) == 1 and len(links) == len(tree.parts):
            return Unordered("set", tuple(_bare(link, link.right) for link in links))
    return tree


def _check_leaves(tree: Tree) -> None:
    if isinstance(tree, Leaf):
        _expression(tree.latex)
    elif isinstance(tree, Sequence | Unordered):
        for part in tree.parts:
            _check_leaves(part)
    elif isinstance(tree, Relation):
        _check_leaves(tree.left)
        _check_leaves(tree.right)


def _same(a: Tree, b: Tree) -> bool:
    if isinstance(a, Quantity) and isinstance(b, Quantity):
        return a.same(b)
    if isinstance(a, Text) or isinstance(b, Text):
        return _words(a) is not None and _words(a) == _words(b)
    if isinstance(a, Leaf | Quantity) and isinstance(b, Leaf | Quantity):
        if a.unit and b.unit and a.unit != b.unit:
            return False
        return _zero(_of_leaf(a) - _of_leaf(b), _of_leaf(a), _of_leaf(b))
    if isinstance(a, Sequence) and isinstance(b, Sequence):
        if a.kind != b.kind or len(a.parts) != len(b.parts):
            return False
        return all(_same(x, y) for x, y in zip(a.parts, b.parts, strict=True))
    if isinstance(a, Unordered) and isinstance(b, Unordered) and a.kind == b.kind:
        return _same_members(a.parts, b.parts)
    if isinstance(a, Relation) and isinstance(b, Relation) and a.sign == b.sign:
        if _same(a.left, b.left) and _same(a.right, b.right):
            return True
        return _same_line(a, b)
    return False


def _words(tree: Tree) -> str | None:
    """The words of a text; a product of letters may be one that was written without ``\\text``."""
    if isinstance(tree, Leaf) and re.fullmatch(r"[a-z]( [a-z])+", tree.latex):
        return tree.latex.replace(" ", "")
    return tree.words if isinstance(tree, Text) else None


def _same_members(a: tuple[Tree, ...], b: tuple[Tree, ...]) -> bool:
    """Each has a partner on the other side; a member written twice counts once."""
    return all(any(_same(x, y) for y in b) for x in a) and all(
        any(_same(x, y) for x in a) for y in b
    )


def _same_line(a: Relation, b: Relation) -> bool:
    """Equations that differ by a constant factor only: y = 2x and 4x - 2y = 0."""
    sides = [a.left, a.right, b.left, b.right]
    if a.sign not in ("=", "!=", "<", "<=") or not all(
        isinstance(side, Leaf | Quantity) for side in sides
    ):
        return False
    left, right, other_left, other_right = (_of_leaf(side) for side in sides)
    one, other = left - right, other_left - other_right
    if one.is_number or other.is_number:
        return False
    ratio = sympy.simplify(one / other)
    if not ratio.is_number or not ratio.is_finite or ratio == 0:
        return False
    return bool(a.sign in ("=", "!=") or ratio.is_positive)


def _of_leaf(tree: Tree) -> Any:
    if isinstance(tree, Quantity):
        return sympy.Rational(tree.value.numerator, tree.value.denominator)
    assert isinstance(tree, Leaf)
    return _expression(tree.latex)


def _expression(latex: str) -> Any:
    """LaTeX as a SymPy expression, not evaluated further than its parser does."""
    try:
        found = latex2sympy(latex, normalization_config=_NORMALISE, conversion_config=_PARSER)
    except (RecursionError, MemoryError):
        raise NotReadableError(f"too deep: {latex[:80]!r}") from None
    except Exception as error:  # the generated parser raises bare Exception for bad LaTeX
        raise NotReadableError(f"not readable as mathematics: {latex[:80]!r}") from error
    if not isinstance(found, sympy.Expr):
        raise NotReadableError(f"no expression: {latex[:80]!r} is a {type(found).__name__}")
    if _too_large(found):
        raise NotReadableError(f"too large to be an answer: {latex[:80]!r}")
    i = sympy.Symbol("i")  # the imaginary unit, unless it counts the terms of a sum
    return found.subs(i, sympy.I) if i in found.free_symbols else found


def _too_large(expression: Any) -> bool:
    """Powers and factorials that would fill the memory when they are evaluated."""
    for part in sympy.preorder_traversal(expression):
        if isinstance(part, sympy.Pow):
            exponent = part.exp
            if exponent.is_number and (exponent.has(sympy.Pow) or exponent.has(sympy.factorial)):
                if any(_large(p) for p in exponent.args) or _large(exponent):
                    return True
            elif exponent.is_Integer and abs(int(exponent)) > MAX_POWER:
                return True
        if isinstance(part, sympy.factorial | sympy.binomial | sympy.gamma) and any(
            _large(p, MAX_ARGUMENT) for p in part.args
        ):
            return True
    return False


def _large(number: Any, limit: int = 100) -> bool:
    if not number.is_number:
        return False
    if number.is_Rational:
        return bool(abs(number) > limit)
    # A tower: anything but a small rational to a small power counts as large.
    return any(_large(part, 10) for part in number.args)


def _zero(difference: Any, a: Any, b: Any) -> bool:
    """Whether a - b is zero for all values of the symbols: first by numbers, then by proof."""
    if a == b:
        return not a.has(sympy.nan, sympy.zoo)
    special = (sympy.nan, sympy.zoo, sympy.oo, -sympy.oo)
    if a.has(*special) or b.has(*special):
        return bool(a.doit() == b.doit() and not a.has(sympy.nan, sympy.zoo))
    symbols = sorted(difference.free_symbols, key=str)
    for point in POINTS:
        values = {s: point[i % 3] + i // 3 for i, s in enumerate(symbols)}
        value = difference.subs(values).evalf(DIGITS, maxn=4 * DIGITS)
        # Beyond the precision asked for evalf returns what it cannot tell from zero.
        if value.is_number and value.is_finite and abs(value) > sympy.Float(10) ** (10 - DIGITS):
            return False
        if not symbols:
            break
    if difference.doit() == 0 or sympy.expand(difference) == 0:
        return True
    if sympy.simplify(difference.doit()) == 0:
        return True
    return difference.equals(0) is True
