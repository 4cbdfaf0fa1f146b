"""The capstone: one task and one budget, any method of the book, and a board of the results."""
