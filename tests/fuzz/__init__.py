"""Any bytes at all for the text rooms: a few at every test run, a million with ``scripts/fuzz``."""
