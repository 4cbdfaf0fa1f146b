"""Builds, serves and prints the book."""
