"""bookkit: what makes the book out of its pages; a reader's own program needs none of it."""
