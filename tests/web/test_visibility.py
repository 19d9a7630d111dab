"""The rules of who may see whom, in Python and in SQL."""

from __future__ import annotations

import pytest
from sites import PEOPLE, Site, both_databases, say
from sqlalchemy import select, update

from ocular.web.tables import Feedback, User
from ocular.web.visibility import Owner, in_team, may_see, may_see_client_of, only_overseen, overseen_sellers, oversees

OWNERS = ["ana", "ben", "sue", None]


@pytest.mark.parametrize(
    ("name", "owners"),
    [("ana", ["ana"]), ("ben", ["ben"]), ("sue", ["sue"]), ("max", ["ana", "ben", None]), ("root", OWNERS)],
)
def test_whose_clients_a_visitor_may_see(site: Site, name: str, owners: list[str | None]) -> None:
    visitor, people = site.visitor(name), {other: site.visitor(other).user for other in PEOPLE}
    clients = {owner: site.clients(owner)[0] for owner in PEOPLE if PEOPLE[owner].clients}
    clients[None] = str(site.interactions.user_labels[-1])
    with site.database.reading() as transaction:
        seen = [owner for owner in OWNERS if may_see(transaction, visitor, clients[owner])]
    assert seen == owners
    owned = {owner: None if owner is None else Owner(people[owner].id, people[owner].team) for owner in OWNERS}
    assert [owner for owner in OWNERS if may_see_client_of(visitor, owned[owner])] == owners
    rows = set(site.services.visibility.clients_of(site.services.served, visitor).tolist())
    row_of = site.interactions.user_rows
    assert [owner for owner in OWNERS if row_of[clients[owner]] in rows] == owners


def test_people_without_a_team_are_each_on_their_own(site: Site) -> None:
    site.change(update(User).values(team=""))
    max_, ana = site.visitor("max"), site.visitor("ana").user
    assert not in_team(max_, Owner(ana.id, ana.team))
    assert not oversees(max_, Owner(ana.id, ana.team))
    assert in_team(max_, Owner(max_.user.id, ""))


@both_databases
def test_a_manager_oversees_the_sellers_and_the_feedback_of_the_team(site: Site) -> None:
    for name in ("ana", "ben", "sue"):
        say(site, site.browser(name), site.clients(name)[0], "won")
    overseen = {"ana": [], "max": ["ana", "ben"], "root": ["ana", "ben", "sue"]}
    with site.database.reading() as transaction:
        for name, sellers in overseen.items():
            visitor = site.visitor(name)
            assert [user.name for user in overseen_sellers(transaction, visitor)] == sellers
            if name != "ana":
                authors = transaction.scalars(only_overseen(select(Feedback), visitor)).all()
                assert {row.user.name for row in authors} == set(sellers)
