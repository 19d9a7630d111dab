"""An explanation in words, in the form of the paper; as plain text, Markdown and HTML."""

from __future__ import annotations

import html as markup
import re
from typing import TYPE_CHECKING, NamedTuple

from ocular.data.interactions import plain
from ocular.explain.names import Write, client_name, isolated, listed, product_name

if TYPE_CHECKING:
    from ocular.explain.reasons import Explanation, Reason

NO_PRICE = "No price estimate: too few other clients paid a known price for it."


class Rationale(NamedTuple):
    """Sentences; the names in head and points are escaped already."""

    head: str
    points: list[str]
    notes: list[str]


def text(explanation: Explanation, max_reasons: int, show_clients: bool) -> str:
    said = _say(explanation, max_reasons, show_clients, isolated)
    return "\n".join([said.head, *(f"- {point}" for point in said.points), *said.notes])


def markdown(explanation: Explanation, max_reasons: int, show_clients: bool) -> str:
    said = _say(explanation, max_reasons, show_clients, _for_markdown)
    notes = (_escape_markdown(note) for note in said.notes)
    return "\n\n".join(part for part in (said.head, "\n".join(f"- {p}" for p in said.points), *notes) if part)


def html(explanation: Explanation, max_reasons: int, show_clients: bool) -> str:
    said = _say(explanation, max_reasons, show_clients, _for_html)
    points = "".join(f"<li>{point}</li>" for point in said.points)
    notes = "".join(f"<p>{markup.escape(note)}</p>" for note in said.notes)
    return f'<div class="ocular-explanation"><p>{said.head}</p>{f"<ul>{points}</ul>" if points else ""}{notes}</div>'


def _say(explanation: Explanation, max_reasons: int, show_clients: bool, write: Write) -> Rationale:
    client, product = write(client_name(explanation.client)), write(product_name(explanation.product))
    first = write("The client") if explanation.user is None else client  # at the start of a sentence
    bought = f"{first} has bought {product} already"
    confidence = f"{explanation.confidence:.2f}" if explanation.confidence >= 0.01 else f"{explanation.confidence:.1g}"
    supposing = _supposition(explanation, client, write)
    summary = explanation.summary(max_reasons)
    if not summary.shown_reasons:
        known = f"{bought}, with a confidence of {confidence}"
        if not explanation.owned:
            known = f"{product} has a confidence of {confidence} for {client}"
        why = "the co-clusters that hold both have no other purchase or no other buyer to show for it."
        if not explanation.reasons:
            popular = explanation.base > 2 * explanation.background
            alone = "what popularity alone gives" if popular else "the background probability of any pair"
            why = f"the model has no reason, because no co-cluster holds both; this is {alone}."
        return Rationale(f"{supposing}{known}: {why}", [], _notes(explanation))
    head = f"{product} is recommended to {client} with confidence {confidence}"
    if explanation.owned:
        head = f"{bought}; the model gives that a confidence of {confidence}"
    points = [
        f"{f'Moreover, {client}' if n else first} has purchased {_evidence(explanation, reason, show_clients, write)}"
        for n, reason in enumerate(summary.shown_reasons)
    ]
    if summary.n_hidden:
        left = "1 weaker reason is" if summary.n_hidden == 1 else f"{summary.n_hidden} weaker reasons are"
        points.append(f"{left} left out: {summary.hidden_share:.0%} of the case.")
    if summary.rest_share >= 0.1:
        points.append(f"Popularity and background make {summary.rest_share:.0%} of the case.")
    return Rationale(f"{supposing}{head} because:", points, _notes(explanation))


def _supposition(explanation: Explanation, client: str, write: Write) -> str:
    """What is not so but taken to be, said before anything that rests on it."""
    if explanation.user is None or explanation.supposed is None:
        return ""
    labels = explanation.interactions.item_labels
    also = listed([plain(labels[i]) for i in explanation.supposed], "Item", write)
    return f"Supposing that {client} also had {also}: " if also else f"Supposing that {client} had other purchases: "


def _evidence(explanation: Explanation, reason: Reason, show_clients: bool, write: Write) -> str:
    data = explanation.interactions
    have = listed([plain(data.item_labels[i]) for i in reason.owned_items], "Item", write)
    alike = listed([plain(data.user_labels[u]) for u in reason.similar_users], "Client", write)
    examples = f" (e.g., {alike})" if show_clients else ""
    bought, all_ = len(reason.similar_users), reason.group
    counted = f"{bought:,} of the {all_:,} clients in this group" if all_ > 1 else "the one other client in this group"
    product = write(product_name(explanation.product))
    return f"{have}. Clients with similar purchase history{examples} also bought {product} ({counted})."


def _notes(explanation: Explanation) -> list[str]:
    notes = []
    if explanation.observed is not None:
        notes.append(explanation.observed.text())
    purchases = explanation.interactions.purchases
    if explanation.price is not None:
        notes.append(explanation.price.text())
    elif purchases is not None and purchases.price is not None:
        notes.append(NO_PRICE)
    return notes


def _for_markdown(name: str) -> str:
    return _escape_markdown(isolated(name))


def _escape_markdown(text: str) -> str:
    text = re.sub(r"([\\`*_{}\[\]#+!|~<>&$@:-])", r"\\\1", text)
    return re.sub(r"^(\d+)([.)])", r"\1\\\2", text)  # would begin a list


def _for_html(name: str) -> str:
    return f"<bdi>{markup.escape(name)}</bdi>"
