"""Find damage in encoded images that Pillow decodes without an error, so that part of the pixels is wrong.

    JPEG   libjpeg fills what it cannot decode with grey, or resumes elsewhere, and warns. Pillow drops the
           warnings. simplejpeg, which decodes with the same library, raises them.
    PNG    Pillow does not check the checksums of the pixels.

WebP, GIF, BMP, TIFF and PPM have no checksum that a decoder reports. If they are truncated, Pillow raises an
error.
"""

from __future__ import annotations

import zlib

# Prefixes of libjpeg's warnings about lost pixels. Its other warnings concern headers and occur in real
# files: an unknown JFIF revision, a bad ICC profile, a scan that states no range of coefficients.
_LOST_PIXELS = ("Corrupt JPEG data", "Premature end of JPEG file")
_SCAN, _COMMENT, _PROGRESSIVE = 0xDA, 0xFE, 0xC2
_APPLICATION = range(0xE0, 0xF0)
_WITHOUT_LENGTH = (0x00, 0xFF, *range(0xD0, 0xD9))  # stuffing, fill bytes, restarts and the start


def check_jpeg(data: bytes) -> bool:
    """Return whether simplejpeg can decode the JPEG. An unusual JPEG returns False and is left to Pillow.

    The pixels are decoded at an eighth of their size, which reads the whole file.

    Raises:
        ValueError: libjpeg warns that pixels are lost.
    """
    try:
        _decode_strictly(data)
    except ValueError:
        # Only a file's first warning is reported. A harmless one must not hide one about lost pixels.
        try:
            _decode_strictly(_drop_harmless_bytes(data))
        except ValueError as error:
            if str(error).startswith(_LOST_PIXELS):
                raise
        return False
    return True


def check_png(data: bytes) -> None:
    """Raise ValueError if a part of the pixels does not match its checksum. Pillow checks everything else."""
    view, start = memoryview(data), 8
    while start + 12 <= len(data):
        end = start + 8 + int.from_bytes(view[start : start + 4])
        checksum = int.from_bytes(view[end : end + 4])
        if data[start + 4 : start + 8] == b"IDAT" and zlib.crc32(view[start + 4 : end]) != checksum:
            raise ValueError(f"the pixels at byte {start} (IDAT) do not match their checksum")
        start = end + 4


def _decode_strictly(data: bytes) -> None:
    import simplejpeg

    simplejpeg.decode_jpeg(data, "GRAY", min_height=1, min_width=1, min_factor=8)


def _drop_harmless_bytes(data: bytes) -> bytes:
    """Return a JPEG with the same pixel data and a header of only tables and frame, without padding.

    Profiles, comments and bytes between the segments are dropped. The first scan of a file that is not
    progressive gets the only range of coefficients that it can have. The result may be decoded with wrong
    colours.
    """
    header, start, progressive = bytearray(b"\xff\xd8"), 2, False
    while (start := data.find(b"\xff", start)) >= 0:
        marker = int.from_bytes(data[start + 1 : start + 2])
        if marker in _WITHOUT_LENGTH:
            start += 1
            continue
        end = start + 2 + int.from_bytes(data[start + 2 : start + 4])
        segment = data[start:end]
        if marker == _SCAN:
            scan = segment if progressive else segment[:-3] + b"\x00\x3f\x00"
            return bytes(header) + scan + _drop_padding(data[end:])
        if marker not in _APPLICATION and marker != _COMMENT:
            header += segment
            progressive |= marker == _PROGRESSIVE
        start = end
    return data


def _drop_padding(scans: bytes) -> bytes:
    """Return scans without the zeros that some cameras write before the end of the image.

    One of these zeros may belong to the pixels. Other bytes stay there, because they cannot be told from
    pixels that follow a damaged part.
    """
    end = scans.find(b"\xff\xd9")
    pixels = scans[: max(end, 0)].rstrip(b"\0")
    return scans if end <= len(pixels) else pixels + b"\0" + scans[end:]
