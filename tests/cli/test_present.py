"""What the commands print: tables, defaults in the help, Ctrl-C."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import run

import ocular
from ocular.cli.parameters import FIT_PARAMETERS, default_of
from ocular.cli.present import as_option, render
from ocular.errors import Parameter
from ocular.evaluation import calibration, protocol

NAMES = [f"{'a long name of a product ' * 20}№{number}" for number in range(2)]


def test_a_table_in_a_pipe_is_plain_and_whole() -> None:
    rows = [{"product": name, "price": 12345.678, "left": None, "note": None} for name in NAMES]
    rows[0]["note"] = "[bold]x[/bold]\n\x1b[31m"
    lines = render(rows, "table").splitlines()
    assert lines[0].split() == ["product", "price", "note"]  # what is empty in every row is left out
    assert set(lines[1]) == {"─", " "}
    assert len(lines) == 4
    assert lines[2].startswith(NAMES[0])
    assert lines[3].split()[-2:] == ["12,345.68", "–"]
    assert "[bold]x[/bold]" in lines[2]
    assert "\x1b" not in "".join(lines)
    assert render([], "table") == "nothing to show"


def test_a_table_on_a_terminal_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    rows = [{"product": name, "price": 1.5} for name in NAMES]
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in render(rows, "table").splitlines()]
    assert max(map(len, lines)) <= 60
    assert "…" not in "".join(lines)
    assert "".join(lines).replace(" ", "").replace("1.50", "").count("alongnameofaproduct") == 40


def test_numbers_stand_to_the_right() -> None:
    lines = render([{"a": "x", "n": 1}, {"a": "y", "n": 1000}], "table").splitlines()
    assert [line.rindex(end) for line, end in zip(lines[2:], ("1", "0"), strict=True)] == [len(lines[3]) - 1] * 2


def test_the_help_shows_the_defaults_of_the_estimator() -> None:
    signature = inspect.signature(ocular.OCuLaR).parameters
    shown = " ".join(run("fit", "--help").stdout.split())
    for option, parameter in (
        ("--max-iter N", "max_iter"),
        ("--tol T", "tol"),
    ):
        default = signature[parameter].default
        assert default == default_of(parameter)
        assert re.search(rf"{option} [^\[]*\[default: {default:g}\]", shown), option
    for command in ("evaluate", "search"):
        text = " ".join(run(command, "--help").stdout.split())
        assert re.search(rf"--tol T,… [^\[]*\[default: {signature['tol'].default:g}\]", text)
    assert set(FIT_PARAMETERS.values()) <= set(signature)


def test_the_help_shows_what_the_command_chooses() -> None:
    shown = " ".join(run("fit", "--help").stdout.split())
    for option in ("--coclusters K", "--regularization λ", "--links α", "--peers β", "--link-regularization μ"):
        assert re.search(rf"{option} [^\[]*\[default: auto", shown), option


def test_a_fit_without_options_chooses_what_the_data_tell(tmp_path: Path) -> None:
    pairs = [f"c{u},p{i}" for u in range(90) for i in range(30) if (u + i) % 3 == 0]
    (tmp_path / "sales.csv").write_text("\n".join(["c,p", *pairs]) + "\n")
    source = (tmp_path / "sales.csv", "--client", "c", "--product", "p")
    done = run("fit", *source, "--no-calibration", "-o", tmp_path / "m")
    assert done.returncode == 0, done.stderr
    weights = r"links [\d.]+ .* peers [\d.]+ .* popularity -?[\d.]+;"
    assert re.search(rf"parameters: 11 co-clusters, λ [\d.]+, {weights}", done.stdout)
    assert "choosing parameters on a held-out tenth of the purchases" in done.stderr
    model, plain = ocular.load(tmp_path / "m"), ocular.OCuLaR()
    assert model.n_coclusters == 11
    for name in ("tol", "max_iter", "relative", "bias"):
        assert getattr(model, name) == getattr(plain, name)


def test_a_fit_without_links_and_peers_is_the_model_of_the_paper(sales: Path) -> None:
    done = run("fit", sales, *COLUMNS, "--links", 0, "--peers", 0, "--no-calibration", "-o", sales.parent / "m")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    model = ocular.load(sales.parent / "m")
    plain = ocular.OCuLaR(2, 0.1, random_state=0).fit(model.interactions_)
    assert model.evidence_config_.is_patterns_only
    assert model.user_factors_.data.tobytes() == plain.user_factors_.data.tobytes()


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["evaluate", "--help"], ["search", "--help"]])
def test_the_help_is_light(arguments: list[str]) -> None:
    heavy = "{'numpy', 'scipy', 'numba', 'sklearn', 'polars', 'rich', 'fastapi'}"
    code = (
        f"import sys; sys.argv = ['ocular', *{arguments}]\n"
        "from ocular.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def stop(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    pairs = "".join(f"c{u},p{i}\n" for u in range(6) for i in range(5) if (u + i) % 5)
    (tmp_path / "sales.csv").write_text("client,product\n" + pairs)
    return tmp_path / "sales.csv"


COLUMNS = ("--client", "client", "--product", "product", "--coclusters", 2, "--regularization", 0.1)
PAPER = ("--links", 0)


def test_ctrl_c_while_calibrating_keeps_the_model(sales: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "calibrate", stop)
    folder = sales.parent / "model"
    done = run("fit", sales, *COLUMNS, *PAPER, "-o", folder)
    assert done.returncode == 130
    assert done.stderr == f"Interrupted: the model is saved to {folder}, calibration skipped\n"
    assert ocular.load(folder).calibration_ is None


def test_ctrl_c_while_evaluating(sales: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "measure", stop)
    done = run("evaluate", sales, *COLUMNS, "--at", 1)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.startswith("Interrupted: no table")
    assert done.stderr.count("\n") == 1


def test_ctrl_c_anywhere_else(sales: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ocular.data.readers.read", stop)
    done = run("fit", sales, *COLUMNS, "-o", sales.parent / "model")
    assert (done.returncode, done.stderr.strip()) == (130, "Interrupted: the command did not finish")


def test_wrong_usage_is_exit_code_2() -> None:
    done = run("fit", "--nonsense")
    assert done.returncode == 2
    assert "No such option" in done.stderr


def test_a_suggested_one_is_no_flag() -> None:
    assert as_option(Parameter("M", 1)) == "--at 1"
    assert as_option(Parameter("drop_missing", True)) == "--drop-missing"
