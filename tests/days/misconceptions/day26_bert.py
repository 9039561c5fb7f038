"""Day 26: what goes wrong where gaps are made, and where they are filled in."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "mask_tokens",
        {
            # --- 80, 10, 10
            "a_tenth_of_the_rest": (
                "Only 2% of your chosen tokens become random ones, and 18% stay: a tenth of those that are not hidden, or a tenth of all, most of which the mask "
                "then covers. A tenth of *all* chosen is half of the fifth that is left.",
                {"fate >= 0.8": "~hidden", "fate < 0.9": "torch.rand(tokens.shape, generator=generator, device=tokens.device) < 0.1"},
            ),
            "nine_tenths_hidden": (
                "You hide nine tenths of the chosen tokens, so that random ones are covered again or never drawn. Of the chosen, 80% become the mask, 10% a "
                "random token, and 10% stay.",
                {"hidden = ...": "hidden = chosen & (fate < 0.9)", "replaced = ...": "replaced = chosen & (fate >= 0.9) & (fate < 0.91)"},
            ),
            "one_draw_used_twice": (
                "You cut the draw that chose a token once more at 0.8 and 0.9. But of a chosen token you know already that its draw lies below p: with p = 0.15 "
                "all of them lie below 0.8, and all are hidden. Draw again, or cut between 0 and p.",
                {"fate = ...": "fate = draw"},
            ),
            "one_fate_for_all": (
                "You draw once, and all chosen tokens share that fate: all hidden, all random, or all as they were. Each has a draw of its own.",
                {"fate = ...": "fate = torch.rand((), generator=generator, device=tokens.device).expand(tokens.shape)"},
            ),
            "random_token_drawn_once": (
                "You draw one random token and put it everywhere. It would be a second mask. Each place gets one of its own.",
                {"4: tokens.shape": "()"},
            ),
            "always_another_token": (
                "Your random token is never the original one. Then a token that is not the mask and was chosen is wrong nine times in ten, plus once; the "
                "paper draws from all V, itself included.",
                {"return ...": "step = 1 + instead % max(vocab - 1, 1)\nreturn torch.where(replaced, (tokens + step) % vocab, inputs), labels"},
            ),
            "last_token_never_comes": (
                "One token of the vocabulary never comes in: the last. `torch.randint` leaves out its upper end by itself.",
                {"4: vocab": "max(vocab - 1, 1)"},
            ),
            "all_are_hidden": (
                "You hide all chosen tokens. A model trained so may rely on a mask wherever it is asked something, and there is none where it is put to use: a "
                "fifth of the chosen is not hidden.",
                {"chosen & (fate < 0.8)": "chosen", "replaced = ...": "replaced = torch.zeros_like(chosen)"},
            ),
            "none_is_kept": (
                "You replace every chosen token that you do not mask. Half of the remaining fifth must stay unchanged.",
                {"replaced = ...": "replaced = chosen & ~hidden"},
            ),
            "none_is_replaced": (
                "You keep every chosen token that you do not mask. Half of the remaining fifth becomes a random token; else a token that is not the mask could always be "
                "trusted.",
                {"replaced = ...": "replaced = torch.zeros_like(chosen)"},
            ),
            # --- who is chosen
            "special_tokens_chosen": (
                "You choose special tokens, too. The model does not have to predict padding, or the beginning of a text.",
                {"(draw < p) & ...": "draw < p"},
            ),
            "p_ignored": (
                "You choose 15% whatever p is.",
                {"draw < p": "draw < 0.15"},
            ),
            "as_many_in_each_row": (
                "You choose as many tokens in each row, as the published code does. Here every token is chosen for itself, so that a row may have more or fewer, "
                "and the shape does not matter.",
                {
                    "draw = _": "draw = _\nlength = tokens.size(-1) if tokens.dim() else 1\nrank = draw.argsort(dim=-1).argsort(dim=-1) if tokens.dim() else 0",
                    "draw < p": "rank < (min(length, max(1, round(p * length))) if p else 0)",
                },
            ),
            # --- labels
            "kept_tokens_without_a_label": (
                "Chosen tokens that stay as they were have no label in your answer. They are asked for like the others: that is what makes the model say something "
                "about a token that it can see.",
                {"return _, labels": "return _, labels.masked_fill(~(hidden | replaced), -100)"},
            ),
            "labels_after_masking": (
                "Your labels are taken after the masking: they hold the mask and the random tokens. The model has to predict the original tokens.",
                {"return _, labels": "inputs = _\nreturn inputs, inputs.masked_fill(~chosen, -100)"},
            ),
            "labels_everywhere": (
                "Your labels are the whole text. The model can copy six tokens in seven from its inputs: where nothing was chosen the label is −100, and "
                "the loss leaves it out.",
                {"labels = ...": "labels = tokens.clone()"},
            ),
            "labels_minus_1": (
                "Where nothing is asked for your label is −1. The number that `F.cross_entropy` leaves out, unless told otherwise, is −100.",
                {"labels = ...": "labels = tokens.masked_fill(~chosen, -1)"},
            ),
            "only_the_chosen": (
                "Your labels are only those of the chosen tokens, in one line. They have the shape of the tokens, with −100 where nothing is predicted, so that "
                "each label is at its token's position.",
                {"labels = ...": "labels = tokens[chosen]"},
            ),
            # --- what it works on, and where chance comes from
            "text_changed_in_place": (
                "You write into the text that you were given, such as the masks. It belongs to the caller, who will mask it again in the next epoch.",
                {"4: tokens.masked_fill": "tokens.masked_fill_"},
            ),
            "random_tokens_without_the_generator": (
                "Who is chosen comes from the generator, the random tokens from torch's own state. The generator has to reach everything that draws.",
                {"4: generator=generator": ""},
            ),
            "seeded_inside": (
                "You seed the randomness inside, so every call makes the same gaps. Where it comes from is the caller's affair; a draw only moves it on.",
                {"draw = _": "torch.manual_seed(0) if generator is None else generator.manual_seed(0)\ndraw = _"},
            ),
            "special_as_a_tensor_at_once": (
                "You make a tensor of the special ids as they come. A set is no sequence: make a list of it first.",
                {"list(special)": "special"},
            ),
        },
    ),
    *of(
        "BERT",
        {
            # --- the head
            "head_of_its_own": (
                "Your head has a matrix of its own. It is tied: a state is compared with the very vectors that tokens come in as, so that one matrix learns from "
                "both.",
                {
                    "self.bias = _": "self.head = nn.Linear(config.d_model, config.vocab, bias=False)\nself.bias = _",
                    "return ...": "return self.head(self.transform(x)) + self.bias",
                },
            ),
            "head_detached": (
                "Your head uses the embedding without letting a gradient through. Then the matrix learns only as an embedding, and a token that is never read "
                "never moves.",
                {"self.embed.weight": "self.embed.weight.detach()"},
            ),
            "tied_under_a_second_name": (
                "Your head is tied, but is in the state dict under a second name. `F.linear` takes any matrix as an argument, so nothing needs to "
                "be registered.",
                {
                    "self.bias = _": "self.head = nn.Linear(config.d_model, config.vocab, bias=False)\nself.head.weight = self.embed.weight\nself.bias = _",
                    "return ...": "return self.head(self.transform(x)) + self.bias",
                },
            ),
            "transform_unused": (
                "You compare the states with the embeddings as they are. Before that the head transforms them: a layer, GELU and a norm.",
                {"self.transform(x)": "x"},
            ),
            "bias_unused": (
                "Your scores lack their bias. It holds how frequent each token is.",
                {"self.bias": ""},
            ),
            "log_probabilities": (
                "You return log-probabilities. Logits are asked for: `F.cross_entropy` does the rest, and leaves out the −100.",
                {"return _": "return _.log_softmax(dim=-1)"},
            ),
            "states_for_logits": (
                "You return states. The head makes scores of them, one for each token of the vocabulary.",
                {"return ...": "return x"},
            ),
            # --- the embedding
            "no_segments": (
                "The segments are not added in your answer. Without them the model cannot tell a first sentence from a second.",
                {"_ + self.segments(segments)": "_"},
            ),
            "segments_only_where_given": (
                "Where no segments are given, you add nothing. All tokens are in segment 0 then, and segment 0 has a vector as well.",
                {
                    "positions = _": "positions = _\ngiven = segments is not None",
                    "x = _ + self.segments(segments)": "x = _\nif given:\n    x = x + self.segments(segments)",
                },
            ),
            "no_positions": (
                "You add no positions. Attention alone does not know the order of tokens.",
                {"_ + self.positions(positions)": "_"},
            ),
            "embedding_scaled": (
                "You multiply the embeddings by √d_model, as in the paper of 2017. BERT norms the sum instead, and does not scale.",
                {"self.embed(tokens)": "self.embed(tokens) * self.config.d_model**0.5"},
            ),
            "embedding_not_normed": (
                "The sum of the three vectors goes into the layers as it is. In post-norm every norm comes *after* a sum, and this is the first sum.",
                {"self.norm(x)": "x"},
            ),
            "padding_index": (
                "Your embedding has a padding index, so that one token's vector gets no gradient where it is read. Padding is hidden by the mask, and needs "
                "nothing else.",
                {"nn.Embedding(config.vocab, _)": "nn.Embedding(config.vocab, _, padding_idx=0)"},
            ),
            # --- the layers
            "causal": (
                "The future is hidden in your answer, as in a decoder. To see both sides is the whole point: what keeps a token from being read off is that it is "
                "not in the inputs.",
                {
                    "x = self.encoder(x, mask)": "past = torch.ones(1, x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()\n"
                    "x = self.encoder(x, past if mask is None else mask & past)"
                },
            ),
            "mask_ignored": (
                "The mask changes nothing in your answer, so that real tokens attend to padding. It has to reach the layers.",
                {"self.encoder(x, mask)": "self.encoder(x)"},
            ),
            "mask_upside_down": (
                "You turn the mask round: True means that a token *may* be attended to.",
                {"self.encoder(x, mask)": "self.encoder(x, None if mask is None else ~mask)"},
            ),
            "pre_norm": (
                "You normalize the input of each sublayer, as GPT-2 does. BERT is older: it normalizes the sum, after the residual connection.",
                {"layer = _": "layer = _\nlayer.norm = 'pre'\nfor connection in layer.sublayer:\n    connection.pre = True"},
            ),
            "one_layer_n_times": (
                "Your layers are one and the same, with one set of weights. (ALBERT does that, on purpose.) `Encoder` makes copies.",
                {"self.encoder = _": "self.encoder = _\nself.encoder.layers = nn.ModuleList([layer] * config.n_layers)"},
            ),
            # --- dropout
            "dropout_before_the_norm": (
                "You apply dropout to the embedding before the norm. The norm comes first, then the dropout.",
                {"self.dropout(self.norm(x))": "self.norm(self.dropout(x))"},
            ),
            "embedding_not_dropped": (
                "The embedding is not dropped in your answer. The config's dropout is for it, too.",
                {"self.dropout(_)": "_"},
            ),
            "attention_not_dropped": (
                "Your attention weights are not dropped. The config's dropout is for them, too.",
                {"MultiHeadedAttention(_, config.d_model, config.dropout)": "MultiHeadedAttention(_, config.d_model, 0.0)"},
            ),
            "dropout_in_evaluation_mode": (
                "You drop features of the embedding in evaluation mode as well. `F.dropout` does not know the module's mode: pass the mode on.",
                {"self.dropout(_)": "F.dropout(_, self.config.dropout)"},
            ),
            # --- initialization, and remaining cases
            "torchs_own_start": (
                "Your matrices start too wide, as torch's own layers do. BERT's start close to 0, with a standard deviation of 0.02, the three embedding "
                "matrices as well.",
                {"nn.init.trunc_normal_(parameter, std=0.02, a=-0.04, b=0.04)": ""},
            ),
            "biases_not_0": (
                "Your biases do not start at 0; torch's own do not. BERT's do.",
                {"name.endswith('bias')": "False"},
            ),
            "normal_not_cut_off": (
                "Your normal distribution is not truncated. The published code truncates it at two standard deviations.",
                {"nn.init.trunc_normal_": "nn.init.normal_", "a=-0.04": "", "b=0.04": ""},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "mask_tokens",
        {
            "special_ids_on_the_cpu": (
                "You look for the special ids in a tensor on the CPU, and the tokens may be on a GPU. `torch.tensor` takes `device=tokens.device`.",
                {"torch.tensor(_, dtype=tokens.dtype, device=tokens.device)": "torch.tensor(_, dtype=tokens.dtype)"},
            ),
            "drawn_on_the_cpu": (
                "You draw random numbers on the CPU, while the tokens may be on a GPU. `torch.rand` takes `device=tokens.device`, and a generator of a GPU needs it.",
                {"draw = ...": "draw = torch.rand(tokens.shape, generator=generator)"},
            ),
        },
    ),
    *on_devices(
        "BERT",
        {
            "positions_made_on_the_cpu": (
                "You count the positions on the CPU, and look them up in a matrix that may be on a GPU. `torch.arange` takes `device=tokens.device`.",
                {"torch.arange(_, device=tokens.device)": "torch.arange(_)"},
            ),
            "segments_made_on_the_cpu": (
                "Where no segments are given, you make them on the CPU. `torch.zeros_like(tokens)` makes them where the tokens are.",
                {"torch.zeros_like(tokens)": "torch.zeros(tokens.shape, dtype=tokens.dtype)"},
            ),
        },
    ),
]
