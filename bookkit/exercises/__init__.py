"""The checks behind the exercises: cases, independent oracles, named mistakes, verdicts.

A learner calls :func:`nbkit.check`. What proves an exercise stands in the book, not here: its check
in ``exercises/checks``, its solution in ``solutions``. :mod:`bookkit.exercises.proof` proves one.
"""
