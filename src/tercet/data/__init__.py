"""Preferences and other evidence, and readers with one file per format."""

from typing import TYPE_CHECKING

from tercet._lazy import lazy_names

if TYPE_CHECKING:
    from tercet.data.beir import JudgedTexts as JudgedTexts
    from tercet.data.beir import read_beir as read_beir
    from tercet.data.beir import write_beir as write_beir
    from tercet.data.click_counts import ClickCounts as ClickCounts
    from tercet.data.click_counts import read_click_counts as read_click_counts
    from tercet.data.click_tables import read_click_log as read_click_log
    from tercet.data.clicks import ClickLog as ClickLog
    from tercet.data.clicks import Impression as Impression
    from tercet.data.documents import Documents as Documents
    from tercet.data.documents import as_documents as as_documents
    from tercet.data.documents import iter_corpus as iter_corpus
    from tercet.data.documents import read_table as read_table
    from tercet.data.feature_names import read_feature_names as read_feature_names
    from tercet.data.judgements import read_qrels as read_qrels
    from tercet.data.judgements import read_queries as read_queries
    from tercet.data.labeled import LabeledTexts as LabeledTexts
    from tercet.data.labeled import read_20newsgroups as read_20newsgroups
    from tercet.data.labeled import read_labeled_folder as read_labeled_folder
    from tercet.data.letor import LetorData as LetorData
    from tercet.data.letor import LetorStream as LetorStream
    from tercet.data.letor import read_letor as read_letor
    from tercet.data.letor_folds import LetorFold as LetorFold
    from tercet.data.letor_folds import query_folds as query_folds
    from tercet.data.letor_folds import read_letor_folds as read_letor_folds
    from tercet.data.letor_writing import write_letor as write_letor
    from tercet.data.link_tables import ReadLinks as ReadLinks
    from tercet.data.link_tables import read_links as read_links
    from tercet.data.preferences import Preferences as Preferences
    from tercet.data.recognition import recognize as recognize
    from tercet.data.sampling import JudgementSampler as JudgementSampler
    from tercet.data.sampling import LabelSampler as LabelSampler
    from tercet.data.stored_rows import open_rows as open_rows
    from tercet.data.stored_rows import write_rows as write_rows
    from tercet.data.tables import iter_rows as iter_rows
    from tercet.data.trec import read_run as read_run
    from tercet.data.trec import write_qrels as write_qrels
    from tercet.data.trec import write_run as write_run
    from tercet.data.triplets import ReadTriplets as ReadTriplets
    from tercet.data.triplets import read_triplets as read_triplets
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "tercet.data.beir": ("JudgedTexts", "read_beir", "write_beir"),
            "tercet.data.click_counts": ("ClickCounts", "read_click_counts"),
            "tercet.data.click_tables": ("read_click_log",),
            "tercet.data.clicks": ("ClickLog", "Impression"),
            "tercet.data.documents": ("Documents", "as_documents", "iter_corpus", "read_table"),
            "tercet.data.feature_names": ("read_feature_names",),
            "tercet.data.judgements": ("read_qrels", "read_queries"),
            "tercet.data.labeled": ("LabeledTexts", "read_20newsgroups", "read_labeled_folder"),
            "tercet.data.letor": (
                "LetorData",
                "LetorStream",
                "read_letor",
            ),
            "tercet.data.letor_folds": ("LetorFold", "query_folds", "read_letor_folds"),
            "tercet.data.letor_writing": ("write_letor",),
            "tercet.data.link_tables": ("ReadLinks", "read_links"),
            "tercet.data.preferences": ("Preferences",),
            "tercet.data.recognition": ("recognize",),
            "tercet.data.sampling": ("JudgementSampler", "LabelSampler"),
            "tercet.data.stored_rows": ("open_rows", "write_rows"),
            "tercet.data.tables": ("iter_rows",),
            "tercet.data.trec": ("read_run", "write_qrels", "write_run"),
            "tercet.data.triplets": ("ReadTriplets", "read_triplets"),
        },
    )
