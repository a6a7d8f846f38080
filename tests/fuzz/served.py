"""Small valid inputs of stages, checkpoints, and the replies of a server."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chat_server
import corpus
import pandas as pd
import small_transformers
import synthetic
import tiny_clips
from corpus import ROWS, caption, images, negative, put
from projects import HERE, params_file, write

from caramel.schemas.io import build_frame
from caramel.schemas.pairs import PAIRS

ASSEMBLED = ("data/refine/*.parquet", "data/filter_images/*.parquet", "data/scenes/images.parquet")


def _captions(file: str) -> Callable[[], None]:
    def made() -> None:
        put(file, [{"filename": f"{n % 4}.jpg", "caption": caption(n)} for n in range(ROWS)], Path("own"))
        images([f"{n}.jpg" for n in range(4)], Path("own"))

    return made


def _coco() -> None:
    entries = [{"id": n, "file_name": f"{n}.jpg"} for n in range(4)]
    notes = [{"image_id": n % 4, "caption": caption(n)} for n in range(ROWS)]
    put("captions.json", {"images": entries, "annotations": notes}, Path("own"))
    images([f"images/{n}.jpg" for n in range(4)], Path("own"))


def _sugarcrepe() -> None:
    corpus.sugarcrepe()
    Path("data").rename("own")


def _sugarcrepe_pp() -> None:
    corpus.sugarcrepe_pp()
    Path("data").rename("own")


def _text() -> None:
    Path("own").mkdir()
    Path("own/captions.txt").write_text("\n".join(map(caption, range(ROWS))), encoding="utf-8")


def _karpathy() -> None:
    splits = ("train", "restval", "val", "test")
    entries = [
        {"filename": f"{n}.jpg", "split": splits[n % 4], "sentences": [{"raw": caption(n)}]}
        for n in range(ROWS)
    ]
    put("dataset_coco.json", {"images": entries}, Path("own"))


CAPTIONS_ALONE = {"captions.txt": _text, "dataset_coco.json": _karpathy}

SOURCES = {
    "captions.csv": _captions("captions.csv"),
    "captions.jsonl": _captions("captions.jsonl"),
    "captions.json": _coco,
    "sugarcrepe": _sugarcrepe,
    "sugarcrepe_pp": _sugarcrepe_pp,
}


def own(source: Callable[[], None], name: str = "files") -> Callable[[], None]:
    """A project whose source is the folder ``own``."""

    def made() -> None:
        source()
        params_file(
            scenes={"source": name, "data_dir": "own"},
            negatives={"backend": "lexicon"},
            synthesize={"method": "draw"},
            assemble={"positives": "source"},
            evaluate={"zero_shot": ""},
        )

    return made


def stage_negatives() -> None:
    """Pairs of a folder, and the folder."""
    _sugarcrepe_pp()
    params_file(scenes={"source": "files", "data_dir": "own"}, negatives={"backend": "given"})
    rows = [json.loads(Path(f"own/{name}.json").read_text()) for name in ("replace_obj", "swap_att")]
    named = [("replace_obj", row) for row in rows[0]] + [("swap_att", row) for row in rows[1]]
    common = {"scene": None, "split": "train", "source": "sugarcrepe_pp"}
    pairs = [
        {"pair_id": f"{name}-{row['id']}", "image_id": row["filename"], "caption": row["caption"], **common}
        for name, row in named
    ]
    write(PAIRS, pairs, "data/scenes/pairs.parquet")


def replies() -> None:
    """Captions, params that ask a language model for more, and its replies, kept and published, that answer all of it."""
    from obliging_writer import MODEL, obliging
    from obliging_writer import write as asked

    common = {"scene": None, "split": "test", "source": "files"}
    rows = [{"pair_id": f"p{n}", "image_id": f"i{n}", "caption": caption(n), **common} for n in range(2)]
    write(PAIRS, rows, "data/scenes/pairs.parquet")
    for name in ("replies", "prompts"):
        Path("inputs", name).mkdir(parents=True)
    server = chat_server.ChatServer(obliging)
    try:
        pairs = build_frame(PAIRS, rows)
        out = asked(server.url, Path("work/replies"), pairs, max_attempts=1)
    finally:
        server.close()
    shutil.copy(out / "replies.parquet", "inputs/replies")
    Path("work/replies/r.sqlite").rename("work/replies/replies.sqlite")
    shutil.rmtree(out)
    model = {**MODEL, "target": "chat:m@http://127.0.0.1:9/v1", "name": "m"}
    params_file(negatives={"backend": "language_model", "max_attempts": 2, "language_model": model})


def batch_answers() -> None:
    """The same, and the replies as answers of a batch."""
    replies()
    rows = pd.read_parquet("inputs/replies/replies.parquet", columns=["reply_id", "text"])
    with Path("answers.jsonl").open("w") as file:
        for name, text in rows.itertuples(index=False):
            body = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
            row = {"custom_id": name, "response": {"status_code": 200, "body": body}, "error": None}
            file.write(json.dumps(row) + "\n")


def synthetic_project() -> None:
    """What all stages would have written."""
    synthetic.write_all(Path("data"), per_subtype=2, seeds=1)
    params_file(run={"executor": "inline"}, scores={"scorers": ["length", "casing"], "folds": 2})


def _set() -> None:
    row = [
        {"filename": f"{n % 4:012}.jpg", "caption": caption(n), "negative_caption": negative(n)}
        for n in range(3)
    ]
    put("swap_obj.json", dict(enumerate(row)), Path("data/set"))
    images([f"{n:012}.jpg" for n in range(4)], Path("data/set"))


def open_clip() -> None:
    """A tiny CLIP as caramel writes it."""
    from open_clip.tokenizer import SimpleTokenizer

    from caramel.models.open_clip.checkpoints import save_checkpoint
    from caramel.models.open_clip.tokenizer import learn_merges

    _set()
    vocabulary = learn_merges([f(n) for n in range(8) for f in (caption, negative)], Path("bpe.txt.gz"))
    size = SimpleTokenizer(str(vocabulary)).vocab_size
    text = {**tiny_clips.TEXT, "vocab_size": size, "layers": 1}
    config = {"model_cfg": {**tiny_clips.CUSTOM, "text_cfg": text}}
    model = tiny_clips.build_config(config["model_cfg"])
    save_checkpoint(
        Path("data/model"), model, config=config, vocabulary=vocabulary.read_bytes(), card={"name": "tiny"}
    )
    vocabulary.unlink()


def releasable_model() -> None:
    """A pinned project with a tiny CLIP as its base."""
    from released_projects import made

    open_clip()
    Path("data/model").rename("data/base")
    made(HERE)


def _folder(save: Callable[[Path], Any]) -> Callable[[], None]:
    def made() -> None:
        _set()
        save(Path("data/model"))

    return made


def _sentences() -> None:
    """A folder as sentence-transformers writes it, and captions with paraphrases."""
    corpus.sugarcrepe_pp()
    Path("data").rename("set")
    Path("data").mkdir()
    Path("set").rename("data/set")
    model = small_transformers.bert_folder(Path("data/model"))
    kinds = (("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))
    modules = [
        {"idx": n, "name": str(n), "path": p, "type": f"sentence_transformers.models.{k}"}
        for n, (k, p) in enumerate(kinds)
    ]
    put("modules.json", modules, model)
    put("1_Pooling/config.json", {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}, model)
    put("sentence_bert_config.json", {"max_seq_length": 12, "do_lower_case": False}, model)


MODELS: dict[str, Callable[[], None]] = {
    "dual": _folder(small_transformers.clip_folder),
    "itm": _folder(small_transformers.blip_folder),
    "itc": _folder(small_transformers.blip2_folder),
    "text": _sentences,
}


SERVED: dict[str, Path] = {}


GOOD = {
    "id": "1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}],
}


def chat() -> None:
    """One instance, and what the server answers: ``server/reply.json``."""
    put(
        "swap_obj.json",
        {"0": {"filename": "0.jpg", "caption": caption(0), "negative_caption": negative(0)}},
        Path("data/set"),
    )
    images(["0.jpg"], Path("data/set"))
    heal(HERE)


def heal(box: Path) -> None:
    """Let the server answer well again."""
    shutil.rmtree(box / "server", ignore_errors=True)
    put("reply.json", GOOD, box / "server")
    put("headers.json", {"X-Any": "thing"}, box / "server")


def serve(box: Path) -> str:
    """Start the server, which sends what lies in the folder ``server`` of the sandbox; return its URL."""

    def answer(request: object, number: int) -> chat_server.Response | str:
        try:
            body = (box / "server/reply.json").read_bytes()
            headers = {
                str(k): str(v) for k, v in json.loads((box / "server/headers.json").read_bytes()).items()
            }
            status = int(headers.pop("status", 200))
        except (OSError, ValueError, AttributeError, RecursionError):
            return chat_server.CLOSE
        if headers.get("X-Any") != "thing":
            body, headers = (
                gzip.compress(bytes(300_000_000) if len(body) % 2 else body, 1),
                {"Content-Encoding": "gzip"},
            )
        safe = {
            k: v
            for k, v in headers.items()
            if k.isascii() and k.isprintable() and v.isascii() and v.isprintable()
        }
        return chat_server.Response(status if 200 <= status < 600 else 500, body, safe)

    server = chat_server.ChatServer(answer)
    server._server.handle_error = lambda *_: None  # a client that hangs up is no news
    return server.url
