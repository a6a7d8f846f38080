"""Time open_clip's tokenizer and caramel's on SugarCrepe's captions: `python bench/tokenizer.py FOLDER`.

FOLDER has SugarCrepe's JSON files. Prints the number of different captions and, for each tokenizer, the processor's
microseconds for a caption: in a first pass, which meets each word for the first time, and in a second. Exits with code 1
if any tokens differ.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from open_clip.tokenizer import SimpleTokenizer

from caramel.models.open_clip.word_tokenizer import WordTokenizer
from caramel.registry import BENCHMARKS


def main(folder: Path) -> None:
    """Print the figures."""
    rows = BENCHMARKS["sugarcrepe"].load_rows(folder, folder).rows
    texts = sorted({*rows["caption"], *rows["negative_caption"]})
    print(f"{len(texts):,} captions")
    found = []
    for tokenizer in (SimpleTokenizer(), WordTokenizer()):
        seconds = []
        for _ in range(2):
            start = time.process_time()
            tokens = tokenizer(texts)
            seconds.append(time.process_time() - start)
        found.append(tokens)
        times = ", ".join(f"{1e6 * passed / len(texts):.0f}" for passed in seconds)
        print(f"{type(tokenizer).__name__}: {times} µs a caption")
    if not found[0].equal(found[1]):
        sys.exit("The tokens differ.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
