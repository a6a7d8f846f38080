"""Measure the page of `caramel explore` on 10,000 instances in Chromium: `python bench/explore.py`.

Writes a made-up release with two models, builds the page, and prints its size and, for each filter, the time from the
input to the next frame, in milliseconds. The images are noise with the spectrum of photographs (amplitude 1/f), 256 ×
192 pixels, in colour. Thumbnails of photographs have similar sizes. Needs Playwright and Chromium, and no network.
"""

from __future__ import annotations

import io
import json
import shutil
import statistics
import tempfile
from pathlib import Path

import click
import numpy as np
import pandas as pd
from PIL import Image

from caramel.benchmarks.content import hash_texts
from caramel.benchmarks.readers.sugarcrepe import read_sugarcrepe
from caramel.cli.explore import explore_results
from caramel.evaluation.external.run_files import write_run
from caramel.evaluation.results.summary import summarise_similarities
from caramel.registry import BENCHMARKS
from caramel.schemas.columns import SUBTYPES
from caramel.schemas.evaluation import ANSWERS, SIMILARITIES
from caramel.schemas.io import build_frame
from caramel.schemas.rejects import REJECTS
from caramel.utils.resampling import Bootstrap

WORDS = [
    "a",
    "red",
    "blue",
    "old",
    "small",
    "dog",
    "cat",
    "man",
    "woman",
    "sits",
    "stands",
    "beside",
    "under",
    "near",
    "the",
    "table",
    "on",
    "road",
    "field",
    "with",
]
WIDTH, HEIGHT = 256, 192  # pixels of an image
REPEATS = 15
FILTERS = {
    "text": ("q", ["dog", "red table", "sits beside", "nothing at all", ""]),
    "subset": ("subset", ["swap_obj", "replace_att", "all"]),
    "verdict": ("verdict.first", ["r", "w", ""]),
    "defect": ("defect", ["any", "none", ""]),
}
# The time until the frame after the change is drawn: the callback runs before it, its message after it.
MEASURE = """([name, value]) => new Promise((resolve) => {
    const control = document.querySelector(`[name="${name}"]`), start = performance.now();
    control.value = value;
    control.dispatchEvent(new Event("input", { bubbles: true }));
    const handled = performance.now() - start;
    requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = () => resolve([handled, performance.now() - start]);
        channel.port2.postMessage(0);
    });
})"""


def write_image(path: Path, random: np.random.Generator) -> None:
    """Write noise with amplitude 1/f as a JPEG file."""
    frequency = np.hypot(np.fft.fftfreq(HEIGHT)[:, None], np.fft.rfftfreq(WIDTH)[None])
    frequency[0, 0] = 1
    spectrum = np.fft.rfft2(random.normal(size=(3, HEIGHT, WIDTH))) / frequency
    pixels = np.fft.irfft2(spectrum, (HEIGHT, WIDTH))
    scaled = 128 + 55 * pixels / pixels.std(axis=(1, 2), keepdims=True)
    stream = io.BytesIO()
    Image.fromarray(np.moveaxis(scaled.clip(0, 255).astype(np.uint8), 0, -1)).save(stream, "JPEG")
    path.write_bytes(stream.getvalue())


def write_inputs(folder: Path, instances: int, images: int) -> None:
    """Write the release and the results of two models."""
    random, release = np.random.default_rng(0), folder / "sugarcrepe"
    release.mkdir()
    for subtype in SUBTYPES:
        rows = {}
        for n in range(-(-instances // len(SUBTYPES))):
            words = random.choice(WORDS, 11).tolist()
            negative = [*words[:5], "other", *words[6:]]
            name = f"{random.integers(images):012}.jpg"
            rows[str(n)] = {
                "filename": name,
                "caption": " ".join(words),
                "negative_caption": " ".join(negative),
            }
        (release / f"{subtype}.json").write_text(json.dumps(rows))
    for number in range(images):
        write_image(release / f"{number:012}.jpg", random)
    task = read_sugarcrepe(release, release)
    nulls = dict.fromkeys(name for name, column in SIMILARITIES.columns.items() if column.null)
    parts = [
        task.rows[["instance_id", "image_id", "subsets"]]
        .assign(**nulls)
        .assign(
            model=model,
            benchmark="sugarcrepe",
            texts_hash=hash_texts(task),
            images_hash="0" * 32,
            s_c1_i0=0.0,
            s_c0_i0=random.normal(0.5, 1, len(task.rows)),
        )
        for model in ("first", "second")
    ]
    similarities = build_frame(SIMILARITIES, pd.concat(parts, ignore_index=True))
    benchmarks = {"sugarcrepe": BENCHMARKS["sugarcrepe"]}
    metrics = summarise_similarities(similarities, benchmarks, bootstrap=Bootstrap(100, 0))
    (folder / "results").mkdir()
    write_run(folder / "results", similarities, build_frame(ANSWERS, []), metrics, build_frame(REJECTS, []))


def measure_filters(page_file: Path, width: int) -> None:
    """Print the load time and, for each filter, the median, the 95th percentile and the longest time."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": width, "height": 844}).new_page()
        page.goto(page_file.as_uri())
        page.wait_for_selector("article")
        loaded = page.evaluate("performance.getEntriesByType('navigation')[0].domComplete")
        click.echo(f"width {width}: loaded in {loaded:.0f} ms")
        page.click("summary")
        for label, (name, values) in FILTERS.items():
            times = [page.evaluate(MEASURE, [name, value]) for _ in range(REPEATS) for value in values]
            for what, index in (("filter", 0), ("to the next frame", 1)):
                chosen = [pair[index] for pair in times]
                late = statistics.quantiles(chosen, n=20)[-1]
                click.echo(
                    f"  {label:8} {what:18} median {statistics.median(chosen):5.1f} ms, 95th percentile {late:5.1f} ms, "
                    f"longest {max(chosen):5.1f} ms"
                )
        browser.close()


@click.command()
@click.option("--instances", default=10_000, type=click.IntRange(7))
@click.option("--images", default=4_000, type=click.IntRange(1), help="Distinct images.")
def main(instances: int, images: int) -> None:
    """Build the page and measure it at the widths of a desktop and a phone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder, instances, images)
        out = folder / "explore.html"
        arguments = [str(folder / "results"), "--data", name, "--out", str(out)]
        explore_results.main(arguments, standalone_mode=False)
        click.echo(f"{out.stat().st_size / 1e6:.1f} MB")
        for width in (1280, 390):
            measure_filters(out, width)


if __name__ == "__main__":
    main()
