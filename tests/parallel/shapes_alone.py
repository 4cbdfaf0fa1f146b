"""What runs in the processes of test_filling and test_hsdp: models that the first rank reads."""

import resource
from pathlib import Path

import torch

from nbkit.data.language_models import load_language_model
from nbkit.parallel import ParallelConfig, connect, join
from nbkit.parallel.export import write_model
from nbkit.parallel.filling import has_shapes_alone
from nbkit.text.scalar_models import ScalarModel
from tests.parallel.jobs import adamw, one_thread, sft_step
from tests.rlvr.small import model


def numbers(state):
    return {name: value.numpy() for name, value in state.items()}


def filled(word, folder, **settings):
    """Train two steps on a model that the first rank reads; weights before and after, on each rank.

    Returns also whether this rank had shapes alone, and whether head and embedding are one tensor.
    """
    one_thread()
    parallel = connect(ParallelConfig(backend=word, **settings), join("cpu", timeout_s=300))
    net = load_language_model(folder)
    empty = has_shapes_alone(net)
    parallel.prepare(net.train(), adamw)
    before = {name: x.clone().numpy() for name, x in parallel.whole_state().items()}
    tied = net.get_output_embeddings().weight is net.get_input_embeddings().weight
    losses = [sft_step(parallel, step) for step in range(2)]
    first_only = parallel.whole_state(everywhere=False)
    return {
        "empty": empty,
        "tied": tied,
        "before": before,
        "losses": losses,
        "after": numbers(parallel.whole_state()),
        "first only": sorted(first_only),
    }


def frozen_scores(word, folder):
    """Logits of a frozen language model and scores of a frozen scalar one, on this rank."""
    one_thread()
    parallel = connect(word, join("cpu", timeout_s=300))
    language = parallel.frozen(load_language_model(folder))
    scalar = parallel.frozen(ScalarModel.from_pretrained(f"{folder}_scalar").eval())
    ids = torch.arange(2, 12)[None]
    with torch.no_grad():
        logits = language(input_ids=ids, use_cache=False).logits.numpy()
        return logits, scalar(ids, torch.ones_like(ids)).numpy()


def one_step(word, **settings):
    """Losses and weights of three steps with a checkpoint between, from the same random weights."""
    one_thread()
    parallel = connect(ParallelConfig(backend=word, **settings), join("cpu", timeout_s=300))
    parallel.prepare(model(seed=0, layers=2, width=16).train(), adamw)
    return parallel


def trained(word, folder, settings):
    parallel = one_step(word, **settings)
    losses = [sft_step(parallel, step) for step in range(2)]
    parallel.save(Path(folder), 2)
    losses.append(sft_step(parallel, 2))
    again = one_step(word, **settings)
    again.load(Path(folder))
    losses.append(sft_step(again, 2))
    shape = [
        tuple(p.device_mesh.shape) for p in parallel.plain.parameters() if hasattr(p, "device_mesh")
    ]
    return losses, numbers(parallel.whole_state()), sorted(set(shape))


def peak_of_loading(word, small, folder, out):
    """Bytes that the process holds at most: before, after loading and placing, after writing.

    Before: after a small model went the same way, so that all code is loaded.
    """
    one_thread()
    world = join("cpu", timeout_s=300)
    before = connect(word, world)
    before.prepare(load_language_model(small).train(), adamw)
    write_model(before, Path(out) / "small")
    peaks = [peak()]
    parallel = connect(word, world)
    parallel.prepare(load_language_model(folder).train(), adamw)
    peaks.append(peak())
    write_model(parallel, Path(out) / "large")
    peaks.append(peak())
    return peaks


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
