"""Where the answer stands: every row of the known faults of extraction (D16), and their kind."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from nbkit.rewards import extract_answer, math_score
from nbkit.text.numerals import read_number

GSM8K = Path(__file__).resolve().parents[3] / "shared" / "data" / "gsm8k_test.jsonl"

AFTER_MARKER = [
    ("#### $18", "18"),
    ("#### 18.", "18"),
    ("#### 1,234", "1234"),
    ("#### 1,234,567.50", "1234567.50"),
    ("#### -7", "-7"),
    ("#### −7", "-7"),
    ("#### -$7", "-7"),
    ("#### $-7", "-7"),
    ("#### +7", "7"),
    ("#### 3/4", "3/4"),
    ("#### -3/4", "-3/4"),
    ("#### 42" + " blah" * 80, "42"),
    ("#### 42\n" + "and so on. " * 80, "42"),
    ("#### 10\n#### 12", "12"),
    ("#### 5 because 5*2=10", "5"),
    ("#### .5", "0.5"),
    ("#### -.5", "-0.5"),
    ("#### 1e3", "1000"),
    ("no number here", None),
    ("####", None),
    ("#### nothing", None),
    ("#### **42**", "42"),
    ("**#### 42**", "42"),
    ("#### `42`", "42"),
    ("#### *42*", "42"),
    ("#### $42$", "42"),
    ("####42", "42"),
    ("#### \n 42", "42"),
    ("#### 42 apples", "42"),
    ("#### 42 km/h", "42"),
    ("#### 42km", "42"),
    ("#### Answer: 42", "42"),
    ("#### The answer is $1,042.", "1042"),
    ("#### 50%", "50%"),
    ("#### 50\\%", "50%"),
    ("#### 1 1/2", "1 1/2"),
    ("#### \\frac{3}{4}", "\\frac{3}{4}"),
    ("#### 3+4=7", "7"),
    ("#### x = 7", "7"),
    ("#### 5x", "5x"),
    ("#### 2\\pi", "2\\pi"),
    ("#### \\sqrt{2}", "\\sqrt{2}"),
    ("#### ±5", None),
    ("#### 5 or 6", "5 or 6"),
    ("#### (5)", "5"),
    ('#### "5"', "5"),
    ("#### \\boxed{5}", "5"),
    ("#### 5 = x", "5"),
    ("#### The total is 5 + 3 = 8 apples", "8"),
    ("#### ½", "1/2"),
    ("#### 3½", "3 1/2"),
    ("#### (1,2)", "(1,2)"),
    ("#### \\text{5 cm}", "5"),
    ("#### \\pm 5", None),
    ("#### +/-5", None),
    ("<think>#### 3</think> #### 4</answer>", "4"),
]

BOXED = [
    (r"\boxed{3} wait no, \boxed{5}", "5"),
    (r"\boxed{840} … **Final Answer** \boxed{840}", "840"),
    (r"\boxed{\frac{2}{3}}", r"\frac{2}{3}"),
    (r"\boxed{1,234}", "1234"),
    (r"\boxed{$18$}", "18"),
    (r"\boxed{\$18}", "18"),
    (r"\boxed{**18**}", "18"),
    (r"\boxed{5} and then \boxed{6", "5"),
    (r"\boxed{\boxed{5}}", "5"),
    (r"\boxed{\{1,2\}}", r"\{1,2\}"),
    (r"\fbox{7}", "7"),
    (r"\boxed {7}", "7"),
    (r"\boxed{(1,2)}", "(1,2)"),
    (r"\boxed{}", None),
    ("#### 5", None),
    ("no number here", None),
    (r"\boxed{x^{2}+1}", "x^{2}+1"),
    (r"\boxed{\pm 5}", r"\pm 5"),
]

LAST_NUMBER = [
    ("So he has 1,000 dollars left.", "1000"),
    ("He pays $18.", "18"),
    ("It is -3", "-3"),
    ("x = -3", "-3"),
    ("x = - 3", "-3"),
    ("10-3", "3"),
    ("10 - 3", "3"),
    ("10 - 3 = 7", "7"),
    ("a mix: 1 1/2 cups", "1 1/2"),
    ("p = \\frac{3}{4}", "\\frac{3}{4}"),
    ("half of it, 50%", "50%"),
    ("3/4", "3/4"),
    ("the answer is 42, on the 5th day", "42"),
    ("x2 is 7, see y3", "7"),
    ("x = ±5", None),
    ("no number here", None),
    ("10^5", "10^5"),
    (r"\sqrt{2}", r"\sqrt{2}"),
    (r"2\pi", r"2\pi"),
    ("It is 5.", "5"),
    ("(-4)", "-4"),
    (".5", "0.5"),
    ("**12**", "12"),
    ("the two are 125,96", None),
    ("in total 5,6", None),
    ("It is 3:45", None),
    ("release 2.1.7", None),
    ("due on 12/25/2020", None),
    ("on 12/25/2020 there were 7", "7"),
    ("they made 5, 6, and then 7", "7"),
    ("between 12-15 boxes", "15"),
]


@pytest.mark.parametrize(("text", "expected"), AFTER_MARKER)
def test_value_after_the_last_marker(text, expected):
    assert extract_answer(text) == expected
    assert extract_answer("Some work: 3 + 4 = 7.\n" + text) == expected


@pytest.mark.parametrize(("text", "expected"), BOXED)
def test_last_complete_box(text, expected):
    assert extract_answer(text, style="boxed") == expected
    assert extract_answer("so " + text + " qed", style="boxed") == expected


@pytest.mark.parametrize(("text", "expected"), LAST_NUMBER)
def test_last_number(text, expected):
    assert extract_answer(text, style="last-number") == expected


@pytest.mark.parametrize(
    "line",
    [
        "5 or 6",
        "5; 6",
        "5,6",
        "5 or maybe 6",
        "5 dollars and 6 cents",
        "5 to 6",
        "5, 6",
        "5 (or 6)",
    ],
)
def test_two_answers_are_no_answer(line):
    assert math_score(f"#### {line}", "5") == math_score(f"#### {line}", "6") == 0.0


def test_an_equation_after_the_marker_is_no_number():
    for line, score in {
        "a + b = 7": 0.0,
        "x - 58 = 7": 0.0,
        "f(x) = 7": 1.0,
        "3 + 4 = 7": 1.0,
    }.items():
        assert math_score(f"#### {line}", "7") == score, line


@pytest.mark.parametrize(
    ("style", "text", "answer"),
    [
        ("boxed", r"<think>\boxed{12}, let me check", None),
        ("boxed", r"<think>\boxed{12}</think> I ran out of ideas.", None),
        ("boxed", r"<think>\boxed{12}</think> so \boxed{15}", "15"),
        ("boxed", r"It is \boxed{15}. <think>or \boxed{12}?", "15"),
        ("boxed", r"maybe \boxed{12}</think> no", None),
        ("boxed", r"<think>I open <think> twice: \boxed{12}</think>\boxed{15}", "15"),
        ("boxed", r"<Thinking>\boxed{12}</Thinking> \boxed{15}", "15"),
        ("gsm8k", "<think>#### 12 looks right, or is it", None),
        ("gsm8k", "<think>#### 15?</think>\nThe answer is 12.", None),
        ("tags", "<think>then <answer>12</answer> would be written", None),
        ("tags", "<think>a</think><answer>12</answer>", "12"),
        ("last-number", "<think>3 + 9 = 12, or perhaps", None),
        ("last-number", "<think>12</think> So 15.", "15"),
    ],
)
def test_thoughts_give_no_answer(style, text, answer):
    assert extract_answer(text, style=style) == answer


def test_tags():
    text = "<think>3</think><answer>4</answer> no: <answer> **5** </answer><answer>6"
    assert extract_answer(text, style="tags") == "5"
    assert extract_answer("5", style="tags") is None


def test_unknown_style_and_wrong_type_are_named():
    with pytest.raises(ValueError, match="style"):
        extract_answer("5", style="last")
    with pytest.raises(ValueError, match="text must be a string"):
        extract_answer(5)  # type: ignore[arg-type]


def test_every_answer_of_gsm8k():
    if not GSM8K.exists():
        pytest.skip("GSM8K's file is not beside this checkout")
    rows = [json.loads(line) for line in GSM8K.read_text().splitlines()]
    assert len(rows) == 1319
    for row in rows:
        stated = row["answer"].rsplit("####", 1)[1].strip()
        value = int(stated.replace(",", ""))
        answer = extract_answer(row["answer"])
        assert answer == str(value), row["answer"]
        for right in (f"#### {value:,}", f"So it is **${value}**.\n#### **{value}.**"):
            assert math_score(right, row["answer"]) == 1.0
        for wrong in (f"#### {value + 1}", f"#### {-value or 1}", f"#### {value}.5", f"{value}"):
            assert math_score(wrong, row["answer"]) == 0.0
        assert math_score(f"\\boxed{{{value}}}", stated, style="boxed") == 1.0
        assert math_score(f"so {value:,} of them.", stated, style="last-number") == 1.0


def test_numbers_are_read_exactly():
    for text, value in {
        "0.333": Fraction(333, 1000),
        "1/3": Fraction(1, 3),
        "1 1/2": Fraction(3, 2),
        "-1 1/2": Fraction(-3, 2),
        r"1\frac{1}{2}": Fraction(3, 2),
        r"\frac12": Fraction(1, 2),
        r"-\frac{1}{2}": Fraction(-1, 2),
        r"\frac{-1}{2}": Fraction(-1, 2),
        "50%": Fraction(50),
        "50 percent": Fraction(50),
        "1.5e-2": Fraction(3, 200),
        r"3 \times 10^{4}": Fraction(30000),
        "2.5 million": Fraction(2_500_000),
        r"1{,}000": Fraction(1000),
        r"5\text{ km}": Fraction(5),
        r"90^\circ": Fraction(90),
        "(−7)": Fraction(-7),
        "007": Fraction(7),
    }.items():
        assert read_number(text) == value, text
    for text in ("±5", "1/0", "5x", "1,2", "1,23", "", "x", "5 or 6", "1e99999", "9" * 1000):
        assert read_number(text) is None, text
