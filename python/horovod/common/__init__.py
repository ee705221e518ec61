"""What all front ends share."""
