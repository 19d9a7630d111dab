"""
The look of pictures: colours, squares, names, axes, files.

Colours are those of Okabe and Ito, which colour-blind readers tell apart, and never the only cue. On white paper the
pale ones are darkened to a contrast of 3. Names are data: they are shown as they are and never as markup.
"""

from __future__ import annotations

import io
import textwrap
import unicodedata
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from string import ascii_uppercase
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ocular.errors import ConfigError, MissingExtraError
from ocular.explain.names import one_line
from ocular.storage import write_file
from ocular.validation import check_choice, check_whole

try:
    from matplotlib.axes import Axes
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import to_hex, to_rgb
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties, findfont, get_font
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
    from matplotlib.transforms import ScaledTranslation
except ImportError as error:
    raise MissingExtraError("pictures need matplotlib: pip install 'ocular-rec[plots]'") from error

LINES: list[Any] = ["-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5))]
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}  # a $ in a name is a dollar
DPI = 144  # sharp on screens with many pixels too
SCREEN_DPI = 96  # of a browser
MAX_ROWS = 200  # or columns of any picture: more could not be read

THOUSANDS = FuncFormatter(lambda value, _: f"{value:,.0f}")


class Picture(Figure):
    """A figure that a notebook shows, without pyplot and without any magic."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Return the PNG file and the size to show it at."""
        content = png(self)
        return content, {"width": shown_width(content)}


def png(figure: Figure, dpi: int = DPI) -> bytes:
    """Return the picture as a PNG file."""
    return _rendered(figure, "png", dpi)


def shown_width(content: bytes, dpi: int = DPI) -> int:
    """Return the width in a browser's pixels of a PNG file that was drawn with this resolution."""
    return int.from_bytes(content[16:20]) * SCREEN_DPI // dpi  # from the header


def check_picture_name(path: str | Path) -> Path:
    """Return the path, or raise a ConfigError where its ending is not known: better before a long computation."""
    path = Path(path)
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"expected a file name that ends in .png, .svg or .pdf, got {path.name!r}")
    return path


def save_figure(path: str | Path, figure: Figure) -> None:
    """Write the picture as .png, .svg or .pdf, by the name of the file."""
    path = check_picture_name(path)
    content = _rendered(figure, path.suffix.lower()[1:], DPI)
    write_file(path, lambda file: file.write(content))


def _rendered(figure: Figure, kind: str, dpi: int) -> bytes:
    buffer = io.BytesIO()
    undated = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "constrained_layout not applied")  # of a single square: it needs none
        figure.savefig(buffer, format=kind, dpi=dpi, bbox_inches="tight", pad_inches=0.2, metadata=undated)
    return buffer.getvalue()


@dataclass(frozen=True)
class Theme:
    """The colours of one background."""

    paper: str
    cell: str  # a square that nothing is known of
    ink: str
    muted: str  # text of the second rank; contrast at least 4.5
    bought: str
    accent: str
    tint: float
    palette: tuple[str, ...]


THEMES = {
    "light": Theme(
        "#ffffff", "#f1f3f5", "#1b1f24", "#57606a", "#3d444d", "#d6006c", 0.16,
        ("#0072b2", "#b97f00", "#009e73", "#d55e00", "#3a94cc", "#b65c92", "#7d7400", "#1b1f24"),
    ),
    "dark": Theme(
        "#14171c", "#20252c", "#e6edf3", "#9ea7b3", "#8b95a1", "#ff4fa3", 0.28,
        ("#56b4e9", "#e69f00", "#009e73", "#d55e00", "#3f8fd0", "#cc79a7", "#f0e442", "#e6edf3"),
    ),
}  # fmt: skip


def theme_named(name: str) -> Theme:
    """Return the colours of "light" or "dark"."""
    return THEMES[check_choice(name, "theme", THEMES)]


def new_picture(size: tuple[float, float], colors: Theme) -> Picture:
    """Return an empty picture of a size in inches."""
    return Picture(figsize=size, layout="constrained", facecolor=colors.paper)


def new_axes(size: tuple[float, float], colors: Theme) -> tuple[Picture, Axes]:
    """Return a picture with one pair of axes."""
    figure = new_picture(size, colors)
    axes = figure.add_subplot()
    axes.set_facecolor(colors.paper)
    return figure, axes


def grid(
    rows: list[str], columns: list[str], colors: Theme, title: str, cell: float | None = None
) -> tuple[Picture, Axes]:
    """Draw empty squares with the names of rows on the left and of columns on top, large enough to read."""
    cell = cell or (0.34 if max(len(rows), len(columns)) <= 24 else 0.19)
    size = 9 if cell > 0.3 else 8
    widths = [max(map(len, names)) * size / 72 * 0.62 for names in (rows, columns)]
    flat = widths[1] <= cell * 0.9
    width, height = widths[0] + cell * len(columns) + 0.6, (0.3 if flat else widths[1]) + cell * len(rows) + 1.2
    figure, axes = new_axes((max(width, 5.0), height), colors)
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5), aspect="equal", anchor="NW")
    text: dict[str, Any] = {"fontsize": size, "color": colors.ink, **PLAIN}
    axes.set_xticks(range(len(columns)), columns, rotation=0 if flat else 90, **text)
    axes.set_yticks(range(len(rows)), rows, **text)
    axes.tick_params(length=0, pad=4, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.spines[:].set_visible(False)
    draw_squares(axes, np.argwhere(np.ones((len(rows), len(columns)))), colors.cell, "cells", zorder=0.2)
    set_title(axes, title, colors)
    return figure, axes


def draw_squares(axes: Axes, cells: Iterable[Any], color: Any, name: str, **style: Any) -> PatchCollection:
    """Draw squares at (row, column), with a gap between neighbours."""
    patches = [Rectangle((column - 0.44, row - 0.44), 0.88, 0.88) for row, column in cells]
    style = {"edgecolor": "none", "zorder": 3, "clip_on": False, **style}
    squares = PatchCollection(patches, facecolor=color, gid=name, **style)
    axes.add_collection(squares)
    return squares


def sentence(text: str, colors: Theme) -> Picture:
    """Return a picture of a sentence, where there is nothing to draw."""
    figure, axes = new_axes((6.5, 1.6), colors)
    axes.set_axis_off()
    axes.text(0, 0.5, text, ha="left", va="center", fontsize=11, color=colors.ink, linespacing=1.6, **PLAIN)
    return figure


def set_title(axes: Axes, text: str, colors: Theme, pad: float = 12) -> None:
    """Write a bold title above the axes, on the left."""
    axes.set_title(text, loc="left", fontsize=12, fontweight="bold", color=colors.ink, pad=pad, **PLAIN)


def write_below(axes: Axes, note: str, handles: list[Any], colors: Theme, **legend: Any) -> None:
    """Write a line of text under the squares, broken to their width, and the legend under it."""
    figure = cast("Figure", axes.get_figure())
    width = int(figure.get_figwidth() * 12)
    note = "\n".join(textwrap.fill(line, max(width, 40)) for line in note.split("\n"))
    axes.set_xlabel(note, loc="left", fontsize=9, color=colors.muted, labelpad=8)
    drop = ScaledTranslation(0, -(0.18 + 0.17 * (note.count("\n") + bool(note))), figure.dpi_scale_trans)
    box = axes.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=axes.transAxes + drop, frameon=False,
        borderaxespad=0, borderpad=0, fontsize=9, labelcolor=colors.ink, handlelength=1.8, handleheight=1.1, **legend,
    )  # fmt: skip
    for text in box.get_texts():
        text.set(**PLAIN)


def style_axes(axes: Axes, colors: Theme) -> None:
    """Give the axes of a chart the colours of the theme."""
    axes.set_facecolor(colors.paper)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(colors.muted)
    axes.tick_params(colors=colors.muted, labelcolor=colors.ink, labelsize=9)
    axes.grid(color=colors.cell, lw=1, zorder=0)
    axes.set_axisbelow(True)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set(color=colors.ink, fontsize=10)


def style_colorbar(bar: Any, label: str, colors: Theme) -> None:
    """Label a colour bar in the colours of the theme."""
    bar.set_label(label, color=colors.ink, fontsize=9)
    bar.ax.tick_params(colors=colors.muted, labelcolor=colors.ink, labelsize=8)
    bar.outline.set_visible(False)


def log_axis(axes: Axes, side: str, values: NDArray[Any]) -> None:
    """Scale an axis by logarithm, marked at 1, 2, 5, 10, …, with room around the values, even if all are equal."""
    low, high = float(values.min()), float(values.max())
    middle, half = (low * high) ** 0.5, 1.35 * max(high / low, 3) ** 0.5
    axes.set(**{f"{side}scale": "log", f"{side}lim": (middle / half, middle * half)})
    axis = axes.xaxis if side == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 8 * low else (1, 2, 3, 4, 5, 6, 8)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(THOUSANDS)


def short_name(label: object, max_length: int = 28) -> str:
    """Return a label as one short line of characters that the font has."""
    visible = "".join(c for c in one_line(str(label)) if unicodedata.category(c) != "Cf")
    if len(visible) > max_length:
        end = max_length // 2
        visible = f"{visible[: max_length - end - 1].rstrip()}…{visible[-end:].lstrip()}"
    return "".join(c if c == " " or _has_glyph(c) else "▯" for c in visible) or "(no name)"


@lru_cache(4096)
def _has_glyph(character: str) -> bool:
    fonts = [get_font(findfont(FontProperties(weight=weight))) for weight in ("normal", "bold")]
    return all(font.get_char_index(ord(character)) for font in fonts)


def mix(color: str, other: str, share: float) -> str:
    """Return a mixture of two colours, with this share of the first."""
    red, green, blue = (share * a + (1 - share) * b for a, b in zip(to_rgb(color), to_rgb(other), strict=True))
    return to_hex((red, green, blue))


def readable_on(under: Any) -> str:
    """Return black or white, whichever stands out more on this colour."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(under)]
    luminance = float(np.dot(linear, [0.2126, 0.7152, 0.0722]))
    return "#000000" if (luminance + 0.05) ** 2 > 0.0525 else "#ffffff"


def letters(number: int) -> str:
    """Return A, B, …, Z, AA, AB, … for 0, 1, …"""
    first = letters(number // 26 - 1) if number >= 26 else ""
    return first + ascii_uppercase[number % 26]


def check_count(value: int, name: str) -> int:
    """Return a number of rows or columns, or raise a ConfigError where it makes no sense."""
    return check_whole(value, name, 1, MAX_ROWS)
