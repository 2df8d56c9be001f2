"""Every version of every memory file that was seen to change: kept under ``.history/``, and brought back from there."""
