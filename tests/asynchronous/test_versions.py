"""Weights with a version: a copy, whole or noticed."""

import copy
import itertools
import threading

import pytest
import torch
from torch import multiprocessing

from nbkit.asynchronous.versions import Mailbox, TornWeightsError, weights_of
from tests.rlvr.small import model

pytestmark = pytest.mark.chapter(35)


def same(one, other):
    mine, theirs = weights_of(one), weights_of(other)
    return mine.keys() == theirs.keys() and all(torch.equal(mine[n], theirs[n]) for n in mine)


def test_what_is_received_is_what_was_published_to_the_bit():
    source, target = model(seed=1), model(seed=2)
    mailbox = Mailbox(source)
    assert mailbox.newest == -1
    mailbox.publish(source, 3)
    assert mailbox.newest == 3 and not same(source, target)
    assert mailbox.receive(target) == 3 and same(source, target)


def test_the_next_step_of_the_optimiser_does_not_change_it():
    source, target = model(seed=1), model(seed=2)
    then = copy.deepcopy(source)
    mailbox = Mailbox(source)
    mailbox.publish(source, 0)
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.add_(1.0)
    mailbox.receive(target)
    assert same(then, target) and not same(source, target)


def test_the_newest_of_several_is_received_and_one_may_come_again():
    models = [model(seed=s) for s in range(4)]
    target = model(seed=9)
    mailbox = Mailbox(target)
    for version, source in enumerate(models):
        mailbox.publish(source, version)
    mailbox.publish(models[3], 3)
    assert mailbox.receive(target) == 3 and same(models[3], target)


def test_shared_matrices_travel_once():
    net = model()
    assert net.lm_head.weight is net.model.embed_tokens.weight
    mailbox = Mailbox(net)
    numbers = sum(parameter.numel() for parameter in net.parameters())
    assert 2 * 4 * numbers <= mailbox.bytes <= 2 * (4 * numbers + 64 * len(mailbox.places))


@pytest.mark.parametrize("damage", ["a bit", "being written", "nothing"])
def test_what_is_not_whole_is_noticed_and_the_model_stays_as_it_was(damage):
    source, target = model(seed=1), model(seed=2)
    before = copy.deepcopy(target)
    mailbox = Mailbox(source)
    if damage != "nothing":
        mailbox.publish(source, 1)
    if damage == "a bit":
        mailbox._slots[1][-64] ^= 1
    if damage == "being written":
        mailbox._notes[1, 0] = -1
    with pytest.raises(TornWeightsError):
        mailbox.receive(target)
    assert same(before, target)
    mailbox.publish(source, 1)
    assert mailbox.receive(target) == 1 and same(source, target)


def test_overwritten_while_it_is_read_is_noticed(monkeypatch):
    """The writer comes back to the slot between the reader's copy and its second look."""
    source, other, target = model(seed=1), model(seed=2), model(seed=3)
    mailbox = Mailbox(source)
    mailbox.publish(source, 0)
    plain = torch.Tensor.clone

    def slow(tensor, *arguments, **options):
        found = plain(tensor, *arguments, **options)
        monkeypatch.undo()
        mailbox.publish(other, 2)
        return found

    monkeypatch.setattr(torch.Tensor, "clone", slow)
    with pytest.raises(TornWeightsError, match="version 0 are torn"):
        mailbox.receive(target)


def test_versions_only_grow():
    net = model()
    mailbox = Mailbox(net)
    mailbox.publish(net, 4)
    with pytest.raises(ValueError, match="version 3 comes after 4"):
        mailbox.publish(net, 3)


@pytest.mark.parametrize("sizes", [{"width": 32}, {"layers": 2}])
def test_another_model_is_refused(sizes):
    big, small = model(**sizes), model()
    with pytest.raises(ValueError, match="the mailbox was made for"):
        mailbox = Mailbox(big)
        mailbox.publish(small, 0)


def _reads(connection, mailbox):
    torch.set_num_threads(1)
    target = model(seed=2)
    while connection.recv() == "read":
        version = mailbox.receive(target)
        connection.send(
            (version, sum(w.double().sum().item() for w in weights_of(target).values()))
        )


@pytest.mark.slow
@pytest.mark.xdist_group("alone")
def test_another_process_reads_each_version():
    context = multiprocessing.get_context("spawn")
    source = model(seed=1)
    mailbox = Mailbox(source)
    here, there = context.Pipe()
    process = context.Process(target=_reads, args=(there, mailbox), daemon=True)
    process.start()
    try:
        for version in range(3):
            mailbox.publish(source, version)
            here.send("read")
            assert here.poll(240)
            total = sum(w.double().sum().item() for w in weights_of(source).values())
            assert here.recv() == (version, total)
            with torch.no_grad():
                next(source.parameters()).add_(0.5)
        here.send("end")
    finally:
        process.join(30)
        process.kill()


def test_a_reader_beside_a_writer_never_sees_a_mixture():
    """Weights of version v are all v; a reader in a thread gets whole versions or an error."""
    source = model()
    mailbox = Mailbox(source)
    seen, mixed, ended = [], [], threading.Event()

    def read():
        target = model(seed=2)
        while not ended.is_set():
            try:
                version = mailbox.receive(target)
            except TornWeightsError:
                continue
            values = {w.unique().tolist()[0] for w in weights_of(target).values()}
            (seen if values == {float(version)} else mixed).append(version)

    thread = threading.Thread(target=read)
    with torch.no_grad():
        thread.start()
        for version in range(150):
            for parameter in source.parameters():
                parameter.fill_(version)
            mailbox.publish(source, version)
    ended.set()
    thread.join()
    assert not mixed
    assert all(a <= b for a, b in itertools.pairwise(seen))
