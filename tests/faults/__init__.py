"""A whole reply at every kind of place, and everything that can go wrong there, at each call that crosses the seam."""
