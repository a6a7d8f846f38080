"""What every table is: columns, types, key and meaning; reading and writing Parquet.

Expectations, documentation and tests derive from the contracts below. A table on disk is
one Parquet file written with fixed settings, so that equal rows give equal bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from caramel.errors import ContractError, DataError
from caramel.io.files import write_atomically
from caramel.io.readers import parquet
from caramel.schemas.contracts import BOOL as BOOL
from caramel.schemas.contracts import COUNT, FROM_ONE, UNIT, cast, check_key, check_values
from caramel.schemas.contracts import FLOAT as FLOAT
from caramel.schemas.contracts import INT as INT
from caramel.schemas.contracts import TEXT as TEXT
from caramel.schemas.contracts import TEXTS as TEXTS
from caramel.schemas.contracts import Column as Column
from caramel.schemas.contracts import Table as Table
from caramel.schemas.contracts import check as check

GROUP = 65536  # rows of a row group
LAYOUT = ("shard", "offset", "length")  # of ``IMAGES``: where a picture lies, and not what it is
AGAIN = "If a stage wrote this table, remove the file and run `dvc repro`."

SPLITS = ("train", "val", "test")
TYPES = ("replace", "swap", "add", "only")
SUBTYPES = (
    "replace_obj",
    "replace_att",
    "replace_rel",
    "swap_obj",
    "swap_att",
    "add_obj",
    "add_att",
    "only_obj",  # of the embedded world: what *add* is meant to test, in as many words
)
COMPOUNDS = ("seen", "unseen")  # CREPE 3.2
OUTCOMES = ("right", "wrong", "none", "unparseable", "failed")  # of a prompted choice

_SPLIT = Column(TEXT, "part of the data; an image is in exactly one", choices=SPLITS)
_SUBTYPE = Column(TEXT, "SugarCrepe subtype", choices=SUBTYPES)
_TYPE = Column(TEXT, "SugarCrepe type", choices=TYPES)
_COMPOUNDS = Column(
    TEXT,
    "whether each compound of both captions is in a picture of train, where that is known",
    null=True,
    choices=COMPOUNDS,
)
_DRAWN = Column(TEXT, "the positive, drawn by the same process as the image, where it is", null=True)
_TEXTS_HASH = Column(
    TEXT,
    "hash of its texts: captions, query or candidates; instances with other hashes are not the same, whatever their names; "
    "null where the texts are not known",
    null=True,
)
_IMAGES_HASH = Column(
    TEXT, "hash of the content of its images; null where none was looked at, or it is not known", null=True
)
_S = "similarity of the model, any finite number: "

IMAGES = Table(
    "images",
    ("image_id",),
    {
        "image_id": Column(TEXT, "name of the image"),
        "shard": Column(TEXT, "Parquet file that it is in, relative to the folder of this table"),
        "offset": Column(INT, "byte of the shard at which its encoded file begins", range=COUNT),
        "length": Column(INT, "bytes of its encoded file", range=COUNT),
        "sha256": Column(TEXT, "SHA-256 of its encoded file, in hexadecimal digits"),
        "width": Column(INT, "pixels", range=FROM_ONE),
        "height": Column(INT, "pixels", range=FROM_ONE),
        "source": Column(TEXT, "where the image comes from"),
        "split": _SPLIT,
    },
)
PAIRS = Table(
    "pairs",
    ("pair_id",),
    {
        "pair_id": Column(TEXT, "name of the pair"),
        "image_id": Column(TEXT, "image that the caption truly describes (file name if not at hand)"),
        "caption": Column(TEXT, "the positive, P1"),
        "scene": Column(TEXT, "exact scene graph as JSON, where it is known", null=True),
        "split": _SPLIT,
        "source": Column(TEXT, "where the pair comes from"),
    },
)
NEGATIVES = Table(
    "negatives",
    ("negative_id",),
    {
        "negative_id": Column(TEXT, "pair_id:subtype"),
        "pair_id": Column(TEXT, "pair that it is a negative of"),
        "type": _TYPE,
        "subtype": _SUBTYPE,
        "negative_caption": Column(TEXT, "the hard negative, N: false of the pair's image"),
        "generator": Column(TEXT, "backend that wrote it"),
        "seed": Column(INT, "seed of the draw"),
        "attempt": Column(INT, "draws needed, from 1", range=FROM_ONE),
        "compounds": _COMPOUNDS,
    },
)
PARAPHRASES = Table(
    "paraphrases",
    ("pair_id",),
    {
        "pair_id": Column(TEXT, "pair that it paraphrases"),
        "caption2": Column(TEXT, "a second true caption, P2"),
        "generator": Column(TEXT, "backend that wrote it"),
        "attempts": Column(INT, "draws needed, from 1", range=FROM_ONE),
    },
)
REJECTS = Table(
    "rejects",
    ("id", "stage"),
    {
        "id": Column(TEXT, "row that was dropped, named as in its own table"),
        "stage": Column(TEXT, "stage that dropped it"),
        "reason": Column(TEXT, "why, from a small set of reasons per stage"),
        "text": Column(TEXT, "the text in question", null=True),
    },
)
SCORES = Table(
    "scores",
    ("negative_id", "scorer"),
    {
        "negative_id": Column(TEXT, "negative that is scored against its positive"),
        "scorer": Column(TEXT, "blind scorer"),
        "positive_score": Column(FLOAT, "score of the positive, in [0, 1]", range=UNIT),
        "negative_score": Column(FLOAT, "score of the negative, in [0, 1]", range=UNIT),
    },
)
CANDIDATES = Table(
    "candidates",
    ("negative_id", "candidate"),
    {
        "negative_id": Column(TEXT, "negative whose caption was drawn"),
        "candidate": Column(INT, "number of the candidate, from 0", range=COUNT),
        "image_id": Column(TEXT, "its image in the candidates' images table"),
        "seed": Column(INT, "seed of the picture"),
        "generator": Column(TEXT, "pipeline and settings"),
        "prompt": Column(TEXT, "caption that was drawn"),
        "positive_image_id": _DRAWN,
        "scene": Column(TEXT, "exact scene graph that was drawn, as JSON, where one was planned", null=True),
    },
)
CHOICES = Table(
    "choices",
    ("negative_id", "candidate"),
    {
        "negative_id": Column(TEXT, "negative whose caption was drawn"),
        "candidate": Column(INT, "number of the candidate, from 0", range=COUNT),
        "image_id": Column(TEXT, "its image in the candidates' images table"),
        "faithful": Column(FLOAT, "deciding judge: fit to the negative caption, in [0, 1]", range=UNIT),
        "ambiguous": Column(BOOL, "the positive caption is true of this image as well"),
        "judge_negative": Column(FLOAT, "second judge: score of the negative caption", null=True),
        "judge_positive": Column(FLOAT, "second judge: score of the positive caption", null=True),
        "positive_image_id": _DRAWN,
        "chosen_by": Column(TEXT, "judge that chose it; null where it was not chosen", null=True),
    },
)
INSTANCES = Table(
    "instances",
    ("instance_id",),
    {
        "instance_id": Column(TEXT, "the negative_id"),
        "image_id": Column(TEXT, "positive image, I0"),
        "caption": Column(TEXT, "positive caption, C0"),
        "caption2": Column(TEXT, "paraphrase, P2", null=True),
        "negative_caption": Column(TEXT, "hard negative, C1"),
        "negative_image_id": Column(TEXT, "image of which C1 is true, I1", null=True),
        "type": _TYPE,
        "subtype": _SUBTYPE,
        "split": _SPLIT,
        "compounds": _COMPOUNDS,
    },
)
TRAINING = Table(
    "training",
    ("pair_id",),
    {
        "pair_id": Column(TEXT, "pair that is trained on"),
        "image_id": Column(TEXT, "positive image"),
        "caption": Column(TEXT, "positive caption"),
        "caption2": Column(TEXT, "paraphrase, a second true caption", null=True),
        # Place by place, as many as there are; those with an image come first.
        "negative_captions": Column(TEXTS, "hard negatives, each false of the image"),
        "negative_image_ids": Column(TEXTS, "image of which each is true, where there is one", null=True),
        "subtypes": Column(TEXTS, "subtype of each", choices=SUBTYPES),
        "split": _SPLIT,
    },
)
SIMILARITIES = Table(
    "similarities",
    ("instance_id", "model", "benchmark"),
    {
        "instance_id": Column(TEXT, "instance"),
        "model": Column(TEXT, "model that scored it"),
        "benchmark": Column(TEXT, "benchmark that it belongs to"),
        "image_id": Column(TEXT, "its (positive) image: the cluster of the intervals"),
        "subsets": Column(TEXTS, "subsets that it belongs to, beside `all`"),
        "texts_hash": _TEXTS_HASH,
        "images_hash": _IMAGES_HASH,
        # Instances of one or two images and two or three captions.
        "s_c0_i0": Column(FLOAT, _S + "positive caption, positive image", null=True),
        "s_c1_i0": Column(FLOAT, _S + "negative caption, positive image", null=True),
        "s_c2_i0": Column(FLOAT, _S + "paraphrase, positive image", null=True),
        "s_c0_i1": Column(FLOAT, _S + "positive caption, negative image", null=True),
        "s_c1_i1": Column(FLOAT, _S + "negative caption, negative image", null=True),
        "t_p1_p2": Column(FLOAT, "cosine of text embeddings P1, P2", null=True),
        "t_p1_n": Column(FLOAT, "cosine of text embeddings P1, N", null=True),
        "t_p2_n": Column(FLOAT, "cosine of text embeddings P2, N", null=True),
        # Instances that rank candidates for one query.
        "s_true": Column(FLOAT, _S + "best true candidate of the query", null=True),
        "s_other": Column(FLOAT, _S + "best false candidate of the query", null=True),
        "above": Column(INT, "false candidates that score above the best true one", null=True, range=COUNT),
        "equal": Column(INT, "false candidates that score as the best true one", null=True, range=COUNT),
        "candidates": Column(INT, "candidates of the query, true and false", null=True, range=COUNT),
        "scored_by": Column(
            TEXT, "rule of the model's scores: cosine, itm, vqascore …; null where it is not known", null=True
        ),
    },
)
ANSWERS = Table(
    "answers",
    ("instance_id", "model", "benchmark", "image", "ways", "order", "wording"),
    {
        "instance_id": Column(TEXT, "instance"),
        "model": Column(TEXT, "model that answered"),
        "benchmark": Column(TEXT, "benchmark that it belongs to"),
        "image_id": Column(TEXT, "its (positive) image: the cluster of the intervals"),
        "subsets": Column(TEXTS, "subsets that it belongs to, beside `all`"),
        "texts_hash": _TEXTS_HASH,
        "images_hash": _IMAGES_HASH,
        "image": Column(TEXT, "which of its images was shown", choices=("positive", "negative")),
        "ways": Column(INT, "options that it chose from, `none` included", range=FROM_ONE),
        "order": Column(
            TEXT, "the options in their order: P true of the image shown, N false, 0 none of them"
        ),
        "wording": Column(TEXT, "name of the question's wording"),
        "outcome": Column(TEXT, "what the reply means", choices=OUTCOMES),
        "reply": Column(TEXT, "the reply as it came; null where none came", null=True),
        "finish": Column(
            TEXT,
            "why it ended, in the server's word: stop, length … (it was cut, and counts as unparseable); null "
            "where no reply came, or nothing says",
            null=True,
        ),
    },
)
REPLIES = Table(
    "replies",
    ("model", "prompt", "parameters", "input", "attempt"),
    {
        "reply_id": Column(TEXT, "hash of the key, in hexadecimal digits"),
        "model": Column(TEXT, "what determines its replies, as JSON"),
        "prompt": Column(TEXT, "name of the prompt and hash of its words, NAME@HASH"),
        "parameters": Column(TEXT, "temperature, seed and bounds of the request, as JSON"),
        "input": Column(TEXT, "what the prompt was asked of, and answers that did not do before, as JSON"),
        "attempt": Column(INT, "at the same text, from 1", range=FROM_ONE),
        "text": Column(TEXT, "the reply as it came; null where none came", null=True),
        "finish": Column(TEXT, "why it ended, in the server's word: stop, length …; failed where none came"),
        "tokens_in": Column(
            INT, "tokens that the model read; null where nobody counted", null=True, range=COUNT
        ),
        "tokens_out": Column(INT, "tokens that it wrote; null where nobody counted", null=True, range=COUNT),
        "seconds": Column(FLOAT, "from the request to the reply; nothing depends on them", range=(0.0, 1e9)),
    },
)
_V = "verdict; null where it was not asked or cannot be told: "
VERDICTS = Table(
    "verdicts",
    ("id", "attempt"),
    {
        "id": Column(TEXT, "negative_id, or pair_id:paraphrase"),
        "attempt": Column(INT, "at this text, from 1", range=FROM_ONE),
        "text": Column(TEXT, "what the model wrote"),
        "statement": Column(BOOL, _V + "it is no question", null=True),
        "finished": Column(BOOL, _V + "it does not break off", null=True),
        "plain": Column(BOOL, _V + "it is one sentence and no more than was asked for", null=True),
        "new": Column(
            BOOL, _V + "it is not its caption again, nearly or in all but case and spaces", null=True
        ),
        "one_change": Column(BOOL, _V + "a negative differs from its caption by one change", null=True),
        "place": Column(BOOL, _V + "the change is where it was asked for", null=True),
        "subtype": Column(BOOL, _V + "what changed is a word of the asked kind", null=True),
        "unsaid": Column(BOOL, _V + "no caption of the image says what a negative says anew", null=True),
        "overlap": Column(BOOL, _V + "a paraphrase shares enough words with its caption", null=True),
        "grammar": Column(BOOL, _V + "a model of grammar takes it for a sound sentence", null=True),
        "entailment": Column(
            BOOL,
            _V
            + "an entailment model: a paraphrase and its caption follow from each other, a negative does not follow",
            null=True,
        ),
        "meaning": Column(
            BOOL, _V + "the validator: a paraphrase says the same, a negative may be false", null=True
        ),
        "reason": Column(TEXT, "why it did not do; null of what was kept", null=True),
    },
)
METRICS = Table(
    "metrics",
    ("model", "benchmark", "subset", "metric"),
    {
        "model": Column(TEXT, "model that was scored"),
        "benchmark": Column(TEXT, "benchmark"),
        "subset": Column(TEXT, "`all` (micro), `macro`, or a type, a subtype, a split, a complexity …"),
        "metric": Column(TEXT, "metric, in lower case"),
        "value": Column(FLOAT, "fraction of instances that are hits, in [0, 1]", null=True, range=UNIT),
        "ci_low": Column(FLOAT, "lower end of the 95 % interval", null=True),
        "ci_high": Column(FLOAT, "upper end of the 95 % interval", null=True),
        "n": Column(INT, "instances that were scored", range=COUNT),
        "ties": Column(INT, "instances with a tie (they count as misses)", range=COUNT),
        "unscored": Column(
            INT, "instances that lack a score, or have NaN: neither right nor wrong", range=COUNT
        ),
    },
)
STUDY = Table(
    "study",
    ("variant", "finetune", "scenes", "generator", "base", "subset", "metric"),
    {
        "variant": Column(TEXT, "training method, or `base`"),
        "finetune": Column(TEXT, "its seed of fine-tuning; empty of the base"),
        "scenes": Column(INT, "draw of the scenes, from 0", range=COUNT),
        "generator": Column(INT, "generator of that draw, from 0", range=COUNT),
        "base": Column(INT, "base of that draw, from 0", range=COUNT),
        "subset": Column(TEXT, "as in `metrics`"),
        "metric": Column(TEXT, "metric, in lower case"),
        "value": Column(FLOAT, "fraction of instances that are hits, in [0, 1]", null=True, range=UNIT),
        "n": Column(INT, "instances that were scored", range=COUNT),
    },
)

TABLES: Mapping[str, Table] = {
    t.name: t
    for t in (
        IMAGES,
        PAIRS,
        NEGATIVES,
        PARAPHRASES,
        REJECTS,
        SCORES,
        CANDIDATES,
        CHOICES,
        INSTANCES,
        TRAINING,
        SIMILARITIES,
        ANSWERS,
        REPLIES,
        VERDICTS,
        METRICS,
        STUDY,
    )
}


def frame(table: Table, rows: Sequence[Mapping[str, object]] | pd.DataFrame) -> pd.DataFrame:
    """Return the rows as a frame with the contract's columns, in its order."""
    return pd.DataFrame(rows, columns=list(table.columns))


def write(table: Table, rows: pd.DataFrame, path: str | Path) -> Path:
    """Write the rows to one Parquet file, by a temporary name that is then renamed.

    Equal rows give equal bytes: the order is the caller's and no metadata is kept.
    """
    path = Path(path)
    arrow = check(table, rows, str(path))
    write_atomically(path, lambda new: pq.write_table(arrow, new, compression="zstd", row_group_size=GROUP))
    return path


def write_parts(table: Table, parts: Iterable[pd.DataFrame], path: str | Path, *, by: str) -> Path:
    """Write rows that come in parts to one Parquet file, with the bytes that ``write`` gives all of them.

    Of a part only the last rows are in memory when the next one is asked for.

    Args:
        by: column of the key. No two parts have a value of it in common, so that a key stands in one of them.

    Raises:
        ContractError: a part breaks the contract, or two have a value in common.
    """
    path, seen = Path(path), set[object]()

    def put(new: Path) -> None:
        rest = table.schema.empty_table()
        with pq.ParquetWriter(new, table.schema, compression="zstd") as file:
            for part in parts:
                arrow = check(table, part, str(path))
                values = set(arrow.column(by).unique().to_pylist())
                if again := sorted(map(str, seen & values)):
                    raise ContractError(f"Table {table.name!r} at {path}: two parts hold {by} {again[0]!r}.")
                seen.update(values)
                rest = pa.concat_tables([rest, arrow])
                whole = len(rest) // GROUP * GROUP
                if whole:
                    file.write_table(rest.slice(0, whole), row_group_size=GROUP)
                rest = rest.take(pa.array(range(whole, len(rest)), pa.int64()))  # a slice would keep all
            if len(rest) or not seen:
                file.write_table(rest, row_group_size=GROUP)

    write_atomically(path, put)
    return path


def read(
    table: Table,
    path: str | Path,
    columns: Sequence[str] | None = None,
    only: tuple[str, Collection[str]] | None = None,
) -> pd.DataFrame:
    """Return the table at ``path``, or only some of its columns and rows, which are then all that is checked.

    Args:
        only: a column, and the values of it that rows are wanted with; others are not held in memory.

    Raises:
        DataError: there is no such file, or it is not Parquet.
        ContractError: it does not keep the contract; see ``check``.
    """
    path, wanted = Path(path), list(columns or table.columns)
    if not path.exists():
        raise DataError(f"Table {table.name!r} is missing: {str(path)!r}. Run `dvc repro` to make it.")
    try:
        with parquet(path) as file:
            names = file.schema_arrow.names
            if names != list(table.columns):
                raise ContractError(
                    f"Table {table.name!r} at {str(path)!r} has columns {names}; "
                    f"the contract says {list(table.columns)}."
                )
            arrow = _read(file, wanted) if only is None else _read_only(table, file, wanted, *only, str(path))
        arrow = pa.table({name: cast(table, name, arrow.column(name), str(path)) for name in wanted})
        check_values(table, arrow, str(path))
        rows: pd.DataFrame = arrow.to_pandas()
        if set(table.key) <= set(wanted):
            check_key(table, rows, str(path))
        pa.default_memory_pool().release_unused()  # of a large table hundreds of megabytes, else kept to be used again
    except DataError as error:
        raise type(error)(f"{error}\n{AGAIN}") from error
    return rows


def _read(file: pq.ParquetFile, columns: Sequence[str]) -> pa.Table:
    """Return the columns of an open file; a text that is none is an error of Arrow's."""
    arrow = file.read(columns=columns)
    arrow.validate(full=True)
    return arrow


def _read_only(
    table: Table, file: pq.ParquetFile, columns: Sequence[str], by: str, values: Collection[str], where: str
) -> pa.Table:
    """Return the columns of those rows of an open file that have one of the values; one row group is in memory at a time."""
    wanted, parts = pa.array(sorted(values), TEXT), [file.schema_arrow.empty_table().select(columns)]
    for number in range(file.num_row_groups):
        group = file.read_row_group(number, columns=list({*columns, by}))
        group.validate(full=True)
        has = pc.is_in(cast(table, by, group.column(by), where), value_set=wanted)
        parts.append(group.filter(has).select(columns))
    return pa.concat_tables(parts)


def content_hash(path: str | Path) -> str:
    """Return the SHA-256 of a table's rows, whatever their order on disk and their encoding.

    Each row is hashed as canonical text, some of them at a time; the sorted row hashes are hashed together. Of an
    image counts its own SHA-256, and not in which shard it lies.

    Raises:
        DataError: it is no Parquet file.
    """
    digests = []
    with parquet(Path(path)) as file:
        names = file.schema_arrow.names
        counted = [name for name in names if names != list(IMAGES.columns) or name not in LAYOUT]
        for batch in file.iter_batches(columns=counted):
            batch.validate(full=True)
            digests += [hashlib.sha256(repr(row).encode()).digest() for row in batch.to_pylist()]
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()
