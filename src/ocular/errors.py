"""Every exception that a user can see. Each message is one line: expected, got, remedy."""


class OcularError(Exception):
    """Base of all errors that ocular raises on purpose."""


class DataError(OcularError, ValueError):
    """The purchase history is not what the model expects."""


class ConfigError(OcularError, ValueError):
    """A parameter has a value that makes no sense."""


class FitError(OcularError, ArithmeticError):
    """A fit left the range of numbers it can be computed in."""


class UnknownNameError(OcularError, LookupError):
    """A client, product or column that is not there; the message names the nearest ones."""


class ArtifactError(OcularError):
    """A saved model or checkpoint is missing, damaged, tampered with or from a newer version."""


class ClusterError(OcularError):
    """Spark could not do what it was asked to."""


class MissingExtraError(OcularError, ImportError):
    """An optional component is not installed; the message names the extra to install."""
