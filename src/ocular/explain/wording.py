"""An explanation in words, in the form of the paper; as plain text, Markdown and HTML."""

from __future__ import annotations

import html as markup
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ocular.explain.names import (
    MAX_EXAMPLES,
    Write,
    client_name,
    isolated,
    join_names,
    joined,
    percent,
    product_name,
    quoted,
)

if TYPE_CHECKING:
    from ocular.explain.reasons import Explanation, Reason, ReasonSummary

NO_PRICE = "No price estimate: too few other clients paid a known price for it."
MAX_RANGES = 1000  # numbered clients or products that are looked through for ranges
MIN_REST_SHARE = 0.1  # of the score that popularity must carry to be mentioned
MIN_TREND = 1.5  # times the usual rate, or one part in so many, that is worth a sentence
MIN_DECLINED, MIN_DECLINED_SHARE = 2, 0.2  # similar clients who refused a product from which on a text says so
MAX_COUNTED = 3  # products of links with the number of their owners in a sentence

MayName = Callable[[int], bool]  # whether a reader may learn the name of this client


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
    if not explanation.reasons and not len(explanation.client_items):
        return Rationale(f"{assumption}{_bestseller(explanation, product)}", [], _notes(explanation))
    if not summary.shown_reasons:
        known = f"{bought}, with a confidence of {confidence}"
        if not explanation.owned:
            known = f"{product} has a confidence of {confidence} for {client}"
        why = "its reasons have no other purchase or no other buyer to show for it."
        if not explanation.reasons:
            popular = explanation.base > 2 * explanation.background
            alone = "what popularity alone gives" if popular else "the background probability of any pair"
            owned = "nothing else" if explanation.owned else "nothing"
            why = f"the model has no reason, because {owned} that {client} owns leads to it; this is {alone}."
        return Rationale(f"{assumption}{known}: {why}", [], _notes(explanation))
    head = f"{product} is recommended to {client} with confidence {confidence}"
    if explanation.owned:
        head = f"{bought}; the model gives that a confidence of {confidence}"
    points = []
    for n, reason in enumerate(summary.shown_reasons):
        if reason.kind == "pattern":
            subject = f"Moreover, {client}" if n else first
            points.append(f"{subject} has purchased {_evidence(explanation, reason, show_clients, write)}")
        else:
            points.append(sentence(explanation, reason, lambda _: show_clients, write))
    points += _what_is_not_shown(explanation, summary, first)
    return Rationale(f"{assumption}{head} because:", points, _notes(explanation))


def _bestseller(explanation: Explanation, product: str) -> str:
    """Return what can be said to a client who owns nothing: how many others own the product."""
    buyers, n_users = len(explanation.interactions.by_item[explanation.item]), explanation.interactions.n_users
    share = f"{buyers:,} of {n_users:,} clients ({percent(buyers / n_users)}) {'owns' if buyers == 1 else 'own'}"
    return f"No purchases yet; bestsellers come first: {share} {product}."


def _assumption(explanation: Explanation, client: str, write: Write) -> str:
    """Return the sentence opening that states what is assumed, before anything that rests on it."""
    if explanation.user is None or explanation.supposed is None:
        return ""
    also = _listed(explanation.supposed, explanation.interactions.item_name, "Item", write)
    return f"Assuming that {client} also owns {also}: " if also else f"Assuming that {client} has other purchases: "


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


def sentence(explanation: Explanation, reason: Reason, may_name: MayName, write: Write | None = None) -> str:
    """Return the sentence on a reason of no pattern, with the names of those clients that the reader may learn."""
    write = write or _for_text
    if reason.kind == "links":
        return _links(explanation, reason, write(product_name(explanation.product)), write)
    if reason.kind == "taste":
        numbers = len(reason.owned_items), reason.n_purchases
        return taste_sentence(write(client_name(explanation.client)), write(reason.adjective), *numbers)
    if reason.kind == "appeal":
        product = write(product_name(explanation.product))
        return appeal_sentence(product, write(reason.adjective), reason.rate, reason.base_rate)
    return _peers(explanation, reason, may_name, write)


def brief(explanation: Explanation, reason: Reason) -> str:
    """Return a reason in one line for a table: no other client's name."""
    if reason.kind == "peers":
        return f"{similar_owners(reason)} bought it"
    if reason.kind == "taste":
        return f"buys {reason.adjective} products: {len(reason.owned_items):,} of its {reason.n_purchases:,}"
    if reason.kind == "appeal":
        rates = f"{percent(reason.rate)} of {reason.adjective} clients", f"{percent(reason.base_rate)} of all"
        return f"{rates[0]} bought it, against {rates[1]}"
    data, n_items = explanation.interactions, len(reason.owned_items)
    if reason.kind == "links":
        n_items = len(reason.named_items) + reason.n_unnamed
    names = [str(data.item_name(item)) for item in reason.named_items[:MAX_EXAMPLES]]
    more = n_items - len(names)
    owned = "; ".join([*names, f"{more:,} more"] if more else names)
    if reason.kind == "links":
        bought, owners = reason.counts[0]
        with_first = f" with {names[0]}" if n_items > 1 else ""
        return f"clients who own {owned} often buy it: {bought:,} of {owners:,}{with_first}"
    return f"has {owned}; {len(reason.similar_users):,} of {reason.group:,} such clients bought it"


def taste_sentence(client: str, adjective: str, n_with: int, n_all: int) -> str:
    """
    Return the sentence on a client's taste for products with an attribute.

    >>> taste_sentence("Acme", "Printing", 7, 20)
    'Acme buys Printing products: 7 of its 20.'
    """
    return f"{client[:1].upper()}{client[1:]} buys {adjective} products: {n_with:,} of its {n_all:,}."


def appeal_sentence(product: str, adjective: str, rate: float, base_rate: float) -> str:
    """
    Return the sentence on a product's appeal to clients with an attribute.

    >>> appeal_sentence("Saw", "Airline", 0.14, 0.02)
    '14% of Airline clients bought Saw, against 2% of all clients.'
    """
    return f"{percent(rate)} of {adjective} clients bought {product}, against {percent(base_rate)} of all clients."


def _links(explanation: Explanation, reason: Reason, product: str, write: Write) -> str:
    """Return "Clients who own A often buy X: 46 of 68 (68%; 9% of all clients)."."""
    data = explanation.interactions
    names = [write(product_name(data.item_name(item))) for item in reason.named_items]
    (both, owners), *others = reason.counts[:MAX_COUNTED]
    owned = [*names, f"{reason.n_unnamed:,} more"] if reason.n_unnamed else names
    with_first = f" with {names[0]}" if len(owned) > 1 else ""
    rates = f"{percent(both / max(owners, 1))}; {percent(reason.base_rate)} of all clients"
    shares = [f"{both:,} of {owners:,}{with_first} ({rates})"]
    shares += [f"{both:,} of {owners:,} with {name}" for name, (both, owners) in zip(names[1:], others, strict=False)]
    return f"Clients who own {joined(owned)} often buy {product}: {', '.join(shares)}."


def _peers(explanation: Explanation, reason: Reason, may_name: MayName, write: Write) -> str:
    """Return "7 of the 10 clients most similar to Acme own X: Foo (12 products in common), Bar (11)."."""
    data, product = explanation.interactions, write(product_name(explanation.product))
    client = write(client_name(explanation.client))
    share = f"{similar_owners(reason, f' to {client}')} {'owns' if len(reason.buyers) == 1 else 'own'} {product}"
    pairs = zip(reason.buyers, reason.in_common, strict=False)  # products in common of the first ones only
    named = [(write(client_name(data.user_name(user))), n) for user, n in pairs if may_name(user)][:MAX_EXAMPLES]
    if not named:
        return f"{share}."
    unit = " product in common" if named[0][1] == 1 else " products in common"
    common = [f"{n:,}{unit if not place else ''}" for place, (_, n) in enumerate(named)]
    return f"{share}: {', '.join(f'{name} ({n})' for (name, _), n in zip(named, common, strict=True))}."


def similar_owners(reason: Reason, to_client: str = "") -> str:
    """Return "7 of the 10 clients most similar to Acme", or how many similar ones where none of the closest is."""
    n_close, n_similar = reason.n_peers - len(reason.other_users), len(reason.similar_users)
    if n_close and reason.n_peers > 1:
        most_similar = f"clients most similar{to_client}" if to_client else "most similar clients"
        return f"{n_close} of the {reason.n_peers} {most_similar}"
    if n_similar == 1:
        return f"A client similar{to_client}" if to_client else "a similar client"
    return f"{n_similar:,} clients similar{to_client}" if to_client else f"{n_similar:,} similar clients"


def _listed(rows: Sequence[int], name: Callable[[int], Any], noun: str, write: Write) -> str:
    """Return the first names and how many more there are; only numbers need all, for ranges such as "Clients 4-9"."""
    names = [name(row) for row in rows[:MAX_EXAMPLES]]
    if all(isinstance(label, int) for label in names) and len(rows) <= MAX_RANGES:
        names = [name(row) for row in rows]
    return join_names(names, noun, write, total=len(rows))


def _what_is_not_shown(explanation: Explanation, summary: ReasonSummary, client: str) -> list[str]:
    """Return what carries the rest of the score; `client` begins a sentence."""
    sentences, hidden = [], percent(summary.hidden_share)
    many_patterns = summary.n_hidden > 1 and all(reason.kind == "pattern" for reason in explanation.reasons)
    minor = "minor" if summary.hidden_share < 0.5 else "other"
    left_out = [f"1 {minor} reason" if summary.n_hidden == 1 else f"{summary.n_hidden:,} {minor} reasons"]
    unnamed = sum(reason.n_unnamed for reason in summary.shown_reasons)
    if unnamed:
        left_out = [*left_out[: summary.n_hidden], f"{unnamed:,} more product{'' if unnamed == 1 else 's'}"]
    if many_patterns and summary.shown_share < 0.5 and summary.hidden_share > summary.rest_share:
        products = f"{len(explanation.client_items):,} products so far"
        sentences.append(
            f"The rest, {hidden} of the score, comes from {summary.n_hidden:,} smaller patterns: {client} buys from "
            f"many of them ({products})."
        )
    elif summary.n_hidden or unnamed:
        sentences.append(f"{' and '.join(left_out)} not shown ({hidden} of the score).")
    if summary.rest_share >= MIN_REST_SHARE:
        sentences.append(f"Popularity and background add {percent(summary.rest_share)} of the score.")
    return sentences


def trend_note(trend: float) -> str | None:
    """
    Return a sentence on a product that sells much faster or slower than it used to; None where it does not.

    >>> trend_note(2.13), trend_note(1.1)
    ('It sells at 2.1 times its usual rate.', None)
    """
    return f"It sells at {trend:.2g} times its usual rate." if max(trend, 1 / trend) >= MIN_TREND else None


def declined_note(n: int, group: int) -> str | None:
    """
    Return a sentence on similar clients who refused the product; None where they are few.

    >>> declined_note(3, 5), declined_note(1, 5), declined_note(3, 200)
    ('3 of 5 similar clients declined it.', None, None)
    """
    is_much = n >= MIN_DECLINED and n >= MIN_DECLINED_SHARE * group
    return f"{n:,} of {group:,} similar clients declined it." if is_much else None


def _notes(explanation: Explanation) -> list[str]:
    given = declined_note(*explanation.declined), trend_note(explanation.trend)
    notes = [note for note in given if note is not None]
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
