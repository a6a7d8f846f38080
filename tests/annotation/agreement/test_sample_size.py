import pytest
from annotated import load_simulation

from caramel.annotation.agreement.coefficients import compute_agreement
from caramel.annotation.agreement.sample_size import compute_baseline_sample_size, compute_kappa_sample_size
from caramel.errors import ConfigError
from caramel.utils.resampling import Bootstrap


def test_the_items_for_kappa_give_an_interval_of_the_wanted_length() -> None:
    import numpy as np

    simulation = load_simulation()
    accuracy = 0.9  # of both annotators, who are right or wrong alike often on yes and no
    design = simulation.Design(2, (0.5, 0.5), (accuracy, accuracy))
    kappa = design.compute_truth()["cohen"]
    items = compute_kappa_sample_size(kappa, 0.5, 0.08)
    rng = np.random.default_rng(0)
    lengths = []
    for trial in range(20):
        agreement = compute_agreement(
            design._replace(items=items).draw(rng)[1], "cohen", bootstrap=Bootstrap(300, trial)
        )
        lengths.append(agreement.high - agreement.low)
    assert np.mean(lengths) / 2 == pytest.approx(0.08, rel=0.1)


def test_known_sizes() -> None:
    # A share of 0.5 within 0.05 needs 385 independent answers; kappa of 0 at a prevalence of 0.5 has the variance 1 / n.
    assert compute_baseline_sample_size(0.5, 0.05, 1, 0.3) == 385
    assert compute_kappa_sample_size(0.0, 0.5, 0.05) == 1537
    assert compute_baseline_sample_size(0.9, 0.03, 25, 0.02) > compute_baseline_sample_size(
        0.9, 0.03, 25, 0.0
    )


@pytest.mark.parametrize(
    "values", [(1.0, 0.5, 0.1), (0.5, 0.0, 0.1), (0.5, 0.5, 0.0), (float("nan"), 0.5, 0.1)]
)
def test_values_outside_their_range_are_refused(values: tuple[float, float, float]) -> None:
    with pytest.raises(ConfigError, match="is outside"):
        compute_kappa_sample_size(*values)
    with pytest.raises(ConfigError, match="is outside"):
        compute_baseline_sample_size(0.9, 0.1, 0, 0.1)
