"""The English–French grammar: sentences translated by hand, rules of French, and what is promised."""

import hashlib
import json
import re
from collections import Counter

import pytest

from training.data import grammar
from training.data.grammar import (
    ADJECTIVES,
    ELLE,
    IL,
    ILS,
    JE,
    NOBODY,
    NOUNS,
    NOUS,
    QUI,
    TU,
    VERBS,
    Clause,
    SentenceMaker,
    again,
    asked,
    belonging,
    conjugated,
    corpus,
    in_english,
    in_french,
    noun_phrase,
    object_pronouns,
    stated,
    that_does,
    that_is_done,
)

SHA256 = "38962d7aeaee3d8e049ccfa6d4691954b227515d442619ac03575d7b180f2c00"
VOWEL = "[aeiouyhàâéèêîôûœ]"


@pytest.fixture(scope="module")
def splits():
    """The corpus, made once."""
    return corpus()


@pytest.fixture(scope="module")
def pairs(splits):
    """All its pairs."""
    return [pair for split in splits.values() for pair in split]


def words(sentence):
    """The words of a sentence in small letters; what is elided keeps its apostrophe: j', ai, vu."""
    return re.findall(r"aujourd'hui|[\w-]+'?", sentence.lower())


# --- Sentences translated by hand -----------------------------------------------------------------


def np(text):
    """A noun phrase: the name of a determiner, perhaps an adjective, a noun (a old cats: some old cats)."""
    plurals = {noun.english[1]: name for name, noun in NOUNS.items()}
    *start, last = text.replace("these", "this").split()
    adjective = ADJECTIVES[start.pop()] if start[-1] in ADJECTIVES else None
    return noun_phrase(" ".join(start), NOUNS[plurals.get(last, last)], last in plurals, adjective)


def say(subject, verb, thing=None, tense="present", mark=""):
    """A clause. Its object is the English of a noun phrase or of a pronoun, or a phrase."""
    subject = np(subject) if isinstance(subject, str) else subject
    clause = Clause(subject, VERBS[verb], tense, mark)
    pronouns = [each for each in object_pronouns(clause) if each[0] == thing]
    if pronouns:
        [(me, moi, form)] = pronouns
        return clause.then(me, "")._replace(clitic=moi, agreement=form)
    return clause.about(np(thing) if isinstance(thing, str) else thing) if thing else clause


def so(subject, adjective, mark=""):
    """A clause that says what the subject is like."""
    clause = say(subject, "be", mark=mark)
    return clause.then(adjective, ADJECTIVES[adjective].french[clause.subject.form])


def at(clause, preposition, text):
    """The clause with a place."""
    [french] = [french for english, french, _ in grammar.PLACES if english == preposition]
    return clause.then(f"{preposition} {np(text).english}", f"{french} {np(text).french}")


def when(clause, time):
    """The clause with a time."""
    [french] = [times[time] for times in grammar.TIMES.values() if time in times]
    return clause.then(time, french)


def two(first, link, second):
    """Two clauses, the second about the subject of the first if it is given as a function of it."""
    french = dict(grammar.LINKS)[link]
    second = second(again(first.subject)) if callable(second) else second
    return first.then(f"{link} {in_english(second)}", f"{french} {in_french(second)}")


BY_HAND = [
    # adjectives after and before the noun, and how they agree
    (so("the red car", "big"), "The red car is big.", "La voiture rouge est grande."),
    (
        so("my green chairs", "expensive"),
        "My green chairs are expensive.",
        "Mes chaises vertes sont chères.",
    ),
    (
        say("the beautiful birds", "sleep"),
        "The beautiful birds sleep.",
        "Les beaux oiseaux dorment.",
    ),
    (say("the beautiful bird", "sleep"), "The beautiful bird sleeps.", "Le bel oiseau dort."),
    (say("my old friend", "work"), "My old friend works.", "Mon vieil ami travaille."),
    (say("my old friends", "work"), "My old friends work.", "Mes vieux amis travaillent."),
    (
        so("the white churches", "old"),
        "The white churches are old.",
        "Les églises blanches sont vieilles.",
    ),
    (so("the kind queen", "happy"), "The kind queen is happy.", "La reine gentille est heureuse."),
    (
        so("the clever kings", "happy"),
        "The clever kings are happy.",
        "Les rois intelligents sont heureux.",
    ),
    (so("the castle", "beautiful"), "The castle is beautiful.", "Le château est beau."),
    # determiners
    (say(JE, "have", "a orange"), "I have an orange.", "J'ai une orange."),
    (say(JE, "have", "a old tables"), "I have some old tables.", "J'ai de vieilles tables."),
    (say(JE, "have", "a black tables"), "I have some black tables.", "J'ai des tables noires."),
    (say(ELLE, "eat", "some good bread"), "She eats some good bread.", "Elle mange du bon pain."),
    (say(NOUS, "drink", "some water"), "We drink some water.", "Nous buvons de l'eau."),
    (
        say("their dog", "eat", "some meat"),
        "Their dog eats some meat.",
        "Leur chien mange de la viande.",
    ),
    (
        say("this child", "love", "my school"),
        "This child loves my school.",
        "Cet enfant aime mon école.",
    ),
    (
        say("this girl", "love", "your story"),
        "This girl loves your story.",
        "Cette fille aime ton histoire.",
    ),
    (say(TU, "have", "many oranges"), "You have many oranges.", "Tu as beaucoup d'oranges."),
    (
        say("three men", "open", "these windows"),
        "Three men open these windows.",
        "Trois hommes ouvrent ces fenêtres.",
    ),
    # negation, and adverbs beside the verb
    (
        say("the old man", "see", "the red car", mark="not"),
        "The old man does not see the red car.",
        "Le vieil homme ne voit pas la voiture rouge.",
    ),
    (say(JE, "have", "not a cats", mark="not"), "I do not have any cats.", "Je n'ai pas de chats."),
    (
        say(IL, "eat", "not a egg", mark="never"),
        "He never eats an egg.",
        "Il ne mange jamais d'œuf.",
    ),
    (
        say(TU, "drink", "not a milk", mark="no longer"),
        "You no longer drink any milk.",
        "Tu ne bois plus de lait.",
    ),
    (say("the woman", "sing", mark="often"), "The woman often sings.", "La femme chante souvent."),
    (so(ILS, "tired", mark="always"), "They are always tired.", "Ils sont toujours fatigués."),
    # tenses
    (say(JE, "see", "the king", "past"), "I saw the king.", "J'ai vu le roi."),
    (
        say("the girls", "open", "the door", "past", "not"),
        "The girls did not open the door.",
        "Les filles n'ont pas ouvert la porte.",
    ),
    (
        when(say("two queens", "go to", "the market", "past"), "yesterday"),
        "Two queens went to the market yesterday.",
        "Deux reines sont allées au marché hier.",
    ),
    (
        when(say(NOUS, "buy", "a hats", "future"), "tomorrow"),
        "We are going to buy some hats tomorrow.",
        "Nous allons acheter des chapeaux demain.",
    ),
    (
        say(IL, "write", "not a letter", "can", "not"),
        "He cannot write a letter.",
        "Il ne peut pas écrire de lettre.",
    ),
    # pronouns before the verb
    (say(JE, "see", "him"), "I see him.", "Je le vois."),
    (say(TU, "look at", "her", mark="not"), "You do not look at her.", "Tu ne la regardes pas."),
    (say(ELLE, "wait for", "me"), "She waits for me.", "Elle m'attend."),
    (say("the boy", "help", "her", "past"), "The boy helped her.", "Le garçon l'a aidée."),
    (
        say(NOUS, "look for", "them", "future"),
        "We are going to look for them.",
        "Nous allons les chercher.",
    ),
    (
        say(ILS, "speak to", "them", "past", "not"),
        "They did not speak to them.",
        "Ils ne leur ont pas parlé.",
    ),
    (say("the aunts", "love", "you"), "The aunts love you.", "Les tantes t'aiment."),
    (say(IL, "answer", "us", "want"), "He wants to answer us.", "Il veut nous répondre."),
    # prepositions that melt, and verbs that are built otherwise
    (say(JE, "answer", "the doctor"), "I answer the doctor.", "Je réponds au médecin."),
    (say(JE, "speak to", "the children"), "I speak to the children.", "Je parle aux enfants."),
    (say(ELLE, "speak to", "the child"), "She speaks to the child.", "Elle parle à l'enfant."),
    (say(ILS, "talk about", "the dogs"), "They talk about the dogs.", "Ils parlent des chiens."),
    (say(IL, "come from", "the park"), "He comes from the park.", "Il vient du parc."),
    (
        say("the cat", "be afraid of", "the horse"),
        "The cat is afraid of the horse.",
        "Le chat a peur du cheval.",
    ),
    (say(NOUS, "need", "a orange"), "We need an orange.", "Nous avons besoin d'une orange."),
    (say(NOUS, "be hungry", mark="not"), "We are not hungry.", "Nous n'avons pas faim."),
    (
        at(say("the bird", "sing"), "near", "the hotel"),
        "The bird sings near the hotel.",
        "L'oiseau chante près de l'hôtel.",
    ),
    (at(say(JE, "sleep"), "at", "the station"), "I sleep at the station.", "Je dors à la gare."),
    (
        at(say(ELLE, "work"), "in front of", "these houses"),
        "She works in front of these houses.",
        "Elle travaille devant ces maisons.",
    ),
    # whose it is
    (
        so(belonging(np("the king"), np("the big horses")), "young"),
        "The king's big horses are young.",
        "Les grands chevaux du roi sont jeunes.",
    ),
    (
        so(belonging(np("my friends"), np("the blue door")), "clean"),
        "My friends' blue door is clean.",
        "La porte bleue de mes amis est propre.",
    ),
    (
        so(belonging(np("the children"), np("the cow")), "old"),
        "The children's cow is old.",
        "La vache des enfants est vieille.",
    ),
    # relative clauses
    (
        say(that_does(np("the cats"), say(QUI, "see", "the dog")), "sleep"),
        "The cats that see the dog sleep.",
        "Les chats qui voient le chien dorment.",
    ),
    (
        say(JE, "know", that_does(np("the man"), say(QUI, "sing"))),
        "I know the man who sings.",
        "Je connais l'homme qui chante.",
    ),
    (
        so(that_is_done(np("the letters"), say(JE, "write", tense="past")), "sad"),
        "The letters that I wrote are sad.",
        "Les lettres que j'ai écrites sont tristes.",
    ),
    (
        say(ELLE, "want", that_is_done(np("the apple"), say(IL, "take", tense="past"))),
        "She wants the apple that he took.",
        "Elle veut la pomme qu'il a prise.",
    ),
    (
        say(ELLE, "have", that_is_done(np("the books"), say("the boy", "take", tense="past"))),
        "She has the books that the boy took.",
        "Elle a les livres que le garçon a pris.",
    ),
    # two clauses, and what the pronoun of the second one stands for
    (
        two(say("the woman", "sing"), "and", say("the men", "work")),
        "The woman sings and the men work.",
        "La femme chante et les hommes travaillent.",
    ),
    (
        two(
            say("the cow", "drink", "the water"),
            "because",
            lambda it: say(it, "be cold", mark="not"),
        ),
        "The cow drinks the water because it is not cold.",
        "La vache boit l'eau parce qu'elle n'a pas froid.",
    ),
    (
        two(say("the horse", "drink", "the water"), "because", lambda it: say(it, "be hungry")),
        "The horse drinks the water because it is hungry.",
        "Le cheval boit l'eau parce qu'il a faim.",
    ),
    (
        two(so("my sisters", "tired"), ", but", lambda they: so(they, "happy")),
        "My sisters are tired, but they are happy.",
        "Mes sœurs sont fatiguées, mais elles sont heureuses.",
    ),
]
OTHERWISE = [
    (
        asked(say("the cat", "see", "a bird")),
        "Does the cat see a bird?",
        "Est-ce que le chat voit un oiseau ?",
    ),
    (
        asked(say(ELLE, "write", "a letters", "past")),
        "Did she write some letters?",
        "Est-ce qu'elle a écrit des lettres ?",
    ),
    (
        asked(so("the apples", "good")),
        "Are the apples good?",
        "Est-ce que les pommes sont bonnes ?",
    ),
    (asked(say(TU, "help", "me", "can")), "Can you help me?", "Est-ce que tu peux m'aider ?"),
    (
        asked(say("the aunt", "lose", "the key", "past"), "when", "quand"),
        "When did the aunt lose the key?",
        "Quand est-ce que la tante a perdu la clé ?",
    ),
    (
        stated(say(QUI, "eat", "the cheese", "past"), "?"),
        "Who ate the cheese?",
        "Qui a mangé le fromage ?",
    ),
    (stated(say(NOBODY, "close", "the door"), "!"), "Close the door!", "Ferme la porte !"),
    (
        stated(say(NOBODY, "open", "this window", mark="not"), "!"),
        "Do not open this window!",
        "N'ouvre pas cette fenêtre !",
    ),
    (
        stated(say(NOBODY, "wait for", "us", mark="not"), "!"),
        "Do not wait for us!",
        "Ne nous attends pas !",
    ),
]
ALL_BY_HAND = [(stated(clause), *sides) for clause, *sides in BY_HAND] + OTHERWISE


@pytest.mark.parametrize(
    ("made", "english", "french"), ALL_BY_HAND, ids=[row[1] for row in ALL_BY_HAND]
)
def test_by_hand(made, english, french):
    """The builders say what was written here by hand."""
    assert made == (english, french)


# --- The words ------------------------------------------------------------------------------------


def test_no_word_has_two_translations():
    """Every form of a noun, an adjective and a verb stands for one word only, in both languages."""
    for side in ("english", "french"):
        nouns = [form for noun in NOUNS.values() for form in getattr(noun, side)]
        assert len(set(nouns)) == len(nouns) == 2 * len(NOUNS)
    assert len({adjective.french[0] for adjective in ADJECTIVES.values()}) == len(ADJECTIVES)
    assert len({verb.past for verb in VERBS.values()} - {"beed"}) >= 20
    french = {(verb.infinitive, verb.own, verb.preposition) for verb in VERBS.values()}
    assert len(french) == len(VERBS)


def test_conjugation():
    """Regular verbs in -er and -re, and a few others."""
    assert " ".join(conjugated("parler")) == "parle parles parle parlons parlent parlé"
    assert " ".join(conjugated("attendre")) == "attends attends attend attendons attendent attendu"
    assert " ".join(conjugated("manger")) == "mange manges mange mangeons mangent mangé"
    assert all(len(conjugated(verb.infinitive)) == 6 for verb in VERBS.values())


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        (say(IL, "see"), "me you us them him her"),
        (say(JE, "see"), "you them him her"),
        (say(TU, "see"), "me us them him her"),
        (say(IL, "love"), "me you us them"),  # il l'aime: him or her?
        (say(IL, "see", tense="past"), "him her"),  # il m'a vu, or vue?
        (say(IL, "love", tense="past"), "him her"),  # il l'a aimé, aimée
        (say(IL, "speak to"), "me you us them"),  # il lui parle: to him or to her?
        (say(IL, "speak to", tense="past"), "me you us them"),
        (say(IL, "talk about"), ""),
        (say(IL, "eat"), ""),
        (say(NOBODY, "help", mark="not"), "me us them"),
        (say(NOBODY, "help"), ""),  # aide-moi
    ],
)
def test_object_pronouns(clause, expected):
    """Those that would be ambiguous in one language are not said."""
    assert " ".join(name for name, _, _ in object_pronouns(clause)) == expected


# --- One translation, in both directions ----------------------------------------------------------


def assert_one_to_one(said):
    """No sentence has two translations."""
    for one, other in ((0, 1), (1, 0)):
        translations = {}
        for pair in said:
            assert translations.setdefault(pair[one], pair[other]) == pair[other], pair


def test_one_translation():
    """Of all that is said, whether or not it comes into the corpus."""
    speaker = SentenceMaker(seed=7)
    assert_one_to_one({speaker.sentence() for _ in range(20_000)})


@pytest.mark.parametrize("first", range(4))
def test_one_translation_where_words_are_few(first, monkeypatch):
    """With a word or two of each kind nearly everything that can be said is, and still it is one to one."""
    for name in ("nouns", "determiners"):
        every = getattr(grammar, name)
        few = lambda *use, every=every: [*every(*use)[first:], *every(*use)][:2]  # noqa: E731
        monkeypatch.setattr(grammar, name, few)
    speaker = SentenceMaker(seed=first)
    said = Counter(speaker.sentence() for _ in range(10_000))
    assert sum(count > 1 for count in said.values()) > 300, (
        "a test where nothing is said twice shows nothing"
    )
    assert_one_to_one(said)


# --- The corpus -----------------------------------------------------------------------------------


def test_sizes(splits):
    """As many pairs as are promised."""
    sizes = {split: len(found) for split, found in splits.items()}
    assert sizes == {"train": 20_000, "validation": 500, "test": 1_000}


@pytest.mark.parametrize("side", [0, 1])
def test_nothing_is_said_twice(pairs, side):
    """No sentence comes twice, so none comes in two splits."""
    assert len({pair[side] for pair in pairs}) == len(pairs)


def test_it_is_always_the_same(splits):
    """On every machine, under every Python; a change of the grammar changes this digest too."""
    text = json.dumps(splits, ensure_ascii=True)
    assert hashlib.sha256(text.encode()).hexdigest() == SHA256


def test_splits_are_alike(splits):
    """Lengths are the same on average, and no word of validation or test is unknown in training."""
    means, known = {}, {}
    for split, found in splits.items():
        means[split] = sum(len(english.split()) for english, _ in found) / len(found)
        known[split] = {word for pair in found for side in pair for word in words(side)}
    assert max(means.values()) - min(means.values()) < 0.3
    assert known["validation"] | known["test"] <= known["train"]


def test_lengths(pairs):
    """From 3 to 16 words, all of which occur."""
    for side in (0, 1):
        assert {len(pair[side].split()) for pair in pairs} == set(range(3, 17))


def test_shape(pairs):
    """A capital, single spaces, and one mark at the end, in French after a space unless it is a full stop."""
    for english, french in pairs:
        assert re.fullmatch(r"[A-Z][a-z']*( ([a-z']+|I),?)+[.?!]", english), english
        assert re.fullmatch(r"[A-ZÉÀ][\w'-]*( [\w'-]+,?)+(\.| \?| !)", french), french
        assert english[-1] == french[-1]


def test_vocabulary(pairs):
    """Some 290 words of English and 440 of French, in French with every form counted."""
    english, french = ({word for pair in pairs for word in words(pair[side])} for side in (0, 1))
    assert 250 <= len(english) <= 320
    assert 400 <= len(french) <= 460


def test_words_are_known(pairs):
    """Every word is a form of a word of the tables or one of these."""
    tables = [form for noun in NOUNS.values() for form in noun.english]
    tables += ADJECTIVES
    for verb in VERBS.values():
        tables += [verb.english, verb.english + "s", verb.past, *verb.particle.split()]
    tables += [
        word for each in grammar.DETERMINERS.values() for words, _ in [each] for word in words
    ]
    tables += " ".join(
        [*grammar.ADVERBS, *(time for each in grammar.TIMES.values() for time in each)]
    ).split()
    tables += " ".join(place for place, _, _ in grammar.PLACES).split()
    small = "i you he she it we they me him her us them who that an am is are has goes do does did"
    small += " can cannot must want wants going to and but because why when"
    possessive = {word + mark for word in tables for mark in ("'", "'s")}
    found = {word for english, _ in pairs for word in re.findall(r"[a-z']+", english.lower())}
    assert found <= {*tables, *small.split(), *possessive}

    tables = [form for noun in NOUNS.values() for form in noun.french]
    tables += [form for each in ADJECTIVES.values() for form in (*each.french, each.liaison)]
    for verb in VERBS.values():
        forms = conjugated(verb.infinitive)
        tables += [verb.infinitive, *forms, *verb.own.split()]
        tables += [forms[5] + ending for ending in ("e", "s", "es")]
    for helper in ("pouvoir", "devoir"):
        tables += conjugated(helper)
    small = "je j' tu il elle nous ils elles me m' te t' le la les l' leur qui que qu' ne n' pas jamais plus"
    small += " souvent toujours parfois de d' du des un une au aux à ce cet cette ces mon ma mes ton ta tes"
    small += (
        " notre nos leurs beaucoup deux trois quatre sept dix est-ce pourquoi quand et mais parce"
    )
    small += (
        " dans près derrière devant sous sur avec tous jours matin maintenant hier semaine dernière"
    )
    small += " demain aujourd'hui soir"
    found = {word for _, french in pairs for word in words(french)}
    assert found <= {*tables, *small.split()}


@pytest.mark.parametrize(
    "wrong",
    [
        rf"\b(le|la|de|je|me|te|ne|que|ce|ma|ta) {VOWEL}",  # not elided, or not changed
        rf"\b([ldjmtn]|qu)' ?(?!{VOWEL})",  # elided before a consonant
        rf"\b(cet|bel|vieil) (?!{VOWEL})",
        r"\b(beau|vieux) (ami|enfant|oiseau|homme|hôtel)\b",
        r"\b(de|à) les?\b",
        r"\b(du|au) [aeiouhéèêœ]",
        r"\b(ai|as|a|ont|avons|veu\w+|voi[rst]|voient|achet\w+) des (petit|grand|beau|belle|jeune|vi|bon)",
        r"\b(ai|as|a|ont|avons|veu\w+|voi[rst]|voient|bo\w+|mang\w+) (pas|plus|jamais) (une?|des|du|de la)\b",
        r"\bbeaucoup (des|du)\b",
        r"\b(?!aime)(\w+) \1\b",  # l'oiseau que j'aime aime le roi
        r"  | ,| \.",
    ],
)
def test_never_in_french(pairs, wrong):
    """What no French sentence here may hold."""
    assert [french for _, french in pairs if re.search(wrong, french, re.IGNORECASE)] == []


def test_ne_has_its_second_half(pairs):
    """Ne comes with pas, jamais or plus, and these with ne."""
    for _, french in pairs:
        found = Counter(words(french))
        halves = found["pas"] + found["jamais"] + found["plus"]
        assert found["ne"] + found["n'"] == halves, french


@pytest.mark.parametrize(
    ("phenomenon", "least"),
    [
        (r"\bd'", 100),
        (r"\bl'", 1000),
        (r"\bj'", 300),
        (r"\bn'", 500),
        (r"\bqu'", 300),
        (r"\b(du|au|aux)\b", 1000),
        (r"\b(cet|bel|vieil) ", 100),
        (r"\bmon (école|église|histoire|orange)", 10),
        (r"\bEst-ce qu", 1000),
        (r"\bqui\b", 500),
        (r"\bparce qu'elles? ", 50),
        (r"\b(le|la|les|me|te|nous) (vois|voit|voient|regarde|regardes|cherche|attend)", 50),
        (r"\bl'a \w+e\b", 20),  # la: the participle agrees
        (r"\bsont (allées|venues)\b", 5),
        (r"\bque .*\b(mangée|achetée|écrite|prise|perdue|ouverte|fermée)s?\b", 50),
        (r"\b(va|vas|vais|allons|vont) \w+(er|re|ir)\b", 500),
        (r"\bfaim\b", 200),
    ],
)
def test_is_in_french(pairs, phenomenon, least):
    """Each phenomenon comes often enough to be learnt."""
    assert sum(bool(re.search(phenomenon, french)) for _, french in pairs) >= least


def test_the_noun_decides_what_it_is(pairs):
    """The same English clause after "because" has two translations, by what "it" stands for."""
    for english, french in (("cold", "froid"), ("hungry", "faim"), ("tired", "fatigué")):
        because = [pair for pair in pairs if re.search(f"because it is {english}\\b", pair[0])]
        pronouns = {re.search(rf"qu'(elle|il)\b.*\b{french}", pair[1])[1] for pair in because}
        assert pronouns == {"il", "elle"}


def test_seeds():
    """The same seed says the same, another one something else."""
    one, same, other = SentenceMaker(1), SentenceMaker(1), SentenceMaker(2)
    said = [[speaker.sentence() for _ in range(20)] for speaker in (one, same, other)]
    assert said[0] == said[1] != said[2]
