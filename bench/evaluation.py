"""Measure speed, encoder calls and memory of `caramel eval` on SugarCrepe's captions: `make bench-eval`.

The captions are the real ones, under real file names. The images are drawn here, and the model is open_clip's
ViT-B/32 with random weights; neither changes the timings. The reference scores one instance at a time, like
the benchmark's own evaluator: decode the image, encode it, encode both captions at the full context length,
compare.

Prints one JSON object. Nothing is downloaded. On two cores it takes about ten minutes.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
from PIL import Image, ImageDraw

from caramel.benchmarks.image_files import check_images
from caramel.evaluation.scores.encoding import RunConfig
from caramel.evaluation.scores.scoring import compute_similarities
from caramel.interfaces.benchmark import Comparisons
from caramel.interfaces.settings import Compute
from caramel.runtime.environment import be_quiet
from caramel.runtime.ray.sharded_map import map_in_threads

SIZE = (640, 480)  # pixels, the most frequent size of COCO's images


def write_images(names: list[str], folder: Path, size: tuple[int, int]) -> None:
    """Write a JPEG for each name: shapes on noise, all different and with natural file sizes."""
    folder.mkdir(parents=True, exist_ok=True)

    def write_image(numbered: tuple[int, str]) -> None:
        number, name = numbered
        if (folder / name).exists():
            return
        rng = np.random.default_rng(number)
        noise = rng.integers(96, 160, (size[1] // 4, size[0] // 4, 3), dtype=np.uint8)
        picture = Image.fromarray(noise).resize(size)
        pen = ImageDraw.Draw(picture)
        for left, top in rng.integers(0, size, (6, 2)).tolist():
            pen.rectangle((left, top, left + 90, top + 70), fill=tuple(rng.integers(0, 255, 3).tolist()))
        picture.save(folder / name, quality=90)

    map_in_threads(write_image, list(enumerate(names)))


def save_random_checkpoint(folder: Path, model: str) -> str:
    """Return the spec of an open_clip model of random weights, saved as a checkpoint folder."""
    import open_clip
    import torch

    from caramel.models.open_clip.checkpoints import build_model, save_checkpoint

    if not folder.exists():
        torch.manual_seed(0)
        config = {"model_cfg": {"quick_gelu": False, **open_clip.get_model_config(model)}}
        save_checkpoint(folder, build_model(config, model), config=config, vocabulary=None, card={})
    return f"{model}=open_clip:{folder}"


class ForwardTimer:
    """Counts rows and seconds inside the encoder's two forward passes.

    ``processor_seconds`` are those of the calling thread: with one thread, all that the passes take.
    """

    def __init__(self) -> None:
        self.images = self.texts = 0
        self.seconds = self.processor_seconds = 0.0

    @contextmanager
    def watch_model(self, spec: str, device: str, precision: str) -> Iterator[None]:
        """Time the opened model's forward passes inside the block."""
        from caramel.models.specs import open_model

        encoder: Any = open_model(spec, device, precision)
        encoder._embed_pixels = self._time_calls(encoder._embed_pixels, "images")
        encoder._embed_tokens = self._time_calls(encoder._embed_tokens, "texts")
        try:
            yield
        finally:
            del encoder._embed_pixels, encoder._embed_tokens  # uncovers the class's own methods again

    def _time_calls(self, function: Callable[..., Any], counter: str) -> Callable[..., Any]:
        def run_timed(rows: Any, *rest: Any, **named: Any) -> Any:
            start, thread_start = time.perf_counter(), time.thread_time()
            out = function(rows, *rest, **named)
            if out.is_cuda:
                out = out.cpu()  # waits for the result
            self.seconds += time.perf_counter() - start
            self.processor_seconds += time.thread_time() - thread_start
            setattr(self, counter, getattr(self, counter) + len(rows))
            return out

        return run_timed


def score_batched(
    task: Comparisons, spec: str, store: Path, device: str = "cpu", precision: str = "fp32"
) -> tuple[Any, dict[str, Any]]:
    """Return the similarities of the task and their costs: images are checked, then everything is scored."""
    watch = ForwardTimer()
    with watch.watch_model(spec, device, precision):
        start = time.perf_counter()
        keys = check_images(task.images, "sugarcrepe")
        checked = time.perf_counter() - start
        rows = compute_similarities(
            task, keys, RunConfig(spec, Compute(device, precision), None, str(store), "inline"), benchmark="s"
        )
        seconds = time.perf_counter() - start
    took = {
        "seconds": round(seconds, 3),
        "of_which_check_of_images": round(checked, 1),
        "forward_share": round(watch.seconds / seconds, 4),
        "forward_processor_seconds": watch.processor_seconds,
        "images_encoded": watch.images,
        "texts_encoded": watch.texts,
    }
    return rows, took


def score_one_by_one(task: Comparisons, spec: str) -> tuple[list[bool], float]:
    """Return the verdict of each instance and the seconds, scored one at a time with nothing shared."""
    import torch

    from caramel.models.specs import open_model

    model: Any = open_model(spec, "cpu", "fp32")
    clip = model._clip
    rows: list[Any] = [*task.rows.itertuples()]
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (clip.mean, clip.std))
    hits = []
    start = time.perf_counter()
    for row in rows:
        with torch.inference_mode():
            picture = Image.open(io.BytesIO(Path(task.images[row.image].path).read_bytes())).convert("RGB")
            pixels = torch.from_numpy(np.array(clip.to_pixels(picture))).permute(2, 0, 1) / 255
            image = clip.model.encode_image(((pixels - mean) / std)[None], normalize=True)[0]
            scores = [
                float(
                    image.double() @ clip.model.encode_text(clip.tokenize([text]), normalize=True)[0].double()
                )
                for text in (row.caption, row.negative_caption)
            ]
        hits.append(scores[0] > scores[1])
    return hits, time.perf_counter() - start


def sample_images(task: Comparisons, images: int) -> Comparisons:
    """Return the instances of a sample of images, so that they share images as in the whole set."""
    chosen = np.random.default_rng(0).choice(len(task.images), images, replace=False)
    return Comparisons(task.rows[task.rows["image"].isin(chosen)].reset_index(drop=True), task.images)


def drop_unused_images(task: Comparisons) -> Comparisons:
    """Return the task with only the images that its rows use."""
    indices = sorted(set(task.rows["image"]))
    moved = task.rows["image"].map({old: new for new, old in enumerate(indices)})
    return Comparisons(task.rows.assign(image=moved), [task.images[i] for i in indices])


def measure_peak_memory(work: Path, times: int) -> float:
    """Return the peak memory, in MB, of a process that scores a benchmark ``times`` as large."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import evaluation as e; "
    code += f"e.measure_memory({str(work)!r}, {times})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def measure_memory(work: str, times: int) -> None:
    """Print the peak memory of scoring ``times`` × 1,000 images and 4,000 captions with a small model."""
    import resource

    from caramel.benchmarks.tasks import build_comparisons
    from caramel.interfaces.benchmark import ImageFile

    folder, count = Path(work, "small"), 1000 * times
    names = [f"{i:012}.jpg" for i in range(count)]
    write_images(names, folder, (160, 120))
    rows: list[dict[str, object]] = [
        {
            "instance_id": f"{i}-{j}",
            "image_id": names[i],
            "subsets": ["s"],
            "image": i,
            "caption": f"a caption of image {i}, number {j}",
            "negative_caption": f"a false caption of image {i}, number {j}",
        }
        for i in range(count)
        for j in range(2)
    ]
    task = build_comparisons(rows, [ImageFile(str(folder / name)) for name in names])
    score_batched(task, save_small_checkpoint(Path(work, "small-model")), Path(work, f"store-{times}"))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def save_small_checkpoint(folder: Path) -> str:
    """Return the spec of a small model with embeddings of ViT-B/32's width."""
    import torch

    from caramel.models.open_clip.checkpoints import build_model, save_checkpoint

    if not folder.exists():
        vision = {"image_size": 64, "layers": 1, "width": 64, "patch_size": 16, "head_width": 32}
        text = {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 1}
        model = {"embed_dim": 512, "quick_gelu": False, "vision_cfg": vision, "text_cfg": text}
        torch.manual_seed(0)
        config = {"model_cfg": model}
        save_checkpoint(folder, build_model(config, "small"), config=config, vocabulary=None, card={})
    return f"small=open_clip:{folder}"


@click.command()
@click.option(
    "--captions", type=click.Path(exists=True, path_type=Path), help="Default: $CARAMEL_DATA/sugarcrepe."
)
@click.option("--work", default="work/bench-eval", type=click.Path(path_type=Path), help="Scratch folder.")
@click.option("--model", default="ViT-B-32", show_default=True, help="open_clip architecture.")
@click.option(
    "--slow-images", default=78, show_default=True, help="Images whose instances are scored one by one."
)
@click.option("--skip-full", is_flag=True, help="Skip the run over all instances.")
def main(captions: Path | None, work: Path, model: str, slow_images: int, skip_full: bool) -> None:
    """Compare `caramel eval` with scoring one instance at a time; see the module's docstring."""
    from caramel.benchmarks.readers.sugarcrepe import read_sugarcrepe

    be_quiet()
    captions = captions or Path(os.environ["CARAMEL_DATA"], "sugarcrepe")
    for name in ("store-part", "store-full", "store-1", "store-10"):
        shutil.rmtree(work / name, ignore_errors=True)
    whole = read_sugarcrepe(captions, work / "images")
    write_images([Path(image.path).name for image in whole.images], work / "images", SIZE)
    whole = read_sugarcrepe(captions, work / "images")
    spec = save_random_checkpoint(work / "model", model)
    some = drop_unused_images(sample_images(whole, slow_images))
    rows, took_part = score_batched(some, spec, work / "store-part")
    hits, seconds = score_one_by_one(some, spec)
    ours = (rows["s_c0_i0"] > rows["s_c1_i0"]).tolist()
    result: dict[str, Any] = {
        "cores": os.cpu_count(),
        "part": {"instances": len(some.rows), "images": len(some.images), "fast": took_part},
        "one_at_a_time_seconds": round(seconds, 1),
        "ratio_on_the_part": round(seconds / took_part["seconds"], 2),
        "different_verdicts": sum(a != b for a, b in zip(ours, hits, strict=True)),
        "closest_call": float((rows["s_c0_i0"] - rows["s_c1_i0"]).abs().min()),
    }
    if not skip_full:
        _, first = score_batched(whole, spec, work / "store-full")
        _, second = score_batched(whole, spec, work / "store-full")
        result["all"] = {"instances": len(whole.rows), "first_run": first, "second_run": second}
        estimate = seconds * len(whole.rows) / len(some.rows)
        result["all"]["ratio_with_one_at_a_time_extrapolated"] = round(estimate / first["seconds"], 2)
    result["peak_mb"] = {f"{n * 1000} images": round(measure_peak_memory(work, n)) for n in (1, 10)}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
