"""The end of a job that trains a language model: fit, show what it writes, write it."""

from collections.abc import Sequence

from nbkit.data.encode import Example
from nbkit.parallel.export import write_model
from nbkit.runs.run import Run
from nbkit.text.vocabulary import TokenizerVocabulary
from nbkit.trainers.loop import Trainer
from nbkit.trainers.samples import answers


def fit_and_write(
    trainer: Trainer,
    run: Run,
    vocabulary: TokenizerVocabulary,
    *,
    save_every: int,
    phase: str = "step",
    shown: Sequence[Sequence[int]] = (),
    shown_every: int = 10,
    max_new_tokens: int = 128,
    dtype: str = "float32",
) -> None:
    """Train in the run to the end; write the model and its tokenizer as ``from_pretrained`` reads.

    Args:
        trainer: its first learner is the model. Every rank calls this.
        run: of the job; without a folder nothing is written.
        vocabulary: of the model.
        save_every: steps between two checkpoints.
        phase: see ``Trainer.fit``.
        shown: prompts as ids, which the model answers on the way; none: what the trainer samples.
        shown_every: steps between two such looks.
        max_new_tokens: limit of an answer that is shown.
        dtype: of the weights that are written.

    """
    parallel = next(iter(trainer.learners.values()))
    samples = None
    if shown:
        asked = [Example(tuple(ids), ()) for ids in shown]
        samples = answers(parallel, vocabulary, asked, max_new_tokens=max_new_tokens)
    trainer.fit(run, save_every=save_every, phase=phase, samples=samples, samples_every=shown_every)
    if run.folder is not None:
        write_model(parallel, run.output, dtype=dtype)
        if run.is_main:
            vocabulary.tokenizer.save_pretrained(run.output)
