"""Answers as people and models write them: units, named lists, letters, sets, odd golds."""

import pytest

from nbkit.rewards import math_score
from nbkit.rewards.symbolic import GoldError

UNITS = [
    *((a, "15000") for a in (r"15000 \text{ kcal m}^{-2}", "15,000 kcal m⁻² yr⁻¹")),
    *((a, "9.8") for a in (r"9.8 \text{ m/s}^2", r"9.8~\mathrm{m\,s^{-2}}", "9.8 m/s^2")),
    *((a, "1.69") for a in ("1.69 Å", r"1.69 \text{ \AA}")),
    *((a, "20") for a in ("20 °C", r"20^\circ\text{C}", "20 degrees Celsius", "20 ℃")),
    *((a, "5") for a in ("5 µm", r"5 \mu\text{m}", "5 m", "5 J/(kg·K)", r"5\ \Omega", "5公里")),
    *((a, "12") for a in (r"12^{\mathrm{th}}", r"12\text{th}", "12th", "12 h", "12元", "１２")),
    *((a, "250") for a in (r"\text{Rs. } 250", "250 Kč", "₹250", "US$250", "EUR 250", "250円")),
    *((a, "20") for a in ("20%", r"20\%", "20 percent", r"20\text{ percent of them}")),
    (r"33\frac13\%", r"\frac{100}{3}"), (r"2\sqrt{3} cm", r"2\sqrt{3}"),
    (r"2\sqrt{3}\ \text{cm}^2", r"2\sqrt{3}"), ("5 centimeters", r"5\text{ cm}"),
    ("5 km per hour", r"5\text{ km/h}"), ("20%", "20 percent"),
]  # fmt: skip
OTHER_UNITS = [
    ("5x", "5"), ("5 x", "5"), ("5 n", "5"), ("5m", "5"), ("3ab", "3"), ("2mn", "2"), ("5π", "5"),
    ("5e", "5"), ("5i", "5"), ("5!", "5"), ("5 halves", "5"), ("5 in base 8", "5"),
    ("5 squared", "5"),
    ("15 km", "15000 m"), ("5 km", "5 m"), ("5 m/s", "5 m/s^2"), (r"5\text{ cm}", r"5\text{ cm}^2"),
    ("43元", "42"), ("9.9 m/s^2", "9.8"), ("0.2", "20%"), ("20%", "0.2"), ("20%", "1/5"),
    (r"2\text{e}", "2"), (r"2\mathrm{x}", "2"), ("12^{3}", "12"), ("13th", "12"), ("3 h", "3 m"),
]  # fmt: skip
LISTS = [
    ("x = 2, -1, -2", "-2,-1,2"), ("n = 6, 5, 4", "n = 4, 5, 6"),
    (r"x = 100, \quad 0.01", "0.01, 100"),
    (r"\pm 1, \pm 7", "-7,-1,1,7"), (r"x = \pm 2, 0", "-2,0,2"), (r"\{\pm 1, 0\}", "-1,0,1"),
    (r"x = 2 \text{ or } -1", "-1, 2"), ("x_1 = 2, x_2 = -1", "-1, 2"), ("{1,2,3}", "3, 2, 1"),
    ("1,2,3", "{1,2,3}"), (r"z = 1 + i, 1 - i", "1-i, 1+i"), (r"\text{12 and 5}", "5, 12"),
    ("(p,q) = (3,2)", "(3,2)"), ("(3,2)", "(p,q)=(3,2)"), ("(x,y) = (1,2), (3,4)", "(3,4),(1,2)"),
]  # fmt: skip
OTHER_LISTS = [
    ("x = 2, -1", "-2,-1,2"), ("n = 4, 5, 6", "n = 5, 6, 7"), (r"\pm 1", "1"), (r"\pm 2, 3", "2,3"),
    ("a = 2, b = -1", "a = -1, b = 2"), ("x = 3, y = 5", "3, 5"), ("x_1 = 2, y_1 = 3", "2, 3"),
    ("(p,q) = (2,3)", "(3,2)"), ("1,2,...", "1,2"), (r"1, 2, \ldots", "1, 2, 3"),
    ("{1,2}", "{1,3}"),
]  # fmt: skip
EQUATIONS = [
    ("5", "x = 5"), ("x = 5", "5"), ("5 = x", "5"), ("x = 10/2 = 5", "5"), ("f(x) = 2x", "2x"),
    ("2x", "f(x) = 2x"), ("y = 2x + 1", "2x + 1"), ("BC^2 = 19", "19"), ("AB = 5", "5"),
    (r"\angle ABC = 40^\circ", "40"), (r"P(A) = \frac13", "1/3"), (r"\cos A = \frac35", "3/5"),
    (r"\text{Area} = 12", "12"), ("f^{-1}(x) = x-1", "x-1"), ("3+4=7", "7"), ("x:y = 2:3", "2:3"),
    ("10x - 14y + 22z + 8 = 0", "5x - 7y + 11z + 4 = 0"), ("25 = x^2 + y^2", "x^2 + y^2 = 25"),
]  # fmt: skip
NO_NUMBERS = [
    ("0", "5x - 7y + 11z + 4 = 0"), ("0", "a + 3z = 0"), ("1", "2x + z = 1"),
    ("25", "x^2 + y^2 = 25"),
    (r"\frac12", r"y - 3x = \frac{1}{2}"), ("3x + 4y = 12", "12"), ("a + b = 7", "7"),
    ("x - 58 = 77", "77"), ("x = 0", "5x - 7y + 11z + 4 = 0"), ("xy = 6", "6"), ("6", "xy = 6"),
    ("x^2 = 4", "4"), ("5", "2x = 5"), (r"\frac{a}{b} = 2", "2"), ("x = x + 5", "5"),
    ("3+4=8", "8"),
    (r"|z| = 5", "5"), ("1", r"\frac{x^2}{9} + \frac{y^2}{4} = 1"),
]  # fmt: skip
LETTERS = [
    "The answer is D",
    *(r"\text{D}", r"\textbf{(D)}", "(D)", "D.", r"\mathrm{D}", "D: it decays", "D) 12 metres"),
    *(
        r"\text{(D) } 12",
        r"\textbf{(D)}\ 12",
        r"\textbf{(D)} \frac{1}{2}",
        "Option D",
        "D. It falls",
    ),
]
NOT_D = ["C", r"\text{C}", "C: D is wrong", "C, D", "D:C", r"(D) \cup C", "d"]
SETS = [
    ("x<-1 or x>1", r"(-\infty,-1)\cup(1,\infty)"),
    (r"(-\infty,-1)\text{ or }(1,\infty)", "x<-1 or x>1"),
    ("x<5", r"(-\infty,5)"), (r"-2 \le x \le 7", "[-2,7]"), ("x > -1 and x < 1", "(-1,1)"),
    (r"(1,2]\cup[2,3)", "(1,3)"), (r"(-\infty,1)\cup(1,\infty)", r"x \ne 1"),
    ("x != 3", r"x \neq 3"),
    (r"\mathbb{R}", r"(-\infty,\infty)"), (r"\mathbb{R} \setminus \{0\}", r"x \ne 0"),
    ("-x > -1", "x < 1"), ("x <= 3", r"x \le 3"),
]  # fmt: skip
OTHER_SETS = [
    ("(1,2),(3,4)", r"(1,2)\cup(3,4)"), ("(1,2]", "(1,2)"), (r"[1,2]\cup[3,4]", "[1,4]"),
    ("x<1", "y<1"),
    ("x > -1 and x < 1", r"(-\infty,\infty)"), ("x != 3", "x = 3"), ("2x > 4", "x > 3"),
    ("5", "x<5"),
]  # fmt: skip
FORMS = [
    (r"1 - \frac1e", "1-e^{-1}"), (r"\frac\pi2", r"\frac{\pi}{2}"), (r"e^\frac12", r"\sqrt e"),
    (r"\sqrt\frac14", "0.5"), ("x²+1", "x^2+1"), (r"4\sqrt(2)", r"4\sqrt{2}"), ("1503!", "1503!"),
    (r"10^{10^{10}}+1", r"1+10^{10^{10}}"), (r"\frac{1}{9999!}", r"\frac{1}{9999!}"),
    (r"\left[\begin{array}{c}1\\2\end{array}\right]", r"\begin{pmatrix}1\\2\end{pmatrix}"),
]  # fmt: skip
OTHER_FORMS = [
    (r"1 - \frac1e", r"1 + \frac1e"), (r"\frac{1}{1503!}", r"\frac{1}{1505!}"), ("10:45", "9:45"),
    (r"\frac{1}{9999!}", "0"), (r"10^{10^{10}}", r"10^{10^{11}}"), ("a_1 a_2", r"a_1 \ldots a_2"),
    (r"\frac{1}{9998!}", r"\frac{1}{9999!}"),
    (r"1 - \frac{1}{\mathrm{e}}", r"1 + \frac{1}{\mathrm{e}}"),
]  # fmt: skip
RIGHT = [*UNITS, *LISTS, *EQUATIONS, *((a, "D") for a in LETTERS), *SETS, *FORMS]
WRONG = [*OTHER_UNITS, *OTHER_LISTS, *NO_NUMBERS, *((a, "D") for a in NOT_D), *OTHER_SETS]
WRONG += OTHER_FORMS
GOLDS = [
    r"\text{cannot be determined}", r"1, 2, \ldots, n", r"\angle ABC = 40^\circ", "2:3", r"\$1.50",
    r"x \in \mathbb{R}", r"A \cup B", r"y \le 3", r"\triangle ABC",
    r"\overline{AB} \parallel \overline{CD}",
    r"\begin{cases} 1 & x > 0 \\ 0 & x \le 0 \end{cases}", r"\mathbb{R} \setminus \{0\}",
    r"n \equiv 2 \pmod{3}", r"10^{11} \mathrm{~M}_{\odot}", r"50 \, \cancel{\text{inches}}",
    r"a^{n-1}+\ldots+1", r"\vec{F} = m\vec{a}", r"\{x \mid x > 2\}", r"8\,\text{ft}\;6\,\text{in}",
]  # fmt: skip


def boxed(answer: str, gold: str) -> float:
    return math_score(f"so \\boxed{{{answer}}}", gold, style="boxed", timeout_s=60)


@pytest.mark.parametrize(("answer", "gold"), RIGHT)
def test_right(answer, gold):
    assert boxed(answer, gold) == 1.0


@pytest.mark.parametrize(("answer", "gold"), WRONG)
def test_wrong(answer, gold):
    assert boxed(answer, gold) == 0.0


@pytest.mark.parametrize("gold", GOLDS)
def test_odd_golds_can_be_read(gold):
    assert boxed(gold, gold) == 1.0
    assert boxed("17", gold) == 0.0


@pytest.mark.parametrize("gold", [r"\frac{1}{", "((", "x +", r"\sqrt{2", r"\frac{1}"])
def test_a_broken_gold_is_an_error_whatever_the_answer(gold):
    for completion in (r"\boxed{5}", "no answer", r"\boxed{x}"):
        with pytest.raises(GoldError, match="gold: "):
            math_score(completion, gold, style="boxed", timeout_s=60)


def test_percent_in_every_style():
    for style, text in {
        "gsm8k": "#### 20%",
        "tags": "<answer>20%</answer>",
        "last-number": "so 20%.",
    }.items():
        assert math_score(text, "20", style=style) == 1.0
        assert math_score(text, "0.2", style=style) == 0.0
