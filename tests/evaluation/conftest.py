"""Fixtures of the tests of evaluations."""

import pytest


@pytest.fixture
def empty_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the figure of each trial empty, since drawing takes a quarter of the time; test_grid.py has it drawn."""
    from matplotlib.figure import Figure

    from caramel.evaluation.results import plots

    monkeypatch.setattr(plots, "plot_subset_bars", lambda metrics: Figure(figsize=(1, 1)))
