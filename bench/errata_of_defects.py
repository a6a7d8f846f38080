"""Write the errata of SugarCrepe or SugarCrepe++ from the defects of its texts.

`python bench/errata_of_defects.py sugarcrepe_pp DATA/sugarcrepe_pp > src/caramel/benchmarks/known_errata/sugarcrepe_pp.yaml`

An instance is excluded if `caramel audit` finds that its negative equals its caption, that its paraphrase equals its
caption, or that an earlier row has the same caption, negative and image. It is also excluded if caption and paraphrase
are equal without spaces. Equal texts about different images are no defect of the items.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pandas as pd
from ruamel.yaml import YAML

from caramel.audit.defects import find_defects
from caramel.sources.sugarcrepe_files import read_captions
from caramel.utils.text import extract_words

RELEASES = {
    "sugarcrepe": "github.com/RAIVNLab/sugar-crepe, folder data",
    "sugarcrepe_pp": "github.com/Sri-Harsha/scpp, folder data",
}
HEAD = "# Written by bench/errata_of_defects.py from the published files.\n"


def iter_defects(rows: pd.DataFrame) -> Iterator[tuple[str, str, str]]:
    """Yield (pair_id, field, reason) of each defect for which an instance is excluded."""
    defects = find_defects(rows)
    for pair_id in defects["negative_equals_caption"]:
        yield pair_id, "negative_caption", "the hard negative equals the caption"
    for pair_id in defects["paraphrase_equals_caption"]:
        yield pair_id, "caption2", "the paraphrase equals the caption"
    for row in rows[rows["caption2"].notna()].itertuples():
        caption, paraphrase = extract_words(str(row.caption)), extract_words(str(row.caption2))
        if caption != paraphrase and "".join(caption) == "".join(paraphrase):
            yield str(row.pair_id), "caption2", "the paraphrase differs from the caption only in spaces"
    texts = rows[["caption", "negative_caption"]].map(extract_words).assign(image=rows["image_id"])
    for _, same in rows.groupby([texts[name] for name in texts], sort=False):
        for pair_id in same["pair_id"].iloc[1:]:
            first = same["pair_id"].iloc[0]
            yield pair_id, "negative_caption", f"duplicate: {first} has the same image, caption and negative"


@click.command()
@click.argument("benchmark", type=click.Choice([*RELEASES]))
@click.argument("data", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(benchmark: str, data: Path) -> None:
    """Print the errata as YAML."""
    rows = read_captions(data)
    texts = rows.set_index("pair_id")
    errata = [
        {
            "benchmark": benchmark,
            "release": RELEASES[benchmark],
            "instance": pair_id,
            "field": field,
            "from": texts.loc[pair_id, field],
            "exclude": True,
            "reason": reason,
        }
        for pair_id, field, reason in iter_defects(rows)
    ]
    yaml = YAML()
    yaml.width = 1000
    sys.stdout.write(HEAD)
    yaml.dump(errata, sys.stdout)


if __name__ == "__main__":
    main()
