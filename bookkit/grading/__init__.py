"""Grading of handed-in exercises: the learner's code runs in a sandbox, the judge outside."""
