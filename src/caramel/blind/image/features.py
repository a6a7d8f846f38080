"""Compute hand-made features of an encoded image, which can reveal generated or re-encoded images.

An image can be recognised by:

- its file: size, format, quality of the compression
- its shape
- its colours and their number
- its finest detail: the detail of generators differs from the detail that cameras record, in amount or kind
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

from caramel.io.image_codec import decode_image, open_encoded_image
from caramel.utils.arrays import Floats

WINDOW = 256  # side in pixels of the centre square whose detail is measured
FINE = 0.25  # cycles per pixel above which detail is fine; half of the Nyquist frequency

# Feature -> description. Sizes are logarithms, so that a difference is a ratio.
FEATURES = {
    "file_size": "ln of the file's bytes",
    "width": "ln of pixels, upright",
    "height": "ln of pixels, upright",
    "aspect": "ln of width / height",
    "elongation": "|ln of width / height|: 0 for a square",
    "jpeg": "1 for a JPEG file",
    "png": "1 for a PNG file",
    "webp": "1 for a WebP file",
    "quantisation": "ln of 1 + the mean step of a JPEG's luminance table: more is coarser; 0 for others",
    "red": "mean, in [0, 1]",
    "green": "mean, in [0, 1]",
    "blue": "mean, in [0, 1]",
    "red_spread": "standard deviation, in [0, 0.5]",
    "green_spread": "standard deviation, in [0, 0.5]",
    "blue_spread": "standard deviation, in [0, 0.5]",
    "red_middle": "median, in [0, 1]; the background's value if there is a background",
    "green_middle": "median, in [0, 1]",
    "blue_middle": "median, in [0, 1]",
    "colours": "ln of the number of distinct colours in the centre",
    "edges": "ln of 1 + the mean step between neighbouring pixels of the grey centre, of 255",
    "fine_detail": "ln of the share of the grey centre's power above FINE cycles per pixel",
}


def compute_features(data: bytes, name: str) -> Floats:
    """Return the features of an encoded image, in the order of ``FEATURES``. (d,).

    Raises:
        DataError: the image does not decode; the message names it.
    """
    image = decode_image(data, name)
    colours = np.array(image.histogram(), dtype=float).reshape(3, 256)  # does not copy the pixels
    shares, levels = colours / colours.sum(axis=1, keepdims=True), np.linspace(0, 1, 256)
    means = shares @ levels
    spreads = np.sqrt((shares * (levels - means[:, None]) ** 2).sum(axis=1))
    middles = levels[(shares.cumsum(axis=1) < 0.5 - 1e-12).sum(axis=1)]
    with open_encoded_image(data, name) as file:
        file_format = file.format
        steps = getattr(file, "quantization", None) or {}
    aspect = np.log(image.width / image.height)
    centre = _crop_centre(image)
    grey = np.asarray(centre.convert("L"))
    return np.array(
        [
            np.log(len(data)),
            np.log(image.width),
            np.log(image.height),
            aspect,
            abs(aspect),
            *(float(file_format in known) for known in (("JPEG", "MPO"), ("PNG",), ("WEBP",))),
            np.log1p(np.mean(steps[0])) if 0 in steps else 0.0,
            *means,
            *spreads,
            *middles,
            np.log(len(centre.getcolors(WINDOW**2) or ())),
            _measure_edges(grey),
            _measure_fine_detail(grey),
        ]
    )


def _crop_centre(image: Image.Image) -> Image.Image:
    """Return the centre of the image, at most ``WINDOW`` pixels on each side."""
    left, top = (max(0, (side - WINDOW) // 2) for side in image.size)
    return image.crop((left, top, min(left + WINDOW, image.width), min(top + WINDOW, image.height)))


def _measure_edges(grey: npt.NDArray[np.uint8]) -> float:
    """Return ln of 1 + the mean step between neighbouring pixels in rows and in columns."""
    steps = [np.abs(np.diff(grey.astype(float), axis=axis)).ravel() for axis in (0, 1)]
    differences = np.concatenate(steps)
    return float(np.log1p(differences.mean())) if len(differences) else 0.0


def _measure_fine_detail(grey: npt.NDArray[np.uint8]) -> float:
    """Return ln of the share of the power above ``FINE`` cycles per pixel.

    The mean is subtracted, and a Hann window keeps the edges from counting as detail.
    """
    centre = grey.astype(float)
    window = np.outer(*(np.hanning(side + 2)[1:-1] for side in centre.shape))
    mean = (centre * window).sum() / window.sum()
    power = np.abs(np.fft.fft2((centre - mean) * window)) ** 2
    frequency = np.hypot(*np.meshgrid(*map(np.fft.fftfreq, centre.shape), indexing="ij"))
    # The constants keep the value finite for a uniform image, which has no detail.
    return float(np.log((power[frequency > FINE].sum() + 1e-3) / (power.sum() + 1.0)))
