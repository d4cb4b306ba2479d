"""Reproductions of four papers: every table and figure as a data file, and the runner that compares ours with them."""
