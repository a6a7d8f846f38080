"""Shuffled negatives: TROHN-Img with the negatives of other rows.

Equal to TROHN-Img: the loss; the rows of each step; 64 captions with their images and 64 negatives with theirs in a batch of 128;
how often each is seen; and that a row meets the same negative each time. Not equal: it is another row's, drawn by the trial's
seed, so that a row and its own negative are in one batch by chance alone.
"""

from __future__ import annotations

from caramel.interfaces.method import Method
from caramel.training.methods import trohn_img

METHOD = Method(
    name="shuffled",
    help="as `trohn_img`, with caption and image of another row's negative, drawn for each row once.",
    source="None: an arm of comparison. It differs from TROHN-Img in nothing but whose negative a row meets.",
    loss=trohn_img.compute_loss,
    negatives=1,
    images=True,
    pairing="other",
)
