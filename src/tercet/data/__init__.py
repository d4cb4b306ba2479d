"""What comes in: preferences, and readers with one file per format."""

from tercet.data.beir import BeirCollection, read_beir, read_corpus, read_queries, write_beir
from tercet.data.idx import read_idx, read_mnist
from tercet.data.labelled import LabelledTexts, read_20newsgroups, read_labelled_folder
from tercet.data.letor import LetorData, iter_letor, read_letor
from tercet.data.letor_files import LetorChunks, read_chunks, write_chunks, write_letor
from tercet.data.letor_folds import LetorFold, read_letor_folds
from tercet.data.linked import LinkedTexts, read_wikispeedia
from tercet.data.mates import Mates, read_kyoto
from tercet.data.preference_files import PreferenceTriples, read_preferences, write_preferences
from tercet.data.preferences import Preferences
from tercet.data.recognise import recognise
from tercet.data.sampling import JudgementSampler, LabelSampler
from tercet.data.svmlight import SvmlightData, read_svmlight
from tercet.data.trec import read_qrels, read_run, write_qrels, write_run

__all__ = [
    "BeirCollection",
    "JudgementSampler",
    "LabelSampler",
    "LabelledTexts",
    "LetorChunks",
    "LetorData",
    "LetorFold",
    "LinkedTexts",
    "Mates",
    "PreferenceTriples",
    "Preferences",
    "SvmlightData",
    "iter_letor",
    "read_20newsgroups",
    "read_beir",
    "read_chunks",
    "read_corpus",
    "read_idx",
    "read_kyoto",
    "read_labelled_folder",
    "read_letor",
    "read_letor_folds",
    "read_mnist",
    "read_preferences",
    "read_qrels",
    "read_queries",
    "read_run",
    "read_svmlight",
    "read_wikispeedia",
    "recognise",
    "write_beir",
    "write_chunks",
    "write_letor",
    "write_preferences",
    "write_qrels",
    "write_run",
]
