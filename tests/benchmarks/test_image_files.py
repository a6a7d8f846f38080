"""Images are found, checked all at once, named by their content, and cut to their box."""

import io
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from stored_images import stored

from caramel.benchmarks import image_files
from caramel.benchmarks.image_files import check_images, compute_content_keys, read_encoded_images
from caramel.errors import DataError
from caramel.interfaces.benchmark import ImageFile
from caramel.io.keys import KEY_BYTES, compute_image_key

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def picture(seed: int, kind: str = "PNG", size: tuple[int, int] = (40, 30), **options: object) -> bytes:
    """Return an encoded picture of noise."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


def file(folder: Path, name: str, data: bytes) -> ImageFile:
    (folder / name).write_bytes(data)
    return ImageFile(str(folder / name))


def table(path: Path, cells: list[object], kind: pa.DataType = IMAGE, group: int = 4) -> str:
    pq.write_table(pa.table({"image": pa.array(cells, kind)}), path, row_group_size=group)
    return str(path)


def cell(data: bytes | None) -> dict[str, object]:
    return {"bytes": data, "path": None}


@pytest.fixture
def fresh() -> None:
    """Nothing that was read before is remembered."""
    image_files._count_group_rows.cache_clear()
    image_files._read_group_column.cache_clear()
    image_files._load_image_store.cache_clear()


def test_a_parquet_file_that_is_written_anew_gives_its_new_images(tmp_path: Path, fresh: None) -> None:
    for seeds in ((1, 2), (3, 4, 5)):
        path = table(tmp_path / "p.parquet", [cell(picture(seed)) for seed in seeds], group=1)
        keys = compute_content_keys([ImageFile(path, row=n, column="image") for n in range(len(seeds))])
        assert keys == [compute_image_key(picture(seed), None) for seed in seeds]


def test_all_bad_images_are_listed_at_once_with_what_is_wrong(tmp_path: Path, fresh: None) -> None:
    jpeg, png = picture(1, "JPEG"), picture(2)
    parquet = table(tmp_path / "p.parquet", [cell(png), cell(None), cell(b"garbage")])
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and no more")
    images = [
        file(tmp_path, "good.jpg", jpeg),
        ImageFile(str(tmp_path / "nowhere.jpg")),
        file(tmp_path, "truncated.jpg", jpeg[: len(jpeg) // 2]),
        file(tmp_path, "one_byte_short.jpg", jpeg[:-40]),
        file(tmp_path, "truncated.png", png[: len(png) // 2]),
        file(tmp_path, "garbage.jpg", b"<html>404 Not Found</html>"),
        file(tmp_path, "empty.jpg", b""),
        ImageFile(parquet, 0),
        ImageFile(parquet, 1),
        ImageFile(parquet, 2),
        ImageFile(parquet, 3),
        ImageFile(parquet, 0, "picture"),
        ImageFile(str(broken), 0),
        ImageFile(str(tmp_path / "nowhere.parquet"), 0),
        ImageFile(str(tmp_path)),
    ]
    with pytest.raises(DataError) as stopped:
        check_images(images, "a benchmark")
    first, *lines = str(stopped.value).splitlines()
    assert first == "a benchmark: 13 of 15 images are missing or corrupt; nothing was scored."
    said = {line.strip("- ").removeprefix(f"{tmp_path}")[:34]: line for line in lines}
    assert len(lines) == 14
    assert lines[-1].startswith("Download them again")
    assert lines[0].endswith("nowhere.jpg: missing")
    assert sum(line.endswith(": missing") for line in lines) == 2
    for name in ("truncated.jpg", "one_byte_short.jpg", "truncated.png", "garbage.jpg", "empty.jpg"):
        assert any(f"/{name}: corrupt (" in line for line in lines), (name, said)
    for place in ("row 1, column 'image'", "row 2, column 'image'", "row 3, column 'image'"):
        assert any(f"p.parquet, {place}: corrupt (" in line for line in lines), (place, said)
    assert any("row 0, column 'picture': corrupt (" in line for line in lines)
    assert any("broken.parquet, row 0, column 'image': corrupt (" in line for line in lines)
    assert not any("good.jpg" in line or "p.parquet, row 0, column 'image'" in line for line in lines)


def test_good_images_of_all_kinds_pass(tmp_path: Path) -> None:
    kinds = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
    images = [file(tmp_path, f"{n}", picture(n, kind)) for n, kind in enumerate(kinds)]
    grey = io.BytesIO()
    Image.new("L", (9, 9), 40).save(grey, "JPEG")
    four = io.BytesIO()
    Image.new("CMYK", (9, 9)).save(four, "JPEG")
    images += [file(tmp_path, "grey", grey.getvalue()), file(tmp_path, "cmyk", four.getvalue())]
    assert len(set(check_images(images, "test"))) == len(kinds) + 2


@pytest.mark.filterwarnings("ignore::UserWarning:PIL.*")  # Pillow's own complaints of what is damaged
def test_what_passes_the_check_can_be_decoded_and_the_other_way_round(tmp_path: Path) -> None:
    """A check that is quicker than decoding must not differ from it."""
    from caramel.io.image_codec import decode_image

    rng = np.random.default_rng(0)
    whole = picture(3, "JPEG", exif=b"Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00")
    for trial in range(60):
        data = bytearray(whole)
        if trial % 2:
            data = data[: int(rng.integers(0, len(data)))]
        for place in rng.integers(0, max(len(data), 1), 3 if len(data) else 0):
            data[place] = int(rng.integers(0, 256))
        image = file(tmp_path, f"{trial}.jpg", bytes(data))
        try:
            decode_image(bytes(data), "x")
            decodes = True
        except DataError:
            decodes = False
        try:
            check_images([image], "test")
            passes = True
        except DataError:
            passes = False
        assert passes == decodes, trial


def test_images_of_a_store_are_found_by_their_names(tmp_path: Path, fresh: None) -> None:
    index, size = tmp_path / "images.parquet", {"width": 40, "height": 30, "source": "t", "split": "test"}
    data = {name: picture(n) for n, name in enumerate(("a", "b", "../c"))}
    stored(index, [{"image_id": name, "data": file, **size} for name, file in data.items()])
    images = [ImageFile(str(index), name=name) for name in reversed(data)]
    assert read_encoded_images(images) == list(reversed(data.values()))
    assert check_images(images, "test") == [compute_image_key(file, None) for file in reversed(data.values())]
    other = [ImageFile(str(index), name="d"), ImageFile(str(tmp_path / "none.parquet"), name="a")]
    with pytest.raises(DataError) as stopped:
        check_images(other, "test")
    assert "images.parquet, image 'd': corrupt (the table has no such image)" in str(stopped.value)
    assert "none.parquet, image 'a': missing" in str(stopped.value)
    stored(index, [{"image_id": "a", "data": picture(9), **size}])
    assert read_encoded_images(images[-1:]) == [picture(9)], "what was read of an older table is forgotten"


def test_more_bad_images_than_a_message_shows_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_files, "_MAX_LISTED", 3)
    images = [ImageFile(str(tmp_path / f"{n}.jpg")) for n in range(150)]
    with pytest.raises(DataError, match="150 of 150 images") as stopped:
        check_images(images, "test")
    assert "0.jpg: missing" in str(stopped.value)
    assert "and 147 more" in str(stopped.value)


def test_keys_name_the_content_and_the_box(tmp_path: Path) -> None:
    data = picture(4)
    one, two = file(tmp_path, "a.png", data), file(tmp_path, "b.png", data)
    other = file(tmp_path, "c.png", picture(5))
    parquet = ImageFile(table(tmp_path / "p.parquet", [cell(data)]), 0)
    boxed = [ImageFile(one.path, box=box) for box in ((0, 0, 9, 9), (0, 0, 9, 8))]
    keys = check_images([one, two, parquet, other, *boxed], "test")
    assert keys == compute_content_keys([one, two, parquet, other, *boxed])
    assert keys[0] == keys[1] == keys[2] == compute_image_key(data, None)
    assert len(set(keys)) == 4
    assert all(len(key) == KEY_BYTES for key in keys)


def test_keys_and_files_come_in_the_order_of_the_images(tmp_path: Path) -> None:
    images = [file(tmp_path, f"{n}.png", picture(n, size=(8, 8))) for n in range(200)]
    order = np.random.default_rng(0).permutation(200).tolist()
    asked = [images[n] for n in order]
    assert read_encoded_images(asked) == [picture(n, size=(8, 8)) for n in order]
    assert check_images(asked, "test") == [compute_image_key(picture(n, size=(8, 8)), None) for n in order]


def test_a_box_is_cut_out_to_the_pixel(tmp_path: Path) -> None:
    data = picture(6)
    image = ImageFile(file(tmp_path, "a.png", data).path, box=(3, 5, 20, 11))
    check_images([image], "test")
    with (
        Image.open(io.BytesIO(read_encoded_images([image])[0])) as part,
        Image.open(io.BytesIO(data)) as whole,
    ):
        assert part.size == (17, 6)
        assert np.array_equal(np.asarray(part), np.asarray(whole)[5:11, 3:20])


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
@pytest.mark.parametrize("box", [(-9, 0, 0, 5), (40, 0, 50, 30), (0, 30, 40, 31), (5, 5, 5, 9), (9, 0, 5, 9)])
def test_a_box_that_is_no_part_of_the_image_is_named(
    box: tuple[int, int, int, int], kind: str, tmp_path: Path
) -> None:
    image = ImageFile(file(tmp_path, "a.png", picture(7, kind)).path, box=box)
    with pytest.raises(DataError, match=r"a.png, box \(.*outside the image, which has 40 × 30 pixels"):
        check_images([image], "test")


def test_a_box_is_of_the_upright_image(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    data = picture(8, "JPEG", exif=exif)
    path = file(tmp_path, "a.jpg", data).path
    check_images([ImageFile(path, box=(25, 35, 50, 50))], "test")
    with pytest.raises(DataError, match="which has 30 × 40 pixels"):
        check_images([ImageFile(path, box=(32, 0, 40, 30))], "test")


@pytest.mark.parametrize("kind", [IMAGE, pa.binary(), pa.large_binary()])
def test_cells_are_read_from_any_row_group(kind: pa.DataType, tmp_path: Path, fresh: None) -> None:
    data = [picture(n, size=(6, 6)) for n in range(11)]
    cells = [cell(d) if kind is IMAGE else d for d in data]
    path = table(tmp_path / "p.parquet", cells, kind, group=4)
    assert read_encoded_images([ImageFile(path, n) for n in range(11)]) == data
    assert read_encoded_images([ImageFile(path, n) for n in reversed(range(11))]) == data[::-1]


def test_row_groups_are_read_one_at_a_time_and_once(
    tmp_path: Path, fresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [picture(n, size=(6, 6)) for n in range(32)]
    path = table(tmp_path / "p.parquet", [cell(d) for d in data], group=8)
    read, within, most = [], [0], [0]
    whole, lock = pq.ParquetFile.read_row_group, threading.Lock()

    def slow(self: pq.ParquetFile, group: int, **options: object) -> pa.Table:
        with lock:
            read.append(group)
            within[0] += 1
            most[0] = max(most[0], within[0])
        time.sleep(0.02)
        with lock:
            within[0] -= 1
        assert options == {"columns": ["image"]}
        return whole(self, group, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", slow)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    check_images([ImageFile(path, n) for n in range(32)], "test")
    assert sorted(read) == [0, 1, 2, 3]
    assert most == [1]


def test_an_image_that_went_after_the_check_is_named(tmp_path: Path, fresh: None) -> None:
    image = file(tmp_path, "a.png", picture(9))
    Path(image.path).unlink()
    empty = ImageFile(table(tmp_path / "p.parquet", [cell(None)]), 0)
    for function in (read_encoded_images, compute_content_keys):
        with pytest.raises(DataError, match=r"a\.png"):
            function([image])
        with pytest.raises(DataError, match=r"p\.parquet, row 0"):
            function([empty])


def test_no_part_of_an_image_has_the_key_of_other_bytes() -> None:
    data, box = picture(10), (0, 0, 9, 9)
    keys = {compute_image_key(data, box), compute_image_key(data, None)}
    keys |= {compute_image_key(data + tail, None) for tail in (repr(box).encode(), f"{box}\n".encode())}
    keys |= {compute_image_key(head + data, None) for head in (repr(box).encode(), f"{box}\n".encode())}
    assert len(keys) == 6


def test_a_box_of_more_pixels_than_are_decoded_is_named(tmp_path: Path) -> None:
    image = ImageFile(file(tmp_path, "a.png", picture(11)).path, box=(0, 0, 10**6, 10**6))
    with pytest.raises(
        DataError, match=r"a\.png, box .*: the box is too large; the image has 40 × 30 pixels"
    ):
        check_images([image], "test")


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
def test_a_box_is_of_the_upright_image_in_every_format(kind: str, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    image = ImageFile(file(tmp_path, "a", picture(12, kind, exif=exif)).path, box=(0, 35, 20, 40))
    check_images([image], "test")
    with Image.open(io.BytesIO(read_encoded_images([image])[0])) as part:
        assert part.size == (20, 5)
