"""Day 26: what goes wrong where gaps are made, and where they are filled in."""

from course.judging.misconceptions import Misconception

DRAW = "draw = torch.rand(tokens.shape, generator=generator, device=tokens.device)"
CHOSEN = "chosen = (draw < p) & ~torch.isin(tokens, never)"
LABELS = "labels = tokens.masked_fill(~chosen, -100)"
FATE = "fate = torch.rand(tokens.shape, generator=generator, device=tokens.device)"
HIDDEN = "hidden = chosen & (fate < 0.8)"
REPLACED = "replaced = chosen & (fate >= 0.8) & (fate < 0.9)"
INSTEAD = "vocab, tokens.shape, generator=generator, dtype=tokens.dtype, device=tokens.device"
INPUTS = "inputs = tokens.masked_fill(hidden, mask_id)"
RETURN = "return torch.where(replaced, instead, inputs), labels"
AGAIN = "torch.rand(tokens.shape, generator=generator, device=tokens.device)"

TABLES = "self.embed(tokens) + self.positions(positions) + self.segments(segments)"
NORMED = "x = self.dropout(self.norm(x))"
LAYERS = "x = self.encoder(x, mask)"
HEAD = "F.linear(self.transform(x), self.embed.weight, self.bias)"
NETWORK = "FeedForward(config.d_model, config.d_ff),"
ATTENTION = "MultiHeadedAttention(config.n_heads, config.d_model, config.dropout),"
TRANSFORM = "self.transform = Transform(config.d_model, config.eps)"
ENCODER = "self.encoder = Encoder(layer, config.n_layers)"
BIAS = "self.bias = nn.Parameter(torch.zeros(config.vocab))"
LAYER_ENDS = "            config.dropout,\n            config.eps,\n        )"
EMBED = "self.embed = nn.Embedding(config.vocab, config.d_model)"
POSITIONS = "self.positions = nn.Embedding(config.context, config.d_model)"
NORM = "self.norm = LayerNorm(config.d_model, config.eps)"
START = "nn.init.trunc_normal_(parameter, std=0.02, a=-0.04, b=0.04)"
DROPOUT = "self.dropout = nn.Dropout(config.dropout)"


def forward_as(base: str, body: str) -> str:
    """A class like this one with another `forward`, on one line."""
    return f'type("Other", ({base},), {{"forward": {body}}})'


MASKING = [
    # --- 80, 10, 10
    Misconception(
        "a_tenth_of_the_rest",
        "mask_tokens",
        "Only 2% of your chosen tokens become random ones, and 18% stay: a tenth of those that are not hidden, or a tenth of all, most of which the mask then covers. A tenth "
        "of *all* chosen is half of the fifth that is left.",
        {REPLACED: f"replaced = chosen & ~hidden & ({AGAIN} < 0.1)"},
    ),
    Misconception(
        "random_over_the_mask",
        "mask_tokens",
        "You draw twice among all the chosen, and put the random tokens over the masks that the first draw has set: 72% stay hidden, and 18% as they were. The "
        "three fates exclude each other.",
        {REPLACED: f"replaced = chosen & ({AGAIN} < 0.1)"},
    ),
    Misconception(
        "one_draw_used_twice",
        "mask_tokens",
        "You cut the draw that chose a token once more at 0.8 and 0.9. But of a chosen token you know already that its draw lies below p: with p = 0.15 all of "
        "them lie below 0.8, and all are hidden. Draw again, or cut between 0 and p.",
        {FATE: "fate = draw"},
    ),
    Misconception(
        "one_fate_for_all",
        "mask_tokens",
        "You draw once, and all chosen tokens share that fate: all hidden, all random, or all as they were. Each has a draw of its own.",
        {
            FATE: "fate = torch.rand((), generator=generator, device=tokens.device).expand(tokens.shape)"
        },
    ),
    Misconception(
        "one_fate_for_a_row",
        "mask_tokens",
        "All chosen tokens of a row have the same fate in your answer. Each has a draw of its own.",
        {
            FATE: "fate = torch.rand((*tokens.shape[:-1], 1) if tokens.dim() else (), generator=generator, device=tokens.device)"
        },
    ),
    Misconception(
        "one_fate_for_a_column",
        "mask_tokens",
        "Your draws have an axis for time and none for the batch: whatever happens at a position happens in every row. Each token has a draw of its own.",
        {
            FATE: "fate = torch.rand(tokens.shape[-1:], generator=generator, device=tokens.device).expand(tokens.shape)"
        },
    ),
    Misconception(
        "random_token_drawn_once",
        "mask_tokens",
        "You draw one random token and put it everywhere. It would be a second mask. Each place gets one of its own.",
        {INSTEAD: INSTEAD.replace("tokens.shape", "()")},
    ),
    Misconception(
        "random_token_for_a_row",
        "mask_tokens",
        "You draw one random token for each row. Each place gets one of its own.",
        {
            INSTEAD: INSTEAD.replace(
                "tokens.shape", "(*tokens.shape[:-1], 1) if tokens.dim() else ()"
            )
        },
    ),
    Misconception(
        "random_token_for_a_column",
        "mask_tokens",
        "You draw one random token for each position, the same in every row. Each place gets one of its own.",
        {INSTEAD: INSTEAD.replace("tokens.shape", "tokens.shape[-1:]")},
    ),
    Misconception(
        "random_token_from_the_text",
        "mask_tokens",
        "Your random tokens are tokens of the same text. They come from the whole vocabulary, each of the V as likely.",
        {
            RETURN: "order = torch.rand(tokens.numel(), generator=generator, device=tokens.device).argsort()\n"
            "    instead = tokens.flatten()[order].view(tokens.shape)\n"
            "    return torch.where(replaced, instead, inputs), labels"
        },
    ),
    Misconception(
        "always_another_token",
        "mask_tokens",
        "Your random token is never the one that stood there. Then a token that is not the mask and was chosen is wrong nine times in ten, plus once; the paper draws from all V, itself included.",
        {
            RETURN: "step = 1 + instead % max(vocab - 1, 1)\n"
            "    return torch.where(replaced, (tokens + step) % vocab, inputs), labels"
        },
    ),
    Misconception(
        "never_the_mask",
        "mask_tokens",
        "Your random token is never the mask. It is one of the V, each as likely, and the mask is one of them.",
        {RETURN: "instead = torch.where(instead == mask_id, tokens, instead)\n    " + RETURN},
    ),
    Misconception(
        "never_a_special_one",
        "mask_tokens",
        "Your random tokens are never special ones. Special tokens are not *chosen*; to come in by chance is another thing. All V are as likely.",
        {
            RETURN: "instead = torch.where(torch.isin(instead, never), tokens, instead)\n    "
            + RETURN
        },
    ),
    Misconception(
        "last_token_never_comes",
        "mask_tokens",
        "One token of the vocabulary never comes in: the last. `torch.randint` leaves out its upper end by itself.",
        {INSTEAD: INSTEAD.replace("vocab,", "max(vocab - 1, 1),", 1)},
    ),
    Misconception(
        "all_are_hidden",
        "mask_tokens",
        "You hide all chosen tokens. A model trained so may rely on a mask wherever it is asked something, and there is none where it is put to use: a fifth of the "
        "chosen is not hidden.",
        {HIDDEN: "hidden = chosen", REPLACED: "replaced = torch.zeros_like(chosen)"},
    ),
    Misconception(
        "none_is_kept",
        "mask_tokens",
        "You replace all that you do not hide. Half of the fifth that is left stays as it was.",
        {REPLACED: "replaced = chosen & ~hidden"},
    ),
    Misconception(
        "none_is_replaced",
        "mask_tokens",
        "You keep all that you do not hide. Half of the fifth that is left becomes a random token; else a token that is not the mask could always be trusted.",
        {REPLACED: "replaced = torch.zeros_like(chosen)"},
    ),
    Misconception(
        "shares_of_all_tokens",
        "mask_tokens",
        "You hide and replace tokens that were never chosen: the 80% and the 10% are shares of the *chosen* tokens, not of all.",
        {HIDDEN: "hidden = fate < 0.8", REPLACED: "replaced = (fate >= 0.8) & (fate < 0.9)"},
    ),
    # --- who is chosen
    Misconception(
        "special_tokens_chosen",
        "mask_tokens",
        "You choose special tokens, too. Nobody needs to guess padding, or where a text begins.",
        {CHOSEN: "chosen = draw < p"},
    ),
    Misconception(
        "special_tokens_hidden_without_a_label",
        "mask_tokens",
        "Special tokens have no label in your answer, but they are hidden or replaced all the same. They are not chosen, so nothing happens to them.",
        {
            CHOSEN: "chosen = draw < p",
            LABELS: "labels = tokens.masked_fill(~chosen | torch.isin(tokens, never), -100)",
        },
    ),
    Misconception(
        "only_the_first_special_id",
        "mask_tokens",
        "Only one of the special ids is spared. All of them are.",
        {"torch.tensor(list(special),": "torch.tensor(list(special)[:1],"},
    ),
    Misconception(
        "only_the_ends_are_special",
        "mask_tokens",
        "You spare the first and the last token of each row, wherever the special ones are. Look at the ids: padding and separators stand elsewhere, too.",
        {
            CHOSEN: "chosen = (draw < p) | False\n    if tokens.dim():\n        chosen[..., :1] = chosen[..., -1:] = False"
        },
    ),
    Misconception(
        "p_ignored",
        "mask_tokens",
        "You choose 15% whatever p is.",
        {CHOSEN: CHOSEN.replace("< p", "< 0.15")},
    ),
    Misconception(
        "chosen_with_one_minus_p",
        "mask_tokens",
        "Your answer *keeps* a token with probability p. That is the probability with which it is chosen.",
        {CHOSEN: CHOSEN.replace("< p", ">= p")},
    ),
    Misconception(
        "another_default",
        "mask_tokens",
        "Where no p is given, you choose another share than 15%.",
        {"p: float = 0.15": "p: float = 0.1"},
    ),
    Misconception(
        "chosen_by_row",
        "mask_tokens",
        "A row is chosen as a whole, or not at all. Each token is chosen for itself.",
        {
            DRAW: "draw = torch.rand((*tokens.shape[:-1], 1) if tokens.dim() else (), generator=generator, device=tokens.device)"
        },
    ),
    Misconception(
        "chosen_by_column",
        "mask_tokens",
        "The same positions are chosen in every row. Each token is chosen for itself.",
        {
            DRAW: "draw = torch.rand(tokens.shape[-1:], generator=generator, device=tokens.device).expand(tokens.shape)"
        },
    ),
    Misconception(
        "as_many_in_each_row",
        "mask_tokens",
        "You choose as many tokens in each row, as the published code does. Here every token is chosen for itself, so that a row may have more or fewer, and the shape does not matter.",
        {
            CHOSEN: "length = tokens.size(-1) if tokens.dim() else 1\n"
            "    rank = draw.argsort(dim=-1).argsort(dim=-1) if tokens.dim() else 0\n"
            "    chosen = (rank < (min(length, max(1, round(p * length))) if p else 0)) & ~torch.isin(tokens, never)"
        },
    ),
    # --- labels
    Misconception(
        "kept_tokens_without_a_label",
        "mask_tokens",
        "Chosen tokens that stay as they were have no label in your answer. They are asked for like the others: that is what makes the model say something about a token that it can see.",
        {
            RETURN: "return torch.where(replaced, instead, inputs), labels.masked_fill(~(hidden | replaced), -100)"
        },
    ),
    Misconception(
        "only_hidden_tokens_have_a_label",
        "mask_tokens",
        "Only hidden tokens have a label in your answer. All chosen ones have: also those that become a random token, and those that stay.",
        {
            RETURN: "return torch.where(replaced, instead, inputs), labels.masked_fill(~hidden, -100)"
        },
    ),
    Misconception(
        "labels_after_masking",
        "mask_tokens",
        "Your labels are taken after the masking: they hold the mask and the random tokens. What is to be found again is what stood there before.",
        {
            RETURN: "inputs = torch.where(replaced, instead, inputs)\n"
            "    return inputs, inputs.masked_fill(~chosen, -100)"
        },
    ),
    Misconception(
        "labels_everywhere",
        "mask_tokens",
        "Your labels are the whole text. Six tokens in seven stand in the inputs for the model to copy: where nothing was chosen the label is −100, and the loss leaves it out.",
        {LABELS: "labels = tokens.clone()"},
    ),
    Misconception(
        "labels_of_the_others",
        "mask_tokens",
        "Your labels stand where nothing was chosen, and −100 where something was. It is the other way round.",
        {LABELS: LABELS.replace("~chosen", "chosen")},
    ),
    Misconception(
        "labels_0_where_nothing_is_asked",
        "mask_tokens",
        "Where nothing is asked for your label is 0. That is a token. The number that `F.cross_entropy` leaves out is −100.",
        {LABELS: LABELS.replace("-100", "0")},
    ),
    Misconception(
        "labels_minus_1",
        "mask_tokens",
        "Where nothing is asked for your label is −1. The number that `F.cross_entropy` leaves out, unless told otherwise, is −100.",
        {LABELS: LABELS.replace("-100", "-1")},
    ),
    Misconception(
        "only_the_chosen",
        "mask_tokens",
        "Your labels are only those of the chosen tokens, in one line. They have the shape of the tokens, with −100 where nothing is asked for, so that each stands at its place.",
        {LABELS: "labels = tokens[chosen]"},
    ),
    Misconception(
        "labels_first",
        "mask_tokens",
        "You return the labels first. The inputs come first.",
        {RETURN: "return labels, torch.where(replaced, instead, inputs)"},
    ),
    # --- what it works on, and where chance comes from
    Misconception(
        "text_changed_in_place",
        "mask_tokens",
        "You write the masks into the text that you were given. It belongs to the caller, who will mask it anew in the next epoch.",
        {INPUTS: "inputs = tokens.masked_fill_(hidden, mask_id)"},
    ),
    Misconception(
        "generator_ignored",
        "mask_tokens",
        "You draw from torch's own state, whatever generator you are given. Hand it on to everything that draws.",
        {
            DRAW: DRAW.replace("generator=generator, ", ""),
            FATE: FATE.replace("generator=generator, ", ""),
            INSTEAD: INSTEAD.replace("generator=generator, ", ""),
        },
    ),
    Misconception(
        "random_tokens_without_the_generator",
        "mask_tokens",
        "Who is chosen comes from the generator, the random tokens from torch's own state. The generator has to reach everything that draws.",
        {INSTEAD: INSTEAD.replace("generator=generator, ", "")},
    ),
    Misconception(
        "seeded_inside",
        "mask_tokens",
        "You seed the randomness inside, so every call makes the same gaps. Where it comes from is the caller's affair; a draw only moves it on.",
        {
            DRAW: "torch.manual_seed(0) if generator is None else generator.manual_seed(0)\n    "
            + DRAW
        },
    ),
    Misconception(
        "special_as_a_tensor_at_once",
        "mask_tokens",
        "You make a tensor of the special ids as they come. A set is no sequence: make a list of it first.",
        {"torch.tensor(list(special),": "torch.tensor(special,"},
    ),
    Misconception(
        "rows_and_columns_only",
        "mask_tokens",
        "Your answer takes tokens as `(B, T)` and nothing else. They may have any shape: nothing here depends on their axes.",
        {
            DRAW: "rows, length = tokens.shape if tokens.dim() > 1 or not tokens.numel() > 99 else (1, len(tokens))\n    "
            + DRAW
        },
    ),
]

MODEL = [
    # --- the head
    Misconception(
        "head_of_its_own",
        "BERT",
        "Your head has a matrix of its own. It is tied: a state is compared with the very vectors that tokens come in as, so that one matrix learns from both.",
        {
            BIAS: "self.head = nn.Linear(config.d_model, config.vocab, bias=False)\n        "
            + BIAS,
            HEAD: "self.head(self.transform(x)) + self.bias",
        },
    ),
    Misconception(
        "head_is_a_copy",
        "BERT",
        "Your head holds a copy of the embedding as it was at the start. The two look tied, and part at the first step of training, or when weights are loaded. Use the parameter itself.",
        {
            BIAS: BIAS + "\n        self.head = [self.embed.weight.detach().clone()]",
            HEAD: HEAD.replace("self.embed.weight", "self.head[0].to(x)"),
        },
    ),
    Misconception(
        "head_detached",
        "BERT",
        "Your head uses the embedding without letting a gradient through. Then the matrix learns only as an embedding, and a token that is never read never moves.",
        {HEAD: HEAD.replace("self.embed.weight", "self.embed.weight.detach()")},
    ),
    Misconception(
        "tied_under_a_second_name",
        "BERT",
        "Your head is tied, but stands in the state dict under a second name. `F.linear` takes a matrix that belongs to somebody else, so nothing needs to be registered.",
        {
            BIAS: "self.head = nn.Linear(config.d_model, config.vocab, bias=False)\n"
            "        self.head.weight = self.embed.weight\n        " + BIAS,
            HEAD: "self.head(self.transform(x)) + self.bias",
        },
    ),
    Misconception(
        "transform_unused",
        "BERT",
        "You compare the states with the embeddings as they are. Before that the head transforms them: a layer, GELU and a norm.",
        {HEAD: HEAD.replace("self.transform(x)", "x")},
    ),
    Misconception(
        "no_transform",
        "BERT",
        "Your model has no `transform`. The head has one, which is not in the paper but in the published code, and in its weights.",
        {TRANSFORM: "", HEAD: HEAD.replace("self.transform(x)", "x")},
    ),
    Misconception(
        "transform_without_its_norm",
        "BERT",
        "Your head transforms the states without norming them. The norm is the last step of the `Transform`: call it as a whole.",
        {HEAD: HEAD.replace("self.transform(x)", "F.gelu(self.transform.dense(x))")},
    ),
    Misconception(
        "bias_unused",
        "BERT",
        "Your scores lack their bias. It holds how frequent each token is.",
        {HEAD: HEAD.replace(", self.bias", "")},
    ),
    Misconception(
        "no_bias",
        "BERT",
        "Your head has no `bias`. GPT-2's has none; BERT's has one number for each token, which holds how frequent it is.",
        {BIAS: "", HEAD: HEAD.replace(", self.bias", "")},
    ),
    Misconception(
        "scores_scaled",
        "BERT",
        "You divide the states by √d_model before they are compared with the embeddings. T5 does so; BERT has a norm there instead.",
        {HEAD: HEAD.replace("self.transform(x)", "self.transform(x) * x.size(-1) ** -0.5")},
    ),
    Misconception(
        "log_probabilities",
        "BERT",
        "You return log-probabilities. Logits are asked for: `F.cross_entropy` does the rest, and leaves out the −100.",
        {HEAD: HEAD + ".log_softmax(dim=-1)"},
    ),
    Misconception(
        "states_for_logits",
        "BERT",
        "You return states. The head makes scores of them, one for each token of the vocabulary.",
        {HEAD: "x"},
    ),
    # --- the embedding
    Misconception(
        "no_segments",
        "BERT",
        "The segments are not added in your answer. Without them the model cannot tell a first sentence from a second.",
        {TABLES: TABLES.replace(" + self.segments(segments)", "")},
    ),
    Misconception(
        "segments_only_where_given",
        "BERT",
        "Where no segments are given, you add nothing. All tokens are in segment 0 then, and segment 0 has a vector as well.",
        {
            TABLES: "self.embed(tokens) + self.positions(positions)\n        if given:\n            x = x + self.segments(segments)",
            "if segments is None:\n            segments": "given = segments is not None\n        if segments is None:\n            segments",
        },
    ),
    Misconception(
        "segment_1_by_default",
        "BERT",
        "Where no segments are given, your tokens are in segment 1. They are in segment 0.",
        {"torch.zeros_like(tokens)": "torch.ones_like(tokens)"},
    ),
    Misconception(
        "segments_left_at_2",
        "BERT",
        "Your table of segments has two rows, whatever the config says.",
        {"self.segments = nn.Embedding(config.segments,": "self.segments = nn.Embedding(2,"},
    ),
    Misconception(
        "no_positions",
        "BERT",
        "You add no positions. Attention alone does not know the order of tokens.",
        {TABLES: TABLES.replace(" + self.positions(positions)", "")},
    ),
    Misconception(
        "positions_from_the_end",
        "BERT",
        "You count positions from the end of the text. The first token stands at position 0.",
        {
            "positions = torch.arange(tokens.size(1), device=tokens.device)": "positions = torch.arange(tokens.size(1), device=tokens.device).flip(0)"
        },
    ),
    Misconception(
        "last_rows_of_the_table",
        "BERT",
        "You take the *last* rows of the table of positions, so that a token's position depends on how long the text is. The first token stands at position 0.",
        {
            "self.positions(positions)": "self.positions(positions + self.config.context - tokens.size(1))"
        },
    ),
    Misconception(
        "positions_of_the_first_call",
        "BERT",
        "You keep the positions of the first call. Another text is longer or shorter.",
        {
            BIAS: BIAS + "\n        self.known = None",
            "self.positions(positions)": "self.positions(self.known)",
            "if segments is None:\n            segments": "if self.known is None:\n            self.known = positions\n"
            "        if segments is None:\n            segments",
        },
    ),
    Misconception(
        "positions_in_the_state_dict",
        "BERT",
        "Your state dict holds a table of positions' numbers, as a buffer. They are 0, 1, 2 …: there is nothing to save, and published weights have no such entry.",
        {
            POSITIONS: POSITIONS
            + '\n        self.register_buffer("position_ids", torch.arange(config.context))'
        },
    ),
    Misconception(
        "sinusoids",
        "BERT",
        "Your positions are sinusoids. BERT learns them, in a table like that of the tokens.",
        {
            "self.positions(positions)": "torch.cat([(positions[:, None] / 10000 ** (torch.arange(0, self.config.d_model, 2, device=tokens.device) / self.config.d_model)).sin(), "
            "(positions[:, None] / 10000 ** (torch.arange(1, self.config.d_model, 2, device=tokens.device) / self.config.d_model)).cos()], dim=1).to(self.embed.weight.dtype)"
        },
    ),
    Misconception(
        "embedding_scaled",
        "BERT",
        "You multiply the embeddings by √d_model, as in the paper of 2017. BERT norms the sum instead, and does not scale.",
        {"self.embed(tokens)": "self.embed(tokens) * self.config.d_model**0.5"},
    ),
    Misconception(
        "embedding_not_normed",
        "BERT",
        "The sum of the three vectors goes into the layers as it is. In post-norm every norm comes *after* a sum, and this is the first sum.",
        {NORMED: "x = self.dropout(x)"},
    ),
    Misconception(
        "tokens_normed_alone",
        "BERT",
        "You norm the tokens' vectors before positions and segments are added. It is the sum of the three that is normed.",
        {
            TABLES: TABLES.replace("self.embed(tokens)", "self.norm(self.embed(tokens))"),
            NORMED: "x = self.dropout(x)",
        },
    ),
    Misconception(
        "padding_index",
        "BERT",
        "Your embedding has a padding index, so that one token's vector gets no gradient where it is read. Padding is hidden by the mask, and needs nothing else.",
        {EMBED: EMBED.replace("config.d_model)", "config.d_model, padding_idx=0)")},
    ),
    # --- the layers
    Misconception(
        "causal",
        "BERT",
        "The future is hidden in your answer, as in a decoder. To see both sides is the whole point: what keeps a token from being read off is that it is not in the inputs.",
        {
            LAYERS: "past = torch.ones(1, x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()\n"
            "        x = self.encoder(x, past if mask is None else mask & past)"
        },
    ),
    Misconception(
        "mask_ignored",
        "BERT",
        "The mask never reaches the layers, so that real tokens attend to padding.",
        {LAYERS: "x = self.encoder(x)"},
    ),
    Misconception(
        "mask_in_the_first_layer_only",
        "BERT",
        "Only the first layer gets the mask. Padding has vectors in every layer, and must be hidden in every one.",
        {
            LAYERS: "for layer in self.encoder.layers:\n            x = layer(x, mask)\n            mask = None"
        },
    ),
    Misconception(
        "mask_upside_down",
        "BERT",
        "You turn the mask round: True means that a token *may* be attended to.",
        {LAYERS: "x = self.encoder(x, None if mask is None else ~mask)"},
    ),
    Misconception(
        "mask_of_the_first_row",
        "BERT",
        "All rows are masked like the first. Each has padding of its own.",
        {LAYERS: "x = self.encoder(x, None if mask is None else mask[:1])"},
    ),
    Misconception(
        "mask_of_the_first_query",
        "BERT",
        "You use one row of the mask for all queries. It may have one for each.",
        {LAYERS: "x = self.encoder(x, None if mask is None else mask[:, :1])"},
    ),
    Misconception(
        "hidden_positions_zeroed",
        "BERT",
        "You set the vectors of hidden tokens to 0. A mask says who may be looked at; the hidden tokens themselves go through all layers, and are scored like the others.",
        {
            LAYERS: LAYERS
            + "\n        if mask is not None:\n            x = x * mask.any(dim=1).unsqueeze(-1)"
        },
    ),
    Misconception(
        "pre_norm",
        "BERT",
        "You norm what goes into each sublayer, as GPT-2 does. BERT is older: it norms the sum, after the shortcut.",
        {
            ENCODER: "layer.norm = 'pre'\n        for connection in layer.sublayer:\n            connection.pre = True\n        "
            + ENCODER
        },
    ),
    Misconception(
        "pre_norm_without_a_last_one",
        "BERT",
        "You norm what goes into each sublayer, as GPT-2 does, and nothing norms the last sum. BERT is older: it norms the sum, after the shortcut.",
        {
            ENCODER: "for connection in layer.sublayer:\n            connection.pre = True\n        "
            + ENCODER
        },
    ),
    Misconception(
        "normed_once_more",
        "BERT",
        "You norm the states once more after the last layer. In post-norm each layer ends in a norm.",
        {LAYERS: "x = self.norm(self.encoder(x, mask))"},
    ),
    Misconception(
        "tanh_gelu",
        "BERT",
        "Your feed-forward network has the GELU by tanh, as GPT-2 has. `FeedForward` has the exact one.",
        {
            NETWORK: forward_as(
                "FeedForward", 'lambda self, x: self.w_2(F.gelu(self.w_1(x), approximate="tanh"))'
            )
            + "(config.d_model, config.d_ff),"
        },
    ),
    Misconception(
        "tanh_gelu_in_the_head",
        "BERT",
        "Your head has the GELU by tanh, as GPT-2's networks have. `Transform` has the exact one.",
        {
            HEAD: HEAD.replace(
                "self.transform(x)",
                'self.transform.norm(F.gelu(self.transform.dense(x), approximate="tanh"))',
            )
        },
    ),
    Misconception(
        "relu",
        "BERT",
        "Your feed-forward network has the ReLU of 2017. BERT's has GELU.",
        {
            NETWORK: forward_as("FeedForward", "lambda self, x: self.w_2(self.w_1(x).relu())")
            + "(config.d_model, config.d_ff),"
        },
    ),
    Misconception(
        "four_times_d_model",
        "BERT",
        "Your feed-forward networks are four times as wide as the model, whatever `d_ff` says.",
        {NETWORK: "FeedForward(config.d_model, 4 * config.d_model),"},
    ),
    Misconception(
        "one_layer_n_times",
        "BERT",
        "Your layers are one and the same, with one set of weights. (ALBERT does that, on purpose.) `Encoder` makes copies.",
        {
            ENCODER: ENCODER
            + "\n        self.encoder.layers = nn.ModuleList([layer] * config.n_layers)"
        },
    ),
    Misconception(
        "one_layer_too_few",
        "BERT",
        "Your model has a layer less than `n_layers`.",
        {ENCODER: "self.encoder = Encoder(layer, max(config.n_layers - 1, 0))"},
    ),
    Misconception(
        "another_number_of_heads",
        "BERT",
        "Your attention has one head, whatever `n_heads` says.",
        {ATTENTION: ATTENTION.replace("config.n_heads", "1")},
    ),
    # --- ε
    Misconception(
        "head_with_the_usual_eps",
        "BERT",
        "The norm in your head has the usual ε, not the config's.",
        {TRANSFORM: "self.transform = Transform(config.d_model, 1e-5)"},
    ),
    Misconception(
        "embedding_with_the_usual_eps",
        "BERT",
        "The norm of your embedding has the usual ε, not the config's.",
        {NORM: "self.norm = LayerNorm(config.d_model)"},
    ),
    Misconception(
        "layers_with_the_usual_eps",
        "BERT",
        "The norms in your layers have the usual ε, not the config's.",
        {LAYER_ENDS: "            config.dropout,\n            1e-5,\n        )"},
    ),
    # --- dropout
    Misconception(
        "dropout_before_the_norm",
        "BERT",
        "You drop features of the embedding before they are normed. The norm comes first, then the dropout.",
        {NORMED: "x = self.norm(self.dropout(x))"},
    ),
    Misconception(
        "embedding_not_dropped",
        "BERT",
        "The embedding is not dropped in your answer. The config's dropout is for it, too.",
        {NORMED: "x = self.norm(x)"},
    ),
    Misconception(
        "attention_not_dropped",
        "BERT",
        "Your attention weights are not dropped. The config's dropout is for them, too.",
        {ATTENTION: ATTENTION.replace("config.dropout", "0.0")},
    ),
    Misconception(
        "shortcuts_not_dropped",
        "BERT",
        "What your sublayers add is not dropped. The config's dropout is for both shortcuts of a layer, too.",
        {LAYER_ENDS: "            0.0,\n            config.eps,\n        )"},
    ),
    Misconception(
        "dropout_of_a_tenth",
        "BERT",
        "Your embedding is dropped by a tenth, whatever the config says.",
        {DROPOUT: "self.dropout = nn.Dropout(0.1)"},
    ),
    Misconception(
        "dropout_in_evaluation_mode",
        "BERT",
        "You drop features of the embedding in evaluation mode as well. `F.dropout` does not know the module's mode unless it is told.",
        {NORMED: "x = F.dropout(self.norm(x), self.config.dropout)"},
    ),
    # --- the start, and what is left over
    Misconception(
        "torchs_own_start",
        "BERT",
        "Your matrices start as torch starts them. BERT's start close to 0, with a deviation of 0.02, the three tables as well.",
        {START: "pass"},
    ),
    Misconception(
        "tables_as_torch_starts_them",
        "BERT",
        "Your tables start as torch starts them, with a deviation of 1, fifty times too wide. They start at 0.02 like all matrices.",
        {
            "if parameter.dim() == 2:": "if parameter.dim() == 2 and name in ('embed.weight', 'positions.weight', 'segments.weight'):\n"
            "                continue\n            if parameter.dim() == 2:"
        },
    ),
    Misconception(
        "xavier",
        "BERT",
        "Your matrices start as Xavier and the paper of 2017 have them. BERT's start at 0.02, whatever their size.",
        {START: "nn.init.xavier_uniform_(parameter)"},
    ),
    Misconception(
        "biases_not_0",
        "BERT",
        "Your biases start as torch starts them. They start at 0.",
        {'name.endswith("bias")': "False"},
    ),
    Misconception(
        "normal_not_cut_off",
        "BERT",
        "Your normal distribution is not cut off. The published code leaves out what lies beyond two deviations.",
        {START: "nn.init.normal_(parameter, std=0.02)"},
    ),
    Misconception(
        "float32_inside",
        "BERT",
        "Your states are float32 on their way, whatever the weights are. Nothing needs to be converted: what a table gives has its dtype.",
        {HEAD: HEAD + ".float()"},
    ),
]

MISCONCEPTIONS = [*MASKING, *MODEL]
