"""VL-CheckList (Zhao et al. 2022): an image, a true phrase, and the same phrase with one part replaced.

A hit is a true phrase that scores above the false one. The authors call this ITC. Their other accuracy, ITM,
applies a threshold to the probability of a matching head and cannot be computed from scores alone. If a row
holds several phrases, the first counts, as in the authors' loader. The first ``ROWS`` rows of each file are
scored, as in all of the authors' configs (``MAX_NUM: 2000``, half of which are images). Some rows of the
release hold the same phrase twice. That is a tie and so a miss, for the authors as here.

Subsets are:

- the aspects, each over all its instances
- the files, each under the name of the authors' result
- ``mean/attribute_color`` …: what the authors print for an aspect (``radar.py``): the mean over the sources
  of the means over a source's files, for the files that exist
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from caramel.benchmarks.public_files import find_release_files
from caramel.benchmarks.tasks import build_comparisons
from caramel.errors import DataError
from caramel.interfaces.benchmark import Benchmark, Comparisons, ImageFile
from caramel.io.readers import read_json_rows
from caramel.io.validators import format_value, read_name_field, read_text_field

LAYOUT = """\
  vl_checklist/Attribute, Object, Relation    from github.com/om-ai-lab/VL-CheckList, folder data
  IMAGES/vg/VG_100K/1.jpg, vg/VG_100K_2/…     Visual Genome (and VAW, which has the same images; also in
                                              IMAGES/VG_100K …)
  IMAGES/swig/exercising_255.jpg …            SWiG, images_512
  IMAGES/hake/vcoco, hcvrd, openimages …      HAKE; as the repository's DATASETS.md says"""
ATTRIBUTES = ("color", "material", "size", "state", "action")
ROLES = ("agent", "destination", "item", "tool")
OBJECT_ASPECTS = {"Location": ("center", "mid", "margin"), "Size": ("large", "medium", "small")}


ROWS = 1000  # per file


class Corpus(NamedTuple):
    """One file: its path, the folder of its images, its aspect and the authors' name of its result."""

    path: str
    images: str
    aspect: str
    name: str

    @property
    def prefix(self) -> str:
        """The part of the name before the source."""
        category, _, aspect = self.name.partition("_")
        parts = 2 if category == "Object" else 1  # Object_Location_center_vg_obj, Attribute_color_vg
        return f"{category}_{'_'.join(aspect.split('_')[:parts])}_"


def _iter_corpora() -> Iterator[Corpus]:
    for attribute in ATTRIBUTES:
        for source in ("vg", "vaw"):
            path = f"Attribute/{source}/{attribute}.json"
            yield Corpus(path, "vg", f"attribute_{attribute}", f"Attribute_{attribute}_{source}")
    for category, values in OBJECT_ASPECTS.items():
        for value in values:
            files = {"hake": "hake/hake_obj"}
            files |= {f"vg_{role}": f"vg/vg_{role}" for role in ("obj", "subj")}
            files |= {f"swig_{role}": f"swig/swig_{role}/swig_{role}" for role in ROLES}
            for name, path in files.items():
                source, _, rest = path.partition("/")
                file = f"Object/{category}/{source}_{category.lower()}/{rest}_{value}.json"
                yield Corpus(file, source, f"object_{value}", f"Object_{category}_{value}_{name}")
    yield Corpus("Relation/vg/action.json", "vg", "relation_action", "Relation_action_vg")
    yield Corpus("Relation/swig_action.json", "swig", "relation_action", "Relation_action_swig")
    yield Corpus("Relation/hake_action.json", "hake", "relation_action", "Relation_action_hake")
    yield Corpus("Relation/vg/spatial.json", "vg", "relation_spatial", "Relation_spatial_vg")


CORPORA = {corpus.path: corpus for corpus in _iter_corpora()}


def _build_means() -> dict[str, list[str]]:
    """Return the means of each aspect's sources over their files, and of the aspects over their sources."""
    sources: dict[str, list[str]] = {}
    aspects: dict[str, list[str]] = {}
    for corpus in CORPORA.values():
        source = corpus.name.removeprefix(corpus.prefix).partition("_")[0]
        name = f"mean/{corpus.aspect}/{source}"
        sources.setdefault(name, []).append(corpus.name)
        if name not in aspects.setdefault(f"mean/{corpus.aspect}", []):
            aspects[f"mean/{corpus.aspect}"].append(name)
    return sources | aspects


def read_vl_checklist(data: Path, images: Path) -> Comparisons:
    """Return the task of the files in ``data``, which may be fewer than all.

    Raises:
        DataError: no file exists, or one is broken.
    """
    rows: list[dict[str, object]] = []
    image_indices: dict[str, int] = {}
    for path in find_release_files(data, CORPORA, LAYOUT):
        corpus = CORPORA[path.relative_to(data).as_posix()]
        for number, (where, row) in enumerate(read_json_rows(path)[:ROWS]):
            name, positive, negative = _parse_row(row, where)
            image = f"{corpus.images}/{name}"
            rows.append(
                {
                    "instance_id": f"{corpus.name}-{number}",
                    "image_id": image,
                    "subsets": [corpus.aspect.partition("_")[0], corpus.aspect, corpus.name],
                    "image": image_indices.setdefault(image, len(image_indices)),
                    "caption": positive,
                    "negative_caption": negative,
                }
            )
    if not rows:
        raise DataError(f"{str(data)!r} has no rows: its files are empty. Expected layout:\n{LAYOUT}")
    return build_comparisons(rows, [ImageFile(str(_locate_image(images, name))) for name in image_indices])


def _locate_image(images: Path, name: str) -> Path:
    """Return the path of an image. Visual Genome's may be where other benchmarks have them."""
    shared = images / name.removeprefix("vg/")
    return shared if shared.is_file() and not (images / name).is_file() else images / name


def _parse_row(row: Any, where: str) -> tuple[str, str, str]:
    """Return image, true phrase and false phrase of ``[image, {"POS": [...], "NEG": [...]}]``."""
    if not isinstance(row, list) or len(row) != 2 or not isinstance(row[1], dict):
        raise DataError(f'{where} must be [image, {{"POS": [...], "NEG": [...]}}], not {format_value(row)}.')
    phrases = []
    for field in ("POS", "NEG"):
        texts = row[1].get(field)
        if not isinstance(texts, list) or not texts:
            raise DataError(f"{where}: field {field!r} must be a list of phrases, not {format_value(texts)}.")
        phrases.append(read_text_field({field: texts[0]}, field, where))
    return read_name_field({"image": row[0]}, "image", where), phrases[0], phrases[1]


BENCHMARK = Benchmark(
    name="vl_checklist",
    layout=LAYOUT,
    reader=read_vl_checklist,
    metrics=("accuracy",),
    confirmed="om-ai-lab/VL-CheckList: vl_checklist/data_loader.py, vl_checklist/evaluate.py (task itc), "
    "vl_checklist/corpus.json, corpus/v1, DATASETS.md, and the first rows of eight of the 56 files in data: "
    "Attribute/vg/size.json and state.json, Attribute/vaw/action.json, Relation/swig_action.json and vg/spatial.json, "
    "Object/Location/hake_location/hake_obj_margin.json and vg_location/vg_obj_margin.json, "
    "Object/Size/swig_size/swig_tool/swig_tool_small.json; "
    "configs (rows of a file) and radar.py (means)",
    means=_build_means(),
)
