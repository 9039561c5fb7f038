"""Lists and loops: a token at a time is masked, and a text at a time is read."""

import torch
from torch import nn

from implementation import Encoder, LayerNorm, MultiHeadedAttention
from variants.bert import FeedForward, Layer, Transform


def mask_tokens(tokens, mask_id, vocab, special, p=0.15, generator=None):
    count = tokens.numel()
    draws = torch.rand(2, count, generator=generator, device=tokens.device).tolist()
    instead = torch.randint(vocab, (count,), generator=generator, device=tokens.device).tolist()
    inputs, labels = [], []
    for token, chosen, fate, other in zip(tokens.flatten().tolist(), *draws, instead, strict=True):
        if chosen >= p or token in special:
            inputs.append(token)
            labels.append(-100)
            continue
        labels.append(token)
        inputs.append(other if fate < 0.1 else token if fate < 0.2 else mask_id)
    return tokens.new_tensor(inputs).view(tokens.shape), tokens.new_tensor(labels).view(
        tokens.shape
    )


class BERT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab, config.d_model)
        self.positions = nn.Embedding(config.context, config.d_model)
        self.segments = nn.Embedding(config.segments, config.d_model)
        self.norm = LayerNorm(config.d_model, eps=config.eps)
        self.encoder = Encoder(
            Layer(
                config.d_model,
                MultiHeadedAttention(config.n_heads, config.d_model, config.dropout),
                FeedForward(config.d_model, config.d_ff),
                config.dropout,
                config.eps,
            ),
            config.n_layers,
        )
        self.transform = Transform(config.d_model, config.eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab))
        self.embedding_dropout = nn.Dropout(config.dropout)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.trunc_normal_(parameter, 0, 0.02, -0.04, 0.04)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.bias.data.fill_(0)

    def read(self, tokens, segments, mask):
        """One text, `(T,)`."""
        vectors = self.embed.weight[tokens] + self.segments.weight[segments]
        vectors = vectors + self.positions.weight[: len(tokens)]
        states = self.encoder(self.embedding_dropout(self.norm(vectors)).unsqueeze(0), mask)
        return self.transform(states[0]) @ self.embed.weight.T + self.bias

    def forward(self, tokens, segments=None, mask=None):
        if segments is None:
            segments = torch.zeros_like(tokens)
        if mask is not None:
            mask = mask.expand(len(tokens), -1, -1)
        texts = [
            self.read(tokens[i], segments[i], None if mask is None else mask[i : i + 1])
            for i in range(len(tokens))
        ]
        if not texts:
            return self.embed.weight.new_empty(*tokens.shape, self.config.vocab)
        return torch.stack(texts)
