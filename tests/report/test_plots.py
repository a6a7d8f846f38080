"""Figures of the report."""

from pathlib import Path

from caramel.config.schema import load_config
from caramel.report.plots import DARK, LIGHT


def test_the_base_and_each_variant_of_the_default_profile_have_a_colour_of_their_own() -> None:
    config = load_config(Path(__file__).parents[2] / "params" / "default.yaml")
    for theme in (LIGHT, DARK):
        assert len(set(theme.series)) == len(theme.series)
        assert len(theme.series) >= 1 + len(config.finetune.variants)
