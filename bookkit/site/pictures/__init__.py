"""The drawings of the book's pages, computed so that each shows what is true.

`nbkit book pictures` writes them to `book/pictures`; `--check` says which differ.
"""
