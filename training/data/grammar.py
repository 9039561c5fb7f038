"""A small grammar that makes English sentences and their French translations, in pairs.

It is the corpus of the task `translation` where nothing can be downloaded. What makes it worth
a Transformer is that few words can be translated alone: genders, agreements, elisions, another
order of words, an "it" that is il or elle by the noun it stands for. Yet nothing is a matter of
taste: each English sentence has exactly one French translation here, and each French one exactly
one English, so that a model can be taught in either direction.

Tables of words come first, some 200 for each language; then builders, which make both languages at
once and leave nothing to chance; then a `SentenceMaker`, who draws what to say.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import NamedTuple, TypeVar

Item = TypeVar("Item")
Pair = tuple[str, str]

# --- Words ----------------------------------------------------------------------------------------

# A noun's kind says who may do what with it. Names for several kinds:
GROUPS = {
    "people": "adult child kin",
    "alive": "adult child kin animal",
    "goods": "thing furniture door book",
    "sites": "venue spot",
}
MASS = ("staple", "drink")  # the kinds that are not counted

# Kind and gender | words. A plural that is not given adds an s. No French h is aspirated here (le
# hibou), no plural looks like its singular (la souris, the sheep), and no word has two translations
# (fille is a girl, never a daughter).
_NOUNS = """
    adult m     | man/men homme, king roi
    adult f     | woman/women femme, queen reine
    child m     | boy garçon, child/children enfant
    child f     | girl fille
    kin m       | brother frère, friend ami, neighbour voisin, doctor médecin
    kin f       | sister sœur, aunt tante
    animal m    | cat chat, dog chien, horse cheval/chevaux, bird oiseau/oiseaux
    animal f    | cow vache, hen poule, goat chèvre
    thing m     | hat chapeau/chapeaux, coat manteau/manteaux
    thing f     | key clé
    furniture f | table table, chair chaise, car voiture
    door f      | door porte, window fenêtre
    book m      | book livre
    text f      | letter lettre, story/stories histoire, song chanson
    venue m     | market marché, hotel hôtel, castle château/châteaux
    venue f     | school école, church/churches église, station gare
    spot m      | garden jardin, park parc
    spot f      | house maison
    food m      | egg œuf, cake gâteau/gâteaux
    food f      | apple pomme, orange orange
    staple m    | bread pain, cheese fromage
    staple f    | meat viande
    drink m     | milk lait
    drink f     | water eau
"""

# ProcessContext in French, and what it may be said of | masculine/feminine/masculine before a vowel. A
# feminine that is not given ends in e.
_ADJECTIVES = """
    before animal goods sites food                      | big grand
    before child animal goods sites food                | small petit
    before adult animal thing furniture book text sites | beautiful beau/belle/bel
    before adult child animal                           | young jeune
    before adult kin animal goods text sites            | old vieux/vieille/vieil
    before book text food staple drink                  | good bon/bonne
    after thing furniture door                          | red rouge, blue bleu, green vert
    after thing furniture door animal                   | white blanc/blanche, black noir
    after people                                        | happy heureux/heureuse, kind gentil/gentille
    after people animal                                 | tired fatigué, clever intelligent
    after people text                                   | sad triste
    after adult kin                                     | rich riche
    after adult thing text spot                         | strange étrange
    after goods food staple                             | expensive cher/chère
    after goods sites                                   | clean propre
    after staple drink                                  | hot chaud, cold froid
"""

# English base/past and particle | French | who | what | sort. A past that is not given adds -ed.
# A deed can be ordered, an event cannot; a state and a feeling have no past here (it would be the
# imparfait), and a feeling is about something definite. Read is missing: its past is spelt alike.
_VERBS = """
    eat/ate        | manger          | alive  | food staple                  | deed
    drink/drank    | boire           | alive  | drink                        | deed
    buy/bought     | acheter         | people | goods food staple drink      | deed
    write/wrote    | écrire          | people | book text                    | deed
    open           | ouvrir          | people | door                         | deed
    close/closed   | fermer          | people | door                         | deed
    take/took      | prendre         | people | thing book food              | deed
    look at        | regarder        | alive  | alive goods sites            | deed
    look for       | chercher        | alive  | alive thing book             | deed
    wait for       | attendre        | alive  | people                       | deed
    help           | aider           | people | people                       | deed
    speak/spoke to | parler à        | people | people                       | deed
    answer         | répondre à      | people | people                       | deed
    talk about     | parler de       | people | alive goods text             | deed
    sleep/slept    | dormir          | alive  |                              | deed
    work           | travailler      | people |                              | deed
    sing/sang      | chanter         | people |                              | deed
    see/saw        | voir            | alive  | alive goods sites            | event
    lose/lost      | perdre          | people | thing book                   | event
    go/went to     | aller à         | people | venue                        | move
    come/came from | venir de        | people | sites                        | move
    have           | avoir           | people | kin animal goods food        | state
    want           | vouloir         | people | thing book food staple drink | state
    need           | avoir besoin de | people | kin goods                    | state
    be hungry      | avoir faim      | alive  |                              | state
    be cold        | avoir froid     | alive  |                              | state
    be afraid of   | avoir peur de   | alive  | alive                        | state
    love           | aimer           | alive  | alive text sites             | feeling
    know           | connaître       | alive  | people venue                 | feeling
    be             | être            |        |                              | state
"""

# je, tu, il, nous, ils, and the past participle, of the verbs that do not go like parler or vendre.
_IRREGULAR = """
    acheter achète achètes achète achetons achètent acheté
    aller vais vas va allons vont allé
    avoir ai as a avons ont eu
    boire bois bois boit buvons boivent bu
    connaître connais connais connaît connaissons connaissent connu
    devoir dois dois doit devons doivent dû
    dormir dors dors dort dormons dorment dormi
    écrire écris écris écrit écrivons écrivent écrit
    être suis es est sommes sont été
    manger mange manges mange mangeons mangent mangé
    ouvrir ouvre ouvres ouvre ouvrons ouvrent ouvert
    pouvoir peux peux peut pouvons peuvent pu
    prendre prends prends prend prenons prennent pris
    venir viens viens vient venons viennent venu
    voir vois vois voit voyons voient vu
    vouloir veux veux veut voulons veulent voulu
"""

# Before one, several and what is not counted | before le, la and les. "not a" stands under a
# negation: I do not see a cat, any cats; je ne vois pas de chat, de chats. His and her are missing:
# son, sa and ses do not tell them apart.
_DETERMINERS = """
    the      | the the the       | le la les
    a        | a some -          | un une des
    some     | - - some          | du de_la -
    not a    | a any any         | de de de
    this     | this these this   | ce cette ces
    my       | my my my          | mon ma mes
    your     | your your your    | ton ta tes
    our      | our our our       | notre notre nos
    their    | their their their | leur leur leurs
    many     | - many -          | - - beaucoup_de
    two      | - two -           | - - deux
    three    | - three -         | - - trois
    four     | - four -          | - - quatre
    seven    | - seven -         | - - sept
    ten      | - ten -           | - - dix
"""
OWNERS, NUMBERS = ("my", "your", "our", "their"), ("two", "three", "four", "seven", "ten")
ROLES = {  # which determiners may stand where, the usual ones several times
    "subject": ("the",) * 9 + OWNERS * 2 + ("this",) + NUMBERS[:3],
    "object": ("the",) * 6 + OWNERS + NUMBERS + ("this", "many") + ("a", "some") * 6,
    "denied": ("the",) * 6 + OWNERS + ("this",) + ("not a",) * 5,
    "definite": ("the",) * 8 + OWNERS + ("this",),
}

# Tenses with an infinitive: its English verb, what stands between, its French verb.
HELPERS = {
    "future": ("be", "going to", "aller"),
    "can": ("can", "", "pouvoir"),
    "must": ("must", "", "devoir"),
    "want": ("want", "to", "vouloir"),
}
TENSES = ("present",) * 4 + ("past",) * 4 + ("future",) * 2 + ("can", "must", "want")
TIMELESS = ("state", "feeling")  # sorts of verb that have the present only
NEGATIONS = {"not": "pas", "never": "jamais", "no longer": "plus"}
ADVERBS = NEGATIONS | {"": "", "often": "souvent", "always": "toujours", "sometimes": "parfois"}
MARKS = {  # the adverbs beside the verb, by tense, the usual ones several times
    "present": ("",) * 10 + ("not",) * 3 + tuple(ADVERBS),
    "past": ("",) * 6 + ("not", "not", "never"),
    "be": ("",) * 8 + ("not", "not", "no longer", "always"),
}
TIMES = {
    "present": {"every day": "tous les jours", "in the morning": "le matin", "now": "maintenant"},
    "past": {"yesterday": "hier", "this morning": "ce matin", "last week": "la semaine dernière"},
    "future": {"tomorrow": "demain", "today": "aujourd'hui", "this evening": "ce soir"},
}
PLACES = (
    ("in", "dans", "sites"),
    ("at", "à", "venue"),
    ("near", "près de", "sites furniture door"),
    ("behind", "derrière", "sites door"),
    ("in front of", "devant", "sites door"),
    ("under", "sous", "furniture"),
    ("on", "sur", "furniture"),
    ("with", "avec", "people"),
)
LINKS = (("and", "et"), (", but", ", mais"), ("because", "parce que"))
QUESTIONS = (("", ""),) * 4 + (("why", "pourquoi"), ("when", "quand"))


class Noun(NamedTuple):
    """A noun, singular and plural."""

    english: Sequence[str]
    french: Sequence[str]
    feminine: bool
    kind: str


class Adjective(NamedTuple):
    """An adjective; its French forms are in the order of `Phrase.form`."""

    english: str
    french: Sequence[str]
    liaison: str  # the masculine before a vowel
    before: bool
    kinds: frozenset[str]


class Verb(NamedTuple):
    """A verb; `own` is what belongs to it in French: avoir *besoin*."""

    english: str
    past: str
    particle: str
    infinitive: str
    own: str
    preposition: str
    subjects: frozenset[str]
    objects: frozenset[str]
    sort: str


@cache
def kinds_of(names: str) -> frozenset[str]:
    """The kinds under these names, of kinds or of groups."""
    return frozenset(" ".join(GROUPS.get(name, name) for name in names.split()).split())


def joined(*parts: str) -> str:
    """The parts that are not empty, with spaces between."""
    return " ".join([part for part in parts if part])


def _rows(table: str) -> Iterator[list[str]]:
    """The columns of each row."""
    return ([part.strip() for part in row.split("|")] for row in table.strip().splitlines())


def _words(table: str) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """What a table says of each word, its forms in English, and those in French."""
    for use, words in _rows(table):
        for english, french in map(str.split, words.split(", ")):
            yield use.split(), english.split("/"), french.split("/")


def _noun(use: list[str], english: list[str], french: list[str]) -> Noun:
    english, french = ([*forms, forms[0] + "s"][:2] for forms in (english, french))
    return Noun(english, french, use[1] == "f", use[0])


def _adjective(use: list[str], english: list[str], french: list[str]) -> Adjective:
    un, une, liaison = (*french, "", "")[:3]
    une = une or un.removesuffix("e") + "e"
    des = un + ("" if un[-1] in "sx" else "x" if un.endswith("eau") else "s")
    kinds = kinds_of(" ".join(use[1:]))
    return Adjective(
        english[0], (un, une, des, une + "s"), liaison or un, use[0] == "before", kinds
    )


def _verb(english: str, french: str, subjects: str, objects: str, sort: str) -> Verb:
    (verb, _, particle), (infinitive, *own) = english.partition(" "), french.split()
    base, _, past = verb.partition("/")
    preposition = own.pop() if own and own[-1] in ("à", "de") else ""
    words = (base, past or base + "ed", particle, infinitive, " ".join(own), preposition)
    return Verb(*words, kinds_of(subjects), kinds_of(objects), sort)


# Each under its English: man, red, look at.
NOUNS = {noun.english[0]: noun for noun in (_noun(*word) for word in _words(_NOUNS))}
ADJECTIVES = {word.english: word for word in (_adjective(*word) for word in _words(_ADJECTIVES))}
VERBS = {
    joined(verb.english, verb.particle): verb for verb in (_verb(*row) for row in _rows(_VERBS))
}
CONJUGATIONS = {forms.split()[0]: forms.split()[1:] for [forms] in _rows(_IRREGULAR)}
DETERMINERS = {
    name: (english.split(), [form.replace("_", " ") for form in french.split()])
    for name, english, french in _rows(_DETERMINERS)
}


@cache
def conjugated(infinitive: str) -> list[str]:
    """The present for je, tu, il, nous, ils, and the past participle."""
    endings = "e es e ons ent é" if infinitive.endswith("er") else "s s  ons ent u"
    regular = [infinitive[:-2] + ending for ending in endings.split(" ")]
    return CONJUGATIONS.get(infinitive, regular)


# --- Phrases and clauses --------------------------------------------------------------------------


class Phrase(NamedTuple):
    """A noun phrase or a pronoun; its person is a row of the verb: je, tu, il, nous, ils."""

    english: str
    french: str
    person: int = 2
    feminine: bool = False
    kind: str = "adult"

    @property
    def form(self) -> int:
        """How an adjective agrees with it: 0 vert, 1 verte, 2 verts, 3 vertes."""
        return 2 * (self.person > 2) + self.feminine

    def named(self, english: str, french: str) -> Phrase:
        """The same in other words."""
        return self._replace(english=english, french=french)


class Clause(NamedTuple):
    """A subject, a verb, and what follows in either language."""

    subject: Phrase
    verb: Verb
    tense: str = "present"
    mark: str = ""  # an adverb beside the verb
    english: str = ""
    french: str = ""
    clitic: str = ""  # the French object pronoun, which stands before its verb
    agreement: int = 0  # the form of the object, if that stands before the participle

    def then(self, english: str, french: str) -> Clause:
        """The clause with more at its end."""
        english, french = joined(self.english, english), joined(self.french, french)
        return self._replace(english=english, french=french)

    def about(self, thing: Phrase) -> Clause:
        """The clause with an object: la clé, au roi, du chat."""
        return self.then(thing.english, joined(self.verb.preposition, thing.french))


JE, TU, NOUS = Phrase("I", "je", 0), Phrase("you", "tu", 1), Phrase("we", "nous", 3)
IL, ELLE = Phrase("he", "il"), Phrase("she", "elle", feminine=True)
ILS = Phrase("they", "ils", 4)  # of whom nothing was said yet; `again` knows better
PRONOUNS = (JE, JE, TU, NOUS, IL, ELLE, ILS)
QUI = Phrase("who", "qui")
NOBODY = Phrase("", "", 0)  # who is given an order: its verb is like that of je, ouvre la porte !


def noun_phrase(
    determiner: str, noun: Noun, plural: bool = False, adjective: Adjective | None = None
) -> Phrase:
    """Determiner, adjective and noun: some old songs, de vieilles chansons."""
    (english, french), form = DETERMINERS[determiner], 2 * plural + noun.feminine
    article, quality, before, after = french[min(form, 2)], "", "", ""
    if adjective:
        quality, after = adjective.english, adjective.french[form]
    if adjective and adjective.before:
        before, after = after, ""
        if form == 0 and VOWEL.match(noun.french[0]):
            before = adjective.liaison
        article = "de" if article == "des" else article
    return Phrase(
        joined(english[2 if noun.kind in MASS else plural], quality, noun.english[plural]),
        joined(article, before, noun.french[plural], after),
        4 if plural else 2,
        noun.feminine,
        noun.kind,
    )


def belonging(owner: Phrase, owned: Phrase) -> Phrase:
    """What begins with "the", as the owner's: the king's horse, le cheval du roi."""
    mark = "'" if owner.person > 2 and owner.english.endswith("s") else "'s"
    rest = owned.english.removeprefix("the")
    return owned.named(f"{owner.english}{mark}{rest}", f"{owned.french} de {owner.french}")


def again(phrase: Phrase) -> Phrase:
    """The pronoun for what was named already; whether "it" is il or elle depends on the noun."""
    if phrase in (JE, TU, NOUS):
        return phrase
    one = "it" if phrase.kind not in kinds_of("people") else "she" if phrase.feminine else "he"
    french = ("il", "elle", "ils", "elles")[phrase.form]
    return phrase.named("they" if phrase.person > 2 else one, french)


def that_does(head: Phrase, clause: Clause) -> Phrase:
    """The head and what it does: the cat that sleeps, le chat qui dort."""
    pronoun = "who" if head.kind in kinds_of("people") else "that"
    clause = clause._replace(subject=head.named(pronoun, "qui"))
    return head.named(f"{head.english} {in_english(clause)}", f"{head.french} {in_french(clause)}")


def that_is_done(head: Phrase, clause: Clause) -> Phrase:
    """The head and what is done to it: la lettre que j'ai écrite."""
    english, french = in_english(clause), in_french(clause._replace(agreement=head.form))
    return head.named(f"{head.english} that {english}", f"{head.french} que {french}")


def in_english(clause: Clause, asking: bool = False) -> str:
    """The clause in English; its helping verb comes first in a question."""
    subject, verb, tense, mark = clause[:4]
    head, link, _ = HELPERS.get(tense, (verb.english, "", ""))
    rest = joined(link, verb.english) if tense in HELPERS else ""
    be, third = ("am", "are", "is", "are", "are")[subject.person], subject.person == 2
    helper = {"be": be, "can": "can", "must": "must"}.get(head, "")
    if not helper and (asking or mark == "not"):
        helper, rest = "did" if tense == "past" else "does" if third else "do", joined(head, rest)
    elif not helper:
        thirds = {"have": "has", "go": "goes"}
        present = thirds.get(head, head + "s") if third else head
        rest = joined(verb.past if tense == "past" else present, rest)
    start = (helper, subject.english) if asking else (subject.english, helper)
    return joined(*start, mark, rest, verb.particle, clause.english)


def in_french(clause: Clause) -> str:
    """The clause in French: subject, [ne], [pronoun], verb, [pas], [pronoun and] second verb."""
    subject, verb, tense, mark = clause[:4]
    early, late, head, rest = clause.clitic, "", verb.infinitive, ""
    if tense in HELPERS:
        early, late, head, rest = "", early, HELPERS[tense][2], head
    elif tense == "past":
        moving = verb.sort == "move"  # with être, and agreeing with the subject
        form = subject.form if moving else clause.agreement
        head, rest = "être" if moving else "avoir", conjugated(head)[5]
        rest += ("", "e", "" if rest.endswith("s") else "s", "es")[form]
    ne = "ne" if mark in NEGATIONS else ""
    start = joined(subject.french, ne, early, conjugated(head)[subject.person], ADVERBS[mark])
    return joined(start, late, rest, verb.own, clause.french)


def object_pronouns(clause: Clause) -> list[tuple[str, str, int]]:
    """The pronouns that can be its object: English, French, and the form of a participle.

    Those are missing that one language does not tell apart: lui (him, her), l'aime (him, her), and
    in the past, where the participle agrees, m'a vu or vue (me), les a vus or vues (them).
    """
    subject, verb, tense, mark = clause[:4]
    if "adult" not in verb.objects or verb.preposition == "de" or (subject == NOBODY and not mark):
        return []
    indirect = verb.preposition == "à"
    found = [("me", "me", 0), ("you", "te", 0), ("us", "nous", 0)]
    found.append(("them", "leur" if indirect else "les", 0))
    one = [("him", "le", 0), ("her", "la", 1)]
    if tense == "past" and not indirect:
        found = one
    elif not indirect and not VOWEL.match(verb.infinitive):
        found += one
    clashing = {"I": ("me", "us"), "we": ("me", "us"), "you": ("you",), "": ("you",)}
    return [pronoun for pronoun in found if pronoun[0] not in clashing.get(subject.english, ())]


# --- Spelling -------------------------------------------------------------------------------------

VOWEL = re.compile("[aeiouyâàéèêîôûœh]")
# Before a vowel the short words lose theirs or change; what is left of de le and à le melts.
MEETING = re.compile(
    rf"\b((l[ea]|[djmtn]e|que|ce|[mt]a) (?={VOWEL.pattern})"
    rf"|(de|à) le(s|(?! {VOWEL.pattern}))\b)"
)
MET = {"ce ": "cet ", "ma ": "mon ", "ta ": "ton "}
MET |= {"de le": "du", "de les": "des", "à le": "au", "à les": "aux"}
ARTICLE = re.compile(r"\ba (?=[aeiou])")


def written(english: str, french: str, end: str = ".") -> Pair:
    """Both sides as they are spelt, with a capital and punctuation."""
    english = ARTICLE.sub("an ", english).replace("can not", "cannot").replace(" ,", ",")
    french = MEETING.sub(lambda met: MET.get(met[0]) or met[0][:-2] + "'", french)
    french = french.replace(" ,", ",") + ("" if end == "." else " ")
    return english[0].upper() + english[1:] + end, french[0].upper() + french[1:] + end


def stated(clause: Clause, end: str = ".") -> Pair:
    """A statement, an order, or a question about the subject."""
    return written(in_english(clause), in_french(clause), end)


def asked(clause: Clause, english: str = "", french: str = "") -> Pair:
    """A question with est-ce que, after a question word or without one."""
    english = joined(english, in_english(clause, asking=True))
    return written(english, joined(french, "est-ce que", in_french(clause)), "?")


# --- What to say ----------------------------------------------------------------------------------


@cache
def nouns(kinds: frozenset[str]) -> list[Noun]:
    """The nouns of these kinds."""
    return [noun for noun in NOUNS.values() if noun.kind in kinds]


@cache
def qualities(kind: str) -> list[Adjective]:
    """What may be said of this kind."""
    return [adjective for adjective in ADJECTIVES.values() if kind in adjective.kinds]


@cache
def actions(kind: str) -> list[Verb]:
    """What this kind may do."""
    return [verb for verb in VERBS.values() if kind in verb.subjects]


@cache
def determiners(role: str, kind: str, plural: bool) -> list[str]:
    """Those that may stand there; nobody says my man, and ma femme is my wife."""
    column, unowned = 2 if kind in MASS else plural, kind in ("adult", "child")
    fitting = [name for name in ROLES[role] if DETERMINERS[name][0][column] != "-"]
    return [name for name in fitting if not (unowned and name in OWNERS)]


class SentenceMaker:
    """Makes up sentences, always the same ones from the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        """Whether something of this probability happens."""
        # Of all that can be drawn, random() alone is promised to be the same in every Python.
        return self._random.random() < probability

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[int(self._random.random() * len(items))]

    def sentence(self) -> Pair:
        """Any sentence."""
        ways = (self.simple,) * 9 + (self.compound,) * 5 + (self.question,) * 5 + (self.order,)
        return self.pick(ways)()

    def simple(self) -> Pair:
        """One statement, with relative clauses, with a time, or with neither."""
        subject, rich = self.subject(), self.chance(0.5)
        if rich and subject not in PRONOUNS and self.chance(0.3):
            subject = self.relative(subject)
        clause = self.clause(subject, rich=rich)
        if not rich and clause.verb.sort not in TIMELESS and clause.mark in ("", "not"):
            times = TIMES.get(clause.tense, TIMES["future"])
            clause = clause.then(*self.pick([*times.items(), ("", "")]))
        return stated(clause)

    def compound(self) -> Pair:
        """Two statements, the second mostly about the subject of the first."""
        first, (link, lien) = self.clause(self.subject()), self.pick(LINKS)
        subject = again(first.subject) if self.chance(0.7) else self.subject((JE, TU, NOUS))
        second = self.clause(subject)
        return stated(first.then(f"{link} {in_english(second)}", f"{lien} {in_french(second)}"))

    def question(self) -> Pair:
        """Whether, why or when something is so, or who does it."""
        if self.chance(0.2):
            return stated(self.clause(QUI, marks=("",)), "?")
        clause, words = self.clause(self.subject(), marks=("",)), self.pick(QUESTIONS)
        return asked(clause, *words) if clause.verb.sort not in TIMELESS else asked(clause)

    def order(self) -> Pair:
        """An order, or a prohibition."""
        deeds = [verb for verb in actions("adult") if verb.sort == "deed"]
        verb, mark = self.pick(deeds), self.pick(("", "", "not", "never"))
        return stated(self.completed(Clause(NOBODY, verb, mark=mark)), "!")

    def clause(self, subject: Phrase, marks: Sequence[str] = (), rich: bool = False) -> Clause:
        """What the subject does or is, with one of these marks; rich if its object has a clause."""
        active = actions(subject.kind)
        if not active or self.chance(0.2):
            return self.description(subject, self.pick(marks or MARKS["be"]))
        verb = self.pick(active)
        tense = "present" if verb.sort in TIMELESS else self.pick(TENSES)
        if tense == "past" and verb.sort == "move" and subject in (JE, TU, NOUS):
            tense = "present"  # je suis allé or allée?
        mark = self.pick(marks or MARKS.get(tense, ("", "", "", "not")))
        return self.completed(Clause(subject, verb, tense, mark), rich)

    def description(self, subject: Phrase, mark: str) -> Clause:
        """What the subject is like, or where it is."""
        clause, fitting = Clause(subject, VERBS["be"], mark=mark), qualities(subject.kind)
        if subject in (JE, TU, NOUS):  # je suis heureux or heureuse?
            fitting = [each for each in fitting if each.french[0] == each.french[1]]
        if subject.kind in kinds_of("alive goods") and self.chance(0.3):
            return self.somewhere(clause)
        quality = self.pick(fitting)
        return clause.then(quality.english, quality.french[subject.form])

    def completed(self, clause: Clause, rich: bool = False) -> Clause:
        """The clause with its object, or with a context, or with both."""
        verb, pronouns = clause.verb, object_pronouns(clause)
        if pronouns and self.chance(0.35):
            me, moi, agreement = self.pick(pronouns)
            return clause.then(me, "")._replace(clitic=moi, agreement=agreement)
        if verb.objects:
            definite = verb.preposition or verb.sort == "feeling"
            role = "definite" if definite else "denied" if clause.mark in NEGATIONS else "object"
            thing = self.thing(verb.objects, role)
            if rich and role != "denied":
                thing = self.relative(thing)
            clause = clause.about(thing)
        full = rich or verb.preposition or verb.sort in TIMELESS
        return clause if full or self.chance(0.7) else self.somewhere(clause)

    def somewhere(self, clause: Clause) -> Clause:
        """The clause with a context or company."""
        english, french, kinds = self.pick(PLACES)
        context = self.thing(kinds_of(kinds), "definite")
        return clause.then(f"{english} {context.english}", f"{french} {context.french}")

    def subject(self, pronouns: Sequence[Phrase] = PRONOUNS) -> Phrase:
        """Who does something, or what is somehow."""
        if self.chance(0.35):
            return self.pick(pronouns)
        kinds = "alive" if self.chance(0.8) else "goods text sites staple drink"
        return self.thing(kinds_of(kinds), "subject")

    def thing(self, kinds: frozenset[str], role: str) -> Phrase:
        """Something of these kinds, now and then with an adjective or an owner."""
        noun = self.pick(nouns(kinds))
        often = 0.1 if noun.kind in kinds_of("sites") else 0.35
        plural = noun.kind not in MASS and self.chance(often)
        determiner = self.pick(determiners(role, noun.kind, plural))
        adjective = self.pick(qualities(noun.kind)) if self.chance(0.35) else None
        phrase = noun_phrase(determiner, noun, plural, adjective)
        if determiner != "the" or noun.kind in ("adult", "child") or self.chance(0.75):
            return phrase
        return belonging(self.thing(kinds_of("people"), "definite"), phrase)

    def relative(self, head: Phrase) -> Phrase:
        """Something that does something, or that something is done to."""
        subject = self.subject((JE, TU, NOUS))
        verbs = [verb for verb in actions(subject.kind) if head.kind in verb.objects]
        verbs = [verb for verb in verbs if not verb.preposition and verb.sort != "state"]
        if not verbs or self.chance(0.3):
            return that_does(head, self.clause(head))
        verb = self.pick(verbs)
        tense = "present" if verb.sort in TIMELESS or self.chance(0.25) else "past"
        return that_is_done(head, Clause(subject, verb, tense))


SPLITS = {"train": 20_000, "validation": 500, "test": 1_000}
SHORTEST, LONGEST = 3, 16  # in words between spaces


def corpus() -> dict[str, list[Pair]]:
    """The whole corpus, always the same: `train`, `validation` and `test`, pairs of an English and a
    French sentence. None comes twice."""
    speaker, found = SentenceMaker(seed=1), dict[str, str]()
    while len(found) < sum(SPLITS.values()):
        english, french = speaker.sentence()
        lengths = len(english.split()), len(french.split())
        if min(lengths) >= SHORTEST and max(lengths) <= LONGEST:
            found[english] = french  # once, however often it is said
    # What is found late is longer, for short sentences run out: mix before the cut.
    order = random.Random(1)
    pairs = iter(sorted(found.items(), key=lambda _: order.random()))
    return {split: list(islice(pairs, size)) for split, size in SPLITS.items()}
