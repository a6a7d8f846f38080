"""The cells of a study and their seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from caramel.config.profiles import read_profile
from caramel.config.schema import Config
from caramel.errors import ConfigError
from caramel.study.cells import Cell, check_config, compute_seeds, list_cells

ROOT = Path(__file__).parents[2]


def config(profile: str = "study", **sets: str) -> Config:
    return read_profile(profile, {key.replace("__", "."): value for key, value in sets.items()}, ROOT)[1]


def test_generators_and_bases_of_a_draw_are_crossed_and_draws_are_not() -> None:
    assert list_cells([(2, 1), (1, 2)]) == [Cell(0, 0, 0), Cell(0, 1, 0), Cell(1, 0, 0), Cell(1, 0, 1)]
    assert len(list_cells([(2, 2), (3, 1)])) == 7


def test_no_cell_has_a_seed_of_the_params_on_which_figures_are_known_before_the_study() -> None:
    plain = config().model_dump(mode="json")
    for cell in list_cells([(2, 1), (1, 2), (9, 9)]):
        for key, drawn in compute_seeds(config(), cell).items():
            section, name = key.split(".")
            known, new = (
                value if isinstance(value, list) else [value] for value in (plain[section][name], drawn)
            )
            assert new
            assert not {*known} & {*new}, (cell, key)


def test_cells_share_the_seeds_of_what_they_share_and_no_others() -> None:
    one, other = compute_seeds(config(), Cell(1, 0, 0)), compute_seeds(config(), Cell(1, 1, 0))
    assert {key for key in one if one[key] != other[key]} == {"train_generator.seed", "finetune.seeds"}
    next_draw = compute_seeds(config(), Cell(2, 0, 0))
    assert all(one[key] != next_draw[key] for key in one)


def test_seeds_of_different_draws_never_meet() -> None:
    studied = config()
    drawn = {
        (cell.scenes, cell.base, compute_seeds(studied, cell)["pretrain.seed"])
        for cell in list_cells([(1, 9)] * 40)
    }
    assert len({seed for *_, seed in drawn}) == len(drawn) == 360


def test_no_two_cells_are_fine_tuned_with_one_seed() -> None:
    studied = config()
    drawn = [compute_seeds(studied, cell)["finetune.seeds"] for cell in list_cells([(3, 3)] * 20)]
    assert drawn[0] == [1_000_011, 1_000_012]
    flat = [seed for of_cell in drawn if isinstance(of_cell, list) for seed in of_cell]
    assert len(set(flat)) == len(flat) == 3 * 3 * 20 * 2


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ({"finetune__variants": "[infonce]"}, "pairs_unpaired"),
        ({"pretrain__backend": "pretrained"}, "pretrain.backend"),
        ({"scenes__source": "files"}, "scenes.source"),
    ],
)
def test_what_cannot_be_studied_is_refused(sets: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_config(config(**sets))


def test_a_seed_that_is_too_large_to_be_stepped_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"scenes\.seed = 2147483647"):
        compute_seeds(config(scenes__seed="2147483647"), Cell(1, 0, 0))


@pytest.mark.parametrize(
    "draws", ["[[1, 1]]", "[[0, 1], [1, 1]]", "[[1, 10], [1, 1]]", "[1, 2]", "[[1], [1]]"]
)
def test_a_layout_that_is_none_is_refused(draws: str) -> None:
    with pytest.raises(ConfigError, match=r"study\.draws"):
        config(study__draws=draws)


@pytest.mark.parametrize("against", ["trohn_img", "nobody"])
def test_a_contrast_is_against_the_base_or_another_variant(against: str) -> None:
    with pytest.raises(ConfigError, match=r"report\.primary_comparison\.against"):
        config(report__primary_comparison__against=against)
