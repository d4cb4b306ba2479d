"""The one style sheet of our pages. Texts have a contrast of 4.5 to 1 or more, in light and in dark."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --paper: #fbfaf7; --card: #ffffff; --ink: #1c2430; --soft: #596474; --line: #dfded7;
  --head: #f4f3ee; --accent: #1f5f8b; --pale: #d5e3ee; --good: #17693c; --good-fill: #5fa77f; --bad: #a8321f;
  --bad-fill: #cf7a6b; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171c; --card: #1b1f26; --ink: #e7e9ed; --soft: #a3adba;
  --line: #343b45; --head: #222831; --accent: #86bde6; --pale: #29435a; --good: #74d19b; --good-fill: #3f8f64;
  --bad: #f29a88; --bad-fill: #b35a4a; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI",
  "Helvetica Neue", Arial, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 3rem 1.5rem 5rem; }
h1, h2, h3 { line-height: 1.25; font-weight: 650; letter-spacing: -.01em; }
h1 { font-size: 2rem; margin: .15rem 0 .6rem; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; margin: 3.2rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .5rem; }
p { margin: .4rem 0; max-width: 44rem; }
.kicker { font-size: .8rem; letter-spacing: .08em; text-transform: uppercase; color: var(--soft); margin: 0; }
.lead { font-size: 1.15rem; }
.soft, figcaption, small { color: var(--soft); }
.good { color: var(--good); } .bad { color: var(--bad); }
.badge { display: inline-block; font-size: .85rem; font-weight: 600; border: 1px solid currentColor;
  border-radius: 999px; padding: .05rem .7rem; margin-right: .5rem; white-space: nowrap; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: 1rem; margin: 1.8rem 0 0;
  padding: 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .9rem 1.1rem 1rem; }
.tile dt { font-size: .85rem; color: var(--soft); }
.tile dd { margin: 0; } .tile .figure { font-size: 1.7rem; font-weight: 650; line-height: 1.3;
  font-variant-numeric: tabular-nums; letter-spacing: -.01em; }
.tile small { display: block; font-size: .85rem; line-height: 1.4; }
figure { margin: 1rem 0 0; background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1rem 1.1rem; }
figcaption { font-size: .9rem; margin-top: .5rem; max-width: 46rem; }
svg { display: block; width: 100%; height: auto; font: 13px system-ui, -apple-system, "Segoe UI", Arial, sans-serif; }
svg text { fill: var(--soft); } svg text.strong { fill: var(--ink); font-weight: 600; }
svg text.end { text-anchor: end; } svg text.middle { text-anchor: middle; }
svg .grid { stroke: var(--line); stroke-width: 1; } svg .zero { stroke: var(--soft); stroke-width: 1; }
svg .reference { stroke: var(--soft); stroke-width: 1.5; stroke-dasharray: 5 4; }
svg .curve { fill: none; stroke: var(--accent); stroke-width: 2.5; stroke-linejoin: round; stroke-linecap: round; }
svg .other { fill: none; stroke: var(--soft); stroke-width: 1.5; opacity: .75; }
svg .dot { fill: var(--accent); stroke: var(--card); stroke-width: 2; } svg .dot.plain { fill: var(--soft); }
svg .range { stroke: var(--accent); stroke-width: 3; stroke-linecap: round; } svg .range.plain { stroke: var(--soft); }
svg .better { fill: var(--good-fill); } svg .worse { fill: var(--bad-fill); }
.narrow { display: none; }
.scroll + p { margin-top: .8rem; }
.scroll { overflow-x: auto; margin-top: 1rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .95rem; }
caption { text-align: left; padding: .7rem 1rem .2rem; color: var(--soft); font-size: .9rem; }
th, td { text-align: left; vertical-align: baseline; padding: .5rem 1rem; border-top: 1px solid var(--line); }
thead th { border-top: 0; background: var(--head); font-weight: 600; font-size: .85rem; color: var(--soft);
  white-space: nowrap; }
caption + thead th { border-top: 1px solid var(--line); }
tbody th { font-weight: 600; position: sticky; left: 0; background: var(--card); }
 td.number, th.number { text-align: right; white-space: nowrap; }
td small { display: block; font-size: .82rem; } tr.ours th, tr.ours td { background: var(--head); }
td.query { min-width: 12rem; overflow-wrap: anywhere; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 0 1.2rem; }
.pairs { list-style: none; margin: 1rem 0 0; padding: 0; display: grid; gap: 0 1.6rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 17rem), 1fr)); }
.pairs li { display: flex; gap: .6rem; align-items: baseline; border-bottom: 1px solid var(--line); padding: .3rem 0; }
.pairs .words { flex: 1; overflow-wrap: anywhere; } .pairs .weight { font-variant-numeric: tabular-nums; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr)); gap: 0 2.4rem; }
.facts dl { margin: 0; } .facts dl div { display: flex; gap: 1rem; justify-content: space-between; padding: .3rem 0;
  border-bottom: 1px solid var(--line); }
.facts dt { color: var(--soft); } .facts dd { margin: 0; text-align: right; overflow-wrap: break-word;
  font-variant-numeric: tabular-nums; }
.warning { border: 1px solid var(--bad); color: var(--bad); padding: .5rem .8rem; border-radius: 6px; }
small.source { font-style: italic; } img { display: block; max-width: 100%; height: auto; background: #ffffff; }
code { font: .9em ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
footer { margin-top: 3.5rem; padding-top: 1rem; border-top: 1px solid var(--line); font-size: .9rem; }
@media (max-width: 40rem) { main { padding: 1.8rem 1rem 3rem; } h1 { font-size: 1.6rem; } h2 { margin-top: 2.4rem; }
  .wide { display: none; } .narrow { display: block; } th, td { padding: .45rem .7rem; }
  .tiles { grid-template-columns: 1fr 1fr; gap: .7rem; } .tile { padding: .7rem .8rem; }
  .tile .figure { font-size: 1.35rem; } figure { padding: .8rem .7rem; } }
@media print { body { background: none; } .tile, figure, .scroll, tr { break-inside: avoid; } }
"""
