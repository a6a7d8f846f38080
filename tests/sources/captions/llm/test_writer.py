"""The whole chain, from captions to tables, by a language model behind a real server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from chat_server import ChatServer, Request, Response, delay
from limited_server import Limit
from obliging_writer import CAPTIONS, answer, asked, completion, obliging, pairs_of, write

from caramel.errors import BackendError
from caramel.schemas.catalogue import TABLES
from caramel.schemas.io import read_table
from caramel.sources.captions.llm.workflows import SUBTYPES
from caramel.sources.captions.prompts import prompt_files

ROOT = Path(__file__).parents[4]
PAIRS = pairs_of(CAPTIONS)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ChatServer(obliging)
    yield server
    server.close()


def read(out: Path, name: str) -> pd.DataFrame:
    return read_table(TABLES[name], out / f"{name}.parquet")


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def test_every_subtype_of_every_caption_and_a_paraphrase_are_written_or_rejected(
    server: ChatServer, tmp_path: Path
) -> None:
    out = write(server.url, tmp_path)
    negatives, paraphrases, rejects = (read(out, name) for name in ("negatives", "paraphrases", "rejects"))
    assert len(negatives) + len(paraphrases) + len(rejects) == len(PAIRS) * (len(SUBTYPES) + 1)
    assert set(negatives["subtype"]) == set(SUBTYPES)
    assert len(paraphrases) == len(PAIRS)
    assert set(rejects["reason"]) == {"the model finds no two that can be exchanged"}
    assert set(negatives["generator"]) == {"language_model"}
    verdicts, replies = read(out, "verdicts"), read(out, "replies")
    assert set(verdicts["id"]) == {*negatives["negative_id"], *(paraphrases["pair_id"] + ":paraphrase")}
    assert len(replies) == len(server.requests)
    assert replies["input_tokens"].eq(100).all()


def test_temperatures_are_those_of_the_steps(server: ChatServer, tmp_path: Path) -> None:
    write(server.url, tmp_path, temperature=1.5)
    found = {(asked(r)[0].endswith("_propose"), r.body["temperature"]) for r in server.requests}
    assert found == {(True, 1.5), (False, 0.0)}


def test_a_lower_temperature_bounds_that_of_the_steps_and_truncation_is_sent_with_sampled_requests_alone(
    server: ChatServer, tmp_path: Path
) -> None:
    write(server.url, tmp_path, temperature=0.8, top_p=0.9)
    sent = {
        (asked(r)[0].endswith("_propose"), r.body["temperature"], r.body.get("top_p"))
        for r in server.requests
    }
    assert sent == {(True, 0.8, 0.9), (False, 0.0, None)}


def test_the_papers_sampling_finds_the_responses_of_earlier_versions(
    server: ChatServer, tmp_path: Path
) -> None:
    out = write(server.url, tmp_path, temperature=1.5, top_p=1.0, min_p=0.0, seed=None)
    forms = set(read(out, "replies")["parameters"])
    assert {frozenset(json.loads(form)) for form in forms} == {
        frozenset({"temperature", "seed", "max_tokens", "structured"})
    }
    number = len(server.requests)
    write(server.url, tmp_path, temperature=1.5, seed=2)  # the seed of the stage, given twice
    assert len(server.requests) == number
    write(server.url, tmp_path, temperature=1.5, seed=3)
    assert {asked(r)[0].rpartition("_")[2] for r in server.requests[number:]} >= {"propose"}
    assert not {asked(r)[0] for r in server.requests[number:]} & {"find_obj", "find_att", "find_rel"}


def test_tables_are_rebuilt_from_their_replies_alone_to_the_same_bytes(
    server: ChatServer, tmp_path: Path
) -> None:
    first = write(server.url, tmp_path / "first")
    server.close()
    nowhere = "http://127.0.0.1:9/v1"
    assert contents(write(nowhere, tmp_path / "first")) == contents(first)  # from the store
    second = write(nowhere, tmp_path / "second", replies=str(first / "replies.parquet"))
    assert contents(second) == contents(first)


def test_replies_of_another_model_than_the_named_one_are_refused_and_of_none_named_told(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = pairs_of(CAPTIONS[:1])
    out = write(server.url, tmp_path / "first", pairs, parts=["paraphrases"], name="published-model")
    known = {"parts": ["paraphrases"], "replies": str(out / "replies.parquet")}
    with pytest.raises(BackendError, match=r"name is 'other@1', but .* are from\npublished-model"):
        write(server.url, tmp_path / "second", pairs, name="other@1", **known)
    assert "published-model" not in capsys.readouterr().err
    write(server.url, tmp_path / "third", pairs, name=None, **known)
    assert (
        "The writer of paraphrases uses the stored responses of published-model where"
        in capsys.readouterr().err
    )


def test_what_depends_on_chance_does_not_depend_on_the_order_of_rows_or_of_replies(
    server: ChatServer, tmp_path: Path
) -> None:
    first = write(server.url, tmp_path / "first")
    second = write(server.url, tmp_path / "second", PAIRS[::-1].reset_index(drop=True), max_connections=1)
    for name in ("negatives", "paraphrases", "rejects"):
        key = list(TABLES[name].key)
        found = [read(out, name).sort_values(key, ignore_index=True) for out in (first, second)]
        pd.testing.assert_frame_equal(*found)


def test_tables_do_not_depend_on_the_number_of_connections_or_on_what_a_server_refuses(
    server: ChatServer, tmp_path: Path
) -> None:
    first = write(server.url, tmp_path / "one", max_connections=1)
    number = len(server.requests)
    server.behave = limit = Limit(obliging, 3, 0.002, queues=False)
    second = write(server.url, tmp_path / "auto", max_connections="auto")
    assert len(server.requests) == 2 * number + len(limit.refused)
    assert limit.refused
    found, expected = contents(second), contents(first)
    replies = [read(out, "replies").drop(columns="seconds") for out in (first, second)]
    pd.testing.assert_frame_equal(*replies)
    del found["replies.parquet"], expected["replies.parquet"]
    assert found == expected
    assert contents(write("http://127.0.0.1:9/v1", tmp_path / "auto", max_connections=7)) == contents(second)


def test_a_changed_threshold_asks_nothing_and_changes_what_passes(server: ChatServer, tmp_path: Path) -> None:
    write(server.url, tmp_path, max_attempts=1)
    number, rejected = len(server.requests), []
    for similar in (0.999, 0.8, 0.6):
        out = write(server.url, tmp_path, max_attempts=1, max_similarity=similar)
        rejected.append(int((read(out, "rejects")["reason"] == "negligible change").sum()))
    assert len(server.requests) == number
    assert rejected[0] < rejected[1] < rejected[2]


def test_a_changed_prompt_asks_only_its_own_subtype_again(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(server.url, tmp_path)
    before = len(server.requests)
    folder = shutil.copytree(prompt_files.FOLDER, tmp_path / "prompts")
    changed = folder / "replace_att_propose.yaml"
    changed.write_text(changed.read_text().replace("Write one adjective", "Write a single adjective"))
    monkeypatch.setattr(prompt_files, "FOLDER", folder)
    for cached in (prompt_files.load_prompt, prompt_files.compute_prompt_version):
        cached.cache_clear()
    try:
        write(server.url, tmp_path)
    finally:
        for cached in (prompt_files.load_prompt, prompt_files.compute_prompt_version):
            cached.cache_clear()
    again = Counter(asked(request)[0] for request in server.requests[before:])
    assert again == {"replace_att_propose": len(PAIRS)}  # it proposed the same, so that nothing else changes


def test_a_part_that_is_not_wanted_is_not_asked_for(server: ChatServer, tmp_path: Path) -> None:
    out = write(server.url, tmp_path, parts=["paraphrases"])
    assert len(read(out, "negatives")) == 0
    assert {asked(request)[0] for request in server.requests} == {"paraphrase", "validate_paraphrase"}


def test_some_subtypes_of_a_caption_are_drawn_by_its_name(server: ChatServer, tmp_path: Path) -> None:
    pairs = pairs_of(CAPTIONS * 15)
    out = write(server.url, tmp_path, pairs, parts=["negatives"], subtypes=2, validate_texts=False)
    names = pd.concat([read(out, "negatives")["negative_id"], read(out, "rejects")["id"]]).str.split(":")
    assert names.str[0].value_counts().eq(2).all()
    assert set(names.str[1].value_counts()[list(SUBTYPES)] > 5) == {True}


def test_a_text_that_fails_is_tried_again_with_a_copy_in_context_and_each_draft_has_its_verdicts(
    server: ChatServer, tmp_path: Path
) -> None:
    def behave(request: Request, number: int) -> Response:
        name, given = asked(request)
        if name == "paraphrase" and number < 2:
            told = [given["sentence"].upper(), "Stars at night."][number]
            return completion(f'{{"idea": "none", "sentence": "{told}"}}')
        return obliging(request, number)

    server.behave = behave
    out = write(server.url, tmp_path, PAIRS[:1], parts=["paraphrases"])
    assert read(out, "paraphrases")["attempts"].tolist() == [3]
    verdicts = read(out, "verdicts").sort_values("attempt")
    assert verdicts["not_copy"].tolist() == [False, True, True]
    assert verdicts["overlap"].tolist() == [True, False, True]
    again = [
        [m["content"] for m in one.body["messages"] if m["content"].startswith("That")]
        for one in server.requests[:3]
    ]
    assert again == [[], ["That does not do: negligible change. Answer again."], []]
    assert verdicts["reason"].tolist()[:2] == ["negligible change", "superfluous text"]


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        ("spatial", "wrong spatial setting"),
        ("hallucination", "hallucination"),
        ("meaning", "altered meaning"),
        ("?", "altered meaning"),
    ],
)
def test_what_the_validator_never_accepts_is_a_reject_with_its_class(
    server: ChatServer, tmp_path: Path, problem: str, reason: str
) -> None:
    def behave(request: Request, number: int) -> Response:
        if asked(request)[0] == "validate_paraphrase":
            return completion(f'{{"same": "no", "problem": "{problem}"}}')
        return obliging(request, number)

    server.behave = behave
    rejects = read(write(server.url, tmp_path, PAIRS[:1], parts=["paraphrases"]), "rejects")
    assert rejects["reason"].tolist() == [reason]
    assert rejects["text"].tolist() == [f"There is a{CAPTIONS[0][1:]}"]
    assert len(server.requests) == 2 * 3


@pytest.mark.parametrize(("required", "rejected"), [(["not_copy", "meaning"], True), (["not_copy"], False)])
def test_a_text_that_the_validator_does_not_judge_is_a_reject_where_its_word_is_required(
    server: ChatServer, tmp_path: Path, required: list[str], rejected: bool
) -> None:
    def behave(request: Request, number: int) -> Response:
        return completion("Hm.") if asked(request)[0].startswith("validate") else obliging(request, number)

    server.behave = behave
    rejects = read(write(server.url, tmp_path, PAIRS[:1], required=tuple(required)), "rejects")
    assert ("the model's answer is not of the asked form" in set(rejects["reason"])) == rejected
    assert ("paraphrase" in set(rejects["id"].str.split(":").str[-1])) == rejected


def test_odd_captions_are_rejects_and_no_errors(server: ChatServer, tmp_path: Path) -> None:
    captions = [
        "Dog",
        "word " * 500,
        "🙂🙂",
        "Ένας σκύλος τρέχει.",
        "Is it red?",
        '{"a": "b"}',
        "Objects: a\nb",
    ]
    out = write(server.url, tmp_path, pairs_of(captions))
    assert sum(len(read(out, name)) for name in ("negatives", "paraphrases", "rejects")) == len(captions) * 8


def test_a_killed_run_asks_nothing_again_but_what_was_under_way(server: ChatServer, tmp_path: Path) -> None:
    server.behave = delay(obliging, 0.02)
    code = """
        import sys
        from pathlib import Path
        sys.path[:0] = sys.argv[3:]
        from obliging_writer import CAPTIONS, pairs_of, write
        write(sys.argv[1], Path(sys.argv[2]), pairs_of([f"{c[:-1]} number {i}." for i in range(12) for c in CAPTIONS]), max_connections=4)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), server.url, str(tmp_path)]
    command += [str(ROOT / "tests" / "support")]
    running = subprocess.Popen(command, env=os.environ, stderr=subprocess.DEVNULL)
    while len(server.requests) < 200 and running.poll() is None:
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert 200 <= len(server.requests) < 700
    subprocess.run(command, env=os.environ, check=True)
    times = Counter(str(request.body) for request in server.requests)
    assert sum(times.values()) - len(times) <= 4
    assert len(times) > 800


def test_requests_of_one_prompt_follow_each_other_so_that_servers_reuse_its_prefix(
    server: ChatServer, tmp_path: Path
) -> None:
    server.behave = delay(obliging, 0.04)  # of immediate replies, a busy machine's threads mix the order
    pairs = pairs_of([f"{caption[:-1]} number {i}." for i in range(4) for caption in CAPTIONS])
    write(server.url, tmp_path, pairs, max_connections=8)
    names = [asked(request)[0] for request in server.requests]
    changes = sum(before != after for before, after in pairwise(names))
    assert changes < len(names) / 4, (changes, len(names))


def test_a_server_that_ignores_the_schema_is_read_as_any_other(server: ChatServer, tmp_path: Path) -> None:
    first = write(server.url, tmp_path / "first", response_schema=True)

    def chatters(request: Request, number: int) -> Response:
        assert request.body["response_format"]["json_schema"]["strict"]
        name, given = asked(request)
        said = json.dumps(answer(name, given, request.body["seed"]))
        return completion(f"Sure! Here it is:\n```json\n{said[:-1]},\n")

    server.behave = chatters
    second = write(server.url, tmp_path / "second", response_schema=True)
    for name in ("negatives", "paraphrases", "rejects", "verdicts"):
        assert contents(first)[f"{name}.parquet"] == contents(second)[f"{name}.parquet"]


def test_bounds_of_the_schema_are_part_of_the_key_of_a_response_only_where_it_is_sent(
    server: ChatServer, tmp_path: Path
) -> None:
    for schema in (False, True):
        out = write(server.url, tmp_path / str(schema), PAIRS[:1], response_schema=schema)
        parameters = read(out, "replies")["parameters"].map(json.loads)
        assert all(("schema" in one) == schema for one in parameters)
