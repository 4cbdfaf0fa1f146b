"""Builds: the learner's own agent, run in a process of its own and passed by its score.

`nbkit build 12` runs `exercises/builds/12_ppo.py`. In a notebook, one cell does:

    from bookkit.builds.notebook import build
    build(12)
"""
