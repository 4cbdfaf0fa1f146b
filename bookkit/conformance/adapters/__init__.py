"""One adapter a library; each imports its library only when it is loaded."""
