"""What comes in: preferences, and readers with one file per format."""

from tercet.data.beir import (
    BeirCollection,
    iter_corpus,
    iter_queries,
    read_beir,
    read_corpus,
    read_queries,
    write_beir,
)
from tercet.data.checking import CheckReport, Problem, check
from tercet.data.clicks import Impression, iter_clicks, read_clicks, write_clicks
from tercet.data.feature_names import read_feature_names
from tercet.data.labelled import LabelledTexts, read_20newsgroups, read_labelled_folder
from tercet.data.letor import LetorData, iter_letor, query_folds, read_letor
from tercet.data.letor_files import LetorChunks, read_chunks, write_chunks, write_letor
from tercet.data.letor_folds import LetorFold, read_letor_folds
from tercet.data.letor_stream import LetorStream
from tercet.data.preference_files import PreferenceTriples, iter_preferences, read_preferences, write_preferences
from tercet.data.preferences import Preferences
from tercet.data.quepid import QuepidJudgements, read_quepid, write_quepid
from tercet.data.recognise import recognise
from tercet.data.sampling import JudgementSampler, LabelSampler
from tercet.data.shards import MappedRows, ShardWriter, write_shards
from tercet.data.svmlight import SvmlightData, read_svmlight
from tercet.data.trec import iter_qrels, iter_run, read_qrels, read_run, write_qrels, write_run
from tercet.data.watching import watch_reading

__all__ = [
    "BeirCollection",
    "CheckReport",
    "Impression",
    "JudgementSampler",
    "LabelSampler",
    "LabelledTexts",
    "LetorChunks",
    "LetorData",
    "LetorFold",
    "LetorStream",
    "MappedRows",
    "PreferenceTriples",
    "Preferences",
    "Problem",
    "QuepidJudgements",
    "ShardWriter",
    "SvmlightData",
    "check",
    "iter_clicks",
    "iter_corpus",
    "iter_letor",
    "iter_preferences",
    "iter_qrels",
    "iter_queries",
    "iter_run",
    "query_folds",
    "read_20newsgroups",
    "read_beir",
    "read_chunks",
    "read_clicks",
    "read_corpus",
    "read_feature_names",
    "read_labelled_folder",
    "read_letor",
    "read_letor_folds",
    "read_preferences",
    "read_qrels",
    "read_quepid",
    "read_queries",
    "read_run",
    "read_svmlight",
    "recognise",
    "watch_reading",
    "write_beir",
    "write_chunks",
    "write_clicks",
    "write_letor",
    "write_preferences",
    "write_qrels",
    "write_quepid",
    "write_run",
    "write_shards",
]
