"""What Spark needs, checked before anything of it is imported."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from ocular.errors import MissingExtraError


def require_pyspark() -> None:
    """Raise where a Python package is missing."""
    for package in ("pyspark", "pyarrow", "pandas"):
        if find_spec(package) is None:
            raise MissingExtraError(f"Spark needs {package}, which is not installed; pip install 'ocular-rec[spark]'")


def require_java() -> None:
    """Raise where Java is missing."""
    home = os.environ.get("JAVA_HOME")
    if not (shutil.which("java") or (home and (Path(home) / "bin" / "java").exists())):
        raise MissingExtraError(
            "Spark needs Java 17 or later, which is not installed; install it (Debian: apt-get install "
            "openjdk-17-jre-headless), or set JAVA_HOME"
        )
