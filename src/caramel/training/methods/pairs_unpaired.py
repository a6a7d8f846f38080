"""The pairs of TROHN-Img, unpaired: each negative with its image is a row of its own, drawn apart from its positive.

Equal to TROHN-Img: all captions and images; how often each is seen; and the loss, InfoNCE on 128 captions with their images
of a batch of 128. Not equal: a positive and its negative are in one batch by chance alone, and a batch is not half positives.
"""

from __future__ import annotations

from caramel.interfaces.method import Method
from caramel.training.methods import infonce

METHOD = Method(
    name="pairs_unpaired",
    help="as `infonce`, with the pairs of `trohn_img`: each negative with its image is a row of its own, drawn apart from its "
    "positive.",
    source="None: an arm of comparison. It differs from TROHN-Img in nothing but which pairs meet in a batch.",
    loss=infonce.compute_loss,
    negatives=1,
    images=True,
    pairing="apart",
)
