"""`nbkit test`: everything that CI runs, as a list of items that are run side by side."""
