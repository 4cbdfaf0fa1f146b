"""The checks behind the exercises: cases, independent oracles, named mistakes, verdicts.

A learner calls :func:`nbkit.check`. An author registers exercises in ``chapter_NN`` (a module or
a package with a tuple ``EXERCISES``) and proves them with :mod:`bookkit.exercises.proof`.
"""
