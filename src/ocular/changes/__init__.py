"""What a refit changes: recommendations that came and went, and why, and patterns with other members."""
