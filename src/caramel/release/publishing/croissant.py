"""Write ``croissant.json``: the release in Croissant 1.1 (mlcommons.org/croissant) with responsible-AI fields.

Of what 1.1 adds it has provenance (PROV-O, ``provenance``) and conditions of use (ODRL, ``conditions``). Both are
properties of other vocabularies, so a reader of 1.0 reads the same file.

Every file of data, metrics and changes (``_FORMATS``) is listed with its SHA-256; pages and citations are
not. Each table is a record set. Its fields are the table's columns with their meaning, and readers decode its
images. ``splits`` names the splits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from caramel.io.files import compute_file_hash
from caramel.release.publishing.card import ReleaseFacts
from caramel.release.publishing.conditions import CC, ODRL, build_usage_info
from caramel.release.publishing.escaping import strip_markdown
from caramel.release.publishing.image_parquet import IMAGE_COLUMNS
from caramel.release.publishing.licences import LICENCES
from caramel.release.publishing.metadata import Source
from caramel.release.publishing.provenance import PROV, build_provenance
from caramel.schemas.contracts import BOOL, FLOAT, INT, TEXTS, Table
from caramel.schemas.evaluation import METRICS

FILE = "croissant.json"
_TYPES = {INT: "sc:Integer", FLOAT: "sc:Float", BOOL: "sc:Boolean"}
_FORMATS = {
    ".parquet": "application/x-parquet",
    ".tar": "application/x-tar",
    ".json": "application/json",
    ".jsonl": "application/jsonlines",
}
_RAI = {  # responsible-AI field -> numbers of the datasheet questions that answer it
    "dataCollection": (22,),
    "dataCollectionMissingData": (10,),
    "dataCollectionRawData": (36,),
    "dataPreprocessingProtocol": (35,),
    "dataManipulationProtocol": (23,),
    "dataAnnotationProtocol": (25,),
    "dataBiases": (13,),
    "dataUseCases": (1, 41),
    "dataLimitations": (42, 43),
    "dataSocialImpact": (16,),
    "personalSensitiveInformation": (17, 20),
    "dataReleaseMaintenancePlan": (55, 57),
}
_MANY = {  # fields that may hold several values
    "dataPreprocessingProtocol",
    "dataAnnotationProtocol",
    "dataBiases",
    "dataUseCases",
    "dataLimitations",
    "personalSensitiveInformation",
}
_TERMS = {
    name: f"cr:{name}"
    for name in (
        "arrayShape", "column", "containedIn", "equivalentProperty", "extract", "field", "fileProperty", "fileObject", "fileSet", "format", "includes", "isArray", "isLiveDataset",
        "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex", "repeated", "replace",
        "samplingRate", "separator", "source", "subField", "transform",
    )
}  # fmt: skip
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "cc": CC,
    "dct": "http://purl.org/dc/terms/",
    "odrl": ODRL,
    "prov": PROV,
    "sc": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    **_TERMS,
}


def write_croissant(
    facts: ReleaseFacts, answers: Mapping[int, str], citation: str, root: Path, folder: Path
) -> None:
    """Write ``croissant.json`` for the files that are in the folder so far.

    ``root`` is the folder of the project; its ``dvc.lock`` gives the provenance.
    """
    description = build_description(facts, answers, citation, folder) | _build_origin(facts, root)
    text = json.dumps(description, indent=1, ensure_ascii=False)
    (folder / FILE).write_text(text.replace("<", "\\u003c") + "\n", encoding="utf-8")


def build_description(
    facts: ReleaseFacts, answers: Mapping[int, str], citation: str, folder: Path
) -> dict[str, Any]:
    """Return the Croissant description.

    Args:
        facts: about the release.
        answers: number of a datasheet question -> answer.
        citation: BibTeX.
        folder: with the files to list.
    """
    about, pinned = facts.about, facts.pinned
    licence = LICENCES.get(about.licence or "")
    splits = list(dict.fromkeys(split for part in facts.parts for split in part.splits))
    sets = [_build_record_set(part.name, part.table, f"data/{part.name}/*.parquet") for part in facts.parts]
    if (folder / "tables" / "metrics.parquet").is_file():
        sets.append(_build_record_set("metrics", METRICS, "tables/metrics.parquet"))
    known: dict[str, Any] = {
        "creator": [
            {
                "@type": "sc:Person",
                "name": author.name,
                **({"sameAs": f"https://orcid.org/{author.orcid}"} if author.orcid else {}),
            }
            for author in about.authors
        ],
        "license": licence.url if licence else None,
        "usageInfo": build_usage_info(licence) if licence else None,
        "url": about.url or (f"https://doi.org/{about.doi}" if about.doi else None),
        "keywords": ["compositionality", "hard negatives", *about.keywords],
    }
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": [f"http://mlcommons.org/croissant/{version}" for version in ("1.1", "1.0", "RAI/1.0")],
        "name": facts.title,
        "description": facts.description,
        **{name: value for name, value in known.items() if value},
        "citeAs": citation,
        "version": format_version(pinned.name, pinned.data),
        "datePublished": pinned.created,
        "inLanguage": list(about.languages),
        **_build_rai_fields(answers),
        "distribution": [*_build_file_objects(folder), *(one for _, one in sets)],
        "recordSet": [_build_split_records(splits), *(of for of, _ in sets)],
    }


def _build_origin(facts: ReleaseFacts, root: Path) -> dict[str, Any]:
    """Return the provenance by ``dvc.lock``, with the addresses of the sources that the authors stated."""
    released = "data/refine" if facts.captions_alone else "data/assemble"
    provenance = build_provenance(facts.pinned, [released], root)
    stated = [(name, facts.about.sources.get(name, Source()).url) for name in facts.sources]
    derived = [
        *({"@type": "prov:Entity", "@id": url, "prov:label": name} for name, url in stated if url),
        *provenance.pop("prov:wasDerivedFrom", ()),
    ]
    return provenance | ({"prov:wasDerivedFrom": derived} if derived else {})


def format_version(name: str, data: str) -> str:
    """Return the semantic version for Croissant with the data's hash: ``v1.2`` is 1.2.0, other names are 0.0.0."""
    numbers = re.fullmatch(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?", name)
    plain = ".".join(str(int(number or 0)) for number in numbers.groups()) if numbers else "0.0.0"
    return f"{plain}+{data[:12]}"


def _build_rai_fields(answers: Mapping[int, str]) -> dict[str, Any]:
    """Return the responsible-AI fields that the datasheet answers."""
    fields: dict[str, Any] = {}
    for name, numbers in _RAI.items():
        texts = [strip_markdown(answers[number]) for number in numbers if number in answers]
        if texts:
            fields[f"rai:{name}"] = texts if name in _MANY else " ".join(texts)
    return fields


def _build_file_objects(folder: Path) -> list[dict[str, Any]]:
    """Return the data files of the folder with their hashes."""
    names = sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.suffix in _FORMATS
    )
    return [
        {
            "@type": "cr:FileObject",
            "@id": f"file/{name}",
            "name": name,
            "contentUrl": name,
            "contentSize": f"{(folder / name).stat().st_size} B",
            "encodingFormat": _FORMATS[Path(name).suffix],
            "sha256": compute_file_hash(folder / name),
        }
        for name in names
    ]


def _build_split_records(splits: list[str]) -> dict[str, Any]:
    uses = {"train": "cr:TrainingSplit", "val": "cr:ValidationSplit", "test": "cr:TestSplit"}
    field = {"@type": "cr:Field", "@id": "splits/name", "name": "name", "dataType": "sc:Text"}
    use = {"@type": "cr:Field", "@id": "splits/use", "name": "use", "dataType": "sc:URL"}
    return {
        "@type": "cr:RecordSet",
        "@id": "splits",
        "name": "splits",
        "dataType": "cr:Split",
        "key": {"@id": "splits/name"},
        "field": [field, use],
        "data": [{"splits/name": split, "splits/use": uses[split]} for split in splits],
    }


def _build_record_set(name: str, table: Table, pattern: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the record set of a table and the file set that holds it."""
    files = {"@type": "cr:FileSet", "@id": f"files-{name}", "name": f"files-{name}", "includes": pattern}
    fields = []
    for column, about in table.columns.items():
        fields.append(_build_field(name, column, about.doc, about.type))
        if name != "metrics":
            fields += [
                _build_image_field(name, s.column, s.by, about.type) for s in IMAGE_COLUMNS if s.by == column
            ]
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "key": [{"@id": f"{name}/{column}"} for column in table.key],
        "field": fields,
    }, {**files, "encodingFormat": _FORMATS[".parquet"]}


def _build_field(table: str, column: str, doc: str, data_type: pa.DataType) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": f"{table}/{column}",
        "name": column,
        "description": doc,
        "dataType": _TYPES.get(data_type, "sc:Text"),
        **({"repeated": True} if data_type == TEXTS else {}),
        "source": {"fileSet": {"@id": f"files-{table}"}, "extract": {"column": column}},
    }


def _build_image_field(table: str, column: str, by: str, data_type: pa.DataType) -> dict[str, Any]:
    field = _build_field(table, column, f"the image that {by} names", data_type)
    field["source"]["transform"] = {"jsonPath": "bytes"}
    return {**field, "dataType": "sc:ImageObject"}
