"""Files in zip archives are read where they lie, and an archive that is made to harm is an error."""

import re
import zipfile
from pathlib import Path

import pytest

from caramel.errors import DataError
from caramel.io import zip_archive
from caramel.io.readers import iter_csv_rows
from caramel.io.zip_archive import ZippedFile, list_zipped_files

TEXT = "a,b\n1,é\n"


def archive(path: Path, **members: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in members.items():
            file.writestr(name, text)
    return path


def rows(file: ZippedFile) -> list[dict[str, str]]:
    return [row for _, row in iter_csv_rows(file, ["a", "b"])]


def test_a_member_is_read_as_the_file_that_it_is(tmp_path: Path) -> None:
    archive(tmp_path / "one.zip", **{"deep/er/x.csv": "\ufeff" + TEXT, "deep/": "", "__MACOSX/._x.csv": ""})
    archive(tmp_path / "in" / "two.zip", **{"y.csv": TEXT})
    files = list_zipped_files(tmp_path)
    assert [*files] == ["y.csv", "x.csv"]
    assert rows(files["x.csv"]) == rows(files["y.csv"]) == [{"a": "1", "b": "é"}]
    assert str(files["x.csv"]) == f"{tmp_path}/one.zip/deep/er/x.csv"


@pytest.mark.parametrize("name", ["../../x.csv", "/x.csv", "a/../../x.csv"])
def test_a_member_that_is_named_outside_of_the_archive_writes_nothing(name: str, tmp_path: Path) -> None:
    archive(tmp_path / "data" / "one.zip", **{name: TEXT})
    assert rows(list_zipped_files(tmp_path / "data")["x.csv"]) == [{"a": "1", "b": "é"}]
    assert [path.name for path in tmp_path.rglob("*")] == ["data", "one.zip"]


def test_a_member_that_unpacks_to_too_much_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zip_archive, "LARGEST", 1000)
    path = archive(tmp_path / "one.zip", **{"x.csv": TEXT + "0,0\n" * 1000})
    assert path.stat().st_size < 1000
    with pytest.raises(
        DataError, match=r"one\.zip/x\.csv' unpacks to 4,009 bytes, more than the limit of 1,000"
    ):
        rows(list_zipped_files(tmp_path)["x.csv"])


def test_a_member_that_is_larger_than_it_says_is_an_error(tmp_path: Path) -> None:
    path = archive(tmp_path / "one.zip", **{"x.csv": TEXT + "0,0\n" * 1000})
    stated = (4009).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(stated, (99).to_bytes(4, "little")))
    with pytest.raises(DataError, match=r"one\.zip/x\.csv' is damaged: .*Download the archive again"):
        rows(list_zipped_files(tmp_path)["x.csv"])


def test_what_is_no_archive_or_is_damaged_is_an_error(tmp_path: Path) -> None:
    path = archive(tmp_path / "one.zip", **{"x.csv": TEXT * 50})
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + b"\0\0\0\0" + whole[44:])
    with pytest.raises(DataError, match="is damaged"):
        rows(list_zipped_files(tmp_path)["x.csv"])
    path.write_bytes(whole[:40])
    with pytest.raises(DataError, match=r"one\.zip' cannot be read as a zip archive"):
        list_zipped_files(tmp_path)


def test_an_encrypted_member_is_an_error(tmp_path: Path) -> None:
    path = archive(tmp_path / "one.zip", **{"x.csv": TEXT})
    bits = re.compile(rb"(PK\x01\x02....)\x00", re.DOTALL)  # the flags in the list of members
    path.write_bytes(bits.sub(lambda found: found[1] + b"\x01", path.read_bytes()))
    with pytest.raises(DataError, match="is encrypted"):
        rows(list_zipped_files(tmp_path)["x.csv"])


def test_two_files_of_one_name_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a message holds the beginning of a long path
    archive(tmp_path / "one.zip", **{"a/x.csv": TEXT, "b/x.csv": TEXT})
    with pytest.raises(DataError, match=r"one\.zip/b/x\.csv' and .*have the same name"):
        list_zipped_files(Path())
