"""What keeps the pages true: pairing, stamps, exercises cut from solutions, tangling, lint."""
