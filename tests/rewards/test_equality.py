"""Whether an answer is right: exact equality, also where math-verify 0.9.0 says otherwise."""

import pytest

from nbkit.rewards import math_score


def boxed(answer: str, gold: str, **settings) -> float:
    return math_score(f"so \\boxed{{{answer}}}", gold, style="boxed", **settings)


EQUAL = [
    ("5", "5"),
    ("5.0", "5"),
    ("0.5", r"\frac{1}{2}"),
    ("0.5", "1/2"),
    (r"\frac{2}{4}", "0.5"),
    (r"\dfrac{1}{2}", r"\frac12"),
    ("1 1/2", "3/2"),
    (r"1\frac{1}{2}", "1.5"),
    (r"-1\frac{1}{2}", "-1.5"),
    ("50%", "50"),
    (r"50\%", r"50\%"),
    ("0.5%", "0.5"),
    ("1,234", "1234"),
    ("1{,}234", "1234"),
    (r"\$18", "18"),
    ("+7", "7"),
    ("-7", "−7"),
    (r"5\text{ km}", "5"),
    ("5 km", r"5\,\mathrm{km}"),
    ("5 apples", "5"),
    (r"90^\circ", "90"),
    ("2.5 million", "2500000"),
    (r"3\times 10^4", "30000"),
    (r"\sqrt{8}", r"2\sqrt{2}"),
    ("sqrt(8)", r"2\sqrt2"),
    ("2*sqrt(2)", r"\sqrt{8}"),
    (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}"),
    (r"\sqrt{3+2\sqrt{2}}", r"1+\sqrt{2}"),
    ("(1,2)", "(1, 2)"),
    ("(0.5, 2)", r"\left(\frac{1}{2}, 2\right)"),
    (r"\{1,2\}", r"\{2,1\}"),
    (r"\{1,2,2\}", r"\{2,1\}"),
    ("1, 2", "2, 1"),
    ("1 and 2", "2,1"),
    ("[1,2)", "[1,2)"),
    (r"(-\infty, 2] \cup [3, \infty)", r"[3,\infty)\cup(-\infty,2]"),
    (r"\pm 5", r"\{5,-5\}"),
    (r"2 \pm \sqrt{3}", r"2+\sqrt{3}, 2-\sqrt{3}"),
    ("x = 5", "5"),
    ("5", "x=5"),
    ("x^2+2x+1", "(x+1)^2"),
    ("x**2", "x^2"),
    (r"\sin^2 x + \cos^2 x", "1"),
    ("y = 2x + 1", "y - 2x = 1"),
    ("x > 1", "1 < x"),
    (r"x \in (1,2)", "(1,2)"),
    (r"\pi/2", r"\frac{\pi}{2}"),
    ("pi/2", r"\frac{\pi}{2}"),
    (r"\log_2 8", "3"),
    (r"5!", "120"),
    (r"\binom{5}{2}", "10"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix} 1 \\ \frac{4}{2} \end{bmatrix}"),
    (r"\text{blue}", "Blue"),
    (r"\text{(B)}", "B"),
    (r"\emptyset", r"\emptyset"),
    ("12_8", "12_{8}"),
    (r"\infty", r"\infty"),
    (r"\varnothing", r"\emptyset"),
    (r"\{\}", r"\emptyset"),
    (r"\mathbb{R}", r"\mathbb R"),
    ("xy", "yx"),
    ("xy", r"x\cdot y"),
    (r"x\cdot y", "yx"),
    ("ab", "ba"),
    ("2xy", "2yx"),
    ("-3ab", "-3ba"),
    ("xyz", "zyx"),
    ("xy - ab", "-ba + yx"),
    (r"\frac{ab}{2}", r"\frac{ba}{2}"),
    (r"\text{xy}", "xy"),
    ("km", r"\text{km}"),
    (r"\text{5 cm}", "5"),
    (r"\mathrm{5\,cm}", "5 cm"),
    ("5", r"\text{5 apples}"),
    (r"\frac{x}{2}", "0.5x"),
    (r"10^{-2}", "0.01"),
    (r"2^{10}", "1024"),
    (r"e^{i\pi}", "-1"),
    (r"11,\! 111,\! 100", "11111100"),
    (r"5\sqrt{5}\text{ cm}", r"5\sqrt{5}"),
    (r"0.\overline{3}", r"\frac{1}{3}"),
    (r"0.1\overline{6}", r"\frac{1}{6}"),
    (r"x=3\text{ or }x=-3", r"\pm 3"),
    ("x = 3, x = -3", r"\{3,-3\}"),
    (r"\sum_{i=1}^{10} i", "55"),
    ("2+3i", "3i+2"),
    (r"|x-1|", "|1-x|"),
    (r"\frac{\sqrt[]{2}}{2}", r"\frac{1}{\sqrt{2}}"),
    (r"-2\frac12", "-5/2"),
    ("3^{2x}", "9^x"),
]

UNEQUAL = [
    ("0.333", r"\frac{1}{3}"),
    ("0.333", "1/3"),
    ("0.3333333333333333", "1/3"),
    ("3.14159265358979", r"\pi"),
    ("3.14", r"\pi"),
    ("1.414", r"\sqrt{2}"),
    ("(1,2)", "(2,1)"),
    ("(1,2)", "[1,2]"),
    ("(1,2)", "[1,2)"),
    ("(1,2)", r"\{1,2\}"),
    ("1,2", "(1,2)"),
    ("(1,2,3)", "(1,2)"),
    ("1, 2, 3", "1, 2"),
    ("1", "1, 2"),
    ("1, 2", "1"),
    (r"\pm 5", "5"),
    ("5", r"\pm 5"),
    (r"-5", r"\pm 5"),
    ("50%", "0.5"),
    (r"50\%", r"\frac{1}{2}"),
    ("0.5", "50%"),
    ("7", "-7"),
    ("11/2", "1 1/2"),
    (r"1\frac{1}{2}", "1/2"),
    (r"1\frac{1}{2}", "0.5"),
    ("5 km", r"5\text{ m}"),
    ("5x", "5"),
    (r"5\sqrt{5}\text{ cm}", r"5\sqrt{5}\text{ m}"),
    ("0.33", r"0.\overline{3}"),
    ("x = 3, y = -3", r"\{3,-3\}"),
    ("2+3i", "2-3i"),
    ("y=2x", "2y=x"),
    ("3:2", "2:3"),
    ("12_8", "12"),
    ("12_8", "10"),
    ("1234", "1.234"),
    ("1.0000000001", "1"),
    ("999999999999999999999", "1000000000000000000000"),
    ("1000000.1", "1000000"),
    ("x^2", "x^3"),
    ("x", "y"),
    ("xy", "xz"),
    ("ab", "a+b"),
    ("xy", "x"),
    ("2xy", "2"),
    ("3ab", "3"),
    ("on", "no"),
    ("cat", "act"),
    ("east", "seat"),
    (r"\text{on}", r"\text{no}"),
    (r"\text{5 or 6}", "5"),
    (r"\text{5 cm}", "5 m"),
    (r"\text{not 5}", "5"),
    ("5", r"\emptyset"),
    (r"\emptyset", "5"),
    (r"\{5\}", r"\emptyset"),
    (r"\emptyset", r"\{0\}"),
    (r"\text{no solution}", "5"),
    (r"\mathbb{R}", r"\mathbb{Z}"),
    ("5", r"\mathbb{R}"),
    ("(5)(50)", "55"),
    ("5(50)", "55"),
    ("X", "x"),
    (r"\sqrt{x^2}", "x"),
    ("x > 1", r"x \ge 1"),
    ("x > 1", "x < 1"),
    ("x=5", "x=6"),
    ("x<5", "5"),
    (r"\frac{1}{0}", r"\frac{2}{0}"),
    (r"\infty", r"-\infty"),
    (r"\text{blue}", "red"),
    ("A", "B"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}2\\1\end{pmatrix}"),
    (r"\begin{pmatrix}1&2\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    ("garbage here", "5"),
    ("5 or 6", "5"),
    ("", "5"),
    (r"\frac{", "5"),
    ("((((", "5"),
    ("__import__('os').getpid()", "5"),
    ("5; import os", "5"),
]


@pytest.mark.parametrize(("answer", "gold"), EQUAL)
def test_equal(answer, gold):
    assert boxed(answer, gold) == 1.0


@pytest.mark.parametrize(("answer", "gold"), UNEQUAL)
def test_unequal(answer, gold):
    assert boxed(answer, gold) == 0.0


# Equal to their gold, and yet the question: what `accept` is about.
WORK_LEFT = [
    ("58+77+55+26+34", "250"),
    ("49-18+2-30", "3"),
    ("10 - 3", "7"),
    ("0.1+0.2", "0.3"),
    (r"5\cdot 50", "250"),
    ("5*50", "250"),
    ("5×50", "250"),
    ("(5)(50)", "250"),
    ("250+0", "250"),
    (r"250\cdot 1", "250"),
    (r"\frac{58+77}{1}", "135"),
    (r"\sqrt{(58+77)^2}", "135"),
    ("(58+77)^1", "135"),
    ("|58|+|77|", "135"),
    (r"\max(58+77, 1)", "135"),
    ("x+58-x+77", "135"),
    (r"\frac{58x}{x}+\frac{77x}{x}", "135"),
    ("x=58+77", "135"),
    ("x=58+77", "x=135"),
    ("x-58=77", "x=135"),
    ("(58+77, 3)", "(135, 3)"),
    (r"\{58+77, 3\}", r"\{3, 135\}"),
    (r"\begin{pmatrix}58+77\\2\end{pmatrix}", r"\begin{pmatrix}135\\2\end{pmatrix}"),
]


@pytest.mark.parametrize(("answer", "gold"), WORK_LEFT)
def test_a_copied_sum_is_no_answer(answer, gold):
    assert boxed(answer, gold) == 0.0
    assert boxed(answer, gold, accept="expression") == 1.0


def test_a_number_may_be_written_in_many_ways():
    for answer, gold in [
        ("1/2", "0.5"), ("50%", "50"), ("3.5", "7/2"), (r"2^{10}", "1024"), (r"\sqrt{16}", "4"),
        ("5!", "120"), (r"\binom{5}{2}", "10"), (r"\log_2 8", "3"), (r"\log_{10}(100)", "2"),
        (r"\frac{3}{-4}", "-0.75"), ("-(-5)", "5"), (r"3\times 10^4", "30000"),
        (r"\sum_{i=1}^{10} i", "55"), ("2+3i", "3i+2"), ("x = 5", "x = 5.0"), ("48/2", "24"),
        ("1+1", "2+3-3"),
    ]:  # fmt: skip
        assert boxed(answer, gold) == 1.0, answer


def test_digits_alone_where_a_number_is_asked_for():
    for answer, gold in [
        ("24", "24"), ("24.0", "24"), ("+24", "24"), ("$1,234", "1234"), ("24 apples", "24"),
        ("1/2", "0.5"), (r"\frac{2}{4}", "1/2"), ("50%", "50"), ("5 km/h", "5"),
    ]:  # fmt: skip
        assert boxed(answer, gold, accept="number") == 1.0, answer
    for answer, gold in [
        ("48/2", "24"), (r"\frac{48}{2}", "24"), ("20+4", "24"), ("2^{10}", "1024"), ("5!", "120"),
        ("25", "24"), ("x = 24", "24"),
    ]:  # fmt: skip
        assert boxed(answer, gold, accept="number") == 0.0, answer
    with pytest.raises(ValueError, match="gold is no number"):
        boxed("x", "x+1", accept="number")
    with pytest.raises(ValueError, match="accept must be one of"):
        boxed("5", "5", accept="all")


def test_math_verify_itself_says_otherwise():
    """The reason for our own comparison. If a release mends one of these, drop it here."""
    from math_verify import parse, verify

    def theirs(answer: str, gold: str) -> bool:
        a, b = (parse(f"${x}$", parsing_timeout=None) for x in (answer, gold))
        return bool(verify(b, a, timeout_seconds=None))

    wrong = [("0.333333", r"\frac{1}{3}"), ("50%", "0.5"), (r"\{1,2\}", "(1,2)")]
    assert [theirs(*case) for case in wrong] == [True] * len(wrong)
    assert [boxed(*case) for case in wrong] == [0.0] * len(wrong)


def test_gold_may_be_boxed_or_a_whole_solution():
    assert boxed("5", r"We get \boxed{5}.") == 1.0
    assert boxed("5", "2+3=<<2+3=5>>5\n#### 5") == 1.0
    assert boxed("x", "$x$") == 1.0


@pytest.mark.parametrize("gold", ["", "   ", "#### nothing"])
def test_gold_without_an_answer_raises(gold):
    with pytest.raises(ValueError, match="gold holds no answer"):
        math_score("#### 5", gold)


def test_gold_that_cannot_be_read_raises():
    with pytest.raises(ValueError, match="gold: not readable"):
        boxed("5", r"\frac{1}{")
