"""Small things that launcher and workers share."""
