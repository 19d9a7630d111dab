"""Explanations in words: exact sentences, no leaked client, and names that try to be markup."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from ocular import Interactions, OCuLaR
from ocular.explain import wording
from ocular.explain.calibration import HitRate
from ocular.explain.price import SIMILAR, PriceEstimate
from ocular.explain.reasons import Explanation, Reason

NUMBERED = Interactions.from_pairs([0], [0], (12, 12))
NAMED = Interactions.from_pairs(
    [0],
    [0],
    user_labels=["Acme", "Bolt & Co", "Corda", "Dory", "Eel"],
    item_labels=["nut", "saw", "vise", "oar", "sail"],
)
NASTY = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</p></div><h1>",
    "a & b &lt;i&gt;",
    "\"quoted\" 'twice'",
    "| pipe | `tick` | *bold* _it_",
    "[link](http://x.y) ![i](u)",
    "line\nbreak\r\n- item\n\n# head",
    "שלום בע״מ",
    "🚲 Räder <b>",
    "1. first",
    "# heading",
    "- dash",
    "\\back~slash~ $x^2$",
]


def explanation(*reasons: Reason, **changes: Any) -> Explanation:
    given = {"user": 6, "item": 4, "confidence": 0.8312, "owned": False, "interactions": NUMBERED}
    given |= {"client_items": np.array([1, 2, 3], dtype=np.int32)} | changes
    return Explanation(reasons=list(reasons), **given)


def named(*reasons: Reason, **changes: Any) -> Explanation:
    return explanation(*reasons, **{"interactions": NAMED, "user": 0, "item": 4} | changes)


FIRST = Reason(0, 1.2, owned_items=[2, 1, 3], similar_users=[5, 4], other_users=[0], base_rate=0.25)
SECOND = Reason(2, 0.6, owned_items=[5, 8], similar_users=[9, 7, 8, 11, 1], other_users=[0] * 12, base_rate=0.0812)


def test_the_sentence_of_the_paper() -> None:
    assert explanation(FIRST, SECOND).text() == (
        "Item 4 is recommended to Client 6 with confidence 0.83 because:\n"
        "- Client 6 has purchased Items 1-3. Clients with similar purchase history (e.g., Clients 4-5) also bought "
        "Item 4 (2 of 3 in this group, 67%; 25% of all clients).\n"
        "- Moreover, Client 6 has purchased Items 5 and 8. Clients with similar purchase history "
        "(e.g., Clients 1, 7-9 and 11) also bought Item 4 (5 of 17 in this group, 29%; 8% of all clients)."
    )


def test_names_counts_and_notes() -> None:
    reason = Reason(0, 0.9, owned_items=[0, 1, 2, 3], similar_users=[1, 2, 3, 4], other_users=[0] * 1230)
    weak = [Reason(c, 0.05, owned_items=[c], similar_users=[c]) for c in (1, 2)]
    priced = named(
        reason,
        *weak,
        base=0.25,
        observed=HitRate(0.314, 1520, 0.6, 0.9),
        price=PriceEstimate(1250.0, 900.0, 1400.0, 1100, 40, SIMILAR, "€"),
    )
    assert priced.text() == (
        "sail is recommended to Acme with confidence 0.83 because:\n"
        "- Acme has purchased nut, saw, vise and 1 more. Clients with similar purchase history "
        "(e.g., Bolt & Co, Corda, Dory and 1 more) also bought sail (4 of 1,234 in this group, 0.3%; 0% of "
        "all clients).\n"
        "- 2 minor reasons not shown (8% of the score).\n"
        "- Popularity and background add 20% of the score.\n"
        "In a back-test, 31% of 1,520 similar recommendations were bought.\n"
        "Similar clients paid a median of €1,250 (80% between €900 and €1,400; 1,100 purchases by 40 clients)."
    )
    assert "- 1 minor reason not shown (5% of the score)." in named(reason, weak[0], base=0.05).text()


def test_one_client_is_not_clients() -> None:
    only = named(Reason(0, 0.9, owned_items=[0], similar_users=[1], base_rate=0.004)).text()
    assert only.endswith("also bought sail (the only other client in this group; 0.4% of all clients).")


def test_many_small_patterns_are_said_to_be_the_rest() -> None:
    several = [Reason(c, 1.0, owned_items=[c % 12], similar_users=[c]) for c in range(9)]
    lines = explanation(*several, client_items=np.arange(1200), base=1.0).text().splitlines()
    assert lines[4:] == [
        "- The rest, 60% of the score, comes from 6 smaller patterns: Client 6 buys from many of them "
        "(1,200 products so far).",
        "- Popularity and background add 10% of the score.",
    ]
    assert explanation(*several[:5]).text().splitlines()[4:] == ["- 2 minor reasons not shown (40% of the score)."]


LINKED = Reason(-1, 1.0, [0, 1, 2], [1, 2], base_rate=0.09, kind="links", parts=[0.5, 0.3, 0.2],
                counts=[(46, 68), (31, 50), (9, 1200)])  # fmt: skip
ALIKE = Reason(-1, 1.0, [0], [1, 2, 3], [4] * 3, kind="peers", parts=[1.0], in_common=[12, 11, 1], n_peers=6)


def test_the_sentences_of_links() -> None:
    one = replace(LINKED, owned_items=[0], parts=[1.0], counts=[(46, 68)])
    assert named(one).text().splitlines()[1] == (
        "- Clients who own nut often buy sail: 46 of 68 (68%; 9% of all clients)."
    )
    assert named(LINKED).text().splitlines()[1:] == [
        "- Clients who own nut, saw and vise often buy sail: 46 of 68 with nut (68%; 9% of all clients), 31 of 50 with "
        "saw, 9 of 1,200 with vise."
    ]
    assert "<li>Clients who own <bdi>nut</bdi> often buy <bdi>sail</bdi>: 46 of 68 (68%;" in named(one).to_html()
    assert "- Clients who own nut often buy sail: 46 of 68 (68%; 9% of all clients)." in named(one).to_markdown()


def test_a_sentence_on_many_linked_products_stays_short() -> None:
    """Five are named, three of them with counts, and the others are only counted."""
    many = Interactions.from_pairs([0], [0], (6, 40))
    links = Reason(-1, 4.0, list(range(1, 21)), [1], kind="links", parts=[0.2] * 20, counts=[(3, 4)] * 5)
    lines = explanation(links, interactions=many, user=0, item=30).text().splitlines()
    assert lines[1:] == [
        "- Clients who own Item 1, Item 2, Item 3, Item 4, Item 5 and 15 more often buy Item 30: 3 of 4 with Item 1 "
        "(75%; 0% of all clients), 3 of 4 with Item 2, 3 of 4 with Item 3.",
        "- 15 more products not shown (75% of the score).",
    ]


def test_the_sentences_of_similar_clients() -> None:
    told = named(ALIKE)
    sentence = (
        "3 of the 6 clients most similar to Acme own sail: Bolt & Co (12 products in common), Corda (11), Dory (1)."
    )
    assert told.text().splitlines()[1] == f"- {sentence}"
    assert told.text(show_clients=False).splitlines()[1] == "- 3 of the 6 clients most similar to Acme own sail."
    assert "to <bdi>Acme</bdi> own <bdi>sail</bdi>: <bdi>Bolt &amp; Co</bdi> (12 products" in told.to_html()
    assert "Bolt \\& Co (12 products in common), Corda (11)" in told.to_markdown()
    for form in (told.to_html(show_clients=False), told.to_markdown(show_clients=False)):
        assert "Bolt" not in form
    assert "Bolt" not in json.dumps(told.to_dict(show_clients=False))
    one_of_them = replace(ALIKE, other_users=[4] * 5)
    assert named(one_of_them).text().splitlines()[1] == (
        "- 1 of the 6 clients most similar to Acme owns sail: Bolt & Co (12 products in common)."
    )
    not_the_closest = replace(ALIKE, other_users=[4] * 6)
    assert (
        named(not_the_closest).text().splitlines()[1].startswith("- 3 clients similar to Acme own sail: Bolt & Co (12")
    )
    alone = Reason(-1, 1.0, [0], [1], kind="peers", parts=[1.0], in_common=[1], n_peers=1)
    assert named(alone).text().splitlines()[1] == (
        "- A client similar to Acme owns sail: Bolt & Co (1 product in common)."
    )


def test_only_some_clients_may_be_named() -> None:
    told = wording.sentence(named(ALIKE), ALIKE, lambda user: user == 2)
    assert told == "3 of the 6 clients most similar to Acme own sail: Corda (11 products in common)."
    assert wording.sentence(named(ALIKE), ALIKE, lambda _: False) == "3 of the 6 clients most similar to Acme own sail."


def test_reasons_in_one_line() -> None:
    pattern = Reason(0, 1.0, [0, 1, 2, 3], [1, 2], [3, 4])
    assert wording.brief(named(pattern), pattern) == "has nut; saw; vise; 1 more; 2 of 4 such clients bought it"
    assert wording.brief(named(LINKED), LINKED) == "clients who own nut; saw; vise often buy it: 46 of 68 with nut"
    one = replace(LINKED, owned_items=[0], parts=[1.0], counts=[(46, 68)])
    assert wording.brief(named(one), one) == "clients who own nut often buy it: 46 of 68"
    assert wording.brief(named(ALIKE), ALIKE) == "3 of the 6 most similar clients bought it"


def test_a_dict_has_what_links_and_peers_rest_on() -> None:
    links, peers = named(LINKED, replace(ALIKE, owned_items=[3])).to_dict()["reasons"]
    assert links["links"][0] == {"product": "nut", "bought_by": 46, "owners": 68}
    assert (links["cocluster"], links["peers"], links["share"]) == (None, [], 0.5)
    assert peers["peers"][:2] == [{"client": "Bolt & Co", "in_common": 12}, {"client": "Corda", "in_common": 11}]
    assert (peers["links"], peers["bought_by"], peers["group"]) == ([], 3, 6)


def test_names_with_commas_are_quoted() -> None:
    commas = Interactions.from_pairs([0], [0], user_labels=["Acme, Inc.", "Bolt"], item_labels=["nut, 5mm", "saw"])
    told = named(Reason(0, 0.9, [0, 1], [1], [0]), interactions=commas, item=0)
    assert told.text().splitlines()[:2] == [
        "“nut, 5mm” is recommended to “Acme, Inc.” with confidence 0.83 because:",
        "- “Acme, Inc.” has purchased “nut, 5mm” and saw. Clients with similar purchase history (e.g., Bolt) also "
        "bought “nut, 5mm” (1 of 2 in this group, 50%; 0% of all clients).",
    ]
    assert "<bdi>“nut, 5mm”</bdi> is recommended" in told.to_html()


def test_at_most_so_many_reasons_are_written() -> None:
    several = [Reason(c, 1.0, owned_items=[c], similar_users=[c + 1]) for c in range(4)]
    for most in (1, 2, 3):
        lines = explanation(*several).text(most).splitlines()
        assert sum("has purchased" in line for line in lines) == most
        assert sum(line.startswith("- Moreover, Client 6 has purchased") for line in lines) == most - 1


def test_an_owned_item_is_said_to_be_bought() -> None:
    assert named(Reason(0, 1.0, owned_items=[0], similar_users=[1, 2], other_users=[3, 3, 3]), owned=True).text() == (
        "Acme has bought sail already; the model gives that a confidence of 0.83 because:\n"
        "- Acme has purchased nut. Clients with similar purchase history (e.g., Bolt & Co and Corda) also bought sail "
        "(2 of 5 in this group, 40%; 0% of all clients)."
    )
    for form in (named(owned=True).text(), named(owned=True).to_markdown(), named(owned=True).to_html()):
        assert "has bought" in form
        assert "already" in form
        assert "is recommended" not in form


def test_without_a_shared_cocluster_there_is_no_reason() -> None:
    text = named(confidence=1e-4).text()
    assert text == (
        "sail has a confidence of 0.0001 for Acme: the model has no reason, because nothing that Acme owns leads to "
        "it; this is the background probability of any pair."
    )
    assert "because:" not in text


def test_a_shared_cocluster_without_evidence_claims_none() -> None:
    text = named(Reason(0, 1.0, owned_items=[], similar_users=[1])).text()
    assert "recommended" not in text
    assert "no other purchase" in text
    assert "Bolt" not in text


def test_a_price_that_is_not_known_is_said_to_be() -> None:
    history = Interactions.from_pairs([0, 1], [0, 1], price=[1.0, 2.0])
    assert "No price estimate" in explanation(user=0, item=1, interactions=history).text()
    assert "price" not in explanation(user=0, item=1).text()


def test_a_new_client() -> None:
    lines = named(Reason(0, 1.0, owned_items=[0], similar_users=[0], other_users=[1]), user=None).text().splitlines()
    assert lines[0] == "sail is recommended to the client with confidence 0.83 because:"
    assert lines[1].startswith("- The client has purchased nut. Clients with similar purchase history (e.g., Acme)")


@pytest.mark.parametrize(("p", "written"), [(0.999, "1.00"), (0.01, "0.01"), (0.0042, "0.004"), (9.9e-5, "0.0001")])
def test_small_confidences_keep_a_digit(p: float, written: str) -> None:
    assert f"with confidence {written} because" in explanation(FIRST, confidence=p).text()


# ------------------------------------------------------------------------------------------------------- other clients


def every_form(told: Explanation, **options: Any) -> dict[str, str]:
    return {
        "text": told.text(**options),
        "markdown": told.to_markdown(**options),
        "html": told.to_html(**options),
        "dict": json.dumps(told.to_dict(**options), ensure_ascii=False),
    }


def test_hidden_clients_are_nowhere(model: OCuLaR) -> None:
    for user in (0, 13, 42):
        for item in model.recommend(user, N=3)[0].tolist() + model.interactions_.by_user[user][:2].tolist():
            told = model.explain(user, item)
            assert told.reasons
            for form, written in every_form(told, show_clients=False).items():
                clients = {int(number) for number in re.findall(r"Client (\d+) GmbH", written)}
                assert clients <= {user}, form
                assert "e.g." not in written
            for form, written in every_form(told).items():
                others = {int(number) for number in re.findall(r"Client (\d+) GmbH", written)} - {user}
                assert others, form  # the check above can find something


def test_hidden_numbers_are_nowhere() -> None:
    for form, written in every_form(explanation(FIRST, SECOND), show_clients=False).items():
        assert not re.search(r"Clients? (?!6\b)\d", written), form
        assert "2 of 3 in this group" in written


# ------------------------------------------------------------------------------------------- names that would be markup


class Tags(HTMLParser):
    """What a browser would see."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: list[Any] = []
        self.depth = 0
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[Any]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        self.depth += 1

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def nasty() -> Explanation:
    """Every name is awkward, on both sides; so is the currency."""
    n = len(NASTY)
    history = Interactions.from_pairs([0], [0], user_labels=NASTY, item_labels=[*NASTY[1:], NASTY[0]])
    reasons = [
        Reason(c, 1.0, [c * 3 % n, (c * 3 + 1) % n, (c * 3 + 2) % n], [(c * 3 + k) % n for k in range(3)], [0] * 6)
        for c in range(5)
    ]
    return Explanation(
        0, n - 1, 0.5, reasons, owned=False, interactions=history, client_items=np.array([0], dtype=np.int32),
        price=PriceEstimate(5, 4, 6, 3, 3, SIMILAR, "<b>*"),
    )  # fmt: skip


def test_html_has_no_foreign_tags(nasty: Explanation) -> None:
    seen = Tags(nasty.to_html(max_reasons=5))
    assert seen.tags == {"div", "p", "ul", "li", "bdi"}
    assert seen.attributes == [("class", "ocular-explanation")]
    assert seen.depth == 0
    for name in NASTY:
        assert " ".join(name.split()) in seen.text


def test_text_has_one_line_a_sentence(nasty: Explanation) -> None:
    lines = nasty.text(max_reasons=5).splitlines()
    assert len(lines) == 1 + 5 + 1
    assert all(line.startswith("- ") for line in lines[1:6])
    assert "\u2068שלום בע״מ\u2069" in nasty.text(max_reasons=5)
    assert "\u2068שלום בע״מ\u2069" in nasty.to_markdown(max_reasons=5)
    assert "<bdi>שלום בע״מ</bdi>" in nasty.to_html(max_reasons=5)


@pytest.mark.parametrize("name", NASTY)
def test_markdown_shows_names_and_nothing_else(name: str) -> None:
    history = Interactions.from_pairs([0], [0], user_labels=[name, "B"], item_labels=[name, "other"])
    told = Explanation(
        0, 0, 0.5, [Reason(0, 1.0, [0, 1], [0, 1])], owned=False, interactions=history,
        client_items=np.array([1], dtype=np.int32),
    )  # fmt: skip
    written = told.to_markdown()
    head, points = written.split("\n\n")
    assert points.startswith("- ")
    assert "\n" not in points
    shown = re.sub(r"\\([!-/:-@\[-`{-~])", "", written)  # what Markdown takes literally
    assert not re.search(r"[`*_<|\[\]$~]", shown), shown
    for start in (head, points.removeprefix("- ")):
        assert not re.match(r"\s*([-+#>=|]|\d+[.)]\s)", start), "would begin a list, heading or quote"
    back = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", written).replace("\u2068", "").replace("\u2069", "")
    assert back.startswith(" ".join(name.split()) + " is recommended to " + " ".join(name.split()) + " with")


def test_markdown_escapes_the_currency(nasty: Explanation) -> None:
    note = nasty.to_markdown().split("\n\n")[-1]
    assert "paid" in note
    assert not re.search(r"(?<!\\)[<*]", note)
