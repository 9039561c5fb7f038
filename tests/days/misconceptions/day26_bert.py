"""Day 26: what goes wrong where gaps are made, and where they are filled in."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "mask_tokens",
        {
            # --- 80, 10, 10
            "a_tenth_of_the_rest": (
                "Only 2% of your chosen tokens become random tokens, and 18% stay unchanged. You probably take a tenth of the tokens that are not masked, or "
                "a tenth of all, most of which the mask then covers. A tenth of *all* chosen tokens is half of the fifth that is not masked.",
                {"fate >= 0.8": "~hidden", "fate < 0.9": "torch.rand(tokens.shape, generator=generator, device=tokens.device) < 0.1"},
            ),
            "nine_tenths_hidden": (
                "You mask nine tenths of the chosen tokens, so random tokens are overwritten or never drawn. Of the chosen tokens, 80% become the mask, 10% "
                "become a random token, and 10% stay unchanged.",
                {"hidden = ...": "hidden = chosen & (fate < 0.9)", "replaced = ...": "replaced = chosen & (fate >= 0.9) & (fate < 0.91)"},
            ),
            "one_draw_used_twice": (
                "You use the draw that chose a token again, with the limits 0.8 and 0.9. But the draw of a chosen token is always below p. With p = 0.15 all "
                "of them are below 0.8, so all chosen tokens are masked. Draw again, or divide the range from 0 to p.",
                {"fate = ...": "fate = draw"},
            ),
            "one_fate_for_all": (
                "You draw once for all chosen tokens, so all of them are masked, all are random, or all stay unchanged. Draw separately for each token.",
                {"fate = ...": "fate = torch.rand((), generator=generator, device=tokens.device).expand(tokens.shape)"},
            ),
            "random_token_drawn_once": (
                "You draw one random token and use it everywhere, which makes it a second mask token. Draw a random token for each position.",
                {"4: tokens.shape": "()"},
            ),
            "always_another_token": (
                "Your random token is never the original token. The paper draws from the whole vocabulary, including the original, so a random token should "
                "now and then equal the original.",
                {"return ...": "step = 1 + instead % max(vocab - 1, 1)\nreturn torch.where(replaced, (tokens + step) % vocab, inputs), labels"},
            ),
            "last_token_never_comes": (
                "Your random tokens never include the last token of the vocabulary. `torch.randint` already excludes its upper end.",
                {"4: vocab": "max(vocab - 1, 1)"},
            ),
            "all_are_hidden": (
                "You mask all chosen tokens. The model then learns to predict only where it sees a mask, but there are no masks when the model is used. A "
                "fifth of the chosen tokens should not be masked.",
                {"chosen & (fate < 0.8)": "chosen", "replaced = ...": "replaced = torch.zeros_like(chosen)"},
            ),
            "none_is_kept": (
                "You replace every chosen token that you do not mask. Half of the remaining fifth must stay unchanged.",
                {"replaced = ...": "replaced = chosen & ~hidden"},
            ),
            "none_is_replaced": (
                "You keep every chosen token that you do not mask. Half of the remaining fifth should become a random token. Otherwise the model learns that "
                "every token other than the mask is correct.",
                {"replaced = ...": "replaced = torch.zeros_like(chosen)"},
            ),
            # --- who is chosen
            "special_tokens_chosen": (
                "You choose special tokens, too. The model should not have to predict padding or the start of a text.",
                {"(draw < p) & ...": "draw < p"},
            ),
            "p_ignored": (
                "You choose 15% of the tokens, whatever p is.",
                {"draw < p": "draw < 0.15"},
            ),
            "as_many_in_each_row": (
                "You choose the same number of tokens in each row, as the published code does. Here each token is chosen independently, so the number varies "
                "from row to row, and tokens of any shape work.",
                {
                    "draw = _": "draw = _\nlength = tokens.size(-1) if tokens.dim() else 1\nrank = draw.argsort(dim=-1).argsort(dim=-1) if tokens.dim() else 0",
                    "draw < p": "rank < (min(length, max(1, round(p * length))) if p else 0)",
                },
            ),
            # --- labels
            "kept_tokens_without_a_label": (
                "In your answer, chosen tokens that stay unchanged have no label. The model must predict them like the other chosen tokens: only then does it "
                "learn to judge a token that it can see.",
                {"return _, labels": "return _, labels.masked_fill(~(hidden | replaced), -100)"},
            ),
            "labels_after_masking": (
                "You take the labels after masking, so they contain the mask and the random tokens. The model has to predict the original tokens.",
                {"return _, labels": "inputs = _\nreturn inputs, inputs.masked_fill(~chosen, -100)"},
            ),
            "labels_everywhere": (
                "Your labels are the whole text. With p = 0.15, the model can copy six tokens in seven from its input. The label of a token that was not "
                "chosen is −100, which the loss ignores.",
                {"labels = ...": "labels = tokens.clone()"},
            ),
            "labels_minus_1": (
                "The label of a token that was not chosen is −1 in your answer. By default, `F.cross_entropy` ignores the label −100.",
                {"labels = ...": "labels = tokens.masked_fill(~chosen, -1)"},
            ),
            "only_the_chosen": (
                "Your labels are only those of the chosen tokens, in one row. Labels should have the shape of the tokens, with −100 where nothing is "
                "predicted, so that each label is at its token's position.",
                {"labels = ...": "labels = tokens[chosen]"},
            ),
            # --- what it works on, and where chance comes from
            "text_changed_in_place": (
                "You write the masks into the text that was passed in. The caller still needs the original text, to mask it again in the next epoch.",
                {"4: tokens.masked_fill": "tokens.masked_fill_"},
            ),
            "random_tokens_without_the_generator": (
                "You choose tokens with the generator, but draw the random tokens from PyTorch's global state. Pass the generator to every draw.",
                {"4: generator=generator": ""},
            ),
            "seeded_inside": (
                "You set a seed inside the function, so every call chooses the same tokens. The caller decides about seeds; a draw only advances the "
                "generator.",
                {"draw = _": "torch.manual_seed(0) if generator is None else generator.manual_seed(0)\ndraw = _"},
            ),
            "special_as_a_tensor_at_once": (
                "You convert the special ids directly to a tensor. A set is not a sequence, so convert it to a list first.",
                {"list(special)": "special"},
            ),
        },
    ),
    *of(
        "BERT",
        {
            # --- the head
            "head_of_its_own": (
                "Your head has its own matrix. The head should be tied: each state is compared with the token embeddings themselves, so that one matrix "
                "learns both as input and as output.",
                {
                    "self.bias = _": "self.head = nn.Linear(config.d_model, config.vocab, bias=False)\nself.bias = _",
                    "return ...": "return self.head(self.transform(x)) + self.bias",
                },
            ),
            "head_detached": (
                "Your head uses the embedding, but no gradient flows through the head. The matrix then learns only as an input embedding, and the vector of a "
                "token that never occurs never changes.",
                {"self.embed.weight": "self.embed.weight.detach()"},
            ),
            "tied_under_a_second_name": (
                "Your head is tied, but it appears in the state dict under a second name. `F.linear` takes any matrix as an argument, so you need not "
                "register a second module.",
                {
                    "self.bias = _": "self.head = nn.Linear(config.d_model, config.vocab, bias=False)\nself.head.weight = self.embed.weight\nself.bias = _",
                    "return ...": "return self.head(self.transform(x)) + self.bias",
                },
            ),
            "transform_unused": (
                "You compare the states directly with the embeddings. First the head must transform them with a linear layer, GELU and a norm.",
                {"self.transform(x)": "x"},
            ),
            "bias_unused": (
                "Your logits lack their bias, which can learn how frequent each token is.",
                {"self.bias": ""},
            ),
            "log_probabilities": (
                "You return log-probabilities. Return logits: `F.cross_entropy` applies the log-softmax and ignores the label −100.",
                {"return _": "return _.log_softmax(dim=-1)"},
            ),
            "states_for_logits": (
                "You return the states. The head turns a state into logits, one for each token of the vocabulary.",
                {"return ...": "return x"},
            ),
            # --- the embedding
            "no_segments": (
                "You do not add the segment embeddings. Without them, the model cannot tell the first sentence from the second.",
                {"_ + self.segments(segments)": "_"},
            ),
            "segments_only_where_given": (
                "If no segments are passed, you add no segment embedding. In this case all tokens are in segment 0, which also has a vector.",
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
                "You multiply the embeddings by √d_model, as *Attention Is All You Need* does. BERT does not scale them, but normalizes the sum.",
                {"self.embed(tokens)": "self.embed(tokens) * self.config.d_model**0.5"},
            ),
            "embedding_not_normed": (
                "You pass the sum of the three vectors to the layers without normalizing it. In post-norm a norm follows every sum, including this first sum.",
                {"self.norm(x)": "x"},
            ),
            "padding_index": (
                "Your embedding has a padding index, so one token's vector gets no gradient where that token is an input. The mask hides padding, so no "
                "padding index is needed.",
                {"nn.Embedding(config.vocab, _)": "nn.Embedding(config.vocab, _, padding_idx=0)"},
            ),
            # --- the layers
            "causal": (
                "In your answer the future is hidden, as in a decoder. BERT must see both sides. It cannot copy the token to predict, because that token is "
                "usually not in the input.",
                {
                    "x = self.encoder(x, mask)": "past = torch.ones(1, x.size(1), x.size(1), dtype=torch.bool, device=x.device).tril()\n"
                    "x = self.encoder(x, past if mask is None else mask & past)"
                },
            ),
            "mask_ignored": (
                "In your answer the mask has no effect, so real tokens attend to padding. Pass the mask on to the layers.",
                {"self.encoder(x, mask)": "self.encoder(x)"},
            ),
            "mask_upside_down": (
                "You invert the mask. True means *may be attended to*.",
                {"self.encoder(x, mask)": "self.encoder(x, None if mask is None else ~mask)"},
            ),
            "pre_norm": (
                "You normalize the input of each sublayer, as GPT-2 does. BERT, like the original Transformer, normalizes the sum, after the residual "
                "connection.",
                {"layer = _": "layer = _\nlayer.norm = 'pre'\nfor connection in layer.sublayer:\n    connection.pre = True"},
            ),
            "one_layer_n_times": (
                "Your layers are the same object, with one set of weights. (ALBERT shares its layers deliberately.) `Encoder` makes copies.",
                {"self.encoder = _": "self.encoder = _\nself.encoder.layers = nn.ModuleList([layer] * config.n_layers)"},
            ),
            # --- dropout
            "dropout_before_the_norm": (
                "You apply dropout to the sum of the embeddings before the norm. Apply the norm first, then dropout.",
                {"self.dropout(self.norm(x))": "self.norm(self.dropout(x))"},
            ),
            "embedding_not_dropped": (
                "You apply no dropout to the embeddings. The config's dropout applies to them, too.",
                {"self.dropout(_)": "_"},
            ),
            "attention_not_dropped": (
                "Your attention weights are never dropped. Pass the config's dropout to the attention.",
                {"MultiHeadedAttention(_, config.d_model, config.dropout)": "MultiHeadedAttention(_, config.d_model, 0.0)"},
            ),
            "dropout_in_evaluation_mode": (
                "You apply dropout to the embeddings in evaluation mode as well. `F.dropout` does not know the module's mode, so pass the mode on.",
                {"self.dropout(_)": "F.dropout(_, self.config.dropout)"},
            ),
            # --- initialization, and remaining cases
            "torchs_own_start": (
                "Your matrices keep PyTorch's default initialization, whose standard deviation is too large. BERT initializes with a standard deviation of "
                "0.02, including the three embedding matrices.",
                {"nn.init.trunc_normal_(parameter, std=0.02, a=-0.04, b=0.04)": ""},
            ),
            "biases_not_0": (
                "Your biases are not initialized to 0, but BERT's are. PyTorch's own layers do not initialize their biases to 0.",
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
                "You search for the special ids in a tensor on the CPU, but the tokens can be on a GPU. `torch.tensor` takes `device=tokens.device`.",
                {"torch.tensor(_, dtype=tokens.dtype, device=tokens.device)": "torch.tensor(_, dtype=tokens.dtype)"},
            ),
            "drawn_on_the_cpu": (
                "You draw random numbers on the CPU, but the tokens can be on a GPU. `torch.rand` takes `device=tokens.device`, which a GPU's generator "
                "requires.",
                {"draw = ...": "draw = torch.rand(tokens.shape, generator=generator)"},
            ),
        },
    ),
    *on_devices(
        "BERT",
        {
            "positions_made_on_the_cpu": (
                "You create the positions on the CPU, but look them up in a matrix that can be on a GPU. `torch.arange` takes `device=tokens.device`.",
                {"torch.arange(_, device=tokens.device)": "torch.arange(_)"},
            ),
            "segments_made_on_the_cpu": (
                "If no segments are passed, you create them on the CPU. `torch.zeros_like(tokens)` creates them on the device of the tokens.",
                {"torch.zeros_like(tokens)": "torch.zeros(tokens.shape, dtype=tokens.dtype)"},
            ),
        },
    ),
]
