"""reinforce.distinct.1: a number that notices repetition."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.registry import Case, Exercise, Mutant, Output

Rows = list[list[int]]
TOKENS = (1, 2, 12, 21)  # as strings without a separator, 1 21 and 12 1 are the same


def distinct_n(rows: Rows, n: int) -> float:
    """Different n-grams over all n-grams of a batch."""
    grams = [tuple(row[i : i + n]) for row in rows for i in range(len(row) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 0.0


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


def _grams(row: list[int], n: int) -> list[tuple[int, ...]]:
    return [tuple(row[i : i + n]) for i in range(len(row) - n + 1)]


def _across_rows(rows: Rows, n: int) -> float:
    return distinct_n([[token for row in rows for token in row]], n)


def _over_tokens(rows: Rows, n: int) -> float:
    tokens = sum(len(row) for row in rows)
    different = {gram for row in rows for gram in _grams(row, n)}
    return len(different) / tokens if tokens else 0.0


def _mean_of_rows(rows: Rows, n: int) -> float:
    values = [distinct_n([row], n) for row in rows if len(row) >= n]
    return sum(values) / len(values) if values else 0.0


def _last_missing(rows: Rows, n: int) -> float:
    grams = [tuple(row[i : i + n]) for row in rows for i in range(len(row) - n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def _unordered(rows: Rows, n: int) -> float:
    grams = [tuple(sorted(gram)) for row in rows for gram in _grams(row, n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def _joined_as_strings(rows: Rows, n: int) -> float:
    grams = ["".join(str(token) for token in gram) for row in rows for gram in _grams(row, n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def _short_rows_kept(rows: Rows, n: int) -> float:
    grams = [tuple(row[i : i + n]) for row in rows for i in range(max(len(row) - n, 0) + 1)]
    return len(set(grams)) / len(grams) if grams else 0.0


def _ragged_ends(rows: Rows, n: int) -> float:
    grams = [tuple(row[i : i + n]) for row in rows for i in range(len(row))]
    return len(set(grams)) / len(grams) if grams else 0.0


def _single_tokens(rows: Rows, n: int) -> float:
    return distinct_n(rows, 1)


def _division_by_zero(rows: Rows, n: int) -> float:
    grams = [gram for row in rows for gram in _grams(row, n)]
    return len(set(grams)) / len(grams)


def _repetition(rows: Rows, n: int) -> float:
    return 1.0 - distinct_n(rows, n)


def _one_for_none(rows: Rows, n: int) -> float:
    return distinct_n(rows, n) if any(len(row) >= n for row in rows) else 1.0


def _count(rows: Rows, n: int) -> float:
    return len({gram for row in rows for gram in _grams(row, n)})


def _stride(rows: Rows, n: int) -> float:
    grams = [tuple(row[i : i + n]) for row in rows for i in range(0, len(row) - n + 1, n)]
    return len(set(grams)) / len(grams) if grams else 0.0


DISTINCT = Exercise(
    id="reinforce.distinct.1",
    title="Distinct n-grams",
    chapter=11,
    difficulty=1,
    minutes=10,
    goal=(
        "The number of different n-grams of a batch over the number of all its n-grams; rows "
        "shorter than n have none, and a batch without any gets 0."
    ),
    outputs=(Output("distinct", "a float in [0, 1]", "number"),),
    cases=cases,
    edges=edges,
    oracle=oracle,
    reference=distinct_n,
    mutants=(
        Mutant(
            "n-grams across rows",
            _across_rows,
            "the rows are joined before the n-grams are cut, so some n-grams begin in one text and "
            "end in the next: cut each row by itself",
        ),
        Mutant(
            "divided by tokens",
            _over_tokens,
            "the divisor is the number of tokens; it must be the number of n-grams, "
            "`len(row) - n + 1` for each row",
        ),
        Mutant(
            "mean over rows",
            _mean_of_rows,
            "the ratio is taken in each row and then averaged, so a policy that says the same "
            "sentence every time looks diverse: pool the n-grams of the whole batch",
        ),
        Mutant(
            "last n-gram missing",
            _last_missing,
            "the last n-gram of each row is missing: there are `len(row) - n + 1` of them",
        ),
        Mutant(
            "order ignored",
            _unordered,
            "n-grams with the same tokens in another order are taken for the same: keep the order",
        ),
        Mutant(
            "joined as strings",
            _joined_as_strings,
            "the tokens of an n-gram are joined to one string, where 1, 23 and 12, 3 are both "
            "`123`: use a tuple of the tokens",
        ),
        Mutant(
            "short rows counted",
            _short_rows_kept,
            "a row shorter than n counts as one n-gram; it has none",
        ),
        Mutant(
            "ragged ends counted",
            _ragged_ends,
            "the ends of the rows give pieces shorter than n: stop at `len(row) - n`",
        ),
        Mutant("single tokens", _single_tokens, "`n` has no effect: single tokens are counted"),
        Mutant(
            "division by zero",
            _division_by_zero,
            "a batch without any n-gram ends in a division by zero: return 0.0 there",
        ),
        Mutant(
            "1 for a batch without n-grams",
            _one_for_none,
            "a batch without any n-gram gets 1, as if it were perfectly diverse: it gets 0",
        ),
        Mutant(
            "a count instead of a share",
            _count,
            "this is the number of different n-grams: divide it by the number of all of them",
        ),
        Mutant(
            "repetition instead",
            _repetition,
            "this is the share that repeats, 1 minus the share that is asked for",
        ),
        Mutant(
            "steps of n",
            _stride,
            "the n-grams do not overlap (steps of n): one begins at every token",
        ),
    ),
    not_tested="texts of very different length: the measure falls with the amount of text.",
)
