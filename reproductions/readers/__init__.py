"""Readers of data sets for the reproductions alone; one file for each set."""

from reproductions.readers.kyoto import ParallelTexts, read_kyoto
from reproductions.readers.made_up import make_offsets
from reproductions.readers.mentions import find_mentions
from reproductions.readers.mnist import read_mnist
from reproductions.readers.parses import read_parses
from reproductions.readers.wikispeedia import LinkedTexts, read_wikispeedia

__all__ = [
    "LinkedTexts",
    "ParallelTexts",
    "find_mentions",
    "make_offsets",
    "read_kyoto",
    "read_mnist",
    "read_parses",
    "read_wikispeedia",
]
