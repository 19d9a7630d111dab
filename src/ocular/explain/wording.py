"""An explanation in words, in the form of the paper; as plain text, Markdown and HTML."""

from __future__ import annotations

import html as markup
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ocular.explain.names import MAX_EXAMPLES, Write, client_name, isolated, join_names, percent, product_name, quoted

if TYPE_CHECKING:
    from ocular.explain.reasons import Explanation, Reason, ReasonSummary

NO_PRICE = "No price estimate: too few other clients paid a known price for it."
MAX_RANGES = 1000  # numbered clients or products that are looked through for ranges
MIN_REST_SHARE = 0.1  # of the score that popularity must carry to be mentioned


class Rationale(NamedTuple):
    """The sentences of an explanation; the names in head and points are escaped already."""

    head: str
    points: list[str]
    notes: list[str]


def text(explanation: Explanation, max_reasons: int, show_clients: bool) -> str:
    """Return the rationale as plain text, a line per sentence."""
    rationale = _rationale(explanation, max_reasons, show_clients, _for_text)
    return "\n".join([rationale.head, *(f"- {point}" for point in rationale.points), *rationale.notes])


def markdown(explanation: Explanation, max_reasons: int, show_clients: bool) -> str:
    """Return the rationale as Markdown; names are escaped."""
    rationale = _rationale(explanation, max_reasons, show_clients, _for_markdown)
    points = "\n".join(f"- {point}" for point in rationale.points)
    notes = (_escape_markdown(note) for note in rationale.notes)
    return "\n\n".join(part for part in (rationale.head, points, *notes) if part)


def html(explanation: Explanation, max_reasons: int, show_clients: bool) -> str:
    """Return the rationale as an HTML fragment; names are escaped."""
    rationale = _rationale(explanation, max_reasons, show_clients, _for_html)
    points = "".join(f"<li>{point}</li>" for point in rationale.points)
    body = f"<p>{rationale.head}</p>" + (f"<ul>{points}</ul>" if points else "")
    notes = "".join(f"<p>{markup.escape(note)}</p>" for note in rationale.notes)
    return f'<div class="ocular-explanation">{body}{notes}</div>'


def _rationale(explanation: Explanation, max_reasons: int, show_clients: bool, write: Write) -> Rationale:
    client, product = write(client_name(explanation.client)), write(product_name(explanation.product))
    first = write("The client") if explanation.user is None else client  # at the start of a sentence
    bought = f"{first} has bought {product} already"
    confidence = f"{explanation.confidence:.2f}" if explanation.confidence >= 0.01 else f"{explanation.confidence:.1g}"
    assumption = _assumption(explanation, client, write)
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
        return Rationale(f"{assumption}{known}: {why}", [], _notes(explanation))
    head = f"{product} is recommended to {client} with confidence {confidence}"
    if explanation.owned:
        head = f"{bought}; the model gives that a confidence of {confidence}"
    points = []
    for n, reason in enumerate(summary.shown_reasons):
        if reason.kind == "links":
            points.append(_links(explanation, reason, write))
        elif reason.kind == "peers":
            points.append(_peers(explanation, reason, client, show_clients, write))
        else:
            subject = f"Moreover, {client}" if n else first
            points.append(f"{subject} has purchased {_evidence(explanation, reason, show_clients, write)}")
    points += _what_is_not_shown(explanation, summary, first)
    return Rationale(f"{assumption}{head} because:", points, _notes(explanation))


def _assumption(explanation: Explanation, client: str, write: Write) -> str:
    """Return the sentence opening that states what is assumed, before anything that rests on it."""
    if explanation.user is None or explanation.supposed is None:
        return ""
    also = _listed(explanation.supposed, explanation.interactions.item_name, "Item", write)
    return f"Supposing that {client} also had {also}: " if also else f"Supposing that {client} had other purchases: "


def _evidence(explanation: Explanation, reason: Reason, show_clients: bool, write: Write) -> str:
    data = explanation.interactions
    owned = _listed(reason.owned_items, data.item_name, "Item", write)
    similar = _listed(reason.similar_users, data.user_name, "Client", write)
    examples = f" (e.g., {similar})" if show_clients else ""
    share = f"{len(reason.similar_users):,} of {reason.group:,} in this group, {percent(reason.rate)}"
    if reason.group == 1:
        share = "the only other client in this group"
    product = write(product_name(explanation.product))
    return (
        f"{owned}. Clients with similar purchase history{examples} also bought {product} "
        f"({share}; {percent(reason.base_rate)} of all clients)."
    )


def _links(explanation: Explanation, reason: Reason, write: Write) -> str:
    """Return "Clients who own A often buy X: 46 of 68 (68%; 9% of all clients)."."""
    data = explanation.interactions
    names = [write(product_name(data.item_name(item))) for item in reason.owned_items[: len(reason.counts)]]
    (both, owners), *more = reason.counts
    product, with_first = write(product_name(explanation.product)), f" with {names[0]}" if more else ""
    rates = f"{percent(both / max(owners, 1))}; {percent(reason.base_rate)} of all clients"
    shares = [f"{both:,} of {owners:,}{with_first} ({rates})"]
    shares += [f"{both:,} of {owners:,} with {name}" for name, (both, owners) in zip(names[1:], more, strict=True)]
    owned = " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
    return f"Clients who own {owned} often buy {product}: {', '.join(shares)}."


def _peers(explanation: Explanation, reason: Reason, client: str, show_clients: bool, write: Write) -> str:
    """Return "7 of the 10 clients most similar to Acme own X: Foo (12 products in common), Bar (11)."."""
    data, product = explanation.interactions, write(product_name(explanation.product))
    n_owners, n_similar = reason.n_peers - len(reason.other_users), len(reason.similar_users)
    share = f"{n_owners} of the {reason.n_peers} clients most similar to {client} own {product}"
    if n_owners == 0 or reason.n_peers == 1:
        share = f"{n_similar:,} clients similar to {client} own {product}"
        if n_similar == 1:
            share = f"A client similar to {client} owns {product}"
    if not show_clients:
        return f"{share}."
    names = [write(client_name(data.user_name(user))) for user in reason.similar_users[:MAX_EXAMPLES]]
    noun = "product" if reason.in_common[0] == 1 else "products"
    common = [f"{reason.in_common[0]:,} {noun} in common", *(f"{n:,}" for n in reason.in_common[1:])]
    return f"{share}: {', '.join(f'{name} ({n})' for name, n in zip(names, common, strict=False))}."


def _listed(rows: Sequence[int], name: Callable[[int], Any], noun: str, write: Write) -> str:
    """Return the first names and how many more there are; only numbers need all, for ranges such as "Clients 4-9"."""
    names = [name(row) for row in rows[:MAX_EXAMPLES]]
    if all(isinstance(label, int) for label in names) and len(rows) <= MAX_RANGES:
        names = [name(row) for row in rows]
    return join_names(names, noun, write, total=len(rows))


def _what_is_not_shown(explanation: Explanation, summary: ReasonSummary, client: str) -> list[str]:
    """Return what carries the rest of the score; `client` begins a sentence."""
    sentences, hidden = [], percent(summary.hidden_share)
    shown_share = 1 - summary.hidden_share - summary.rest_share
    if summary.n_hidden > 1 and shown_share < 0.5 and summary.hidden_share > summary.rest_share:
        products = f"{len(explanation.client_items):,} products so far"
        sentences.append(
            f"The rest, {hidden} of the score, comes from {summary.n_hidden:,} smaller patterns: {client} buys from "
            f"many of them ({products})."
        )
    elif summary.n_hidden:
        minor = "minor" if summary.hidden_share < 0.5 else "other"
        reasons = f"1 {minor} reason" if summary.n_hidden == 1 else f"{summary.n_hidden:,} {minor} reasons"
        sentences.append(f"{reasons} not shown ({hidden} of the score).")
    if summary.rest_share >= MIN_REST_SHARE:
        sentences.append(f"Popularity and background add {percent(summary.rest_share)} of the score.")
    return sentences


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


def _for_text(name: str) -> str:
    return isolated(quoted(name))


def _for_markdown(name: str) -> str:
    return _escape_markdown(_for_text(name))


def _escape_markdown(text: str) -> str:
    text = re.sub(r"([\\`*_{}\[\]#+!|~<>&$@:-])", r"\\\1", text)
    return re.sub(r"^(\d+)([.)])", r"\1\\\2", text)  # would begin a list


def _for_html(name: str) -> str:
    return f"<bdi>{markup.escape(quoted(name))}</bdi>"
