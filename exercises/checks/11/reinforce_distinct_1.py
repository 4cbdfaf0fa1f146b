"""reinforce.distinct.1: a number that notices repetition."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Rows = list[list[int]]


TOKENS = (1, 2, 12, 21)  # as strings without a separator, 1 21 and 12 1 are the same


def oracle(rows: Rows, n: int) -> float:
    """Compare every n-gram, token by token, with all that came before it."""
    seen: Rows = []
    total = 0
    for row in rows:
        start = 0
        while start + n <= len(row):
            total += 1
            known = False
            for earlier in seen:
                if all(earlier[k] == row[start + k] for k in range(n)):
                    known = True
            if not known:
                seen.append([row[start + k] for k in range(n)])
            start += 1
    return 0.0 if total == 0 else len(seen) / total


def cases(draw: Draw) -> Case:
    """Short rows from a small vocabulary, some of them shorter than n."""
    n = draw.choice([1, 2, 2, 3])
    rows = [
        [draw.choice(TOKENS) for _ in range(draw.integer(0, 2 + 2 * draw.size))]
        for _ in range(draw.dimension())
    ]
    return Case(f"texts: {len(rows)}, n = {n}", {"rows": rows, "n": n})


def edges() -> tuple[Case, ...]:
    """No rows, short rows, repetition within and across rows."""
    named: dict[str, tuple[Rows, int]] = {
        "no rows": ([], 2),
        "only rows shorter than n": ([[1], [], [2, 3]], 3),
        "a row as long as n": ([[1, 2]], 2),
        "one repeated token": ([[7, 7, 7, 7, 7]], 2),
        "all different": ([[1, 2, 3, 4]], 2),
        "the same row twice": ([[1, 2, 3], [1, 2, 3]], 2),
        "rows that touch": ([[1, 2], [3, 4], [1, 2]], 2),
        "the same tokens in another order": ([[1, 2], [2, 1], [1, 3]], 2),
        "different tokens, the same digits": ([[1, 23], [12, 3]], 2),
        "a short row among long ones": ([[5], [1, 2, 3, 1, 2], [6]], 2),
        "n = 1": ([[4, 4, 5], [4]], 1),
    }
    return tuple(Case(name, {"rows": rows, "n": n}) for name, (rows, n) in named.items())


CHECK = Check(
    id="reinforce.distinct.1",
    outputs=(Output("distinct", "a float in [0, 1]", "number"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "n-grams across rows",
            " rows",
            " [[token for row in rows for token in row]]",
            "the rows are joined before the n-grams are cut, so some n-grams begin in one "
            "text and end in the next: cut each row by itself",
        ),
        edit(
            "divided by tokens",
            "len(grams)",
            "sum((len(row) for row in rows))",
            "the divisor is the number of tokens; it must be the number of n-grams, "
            "`len(row) - n + 1` for each row",
        ),
        edits(
            "mean over rows",
            (
                "grams = [tuple(row[i : i + n]) for row in rows for i in range(len(row) - n + 1)]",
                "lists = [[tuple(row[i : i + n]) for i in range(len(row) - n + 1)] for row in "
                "rows]\n"
                "    values = [len(set(grams)) / len(grams) for grams in lists if grams]",
            ),
            ("len(set(grams)) / len(grams) if grams", "sum(values) / len(values) if values"),
            message="the ratio is taken in each row and then averaged, so a policy that says the "
            "same sentence every time looks diverse: pool the n-grams of the whole batch",
        ),
        edit(
            "last n-gram missing",
            "1",
            "0",
            "the last n-gram of each row is missing: there are `len(row) - n + 1` of them",
        ),
        edit(
            "order ignored",
            "row[i : i + n]",
            "sorted(row[i : i + n])",
            "n-grams with the same tokens in another order are taken for the same: keep the order",
        ),
        edit(
            "joined as strings",
            "tuple(row[i : i + n])",
            '"".join(map(str, row[i : i + n]))',
            "the tokens of an n-gram are joined to one string, where 1, 23 and 12, 3 are "
            "both `123`: use a tuple of the tokens",
        ),
        edit(
            "short rows counted",
            "len(row) - n",
            "max(len(row) - n, 0)",
            "a row shorter than n counts as one n-gram; it has none",
        ),
        edit(
            "ragged ends counted",
            "len(row) - n + 1",
            "len(row)",
            "the ends of the rows give pieces shorter than n: stop at `len(row) - n`",
        ),
        edit(
            "single tokens",
            "grams =",
            "n = 1\n    grams =",
            "`n` has no effect: single tokens are counted",
        ),
        edit(
            "division by zero",
            " if grams else 0.0",
            "",
            "a batch without any n-gram ends in a division by zero: return 0.0 there",
        ),
        edit(
            "1 for a batch without n-grams",
            "else 0.0",
            "else 1",
            "a batch without any n-gram gets 1, as if it were perfectly diverse: it gets 0",
        ),
        edit(
            "a count instead of a share",
            " / len(grams)",
            "",
            "this is the number of different n-grams: divide it by the number of all of them",
        ),
        edit(
            "repetition instead",
            "len(set(grams)) / len(grams) if grams else 0.0",
            "1.0 - (len(set(grams)) / len(grams) if grams else 0.0)",
            "this is the share that repeats, 1 minus the share that is asked for",
        ),
        edit(
            "steps of n",
            "len(row) - n + 1",
            "0, len(row) - n + 1, n",
            "the n-grams do not overlap (steps of n): one begins at every token",
        ),
    ),
    not_tested="texts of very different length: the measure falls with the amount of text.",
)
