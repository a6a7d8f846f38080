"""Shuffled negatives: TROHN-Img with the negatives of other rows.

Equal to TROHN-Img:

- the loss,
- the rows of each step,
- the batch of 128: 64 captions with their images, and 64 negatives with theirs,
- how often each is seen,
- that a row meets the same negative each time.

Different from TROHN-Img: the negative belongs to another row, drawn with the trial's seed. So a row and its
own negative are in one batch only by chance.
"""

from __future__ import annotations

from caramel.interfaces.method import Method
from caramel.training.methods import trohn_img

METHOD = Method(
    name="shuffled",
    help="as `trohn_img`, with the caption and the image of another row's negative. The other row is drawn "
    "once for each row.",
    source="None: a control. It differs from TROHN-Img only in whose negative a row meets.",
    loss=trohn_img.compute_loss,
    negatives=1,
    images=True,
    pairing="other",
)
