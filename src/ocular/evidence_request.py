"""The parameters of evidence as they are asked for: numbers, or "auto" where they are chosen on held-out purchases."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ocular.errors import ConfigError, Parameter
from ocular.evidence import EvidenceConfig
from ocular.solver.links import LOSSES
from ocular.validation import check_choice, check_whole

AUTO = "auto"
CHOSEN_WITH_LINKS = (
    "peers",
    "popularity",
    "link_regularization",
    "peer_regularization",
    "trend",
    "trend_half_life",
    "taste",
    "appeal",
)


@dataclass(frozen=True)
class EvidenceRequest:
    """The parameters of links and peers as they were given: numbers, or AUTO where they are to be chosen."""

    links: float | str
    peers: float | str
    popularity: float | str
    link_regularization: float | str
    link_loss: str
    n_links: int
    peer_regularization: float | str
    taste: float | str = 0.0
    appeal: float | str = 0.0
    attribute_regularization: float = EvidenceConfig.attribute_regularization
    attribute_separator: str = EvidenceConfig.attribute_separator
    trend: float | str = 0.0
    trend_half_life: float | str = 30.0

    @classmethod
    def of(cls, **given: Any) -> EvidenceRequest:
        """Take what was given: None is chosen together with links where these are chosen, else it is the default."""
        usual = EvidenceConfig()
        is_chosen = isinstance(given["links"], str) and given["links"] == AUTO
        more = dict.fromkeys(CHOSEN_WITH_LINKS, AUTO) if is_chosen else {}
        unless_given = asdict(usual) | more
        values = {name: unless_given[name] if value is None else value for name, value in given.items()}
        check_whole(values["n_links"], "n_links", 1, 10_000)
        request = cls(**dict[str, Any](values))
        for name in ("links", *CHOSEN_WITH_LINKS):
            value = getattr(request, name)
            if isinstance(value, str) and value != AUTO:
                raise ConfigError("expected ", Parameter(name), f' to be a number or "auto", got {value!r}')
        check_choice(request.link_loss, "link_loss", (*LOSSES, AUTO))
        request.settled(usual)  # raises where a number makes no sense
        return request

    @property
    def is_settled(self) -> bool:
        """Whether nothing is to be chosen."""
        return AUTO not in asdict(self).values()

    def settled(self, chosen: EvidenceConfig) -> EvidenceConfig:
        """Return the configuration with the values of `chosen` where nothing was given."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return EvidenceConfig(**{name: getattr(chosen, name) if v == AUTO else v for name, v in values.items()})
