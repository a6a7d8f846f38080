"""Command ``explore``: write a page on which each figure leads to its instances."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import click

from caramel.cli.options import ERRATA_FILE, FOLDER
from caramel.cli.output import echo
from caramel.errors import ConfigError, count_of
from caramel.io.files import forbid_overwriting_inputs, write_text


@click.command("explore")
@click.argument(
    "results", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--data", required=True, type=FOLDER, help="Folder that holds one folder per benchmark.")
@click.option(
    "--images",
    type=FOLDER,
    help="Folder of the images, or of one folder of images per benchmark.  [default: the benchmark's own folder]",
)
@click.option(
    "--benchmark",
    "benchmarks",
    multiple=True,
    metavar="NAME",
    help="Benchmark to show, repeatable.  [default: all in the results]",
)
@click.option(
    "--audit",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of `caramel audit`: the page then tells which instances its best blind attacker solves.",
)
@click.option(
    "--errata",
    type=ERRATA_FILE,
    help="Corrections of the benchmark's items (docs/evaluation.md), or `known` for those that caramel holds: the page marks "
    "the instances, with correction and reason.",
)
@click.option(
    "--thumbnail",
    default=128,
    show_default=True,
    type=click.IntRange(16, 1024),
    help="Largest side of an image in pixels.",
)
@click.option(
    "--max-images",
    default=3000,
    show_default=True,
    type=click.IntRange(0),
    help="Number of images to embed; of more, evenly spaced ones are embedded.",
)
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
def explore_results(
    results: tuple[Path, ...],
    data: Path,
    images: Path | None,
    benchmarks: tuple[str, ...],
    audit: Path | None,
    errata: str | None,
    thumbnail: int,
    max_images: int,
    out: Path,
) -> None:
    """Write a page whose figures lead to their instances.

    RESULTS are folders of `caramel eval`, or data/evaluate of a project. The page is one HTML file that needs no server.
    It shows models by subsets. A cell opens its instances: images and captions side by side with the differing words marked, and the
    verdict of each model. Filters: subset, verdicts, solved blind, defect, corrected, text. Keys: j, k, arrows, /, Esc.

    \b
    Example:
      caramel explore results/vit-b-32 results/tuned --data benchmarks/ --images coco/val2017 --out explore.html
      caramel explore results/vit-b-32 --data benchmarks/ --audit audit/ --out explore.html
      caramel explore results/vit-b-32 --data benchmarks/ --benchmark sugarcrepe --errata known --out explore.html
      caramel explore data/evaluate --data data/assemble --benchmark instances --out explore.html
    """
    from caramel.benchmarks.errata import find_errata_file
    from caramel.evaluation.benchmark_source import locate_benchmark
    from caramel.report.explore.page import build_explore_page, list_result_benchmarks, read_blind_solutions

    names = benchmarks or tuple(list_result_benchmarks(results))
    for option, value in (("--audit", audit), ("--errata", errata)):
        if value is not None and len(names) > 1:
            raise ConfigError(
                f"{option} is of one data set, but the page would show {', '.join(names)}, whose instances may have "
                f"equal ids. Name its benchmark with --benchmark."
            )
    file = "" if errata is None else os.path.realpath(find_errata_file(errata, names[0]))
    sources = [replace(locate_benchmark(name, data, images), errata=file) for name in names]
    read = [*results, *([audit] if audit else []), *(Path(source.data) for source in sources)]
    read += [Path(file)] if file else []
    forbid_overwriting_inputs([out], read)
    page = build_explore_page(
        results,
        sources,
        blind=read_blind_solutions(audit) if audit else {},
        thumbnail=thumbnail,
        max_images=max_images,
    )
    write_text(out, page.html)
    for note in page.notes:
        echo(f"Note: {note}", err=True)
    echo(
        f"Wrote {out}: {count_of(page.instances, 'instance')}, {count_of(page.images, 'image')}, {len(page.html) / 1e6:.1f} MB."
    )
