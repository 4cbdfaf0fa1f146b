"""Tickets: drawn as the synchronous trainer draws, open until trained on, closed once."""

import pytest
import torch

from nbkit.asynchronous.tickets import Ledger
from nbkit.generate.sampling import row_seeds
from nbkit.trainers.data_order import PromptStream

pytestmark = pytest.mark.chapter(35)


def ledger(staleness=0, *, batch=4, size=3, last=40, seed=5, count=7):
    stream = PromptStream(count, torch.Generator().manual_seed(seed))
    return Ledger(stream, batch, size, staleness, last)


def test_prompts_and_seeds_are_those_of_the_synchronous_trainer():
    book, generator = ledger(), torch.Generator().manual_seed(5)
    stream = PromptStream(7, generator)
    for version in range(4):
        tickets = book.issue(version)
        assert [t.prompt for t in tickets] == stream.take(4)
        assert [s for t in tickets for s in t.seeds] == row_seeds(generator, 12, "cpu").tolist()
        assert [t.number for t in tickets] == list(range(4 * version, 4 * version + 4))
        assert {t.version for t in tickets} == {version}


def test_no_more_than_the_rule_and_the_run_allow():
    book = ledger(2, last=16)
    assert [len(book.issue(version)) for version in (0, 0, 1, 2, 3)] == [12, 0, 4, 0, 0]
    assert book.issued == 16 and len(book.open()) == 16


def test_a_group_is_closed_once():
    book = ledger(1)
    book.issue(0)
    book.close([1, 0])
    assert book.trained == 2 and [t.number for t in book.open()] == [2, 3, 4, 5, 6, 7]
    with pytest.raises(ValueError, match="group 1 was trained on before"):
        book.close([1])
    with pytest.raises(ValueError, match="group 8 was never asked for"):
        book.close([8])
    assert book.trained == 2


def test_the_state_holds_what_is_open():
    book = ledger(1)
    book.issue(0)
    book.close([0, 1, 2, 5])
    other = ledger(1, seed=6)
    other.load_state_dict(book.state_dict())
    assert other.open() == book.open() and other.issued == 8 and other.trained == 4
