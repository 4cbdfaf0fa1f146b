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

from nbkit.rewards.giants import without_giants
from nbkit.rewards.intervals import same_set
from nbkit.rewards.latex import as_written
from nbkit.rewards.naming import names_a_value, stem
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
    reference = read_gold(gold)
    try:
        given = read(answer)
    except ValueError:
        return False
    given, reference = _bare(given, reference), _bare(reference, given)
    same = _same(given, reference) or same_set(given, reference, _of_leaf)
    return same and (arithmetic or not _leaves_work(given, reference))


def read_gold(gold: str) -> Tree:
    """Return the tree of a reference.

    What the parser does not know, as ``\\triangle ABC``, can be compared as it is written.

    Raises:
        NotReadableError: it is no answer in any notation.

    """
    try:
        tree = read(gold)
        _check_leaves(tree)
    except ValueError as error:
        raise NotReadableError(f"gold: {error}") from error
    return tree


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
        # -x > -1 is solved, x - 58 = 77 is not
        solved = any(_same(side, name) or _same(side, Leaf(f"-{name.latex}")) for side in written)
        return not solved or any(_leaves_work(side, numbers[0]) for side in written)
    if isinstance(gold, Sequence | Unordered) and isinstance(given, Sequence | Unordered):
        if isinstance(gold, Sequence):
            return any(map(_leaves_work, given.parts, gold.parts))
        return any(_leaves_work(x, y) for x in given.parts for y in gold.parts if _same(x, y))
    return False


def _bare(tree: Tree, other: Tree) -> Tree:
    """``x = 5`` beside an answer that is no equation means 5; so does ``x = 10/2 = 5``."""
    if isinstance(tree, Relation) and not _has_relation(other):
        value = _value(tree)
        return tree if value is None else value
    if not isinstance(tree, Unordered) or _has_relation(other):
        return tree
    links = [part for part in tree.parts if isinstance(part, Relation)]
    if not links or len(links) < len(tree.parts):
        return tree
    if tree.kind == "chain":
        value = _value(links[0])
        steps = [link.sign == "=" and _same(links[0].right, link.right) for link in links]
        return links[-1].right if value is links[0].right and all(steps) else tree
    values = [_value(link) for link in links]  # x = 3 or x = -3, beside a set of numbers
    lefts = [stem(link.left.latex) if isinstance(link.left, Leaf) else link.left for link in links]
    indexed = len({link.left for link in links}) in (1, len(links))
    if None in values or len(set(lefts)) > 1 or not indexed:
        return tree
    return Unordered("set", tuple(value for value in values if value is not None))


def _has_relation(tree: Tree) -> bool:
    """Whether an answer is an equation, or a list with one in it."""
    if isinstance(tree, Unordered):
        return any(isinstance(part, Relation) for part in tree.parts)
    return isinstance(tree, Relation)


def _value(link: Relation) -> Tree | None:
    """What an equation gives its name: the right side of x = 5, and of 2 + 3 = 5; or None."""
    if link.sign != "=":
        return None
    for name, value in ((link.left, link.right), (link.right, link.left)):
        written = value.latex if isinstance(value, Leaf) else ""
        if _is_name(name, written):
            return value
    if not isinstance(link.left, Leaf) or not isinstance(link.right, Leaf | Quantity):
        return None
    known = not re.search(r"(?<![\\A-Za-z])[A-Za-z]", link.left.latex)
    return link.right if known and _same(link.left, link.right) else None


def _is_name(tree: Tree, value: str) -> bool:
    if isinstance(tree, Sequence):
        return tree.kind == "()" and all(_is_name(part, value) for part in tree.parts)
    return isinstance(tree, Text) or (isinstance(tree, Leaf) and names_a_value(tree.latex, value))


def _check_leaves(tree: Tree) -> None:
    if isinstance(tree, Leaf):
        try:
            _expression(tree.latex)
        except NotReadableError:
            if as_written(tree.latex) is None:
                raise
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
        try:
            one, other = _of_leaf(a), _of_leaf(b)
        except NotReadableError:
            written = [as_written(leaf.latex) for leaf in (a, b) if isinstance(leaf, Leaf)]
            return len(written) == 2 and written[0] is not None and written[0] == written[1]
        return _zero(one - other, one, other)
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
    try:
        left, right, other_left, other_right = map(_of_leaf, sides)
    except NotReadableError:
        return False
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
    if re.search(r"\\[lcv]?dots|…|\.\.\.", latex):
        raise NotReadableError(f"not written out: {latex[:80]!r}")  # the parser drops the dots
    try:
        found = latex2sympy(latex, normalization_config=_NORMALISE, conversion_config=_PARSER)
    except (RecursionError, MemoryError):
        raise NotReadableError(f"too deep: {latex[:80]!r}") from None
    except Exception as error:  # the generated parser raises bare Exception for bad LaTeX
        raise NotReadableError(f"not readable as mathematics: {latex[:80]!r}") from error
    if not isinstance(found, sympy.Expr):
        raise NotReadableError(f"no expression: {latex[:80]!r} is a {type(found).__name__}")
    found = without_giants(found)
    i = sympy.Symbol("i")  # the imaginary unit, unless it counts the terms of a sum
    return found.subs(i, sympy.I) if i in found.free_symbols else found


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
