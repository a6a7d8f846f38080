"""Build exact constituency trees of the embedded world's captions, with Penn Treebank labels."""

from __future__ import annotations

from collections.abc import Sequence

from caramel.audit.similarity.parses import read_trees
from caramel.errors import BackendError, DataError, format_items
from caramel.interfaces.parser import Parse, Parser
from caramel.sources.world.grammar import POSITION_PHRASE, Reading, get_pattern_key, parse_caption
from caramel.sources.world.scenes import INVERSE, Mention

_THERE = "(S (NP (EX there)) (VP (VBZ is) {what}){{end}})"
_PICTURE = "(NP (NP (DT a) (NN picture)) (PP (IN of) {what}){{end}})"
_SEEN = "(S {{a}} (VP (MD can) (VP (VB be) (VP (VBN seen){where}))){{end}})"

# One tree for each of ``PATTERNS``. {a} {b} {c}: noun phrases. {ab} {cb}: prepositional phrases. {its_ab} …:
# adverbials. {end}: the caption's tail, if any, and the final stop.
TREES: dict[tuple[int, int], tuple[str, ...]] = {
    (1, 0): (
        "(NP {a}{end})",
        _THERE.format(what="{a}"),
        _PICTURE.format(what="{a}"),
        "(NP {a} (PP (IN on) (NP (DT a) (JJ plain) (NN background))){end})",
        _SEEN.format(where=""),
        "(SINV (ADVP (RB here)) (VP (VBZ is)) {a}{end})",
    ),
    (2, 0): (
        "(NP {a} (CC and) {b}{end})",
        _THERE.format(what="(NP {a} (CC and) {b})"),
        "(NP {a} (ADVP (RB together) (PP (IN with) {b})){end})",
        _PICTURE.format(what="(NP {a} (CC and) {b})"),
        "(NP {a} (CC and) (ADVP (RB also)) {b}{end})",
        "(NP {a} (VP (VBN shown) (PP (IN with) {b})){end})",
    ),
    (2, 1): (
        "(S {a} (VP (VBZ is) {ab}){end})",
        _THERE.format(what="(NP {a} {ab})"),
        "(SINV {ab} (VP (VBZ is)) {a}{end})",
        "(NP {b} (PP (IN with) (NP {a} {its_ab})){end})",
        "(S {b} (VP (VBZ has) (NP {a} {its_ab})){end})",
        _SEEN.format(where=" {ab}"),
        "(NP {a} (SBAR (WHNP (WDT that)) (S (VP (VBZ has) (NP {b} {its_ba})))){end})",
    ),
    (3, 0): (
        "(NP {a} (, ,) {b} (CC and) {c}{end})",
        _THERE.format(what="(NP {a} (, ,) {b} (CC and) {c})"),
        _PICTURE.format(what="(NP {a} (, ,) {b} (CC and) {c})"),
        "(NP (NP {a} (CC and) {b}) (PP (IN with) {c}){end})",
    ),
    (3, 1): (
        "(S (S {a} (VP (VBZ is) {ab})) (, ,) (CC and) (S (NP (EX there)) (VP (VBZ is) {c})){end})",
        _THERE.format(what="(NP (NP {a} {ab}) (, ,) (CC and) (ADVP (RB also)) {c})"),
        "(NP {c} (, ,) (CC and) (NP {a} {ab}){end})",
        "(NP (NP {b} (PP (IN with) (NP {a} {its_ab}))) (, ,) (CC and) {c}{end})",
    ),
    (3, 2): (
        "(S (S {a} (VP (VBZ is) {ab})) (, ,) (CC and) (S {c} (VP (VBZ is) {cb})){end})",
        "(S (SINV {ab} (VP (VBZ is)) {a}) (, ,) (CC and) (SINV {cb} (VP (VBZ is)) {c}){end})",
        "(NP {b} (PP (IN with) (NP (NP {a} {its_ab}) (CC and) (NP {c} {its_cb}))){end})",
        _THERE.format(what="(NP (NP {a} {ab}) (, ,) (CC and) (NP {c} {cb}))"),
    ),
}
_TAIL = " (PP (IN along) (PP (IN with) {x}))"
_ALONE = " (PP (IN along) (PP (IN with) (NP (NN nothing) (JJ else))))"
_SIDE = "(PP (IN to) (NP (NP (DT the) (NN {kind})) (PP (IN of) {what})))"
_ITS_SIDE = "(PP (IN to) (NP (PRP$ its) (NN {kind})))"


def world_parser(target: str) -> Parser:
    """Return the parser of the embedded world's language.

    Raises:
        BackendError: a target is given, but the parser takes none.
    """
    if target:
        raise BackendError(f"Parser 'world' takes no target, but 'world:{target}' gives one: write world.")
    return parse_captions


def parse_captions(texts: Sequence[str]) -> list[Parse]:
    """Return the exact tree of each caption of the world.

    Raises:
        DataError: a text is not a caption of the world.
    """
    readings = {text: parse_caption(text) for text in texts}
    foreign = sorted(text for text, reading in readings.items() if reading is None)
    if foreign:
        raise DataError(
            f"Some texts are not captions of the embedded world (number of texts: {len(foreign)}):\n"
            f"{format_items([repr(t) for t in foreign])}\nGive trees from another parser: given:FILE."
        )
    parses = {
        text: _parse_caption(text, reading) for text, reading in readings.items() if reading is not None
    }
    return [parses[text] for text in texts]


def _parse_caption(text: str, reading: Reading) -> Parse:
    meaning = reading.meaning
    mentions = meaning.mentions
    slots = {name: _format_noun_phrase(mention) for name, mention in zip("abc", mentions, strict=False)}
    tail = _TAIL.format(x=_format_noun_phrase(reading.added)) if reading.added else _ALONE * reading.alone
    for relation in meaning.relations:
        pair = "abc"[relation.subject] + "abc"[relation.object]
        # The second relation names b again, by its noun alone.
        again = f"(NP (DT the) (NN {mentions[1].noun}))"
        slots[pair] = _format_preposition(relation.predicate, slots["b"] if pair == "ab" else again)
        slots[f"its_{pair}"] = _format_adverbial(relation.predicate)
        slots[f"its_{pair[::-1]}"] = _format_adverbial(INVERSE[relation.predicate])
    tree = TREES[get_pattern_key(meaning)][reading.pattern].format(**slots, end=f"{tail} (. .)")
    return read_trees(tree, f"the tree of {text!r}")


def _format_noun_phrase(mention: Mention) -> str:
    """Return the noun phrase of a mention."""
    adjectives = [word for word in (mention.size, mention.colour) if word]
    first = (*adjectives, mention.noun)[0]
    tags = "".join(f" (JJ {word})" for word in adjectives)
    noun = f"(NP (DT {'an' if first[0] in 'aeiou' else 'a'}){tags} (NN {mention.noun}))"
    if mention.position is None:
        return noun
    preposition, article, side = POSITION_PHRASE[mention.position].split()
    return f"(NP {noun} (PP (IN {preposition}) (NP (DT {article}) (NN {side}))))"


def _format_preposition(relation: str, what: str) -> str:
    """Return "to the left of …" or "above …" as a tree."""
    return (
        _SIDE.format(kind=relation, what=what)
        if relation in ("left", "right")
        else f"(PP (IN {relation}) {what})"
    )


def _format_adverbial(relation: str) -> str:
    """Return "to its left" or "above it" as a tree."""
    return (
        _ITS_SIDE.format(kind=relation)
        if relation in ("left", "right")
        else f"(PP (IN {relation}) (NP (PRP it)))"
    )
