"""Stylesheet of reports."""

from __future__ import annotations

__all__ = ["POLICY", "STYLE"]

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing is loaded or run, whatever the page contains."""

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --text: #1b1f24; --soft: #5b6470; --line: #d8dde3; --bar: #2f7d6b;
  --mean: #b4471f; --tint: #f4f6f8; --good: #1d6b52; --bad: #b3261e; --odd: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171a; --text: #e4e8ec; --soft: #9aa4af; --line: #333a41;
  --bar: #5fbfa6; --mean: #f0925f; --tint: #1c2125; --good: #6fcfb0; --bad: #ff8f85; --odd: #e0b050; } }
* { box-sizing: border-box; }
body { background: var(--ground); color: var(--text); font: 15px/1.5 system-ui, sans-serif; margin: 0; }
main { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin: 2.5rem 0 0.5rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 0.25rem; } p { margin: 0.25rem 0 0.75rem; } .soft { color: var(--soft); }
.tiles { display: flex; flex-wrap: wrap; gap: 0.75rem; margin: 1rem 0; }
.tile { background: var(--tint); border-radius: 8px; min-width: 9rem; padding: 0.6rem 0.9rem; }
.tile b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 0.85rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { border-bottom: 1px solid var(--line); padding: 0.3rem 0.7rem; text-align: right; vertical-align: top;
  white-space: nowrap; }
td:first-child, th:first-child, td.wide { text-align: left; } td.wide, section td:first-child { white-space: normal; }
td.wide { min-width: 16rem; overflow-wrap: anywhere; } td.drawn { min-width: 8rem; text-align: left; }
thead th { border-bottom: 2px solid var(--line); font-weight: 600; }
.charts { display: flex; flex-wrap: wrap; gap: 1.25rem 1.75rem; margin-bottom: 1rem; }
figure { margin: 0; width: 240px; } figure.large { width: 460px; max-width: 100%; margin-bottom: 1rem; }
figcaption { font-size: 0.85rem; color: var(--soft); } svg { display: block; width: 100%; height: auto; }
svg.share { width: 8rem; } svg text { fill: var(--soft); font-size: 13px; } .axis { stroke: var(--line); }
.bar { fill: var(--bar); } .mean { stroke: var(--mean); stroke-width: 1.5; } .dot { fill: var(--mean); }
details { border: 1px solid var(--line); border-radius: 8px; margin: 0.5rem 0; padding: 0.5rem 0.9rem; }
summary { cursor: pointer; overflow-wrap: anywhere; } summary:focus-visible { outline: 2px solid var(--bar); }
pre { background: var(--tint); border-radius: 6px; font: 0.85em/1.45 ui-monospace, monospace; margin: 0.25rem 0;
  max-height: 30rem; overflow: auto; overflow-wrap: anywhere; padding: 0.75rem; white-space: pre-wrap; }
code { font: 0.9em ui-monospace, monospace; } .shared { color: var(--good); } .missing { color: var(--bad); }
.extra { color: var(--odd); } .look { color: var(--bad); }
@media print { details { break-inside: avoid; } }
"""
