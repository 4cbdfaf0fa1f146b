"""Build 31: a sampler with a cache, yours.

The specification is book/builds/31_sampler.md. Run it with `nbkit build 31`.
"""


def generate(model, prompts, draws, *, eos_id, temperature):
    """Sample an answer to each prompt; a list of lists of tokens, the EOS included."""
    raise NotImplementedError
