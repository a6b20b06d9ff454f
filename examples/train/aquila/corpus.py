"""What the model reads: sentences of a grammar, or windows of a text. Sequence i is a function of the seed and i alone, however many processes read it."""

import collections
import itertools
import pathlib
import re

import torch

#: The token that begins a sequence.
BEGIN = 0


def _generator(seed, index):
    return torch.Generator().manual_seed((seed * 1_000_003 + index) % 2**32)  # PyTorch's CPU generator takes 32 bits


class Grammar:
    """Sentences with structure that a model can learn, whose entropy is known.

    A sentence is: noun phrase, maybe "that" verb noun phrase, verb, noun phrase, comma, the first noun again, full stop. A noun phrase is: an article, up to two adjectives, a noun. Nouns
    have one of two genders; articles agree with their noun, verbs with the first noun, which may stand up to eight tokens before them. Words of a class follow Zipf's law. Form and words can be
    read off a sentence, so its entropy is that of the choices of form and words; `entropy` is that number by token, in nats: the loss of a model that has learned everything.

    vocabulary: how many tokens there are, at least 64.
    """

    STOP, COMMA, THAT, ARTICLES, WORDS = 1, 2, 3, 4, 8
    ADJECTIVES = (0.5, 0.3, 0.2)  # probabilities of 0, 1, 2 adjectives
    RELATIVE = 0.3  # probability of a relative clause
    #: Kinds of slots beyond fixed tokens: negative numbers. Those with a gender have two kinds.
    ADJECTIVE, ARTICLE, NOUN, VERB, AGAIN = -1, -2, -4, -6, -8

    def __init__(self, vocabulary, seed):
        if vocabulary < 64:
            raise ValueError(f"a vocabulary of {vocabulary} tokens: the grammar needs at least 64")
        self.seed = seed
        self._distributions(vocabulary)
        self._forms()
        probabilities = self.probabilities
        entropy = -(probabilities * probabilities.log()).sum()
        for kind, (_, weights) in self.classes.items():
            entropy += -(weights * weights.log()).sum() * (probabilities * (self.slots == kind).sum(1)).sum()
        self.entropy = float(entropy / (probabilities * self.lengths).sum())

    def _distributions(self, vocabulary):
        """classes: {kind: (first token, probabilities of the words)}."""
        words = vocabulary - self.WORDS
        self.classes = {self.ARTICLE - gender: (self.ARTICLES + 2 * gender, torch.full((2, ), 0.5, dtype=torch.float64)) for gender in (0, 1)}
        first = self.WORDS
        for kind, part in ((self.NOUN, 0.2), (self.NOUN - 1, 0.2), (self.VERB, 0.15), (self.VERB - 1, 0.15), (self.ADJECTIVE, 0.3)):
            count = int(words * part)
            weights = 1 / torch.arange(1, count + 1, dtype=torch.float64)
            self.classes[kind] = first, weights / weights.sum()
            first += count
        self.sums = {kind: weights.cumsum(0) for kind, (_, weights) in self.classes.items()}

    def _forms(self):
        """slots: (forms, longest sentence): fixed tokens and kinds, padded; lengths, probabilities, nouns (the place of the first noun): (forms,)."""

        def phrase(gender, adjectives):
            return [self.ARTICLE - gender, *[self.ADJECTIVE] * adjectives, self.NOUN - gender]

        forms = []
        for first, second, before, after in itertools.product((0, 1), (0, 1), range(3), range(3)):
            chance = 0.25 * self.ADJECTIVES[before] * self.ADJECTIVES[after]
            end = [self.VERB - first, *phrase(second, after), self.COMMA, self.AGAIN, self.STOP]
            forms.append((chance * (1 - self.RELATIVE), before + 1, [*phrase(first, before), *end]))
            for third in (0, 1):
                clause = [self.THAT, self.VERB - first, *phrase(third, 0)]
                forms.append((chance * self.RELATIVE / 2, before + 1, [*phrase(first, before), *clause, *end]))
        longest = max(len(slots) for _, _, slots in forms)
        self.probabilities = torch.tensor([chance for chance, _, _ in forms], dtype=torch.float64)
        self.nouns = torch.tensor([noun for _, noun, _ in forms])
        self.lengths = torch.tensor([len(slots) for _, _, slots in forms])
        self.slots = torch.tensor([slots + [0] * (longest - len(slots)) for _, _, slots in forms])

    def sequence(self, index, count):
        """`count` tokens, int64: the first is BEGIN, then sentences follow, the last one cut off."""
        generator = _generator(self.seed, index)

        def draw(sums, number):
            chosen = torch.searchsorted(sums, torch.rand(number, generator=generator, dtype=torch.float64))
            return chosen.clamp_(max=len(sums) - 1)

        forms = draw(self.probabilities.cumsum(0), count // int(self.lengths.min()) + 1)
        lengths = self.lengths[forms]
        inside = torch.arange(self.slots.shape[1]) < lengths[:, None]
        kinds = self.slots[forms][inside]
        tokens = kinds.clone()
        for kind, (first, _) in self.classes.items():
            places = kinds == kind
            tokens[places] = first + draw(self.sums[kind], int(places.sum()))
        tokens[kinds == self.AGAIN] = tokens[lengths.cumsum(0) - lengths + self.nouns[forms]]
        return torch.cat((torch.tensor([BEGIN]), tokens))[:count]

    def describe(self):
        return f"a grammar with an entropy of {self.entropy:.4f} nats by token, which is the loss of a model that has learned everything"


class Text:
    """A file of text. Its tokens are bytes, and the most frequent pieces (a word with the white space before it) until the vocabulary is full.

    Tokens: BEGIN, then 256 bytes, then the pieces by frequency; pieces that are no tokens are spelled in bytes. Raises ValueError for a file that cannot be read, is shorter than `sequence` + 1
    tokens, and for vocabularies of fewer than 257 tokens.
    """

    entropy = None

    def __init__(self, path, vocabulary, seed, sequence):
        if vocabulary < 257:
            raise ValueError(f"a vocabulary of {vocabulary} tokens: a text needs at least 257")
        try:
            content = pathlib.Path(path).read_bytes()
        except OSError as error:
            raise ValueError(f"the text {path} cannot be read: {error.strerror}") from error
        pieces = re.findall(rb"\s*\S+|\s+$", content)
        counts = collections.Counter(pieces)
        frequent = sorted((piece for piece in counts if len(piece) > 1), key=lambda piece: (-counts[piece], piece))[:vocabulary - 257]
        numbers = {piece: 257 + i for i, piece in enumerate(frequent)}
        tokens = itertools.chain.from_iterable([numbers[piece]] if piece in numbers else [1 + byte for byte in piece] for piece in pieces)
        self.pieces, self.path, self.seed = frequent, path, seed
        self.tokens = torch.tensor(list(tokens), dtype=torch.int64)
        if len(self.tokens) <= sequence:
            raise ValueError(f"the text {path} has {len(self.tokens)} tokens: expected more than a sequence, {sequence}")

    def sequence(self, index, count):
        """`count` tokens, int64: the first is BEGIN, then those from a random place of the text."""
        place = int(torch.randint(len(self.tokens) - count + 2, (1, ), generator=_generator(self.seed, index)))
        return torch.cat((torch.tensor([BEGIN]), self.tokens[place:place + count - 1]))

    def text(self, tokens):
        """The bytes that a list of tokens stands for."""
        return b"".join(self.pieces[token - 257] if token > 256 else bytes([token - 1]) for token in tokens if token != BEGIN)

    def describe(self):
        return f"the text {self.path}, {len(self.tokens):,} tokens"
