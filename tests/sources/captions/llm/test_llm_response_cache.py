from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from caramel.errors import DataError, ResourceError
from caramel.interfaces.language_model import ModelOutput
from caramel.schemas.io import read_table, write_table, write_table_parts
from caramel.schemas.llm import REPLIES
from caramel.sources.captions.llm.response_cache import ReplyKey, ReplyStore, open_replies

KEYS = [ReplyKey('{"m": 1}', "find_obj@1", "{}", f'{{"sentence": "{i}"}}', 1) for i in range(5)]
SAID = ModelOutput("A dog.", "stop", 10, 3, 0.25)


def table(store: ReplyStore, path: Path) -> pd.DataFrame:
    write_table_parts(REPLIES, store.iter_used_replies(), path, by="reply_id")
    return read_table(REPLIES, path)


def test_what_is_put_is_taken_again_by_this_run_and_by_the_next(tmp_path: Path) -> None:
    with open_replies(tmp_path / "r.sqlite") as store:
        assert store.get_reply(KEYS[0]) is None
        assert store.put_reply(KEYS[0], SAID) == SAID
        assert store.get_reply(KEYS[0]) == (SAID, True)
    with open_replies(tmp_path / "r.sqlite") as store:
        assert store.get_reply(KEYS[0]) == (SAID, False)
        assert store.get_reply(KEYS[0]) == (SAID, True)
        assert store.get_reply(KEYS[1]) is None


@pytest.mark.parametrize("place", range(5))
def test_another_key_has_another_reply(tmp_path: Path, place: int) -> None:
    with open_replies(tmp_path / "r.sqlite") as store:
        store.put_reply(KEYS[0], SAID)
        other = [*KEYS[0]]
        other[place] = 2 if place == 4 else "other"
        assert store.get_reply(ReplyKey(*other)) is None


def test_the_table_holds_what_was_used_in_the_order_of_keys_whatever_came_first(tmp_path: Path) -> None:
    found = []
    for order in ([3, 1, 2], [1, 2, 3]):
        path = tmp_path / f"{order[0]}.sqlite"
        with open_replies(path) as store:
            store.put_reply(KEYS[4], SAID)
        with open_replies(path) as store:
            for i in order:
                store.put_reply(
                    KEYS[i], SAID._replace(input_tokens=None if i == 1 else i, text=None if i == 2 else "x")
                )
            table(store, tmp_path / f"{order[0]}.parquet")
            found.append((tmp_path / f"{order[0]}.parquet").read_bytes())
    assert found[0] == found[1]
    rows = read_table(REPLIES, tmp_path / "1.parquet")
    assert rows["input"].tolist() == [KEYS[i].input for i in (1, 2, 3)]
    assert rows["text"].fillna("none").tolist() == ["x", "none", "x"]


def test_a_run_without_requests_gives_an_empty_table(tmp_path: Path) -> None:
    with open_replies(tmp_path / "r.sqlite") as store:
        assert len(table(store, tmp_path / "r.parquet")) == 0


def test_a_request_without_a_reply_is_in_the_table_and_is_asked_again_by_the_next_run(tmp_path: Path) -> None:
    none = ModelOutput(None, "failed", problem="down")
    with open_replies(tmp_path / "r.sqlite") as store:
        store.put_reply(KEYS[0], none)
        assert store.get_reply(KEYS[0]) == (none._replace(problem=""), True)
        assert table(store, tmp_path / "r.parquet")["finish_reason"].tolist() == ["failed"]
    with open_replies(tmp_path / "r.sqlite") as store:
        assert store.get_reply(KEYS[0]) is None
        assert store.import_table(tmp_path / "r.parquet") == 1
        assert store.get_reply(KEYS[0]) == (none._replace(problem=""), False)


def test_a_published_table_gives_the_same_bytes_again(tmp_path: Path) -> None:
    with open_replies(tmp_path / "a.sqlite") as store:
        for key in KEYS:
            store.put_reply(key, SAID)
        table(store, tmp_path / "a.parquet")
    with open_replies(tmp_path / "b.sqlite") as store:
        assert store.import_table(tmp_path / "a.parquet") == len(KEYS)
        assert all(store.get_reply(key) == (SAID, False) for key in KEYS)
        table(store, tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


@pytest.mark.parametrize("first", [ModelOutput(None, "failed"), SAID._replace(text="A cat.")])
def test_a_published_table_wins_over_what_is_kept_and_each_reply_stands_once(
    tmp_path: Path, first: ModelOutput
) -> None:
    with open_replies(tmp_path / "a.sqlite") as store:
        store.put_reply(KEYS[0], first)
        table(store, tmp_path / "a.parquet")
    with open_replies(tmp_path / "b.sqlite") as store:
        store.put_reply(KEYS[0], SAID)
    with open_replies(tmp_path / "b.sqlite") as store:
        store.import_table(tmp_path / "a.parquet")
        assert store.get_reply(KEYS[0]) == (first, False)
        table(store, tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    with open_replies(tmp_path / "b.sqlite") as store:
        assert store.get_reply(KEYS[0]) == (SAID, False)


def test_a_table_whose_keys_were_changed_is_refused(tmp_path: Path) -> None:
    with open_replies(tmp_path / "a.sqlite") as store:
        store.put_reply(KEYS[0], SAID)
        rows = table(store, tmp_path / "a.parquet").assign(input="other")
    write_table(REPLIES, rows, tmp_path / "a.parquet")
    with (
        open_replies(tmp_path / "b.sqlite") as store,
        pytest.raises(DataError, match="does not match its hash"),
    ):
        store.import_table(tmp_path / "a.parquet")


def test_a_reply_that_is_not_as_it_was_written_is_asked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_replies(tmp_path / "r.sqlite") as store:
        store.put_reply(KEYS[0], SAID)
        store.put_reply(KEYS[1], SAID)
    with sqlite3.connect(tmp_path / "r.sqlite") as file:
        file.execute("UPDATE replies SET text = 'A cat.' WHERE input = ?", [KEYS[0].input])
    file.close()
    with open_replies(tmp_path / "r.sqlite") as store:
        assert store.get_reply(KEYS[0]) is None
        assert store.get_reply(KEYS[1]) == (SAID, False)
        store.put_reply(KEYS[0], SAID)
        assert store.get_reply(KEYS[0]) == (SAID, True)
    assert "Damaged responses" in capsys.readouterr().err


def test_half_a_surrogate_pair_is_kept_as_the_sign_for_none(tmp_path: Path) -> None:
    with open_replies(tmp_path / "r.sqlite") as store:
        said = store.put_reply(KEYS[0], SAID._replace(text="a\ud83d\0b", finish_reason="\ud800"))
        assert (said.text, said.finish_reason) == ("a\ufffd\0b", "\ufffd")
        rows = table(store, tmp_path / "r.parquet")
        assert (rows["text"].tolist(), rows["finish_reason"].tolist()) == (["a\ufffd\0b"], ["\ufffd"])


def test_a_second_run_at_the_same_time_is_told_to_wait(tmp_path: Path) -> None:
    with (
        open_replies(tmp_path / "r.sqlite"),
        pytest.raises(ResourceError, match="Another run may have the file open"),
    ):
        ReplyStore(tmp_path / "r.sqlite")


@pytest.mark.parametrize(
    "content", [b"no database at all, but long enough to look at" * 99, b"SQLite format 3\0" + b"\1" * 9000]
)
def test_a_file_that_holds_no_replies_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r.sqlite").write_bytes(content)
    with pytest.raises((DataError, ResourceError), match=r"r\.sqlite"):
        ReplyStore(tmp_path / "r.sqlite")


def test_a_killed_process_loses_no_reply_that_it_had_put(tmp_path: Path) -> None:
    code = (
        "import os, sys, signal; from pathlib import Path; sys.path.insert(0, sys.argv[2]);"
        "from test_llm_response_cache import KEYS, SAID, ReplyStore; store = ReplyStore(Path(sys.argv[1]));"
        "[store.put_reply(key, SAID) for key in KEYS]; os.kill(os.getpid(), signal.SIGKILL)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "r.sqlite"), str(Path(__file__).parent)]
    assert subprocess.run(command, check=False).returncode == -9
    with open_replies(tmp_path / "r.sqlite") as store:
        assert all(store.get_reply(key) == (SAID, False) for key in KEYS)


def test_a_table_of_replies_of_0_1_is_taken_over(tmp_path: Path) -> None:
    with open_replies(tmp_path / "r.sqlite") as store:
        for key in KEYS:
            store.put_reply(key, SAID)
        table(store, tmp_path / "today.parquet")
    rows = pq.read_table(tmp_path / "today.parquet")
    pq.write_table(rows.rename_columns(list(REPLIES.former_names.values())), tmp_path / "before.parquet")
    with open_replies(tmp_path / "other.sqlite") as store:
        assert store.import_table(tmp_path / "before.parquet") == len(KEYS)
        assert store.get_reply(KEYS[3]) == (SAID, False), "not used by this run yet"


def test_other_processes_read_what_a_run_has_stored_while_it_writes(tmp_path: Path) -> None:
    code = (
        "import sqlite3, sys; file = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True, timeout=0);"
        "print(*(text for text, in file.execute('SELECT text FROM replies ORDER BY input')))"
    )
    with open_replies(tmp_path / "r.sqlite") as store:
        for number, key in enumerate(KEYS):
            store.put_reply(key, SAID._replace(text=str(number)))
            command = [sys.executable, "-c", code, str(tmp_path / "r.sqlite")]
            read = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            assert read == [str(i) for i in range(number + 1)]


def test_a_reader_in_the_middle_of_its_reading_delays_no_run(tmp_path: Path) -> None:
    with open_replies(tmp_path / "r.sqlite") as store:
        store.put_reply(KEYS[0], SAID)
        reader = sqlite3.connect(f"file:{tmp_path / 'r.sqlite'}?mode=ro", uri=True, timeout=0)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM replies").fetchone() == (1,)
        store.put_reply(KEYS[1], SAID)
        assert reader.execute("SELECT count(*) FROM replies").fetchone() == (1,), "one state for one reading"
        reader.close()
    with open_replies(tmp_path / "r.sqlite") as store:
        assert store.get_reply(KEYS[1]) == (SAID, False)


def test_a_disk_without_memory_that_processes_share_serves_a_run_alone(tmp_path: Path) -> None:
    (tmp_path / "r.sqlite-shm").mkdir()  # SQLite cannot open the memory
    with open_replies(tmp_path / "r.sqlite") as store:
        store.put_reply(KEYS[0], SAID)
    with open_replies(tmp_path / "r.sqlite") as store:
        assert store.get_reply(KEYS[0]) == (SAID, False)


def test_an_error_at_opening_leaves_the_file_free(tmp_path: Path) -> None:
    (tmp_path / "r.sqlite").write_bytes(b"no database at all" * 999)
    for _ in range(2):
        with pytest.raises(DataError, match="not a file of responses"):
            ReplyStore(tmp_path / "r.sqlite")
    (tmp_path / "r.sqlite").unlink()
    ReplyStore(tmp_path / "r.sqlite").close()
