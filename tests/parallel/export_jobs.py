"""What runs inside the processes of the tests of the export."""

from pathlib import Path

from tests.parallel import jobs


def trained_weights(name, word, folder):
    """The whole weights of the models after two updates, which the folder holds."""
    trainer = jobs.TRAINERS[name](word)
    trainer.run(
        progress=False, stop=lambda metrics: metrics["update"] == 2, checkpoint=Path(folder)
    )
    named = zip(("policy", "value"), trainer.learners.values(), strict=False)
    return {key: {k: v.numpy() for k, v in one.whole_state().items()} for key, one in named}
