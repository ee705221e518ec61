"""Small things of the launcher that scripts use."""
