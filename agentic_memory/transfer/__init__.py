"""Memories of other programs in, and this one's out."""
