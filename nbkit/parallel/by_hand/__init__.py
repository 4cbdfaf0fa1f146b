"""Lessons: what the back-ends do inside, each by hand and small enough to read."""
