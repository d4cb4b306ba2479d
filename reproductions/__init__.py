"""Reproductions of four papers: tables and figures as data files, and a runner for comparison."""
