# SPDX-License-Identifier: Apache-2.0
"""The page of watch_run --page: one file without scripts, that a browser loads again by itself."""

import html
import math
import os
import tempfile

MOST_POINTS = 600
WIDTH, HEIGHT, LEFT, BELOW = 720, 260, 112, 34
# Okabe and Ito's, which colour-blind readers can tell apart.
LINE, POINTS = "#0072B2", "#D55E00"
STYLE = """body{font:16px/1.5 sans-serif;margin:1em auto;max-width:90em;padding:0 1em;color:#222;background:#fff}
h1{font-size:1.3em;overflow-wrap:anywhere}table{border-collapse:collapse;margin-bottom:1em}td{padding:.1em 1em .1em 0;vertical-align:top}
td:first-child{color:#555;white-space:nowrap}section{display:grid;gap:1em;grid-template-columns:repeat(auto-fit,minmax(min(100%,36em),1fr))}figure{margin:0}
svg{width:100%;height:auto}text{font-size:20px;fill:#555}"""


def thinned(points):
    """At most MOST_POINTS of (step, value): means of runs of neighbours; what is not finite is left out."""
    points = [(step, value) for step, value in points if value is not None and math.isfinite(value)]
    if len(points) <= MOST_POINTS:
        return points
    cuts = [len(points) * i // MOST_POINTS for i in range(MOST_POINTS + 1)]
    return [(points[last - 1][0], sum(value for _, value in points[first:last]) / (last - first))
            for first, last in zip(cuts, cuts[1:])]


def chart(name, points, marks=()):
    """A figure with a line through `points` and dots at `marks`, (step, value) each."""
    line, dots = thinned(points), thinned(marks)
    known = line + dots
    if not known:
        return ""
    # Of all, as the first point that is drawn may be the mean of several.
    first, last = (pick(step for step, _ in (*points, *marks)) for pick in (min, max))
    low, high = min(value for _, value in known), max(value for _, value in known)

    def place(point):
        x = LEFT + (WIDTH - LEFT - 8) * (point[0] - first) / max(last - first, 1)
        y = 8 + (HEIGHT - BELOW - 16) * ((high - point[1]) / (high - low) if high > low else 0.5)
        return x, y

    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, line))
    circles = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{POINTS}"/>' for x, y in map(place, dots))
    labels = (f'<text x="{LEFT - 6}" y="22" text-anchor="end">{high:.3g}</text>'
              f'<text x="{LEFT - 6}" y="{HEIGHT - BELOW - 6}" text-anchor="end">{low:.3g}</text>'
              f'<text x="{LEFT}" y="{HEIGHT - 6}">step {first}</text>'
              f'<text x="{WIDTH - 8}" y="{HEIGHT - 6}" text-anchor="end">{last}</text>')
    return (f'<figure><figcaption>{html.escape(name)}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
            f'<title>{html.escape(name)}</title><rect x="{LEFT}" y="4" width="{WIDTH - LEFT - 4}" height="{HEIGHT - BELOW - 8}" '
            f'fill="none" stroke="#ccc"/><polyline points="{path}" fill="none" stroke="{LINE}" stroke-width="1.5"/>'
            f"{circles}{labels}</svg></figure>\n")


def page(title, rows, metrics, seconds):
    """The text; seconds: until it is loaded again, None where nothing new will come."""
    steps = [metrics.steps[step] for step in sorted(metrics.steps)]

    def points(key):
        return [(entry["step"], entry.get(key)) for entry in steps]

    refresh = f'<meta http-equiv="refresh" content="{max(1, round(seconds))}"/>' if seconds else ""
    table = "".join(f"<tr><td>{html.escape(name)}</td><td>{html.escape(text)}</td></tr>\n" for name, text in rows)
    charts = (chart("loss; dots: validation", points("loss"), sorted(metrics.validations.items())) +
              chart("tokens a second", points("tokens_per_s")) + chart("norm of the gradients", points("grad_norm")) +
              chart("learning rate", points("lr")))
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
            f'<meta name="viewport" content="width=device-width"/>{refresh}<title>{html.escape(title)}</title>'
            f"<style>{STYLE}</style></head>\n<body><h1>{html.escape(title)}</h1>\n<table>\n{table}</table>\n"
            f"<section>\n{charts}</section></body></html>\n")


def replace(path, text):
    """Writes the file whole: a browser that loads it meanwhile sees the one before. Throws OSError."""
    handle, part = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(part, 0o644)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
