"""Drawings for bench/report.py: SVG by hand, without a library.

A drawing follows the reader's light or dark scheme, tells series apart by shape as well as by
colour (Okabe and Ito's, which all eyes tell apart), has a title and a description for those who do
not see it, and shows the figures of each mark when it is pointed at.
"""
import html
import math

WIDTH = 900
LABELS = 300  # where the plot begins, beside its labels
RIGHT = 120  # room for words behind the plot
ROW = 22
SERIES_MAX = 8
STYLE = """
.chart{--ink:#1b1f24;--soft:#57606a;--line:#d8dee4;--paper:#ffffff;
--s0:#0072b2;--s1:#d55e00;--s2:#009e73;--s3:#8f5a83;--s4:#9a6700;--s5:#3d7ea6;--s6:#57606a;
--s7:#1b1f24;font:12px system-ui,-apple-system,"Segoe UI",sans-serif;background:var(--paper)}
.chart text{fill:var(--ink)}.chart .soft{fill:var(--soft)}.chart .head{font-weight:600}
.chart .title{font-size:15px;font-weight:600}
.chart .grid{stroke:var(--line);stroke-width:1}.chart .goal{stroke:var(--ink);stroke-dasharray:4 3}
.chart .paper{fill:var(--paper)}.chart .track{fill:var(--line)}
.chart path.curve{fill:none;stroke-width:2}
@media (prefers-color-scheme:dark){.chart{--ink:#e6edf3;--soft:#9ea7b3;--line:#30363d;
--paper:#0d1117;--s0:#56b4e9;--s1:#ff8f4d;--s2:#3ec79a;--s3:#cc9fc4;--s4:#e3b341;--s5:#8cc8ef;
--s6:#9ea7b3;--s7:#e6edf3}}
"""
# Around (0, 0), about nine wide.
SHAPES = [
    "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z",
    "M-4,-4h8v8h-8z",
    "M0,-5.5L5.5,0L0,5.5L-5.5,0z",
    "M0,-5L5,4.2H-5z",
    "M0,5L5,-4.2H-5z",
    "M-4.8,-1.5h3.3v-3.3h3v3.3h3.3v3h-3.3v3.3h-3v-3.3h-3.3z",
    "M-5,-2.5h10v5h-10z",
    "M-2.5,-5h5v10h-5z",
]


def shown(value):
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def shown_us(value):
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} us"


class Drawing:
    """Marks of a drawing, from above to below; text() makes them a file."""

    def __init__(self, name, title, description):
        self.name, self.title, self.description = name, title, description
        self.parts, self.height = [], 0

    def add(self, part):
        self.parts.append(part)

    def line(self, x1, y1, x2, y2, kind="grid"):
        self.add(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')

    def text(self, x, y, words, kind="", anchor="start"):
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">'
                 f"{html.escape(words)}</text>")

    def mark(self, x, y, series, words=""):
        tip = f"<title>{html.escape(words)}</title>" if words else ""
        self.add(f'<path d="{SHAPES[series % SERIES_MAX]}" transform="translate({x:.1f},{y:.1f})" '
                 f'fill="var(--s{series % SERIES_MAX})">{tip}</path>')

    def svg(self):
        named = html.escape(self.name, quote=True)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" '
                f'viewBox="0 0 {WIDTH} {self.height:.0f}" width="{WIDTH}" '
                f'height="{self.height:.0f}" aria-labelledby="{named}-t {named}-d">'
                f'<title id="{named}-t">{html.escape(self.title)}</title>'
                f'<desc id="{named}-d">{html.escape(self.description)}</desc>'
                f"<style>{STYLE}</style>"
                f'<rect class="paper" width="{WIDTH}" height="{self.height:.0f}"/>'
                + "".join(self.parts) + "</svg>\n")


class LogScale:
    """Values to places, a decade as wide as the next; it begins and ends at a tick."""

    def __init__(self, values, begin, end):
        least, most = min(values), max(values)
        steps = (1,) if most / least > 30 else (1, 2, 5)
        powers = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(most)) + 2)
        ticks = [float(f"{step}e{power}") for power in powers for step in steps]
        low = max(tick for tick in ticks if tick <= least)
        high = min(tick for tick in ticks if tick >= most and tick > low)
        self.ticks = [tick for tick in ticks if low <= tick <= high]
        self.begin, self.end = begin, end

    def at(self, value):
        share = math.log(value / self.ticks[0]) / math.log(self.ticks[-1] / self.ticks[0])
        return self.begin + share * (self.end - self.begin)


def short(words, most):
    return words if len(words) <= most else words[:most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def legend(drawing, series_of, y):
    x = 10
    for name, series in series_of.items():
        room = 26 + 6.6 * len(name)
        if x > 10 and x + room > WIDTH:
            x, y = 10, y + 18
        drawing.mark(x + 5, y - 4, series)
        drawing.text(x + 15, y, name)
        x += room
    return y + 12


def begin(drawing, series_of):
    drawing.text(10, 22, drawing.title, "title")
    return legend(drawing, series_of, 44)


def headed_rows(drawing, rows, top):
    """(row, its middle) for each; a row's first part is its heading, shown where it changes."""
    y, heading = top + 4, None
    for row in rows:
        if row[0] != heading:
            y += ROW
            drawing.text(10, y - 6, short(row[0], 130), "head")
            heading = row[0]
        y += ROW
        yield row, y - 10


def rows_height(rows):
    headings = sum(row[0] != before for row, before in zip(rows, [None] + [r[0] for r in rows]))
    return ROW * (len(rows) + headings) + 4


def dots(name, title, unit, rows, series_of):
    """Medians as marks, least to greatest as lines, on a logarithmic axis.

    `rows`: (heading, label, {name: (median, least, greatest)}, words behind the plot).
    `series_of`: {name: which colour and shape}, in the legend's order.
    """
    drawing = Drawing(name, title, f"{len(rows)} rows of {unit}, medians with least and greatest, "
                      f"of {', '.join(series_of)}. The table has the figures.")
    values = [value for _, _, marks, _ in rows for mark in marks.values() for value in mark]
    scale = LogScale(values, LABELS + 10, WIDTH - RIGHT)
    top = begin(drawing, series_of) + 22
    bottom = top + rows_height(rows)
    for tick in scale.ticks:
        drawing.line(scale.at(tick), top - 6, scale.at(tick), bottom)
        for y in (top - 12, bottom + 16):
            drawing.text(scale.at(tick), y, shown(tick), "soft", "middle")
    drawing.text((scale.begin + scale.end) / 2, bottom + 34, unit, "soft", "middle")
    for (_, label, marks, words), y in headed_rows(drawing, rows, top):
        drawing.text(LABELS, y + 4, short(label, 46), "", "end")
        dot_row(drawing, scale, y, marks, series_of, label)
        drawing.text(WIDTH - RIGHT + 12, y + 4, words, "soft")
    drawing.height = bottom + 44
    return drawing


def dot_row(drawing, scale, middle, marks, series_of, label):
    present = [name for name in series_of if name in marks]
    ends = sorted((scale.at(marks[name][1]), scale.at(marks[name][2])) for name in present)
    # Marks that lie close would hide each other.
    close = any(end + 12 > after for (_, end), (after, _) in zip(ends, ends[1:]))
    for place, name in enumerate(present):
        series = series_of[name]
        aside = (place - (len(present) - 1) / 2) * min(7, 14 / len(present)) if close else 0
        y = middle + aside
        median, least, greatest = marks[name]
        if greatest > least:
            drawing.add(f'<line x1="{scale.at(least):.1f}" y1="{y:.1f}" '
                        f'x2="{scale.at(greatest):.1f}" y2="{y:.1f}" stroke-width="2" '
                        f'stroke="var(--s{series % SERIES_MAX})" stroke-opacity="0.55"/>')
        spread = f" ({shown(least)} to {shown(greatest)})" if greatest > least else ""
        drawing.mark(scale.at(median), y, series, f"{name}, {label}: {shown(median)}{spread}")


def curves(name, title, panels, series_of):
    """Latency over rate, a panel for each percentile; both axes logarithmic.

    `panels`: (heading, {name: [(rate, median us, least, greatest)]}).
    """
    drawing = Drawing(name, title, "Latency in microseconds over requests a second, of "
                      f"{', '.join(series_of)}, for {', '.join(p[0] for p in panels)}.")
    points = [point for _, own in panels for series in own.values() for point in series]
    top = begin(drawing, series_of) + 26
    height, left, gap = 230, 62, 44
    width = (WIDTH - left - 20 - gap * (len(panels) - 1)) / len(panels)
    y_scale = LogScale([value for point in points for value in point[1:]], top + height, top)
    for i, (heading, own) in enumerate(panels):
        x = left + i * (width + gap)
        x_scale = LogScale([point[0] for point in points], x, x + width)
        drawing.text(x, top - 10, heading, "head")
        for tick in y_scale.ticks:
            drawing.line(x, y_scale.at(tick), x + width, y_scale.at(tick))
            if i == 0:
                drawing.text(x - 6, y_scale.at(tick) + 4, shown_us(tick), "soft", "end")
        for tick in x_scale.ticks:
            drawing.line(x_scale.at(tick), top, x_scale.at(tick), top + height)
            drawing.text(x_scale.at(tick), top + height + 16, shown(tick), "soft", "middle")
        for owner, series in series_of.items():
            curve(drawing, x_scale, y_scale, series, owner, sorted(own.get(owner, [])))
    drawing.text(left, top + height + 36, "requests a second, each with its time (open loop)",
                 "soft")
    drawing.height = top + height + 46
    return drawing


def curve(drawing, x_scale, y_scale, series, owner, points):
    places = [(x_scale.at(point[0]), y_scale.at(point[1])) for point in points]
    if len(places) > 1:
        drawing.add('<path class="curve" d="M' + "L".join(f"{x:.1f},{y:.1f}" for x, y in places)
                    + f'" stroke="var(--s{series % SERIES_MAX})"/>')
    for (x, y), (rate, median, least, greatest) in zip(places, points):
        if greatest > least:
            drawing.line(x, y_scale.at(least), x, y_scale.at(greatest), "goal")
        drawing.mark(x, y, series, f"{owner} at {shown(rate)}/s: {shown_us(median)}")


def bars(name, title, rows, unit):
    """Shares from 0 to 1, or above: (heading, label, share, words behind the plot)."""
    drawing = Drawing(name, title, "; ".join(f"{heading}, {label}: {share:.0%}"
                                             for heading, label, share, _ in rows))
    most = max(1.0, *(row[2] for row in rows))
    left, width = LABELS + 10, WIDTH - RIGHT - LABELS - 50
    drawing.text(10, 22, drawing.title, "title")
    top = 62
    bottom = top + rows_height(rows)
    step = 0.25 if most <= 1.5 else math.ceil(most / 5)
    for i in range(int(most / step + 1e-9) + 1):
        x = left + width * i * step / most
        drawing.line(x, top - 6, x, bottom)
        drawing.text(x, top - 12, f"{i * step:.0%}", "soft", "middle")
    for (_, label, share, words), y in headed_rows(drawing, rows, top):
        drawing.text(LABELS, y + 4, short(label, 46), "", "end")
        drawing.add(f'<rect x="{left}" y="{y - 6}" height="13" fill="var(--s0)" '
                    f'width="{width * share / most:.1f}"/>')
        drawing.text(left + width * share / most + 6, y + 4, f"{share:.0%}")
        drawing.text(WIDTH - RIGHT + 12, y + 4, words, "soft")
    drawing.text(left, bottom + 20, unit, "soft")
    drawing.height = bottom + 32
    return drawing
