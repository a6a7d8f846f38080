"""Commands ``crepe``: build CREPE-style benchmarks from Visual Genome and a training corpus. One file per command."""

from __future__ import annotations

import click

from caramel.cli.crepe.check_parser import check_graph_parser
from caramel.cli.crepe.figures import draw_figures
from caramel.cli.crepe.index import index_corpus
from caramel.cli.crepe.productivity import build_productivity_set
from caramel.cli.crepe.systematicity import build_systematicity_set
from caramel.cli.crepe.top import list_top


@click.group("crepe")
def crepe_group() -> None:
    """Build CREPE-style benchmarks from scene graphs.

    The files have the form in which CREPE (Ma et al. 2023) was released; docs/crepe.md describes them. `caramel eval
    --benchmark crepe_systematicity` and `crepe_productivity` read them, and `caramel audit` audits them.

    \b
    Example:
      caramel crepe index cc3m.csv --graphs vg/ --out cc3m_index/
      caramel crepe systematicity --graphs vg/ --index cc3m_index/ --name cc3m --words wordnet:dict/ --out data/crepe_systematicity
      caramel crepe productivity --graphs vg/ --words wordnet:dict/ --out data/crepe_productivity
    """


for _command in (
    check_graph_parser,
    index_corpus,
    build_systematicity_set,
    build_productivity_set,
    draw_figures,
    list_top,
):
    crepe_group.add_command(_command)
