"""How often a language model that writes about the world errs, and who notices: its drafts read back and checked exactly.

No published pipeline knows these figures, as nobody knows what is true of a photograph. Here a text is read back to what it
says (``sources.world.grammar``) and compared with its caption and with the scene.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from caramel.sources.captions.llm.checks import JUDGES, REASONS
from caramel.sources.captions.rules import ATTRIBUTES
from caramel.sources.world.grammar import Reading, formatted, read
from caramel.sources.world.scenes import Meaning, Mention, Relation, Scene, holds

PARAPHRASE = "paraphrase"
# What may be wrong with a draft. Only what can be read can have one of the others, and may have both.
ERRORS = ("malformed", "wrong_subtype", "still_true", "not_true")
NOISE_COLUMNS = ("subtype", "texts", "requests", "kept", "drafts", *ERRORS, "right", "kept_right")
CHECK_COLUMNS = ("part", "check", "judged", "refused", "precision", "recall", "recall_of_true")


def judged(pairs: pd.DataFrame, verdicts: pd.DataFrame, *, further_objects: bool) -> pd.DataFrame:
    """Return table ``verdicts`` with what is so of each draft, of pairs whose scene is known.

    Args:
        pairs: table ``pairs``.
        verdicts: table ``verdicts``.
        further_objects: a caption may leave out objects that its picture shows.

    Returns:
        The rows, and the columns ``part`` (a subtype, or ``paraphrase``), ``ERRORS`` and ``right``: none of them is so. Of a
        negative ``wrong_subtype`` is any other change than one of its subtype, ``still_true`` that it is true of the scene.
        Of a paraphrase ``wrong_subtype`` is that it does not say the same, ``not_true`` that it is false of the scene.
    """
    names = verdicts["id"].str.extract(r"^(?P<pair_id>.*):(?P<part>\w+)$")
    known = pairs.dropna(subset=["scene"]).set_index("pair_id")[["caption", "scene"]]
    rows = verdicts.join(names).join(known, on="pair_id", how="inner")
    found = [
        _errors(caption, text, part, Scene.from_json(scene), further_objects)
        for caption, text, part, scene in zip(
            rows["caption"], rows["text"], rows["part"], rows["scene"], strict=True
        )
    ]
    errors = pd.DataFrame(found, columns=list(ERRORS), index=rows.index, dtype=bool)
    rows = rows.drop(columns=["pair_id", "caption", "scene"]).join(errors)
    return rows.assign(right=~errors.any(axis=1))


def _errors(
    caption: str, text: str, part: str, scene: Scene, further_objects: bool
) -> tuple[bool, bool, bool, bool]:
    """Return what is wrong with a text, in the order of ``ERRORS``."""
    said, now = read(caption), read(formatted(text))
    assert said is not None, caption
    if now is None:
        return True, False, False, False
    true = holds(now.whole, scene.things, exactly=now.alone or not further_objects)
    if part == PARAPHRASE:
        same = said.whole.canonical() == now.whole.canonical()
        return False, not same, False, not true
    return False, not CHANGED[part](said, now), true, False


def _differences(said: Reading, now: Reading) -> Counter[str] | None:
    """Return how many nouns, attributes, relations and positions differ, and how many come anew; None: more than such words.

    A position counts as a relation, as ``replace_rel`` replaces either.
    """
    if len(said.whole.mentions) != len(now.whole.mentions) or said.alone != now.alone:
        return None
    found: Counter[str] = Counter()
    for old, new in zip(said.whole.mentions, now.whole.mentions, strict=True):
        found["noun"] += old.noun != new.noun
        for kind in ATTRIBUTES:
            before, after = getattr(old, kind), getattr(new, kind)
            found["new" if before is None else "gone" if after is None else "attribute"] += before != after
        both = old.position and new.position  # a position that comes or goes is no change of any subtype
        found["relation" if both else "gone"] += old.position != new.position
    old_ends, new_ends = ([(r.subject, r.object) for r in m.whole.relations] for m in (said, now))
    if old_ends != new_ends:
        return None
    found["relation"] += sum(
        a.kind != b.kind for a, b in zip(said.whole.relations, now.whole.relations, strict=True)
    )
    return +found


def _one(what: str) -> Callable[[Reading, Reading], bool]:
    return lambda said, now: _differences(said, now) == Counter({what: 1})


def _words(meaning: Meaning, *kinds: str) -> list[Counter[str]]:
    return [Counter(str(getattr(m, kind)) for m in meaning.mentions) for kind in kinds]


def _exchanged_nouns(said: Reading, now: Reading) -> bool:
    """Return whether two nouns changed places, with their attributes or without."""
    found = _differences(said, now)
    alike = _words(said.whole, "noun", *ATTRIBUTES) == _words(now.whole, "noun", *ATTRIBUTES)
    return found is not None and found["noun"] == 2 and not found["relation"] and alike


def _exchanged_attributes(said: Reading, now: Reading) -> bool:
    """Return whether attributes of one kind of two objects changed places."""
    alike = _words(said.whole, *ATTRIBUTES) == _words(now.whole, *ATTRIBUTES)
    return alike and _differences(said, now) == Counter({"attribute": 2})


def _added_object(said: Reading, now: Reading) -> bool:
    """Return whether one object more is named, and all else is said as before."""
    mentions = now.whole.mentions
    for place in range(len(mentions)):
        rest = mentions[:place] + mentions[place + 1 :]
        if Meaning(rest, _without(now.whole, place)) == said.whole and mentions[place].noun not in _nouns(
            rest
        ):
            return True
    return False


def _without(meaning: Meaning, place: int) -> tuple[Relation, ...]:
    """Return the relations without those of a mention, their ends counted without it."""
    kept = (r for r in meaning.relations if place not in (r.subject, r.object))
    return tuple(
        Relation(r.subject - (r.subject > place), r.kind, r.object - (r.object > place)) for r in kept
    )


def _nouns(mentions: tuple[Mention, ...]) -> set[str]:
    return {m.noun for m in mentions}


CHANGED: Mapping[str, Callable[[Reading, Reading], bool]] = {
    "replace_obj": _one("noun"),
    "replace_att": _one("attribute"),
    "replace_rel": _one("relation"),
    "swap_obj": _exchanged_nouns,
    "swap_att": _exchanged_attributes,
    "add_obj": _added_object,
    "add_att": _one("new"),
}


def noise(
    rows: pd.DataFrame, kept: Collection[str], dropped: Collection[str], prompts: pd.Series
) -> pd.DataFrame:
    """Return the noise table: ``NOISE_COLUMNS``, one row for each part and one for ``all``.

    Args:
        rows: of ``judged``.
        kept: ids of the texts that were kept (of paraphrases PAIR:paraphrase).
        dropped: ids of those that were asked for in vain.
        prompts: column ``prompt`` of table ``replies``. What several subtypes ask together (``find_…``, the validator of
            negatives) is counted in ``all`` alone, what judges of texts were asked nowhere.
    """
    prompts = prompts.str.split("@").str[0]
    prompts = prompts[~prompts.isin(JUDGES)]
    asked = prompts.map(_part_of).value_counts()
    texts = pd.Series([*kept, *dropped], dtype=str).str.rpartition(":")[2].value_counts()
    last = rows["id"].isin(set(kept)) & ~rows["id"].duplicated(keep="last")
    found = []
    for part in [*(name for name in (*CHANGED, PARAPHRASE) if name in texts), "all"]:
        here = (rows["part"] == part) | (part == "all")
        of = rows[here]
        found.append(
            {
                "subtype": part,
                "texts": int(texts.sum() if part == "all" else texts[part]),
                "requests": len(prompts) if part == "all" else int(asked.get(part, 0)),
                "kept": int(last[here].sum()),
                "drafts": len(of),
                **of[[*ERRORS, "right"]].sum().astype(int),
                "kept_right": int((last[here] & of["right"]).sum()),
            }
        )
    return pd.DataFrame(found, columns=list(NOISE_COLUMNS))


def _part_of(name: str) -> str:
    """Return the part that a prompt serves alone; "" if several."""
    kind, _, rest = name.partition("_")
    if kind == "find" or name == "validate_negative":
        return ""
    return PARAPHRASE if name.endswith(PARAPHRASE) else f"{kind}_{rest.partition('_')[0]}"


def checks(rows: pd.DataFrame) -> pd.DataFrame:
    """Return how well each check finds what is wrong: ``CHECK_COLUMNS``, for negatives and paraphrases.

    Args:
        rows: of ``judged``.

    Returns:
        Of the drafts that the check ``judged`` how many it ``refused``; ``precision``: share of these that are wrong;
        ``recall``: share of the wrong ones that it refuses, of all wrong ones and (``recall_of_true``) of negatives that are
        still true, or paraphrases that are false. NaN where there is none.
    """
    found = []
    for part in ("negatives", "paraphrases"):
        of = rows[(rows["part"] == PARAPHRASE) == (part == "paraphrases")]
        for name in REASONS:
            seen = of[of[name].notna()]
            if seen.empty:
                continue
            refused, wrong = ~seen[name].to_numpy(bool), ~seen["right"].to_numpy(bool)
            of_truth = (seen["still_true"] | seen["not_true"]).to_numpy(bool)
            shares = _share(wrong, refused), _share(refused, wrong), _share(refused, of_truth)
            found.append((part, name, len(seen), int(refused.sum()), *shares))
    return pd.DataFrame(found, columns=list(CHECK_COLUMNS))


def _share(what: npt.NDArray[np.bool_], among: npt.NDArray[np.bool_]) -> float:
    return float(what[among].mean()) if among.any() else float("nan")
