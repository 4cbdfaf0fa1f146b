"""async.journal.1: what is asked again after a crash."""

from bookkit.exercises.draw import Draw
from bookkit.exercises.exercise import Case, Check, Output, edit, edits

Journal = list[tuple[str, int]]


def oracle(journal: Journal) -> tuple[int, list[int]]:
    """Backwards: from the last whole copy to its taking, and from there along the lives."""

    def groups_in(end: int) -> list[int]:
        """What the trainer's weights hold after the first lines."""
        held: list[int] = []
        for place in reversed(range(end)):
            word, number = journal[place]
            if word == "trained":
                held.append(number)
            if word == "resumed":
                return held + copy(number, place)
        return held

    def copy(number: int, before: int) -> list[int]:
        """What a copy holds: the last one of this number taken before a line."""
        places = [k for k in range(before) if journal[k] == ("saving", number)]
        return groups_in(places[-1]) if places else []

    whole = 0
    for place in reversed(range(len(journal))):
        if journal[place][0] == "saved":
            whole = journal[place][1]
            break
    done = set(copy(whole, len(journal))) if whole else set()
    again: list[int] = []
    for word, number in journal:
        if word == "asked" and number not in done and number not in again:
            again.append(number)
    return whole, again


class Life:
    """A run that writes its journal."""

    def __init__(self) -> None:
        self.journal: Journal = []
        self.asked: list[int] = []
        self.queue: list[int] = []
        self.lost: list[int] = []
        self.trained: list[int] = []
        self.copies: dict[int, list[int]] = {0: []}
        self.writing: int | None = None
        self.whole = 0
        self.number = 0

    def ask(self, number: int) -> None:
        """Hand a prompt out."""
        self.journal.append(("asked", number))
        self.asked.append(number)

    def sample(self, place: int) -> None:
        """Finish one of those that were asked."""
        number = self.asked.pop(place % len(self.asked))
        self.journal.append(("sampled", number))
        self.queue.append(number)

    def drop(self) -> None:
        """Throw the first of the queue away."""
        number = self.queue.pop(0)
        self.journal.append(("dropped", number))
        self.lost.append(number)

    def train(self) -> None:
        """Make an update with the first of the queue."""
        number = self.queue.pop(0)
        self.journal.append(("trained", number))
        self.trained.append(number)

    def save(self) -> None:
        """Take a copy, or end the writing of the one that was taken."""
        if self.writing is None and self.trained:
            self.number += 1
            self.writing = self.number
            self.copies[self.number] = list(self.trained)
            self.journal.append(("saving", self.number))
        elif self.writing is not None:
            self.journal.append(("saved", self.writing))
            self.whole, self.writing = self.writing, None

    def crash(self) -> None:
        """Everything under way is lost; the run goes on, and has to ask for it again."""
        known = {number for word, number in self.journal if word == "asked"}
        self.trained = list(self.copies[self.whole])
        self.asked, self.queue, self.writing = [], [], None
        self.lost = sorted(known - set(self.trained))
        self.journal.append(("resumed", self.whole))


def cases(draw: Draw) -> Case:
    """A run of some lines, in which anything may come next; numbers do not rise."""
    life, fresh = Life(), [3, 8, 1, 12, 5, 0, 9, 2, 7, 11, 4, 6, 10]
    for _ in range(3 + 5 * draw.size):
        word = draw.choice(["ask", "ask", "sample", "train", "train", "save", "save", "drop"])
        if word == "ask" and life.lost and draw.integer(0, 1):
            life.ask(life.lost.pop())
        elif word == "ask" and fresh:
            life.ask(fresh.pop(draw.integer(0, min(2, len(fresh) - 1))))
        elif word == "sample" and life.asked:
            life.sample(draw.integer(0, 9))
        elif word == "drop" and life.queue and not draw.integer(0, 2):
            life.drop()
        elif word == "train" and life.queue:
            life.train()
        elif word == "save":
            life.save()
        if draw.integer(0, 14) == 0 and life.journal:
            life.crash()
    return Case(f"{len(life.journal)} lines", {"journal": life.journal})


def edges() -> tuple[Case, ...]:
    """No line, no copy, a copy that is not whole, what is behind it, two lives."""

    def case(name: str, text: str) -> Case:
        words = [pair.split() for pair in text.split(",") if pair.strip()]
        return Case(name, {"journal": [(word, int(number)) for word, number in words]})

    one = "asked 4, sampled 4, trained 4, saving 1, saved 1"
    return (
        case("one group, nothing done", "asked 4"),
        case("no line", ""),
        case("in the queue", "asked 4, asked 2, sampled 4"),
        case("trained, no copy", "asked 4, sampled 4, trained 4"),
        case("a copy that is not whole", "asked 4, sampled 4, trained 4, saving 1"),
        case("a whole copy", one),
        case("the hand example", "asked 1, asked 2, asked 3, trained 1, saving 1, trained 2, "
             "saved 1, saving 2"),
        case("trained behind the copy", f"{one}, asked 2, sampled 2, trained 2"),
        case("trained while it is written", "asked 4, asked 2, sampled 4, sampled 2, trained 4, "
             "saving 1, trained 2, saved 1"),
        case("two whole copies", f"{one}, asked 2, sampled 2, trained 2, saving 2, saved 2, "
             "asked 9"),
        case("dropped", f"{one}, asked 2, asked 3, sampled 2, dropped 2"),
        case("dropped, asked again, in the queue", f"{one}, asked 2, asked 3, dropped 2, asked 2, "
             "sampled 2"),
        case("numbers that fall", "asked 9, asked 3, asked 6, asked 1"),
        case("a second life", f"{one}, asked 7, asked 5, sampled 7, sampled 5, trained 7, "
             "resumed 1, asked 7, asked 5, sampled 5, trained 5, saving 2, saved 2"),
        case("a second life from the start", "asked 4, asked 2, sampled 4, trained 4, saving 1, "
             "resumed 0, asked 2, asked 4, sampled 2, trained 2, saving 2, saved 2"),
        case("crashed just now, twice", f"{one}, asked 2, sampled 2, trained 2, resumed 1, "
             "asked 2"),
    )  # fmt: skip


KEPT = "group not in copies[whole]"

CHECK = Check(
    id="async.journal.1",
    outputs=(
        Output("copy", "an int", "python"),
        Output("again", "a list of numbers", "python"),
    ),
    cases=cases,
    edges=edges,
    oracle=oracle,
    mutants=(
        edit(
            "trained once is trained",
            KEPT,
            'group not in [number for word, number in journal if word == "trained"]',
            "every group that was ever trained counts as done: updates after the last whole copy "
            "are lost, and their groups with them",
        ),
        edit(
            "sampled is done",
            KEPT,
            f'{KEPT} and ("sampled", group) not in journal',
            "groups that were sampled are not asked again; the queue is lost in a crash",
        ),
        edit(
            "what the copy held when it was whole",
            "            whole = number\n",
            "            whole = number\n            copies[number] = list(trained)\n",
            "the copy is taken to hold what was trained until it was whole; it was taken at "
            "`saving`, and what was trained while it was written is not in it",
        ),
        edit(
            "a copy that is half written",
            "            copies[number] = list(trained)\n",
            "            copies[number] = list(trained)\n            whole = number\n",
            "the run begins again at a copy whose writing had only begun: it counts from `saved` "
            "on",
        ),
        edit(
            "the first copy",
            'elif word == "saved":',
            'elif word == "saved" and not whole:',
            "the run begins again at the first whole copy; the last one holds more",
        ),
        edit(
            "never asked again",
            '        elif word == "trained":',
            '        elif word == "dropped" and number in asked:\n'
            "            asked.remove(number)\n"
            '        elif word == "trained":',
            "a group that was dropped is forgotten: it was never trained, so its prompt is to "
            "be asked again",
        ),
        edit(
            "asked twice, named twice",
            " and number not in asked",
            "",
            "a group that was asked twice is named twice: it would be trained on twice in one run",
        ),
        edit(
            "by number",
            "[group for group in asked if",
            "[group for group in sorted(asked) if",
            "the groups are sorted by number; they are wanted in the order in which they were "
            "first asked",
        ),
        edit(
            "by the last time",
            '        if word == "asked" and number not in asked:\n',
            '        if word == "asked":\n'
            "            if number in asked:\n"
            "                asked.remove(number)\n",
            "a group stands where it was last asked; it keeps the place of the first time",
        ),
        edit(
            "a life is forgotten",
            "trained = list(copies[number])",
            "pass",
            "at `resumed` the trainer still counts what it had trained in its earlier life: those "
            "updates are gone, and the next copy does not hold them",
        ),
        edit(
            "a life begins empty",
            "trained = list(copies[number])",
            "trained = []",
            "at `resumed` the trainer counts nothing; it goes on from a copy, and what "
            "that holds is trained",
        ),
        edit(
            "one list for all",
            "copies[number] = list(trained)",
            "copies[number] = trained",
            "a copy and the running list are one object, so that the copy grows on with "
            "each update: take a copy of the list",
        ),
        edits(
            "the number of updates",
            ("return whole,", "return len(trained),"),
            message="the number is that of the updates made, not that of the last whole copy",
        ),
    ),
    not_tested="a last line of the journal that was half written when the machine stopped.",
    draws=36,
)
