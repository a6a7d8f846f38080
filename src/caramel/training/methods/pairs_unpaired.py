"""The pairs of TROHN-Img, unpaired: each negative with its image is a separate row, drawn independently.

Equal to TROHN-Img:

- all captions and images,
- how often each is seen,
- the loss: InfoNCE on 128 captions with their images in a batch of 128.

Different from TROHN-Img:

- a positive and its negative are in one batch only by chance,
- a batch is not half positives.
"""

from __future__ import annotations

from caramel.interfaces.method import Method
from caramel.training.methods import infonce

METHOD = Method(
    name="pairs_unpaired",
    help="as `infonce`, with the pairs of `trohn_img`: each negative with its image is a separate row, "
    "drawn independently of its positive.",
    source="None: a control. It differs from TROHN-Img only in which pairs meet in a batch.",
    loss=infonce.compute_loss,
    negatives=1,
    images=True,
    pairing="apart",
)
