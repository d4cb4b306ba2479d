"""Two examples for the help of every verb; under "" those of the group itself."""

from __future__ import annotations

from typing import Final

from tercet.cli.groups import Examples

EXAMPLES: Final[dict[str, Examples]] = {
    "": ("fit products.csv --clicks clicks.csv -o model/", "index products.csv --model model/ -o index/"),
    "demo": ("demo", "demo -o try/ --seed 1"),
    "fit": (
        "fit products.csv --clicks clicks.csv --text name,description -o model/",
        "fit nfcorpus/ --ranker sparse:density=.05,l1=1e-6 --budget 120 -o model/",
    ),
    "index": (
        "index products.csv --model model/ -o index/",
        "index index/ --update today.csv --remove sku17",
    ),
    "search": ('search index/ "avocado toast" --why -k 5', "search index/ --queries queries.jsonl -o run.trec"),
    "serve": ("serve index/", "serve index/ --log-impressions impressions/ --interleave candidate/"),
    "bake": ("bake index/ -o model/", "bake index.journal/journal.jsonl --index index/ -o model/"),
    "explain": ('explain index/ "avocado toast" sku17 --versus sku4', "explain model/ --word avocado --word toast"),
    "report": ("report model/ -o report.html", "report model/ -o pairs.png"),
    "rank": (
        "rank nfcorpus/ --model model/ -o run.trec",
        "rank products.csv --queries q.csv --model model/ -o run.gz",
    ),
    "eval": ("eval nfcorpus/ --model model/ -m nDCG@10 -m AP", "eval --interleaved impressions/ --since 2026-11-16"),
    "compare": (
        "compare nfcorpus/ --model old/ --model new/",
        "compare --judgements test.qrels --run bm25.trec --run new.trec --baseline bm25.trec",
    ),
    "clicks": ("clicks clicks.csv", "clicks ubi/ -o curve.png --judgements judged.csv"),
    "export": ("export synonyms --model model/ -o synonyms.txt", 'export query "avocado toast" --model model/'),
    "letor": ("letor fit train.txt --test test.txt -o model/", "letor rank test.txt --model model/ -o scores.txt"),
    "doctor": ("doctor",),
}
LETOR_EXAMPLES: Final[dict[str, Examples]] = {
    "": EXAMPLES["letor"],
    "fit": (
        "letor fit train.txt --validation vali.txt --test test.txt -o model/",
        "letor fit OHSUMED/ --ranker ftrl:batch_size=100,rate=.5,rho=1,epochs=3",
    ),
    "rank": (
        "letor rank test.txt --model model/ -o scores.txt",
        "letor rank test.txt --model model/ --format trec -k 100 -o run.trec",
    ),
    "eval": ("letor eval test.txt --model model/", "letor eval test.txt --model model/ -m nDCG@5 -m AP"),
    "compare": (
        "letor compare test.txt --model old/ --model new/",
        "letor compare test.txt --model old/ --model new/ --test permutation --json",
    ),
}
EXPORT_EXAMPLES: Final[dict[str, Examples]] = {
    "": EXAMPLES["export"],
    "synonyms": (
        "export synonyms --model model/ -o synonyms.txt",
        "export synonyms --model model/ --engine elasticsearch --min-boost .3 -o synonyms.txt",
    ),
    "query": (
        'export query "avocado toast" --model model/ --field text',
        'export query "avocado toast" --model model/ --form rescore -o body.json',
    ),
    "ltr": ("export ltr model/ -o solr/", "export ltr model/ --engine elasticsearch --name linear -o elastic/"),
    "vectors": (
        "export vectors --model model/ --query-vectors queries.npz -o adapted.npz",
        "export vectors --model model/ --map -o map.npz",
    ),
    "documents": (
        "export documents nfcorpus/ --model model/ -o documents.jsonl",
        "export documents products.csv --model model/ --form elasticsearch -o bulk.ndjson",
    ),
}
