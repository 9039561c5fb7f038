"""Day 23: what goes wrong with one projection for three, with the past, and with what GPT-2 changed."""

from course.judging.misconceptions import of, on_devices

SQUARE = "torch.ones(1, x.size(1), x.size(1), dtype=torch.bool, device=x.device)"
SCORES = f"mask = {SQUARE}.tril()\nscores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))\n"


def by_day_8(mask: str) -> dict[str, str]:
    """Attend by day 8's function, with this mask."""
    return {"heads = ...": f"from implementation import attention\nmask = {mask}\nheads, weights = attention(query, key, value, mask, self.dropout)"}


MISCONCEPTIONS = [
    *of(
        "CausalSelfAttention",
        {
            # --- CausalSelfAttention: what there is to learn
            "three_projections": (
                "You have separate projections for query, key and value, as on day 9. Here all three come from the same tokens, so one product computes them: "
                "`w_qkv`, three times as wide.",
                {
                    "self.w_qkv = ...": "self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, d_model) for _ in range(3))",
                    "self.w_qkv(x).chunk(3, dim=-1)": "self.w_q(x), self.w_k(x), self.w_v(x)",
                },
            ),
            "weights_kept_from_an_earlier_call": (
                "You keep the weights of `w_qkv` from the first call. A training step changes these weights, so use the layer itself in each call.",
                {"self.w_qkv(x)": "F.linear(x, self.__dict__.setdefault('kept', self.w_qkv.weight + 0), self.w_qkv.bias)"},
            ),
            "no_biases": (
                "Your projections have no biases. LLaMA has none either, but each projection of GPT-2 has a bias.",
                {
                    "nn.Linear(d_model, 3 * d_model)": "nn.Linear(d_model, 3 * d_model, bias=False)",
                    "nn.Linear(d_model, d_model)": "nn.Linear(d_model, d_model, bias=False)",
                },
            ),
            "mask_in_the_state_dict": (
                "Your mask is a buffer that is saved with the weights. It can be created at any time, and in a state dict it restricts the weights to one "
                "length. Use a buffer that is not persistent, or no buffer.",
                {
                    "self.w_o = _": "self.w_o = _\nself.register_buffer('mask', torch.ones(1, 64, 64, dtype=torch.bool).tril())",
                    **by_day_8("self.mask[:, : x.size(1), : x.size(1)]"),
                },
            ),
            # --- CausalSelfAttention: what is whose in w_qkv
            "keys_come_first": (
                "You take the first third of `w_qkv` for the keys and the second third for the queries. Training would work with this order, too, but "
                "published weights have the order query, key, value.",
                {"query, key, value = _": "key, query, value = _"},
            ),
            "each_head_has_its_three": (
                "You give each head a part of `w_qkv` that holds its own query, key and value. GPT-NeoX has this layout. In GPT-2 the first third holds the "
                "queries of all heads, the second third the keys, the last third the values. Split the projection into queries, keys and values first, and then each of them into heads.",
                {"_.chunk(3, dim=-1)": "(one.flatten(-2) for one in _.unflatten(-1, (self.n_heads, -1)).chunk(3, dim=-1))"},
            ),
            # --- CausalSelfAttention: heads
            "one_wide_head": (
                "You attend without splitting into heads: your answer has one head of width d_model, whatever n_heads is.",
                {
                    "query.unflatten(-1, ...)": "query.unflatten(-1, (1, -1))",
                    "key.unflatten(-1, ...)": "key.unflatten(-1, (1, -1))",
                    "value.unflatten(-1, ...)": "value.unflatten(-1, (1, -1))",
                },
            ),
            "heads_by_a_view_alone": (
                "You make the shape (B, h, T, d_k) with a view alone, and reverse it with another view. A view keeps the numbers in their order, so each of "
                "your heads holds all features of a few tokens. Split the last axis in two, then move the heads forward.",
                {
                    "query = ...": "query = query.reshape(len(x), self.n_heads, x.size(1), -1)",
                    "key.unflatten(-1, (_, -1)).transpose(1, 2)": "key.reshape(len(x), _, x.size(1), -1)",
                    "value = ...": "value = value.reshape(len(x), self.n_heads, x.size(1), -1)",
                    "self.w_o(...)": "self.w_o(heads.reshape(x.shape))",
                },
            ),
            "joined_by_a_view_alone": (
                "You join the heads with a view or reshape of (B, h, T, d_k). That keeps the numbers in their order, head by head, so a row of your result "
                "holds several tokens of one head. Bring the heads of each token together first.",
                {"self.w_o(...)": "self.w_o(heads.reshape(x.shape))"},
            ),
            # --- CausalSelfAttention: what may be seen
            "future_in_sight": (
                "Your tokens attend to later tokens: nothing is masked. In training the loss would fall to almost 0, because the model can copy the next "
                "token, and the text that the model then generates would be nonsense.",
                by_day_8("None"),
            ),
            "sees_one_ahead": (
                "Your mask is off by one: each token attends to the token right after it, which is the token that it must predict.",
                by_day_8(f"{SQUARE}.tril(1)"),
            ),
            "does_not_see_itself": (
                "Your mask is off by one: no token attends to itself, and the first token attends to nothing. The model predicts the *next* token, so a token "
                "may attend to itself.",
                by_day_8(f"{SQUARE}.tril(-1)"),
            ),
            "true_hides": (
                "Your mask is True where a key must be hidden, as in `nn.MultiheadAttention`. In `attention` and `F.scaled_dot_product_attention`, True means "
                "*may be attended to*.",
                by_day_8(f"{SQUARE}.triu(1)"),
            ),
            "hidden_scores_are_zero": (
                "You multiply the scores by the mask, so a hidden score becomes 0. That is not a low score: its exponential is 1, so the future gets as much "
                "weight as any key with an average score.",
                {"heads = ...": f"{SCORES}heads = self.dropout((scores * mask).softmax(dim=-1)) @ value"},
            ),
            "hidden_score_not_low_enough": (
                "You give hidden keys a score that is low, but not lower than all others. Scores of this size occur in a trained model, and then hidden keys "
                "get weight. −∞, or the lowest number of the dtype, is safe.",
                {"heads = ...": f"{SCORES}scores = scores.masked_fill(~mask, -1e4)\nheads = self.dropout(scores.softmax(dim=-1)) @ value"},
            ),
            "masked_after_the_softmax": (
                "You set weights to 0 after the softmax. The weights no longer sum to 1, and the future still counts in the denominator. Mask the scores "
                "before the softmax.",
                {"heads = ...": f"{SCORES}weights = scores.softmax(dim=-1).masked_fill(~mask, 0.0)\nheads = self.dropout(weights) @ value"},
            ),
            "mask_of_the_first_call": (
                "You keep the mask of the first call, which is too small for a longer text. Create a mask as large as the current text, or create a larger "
                "mask and slice it.",
                {"self.w_o = _": "self.w_o = _\nself.mask = None"} | by_day_8(f"self.mask = {SQUARE}.tril() if self.mask is None else self.mask"),
            ),
            "not_scaled": (
                "Your scores are not divided by √d_k. Attention is the same as on day 8, including the scale. You may import `attention`.",
                {"3: query": "query * query.size(-1) ** 0.5"},
            ),
            "scaled_by_d_model": (
                "Your scores are divided by √d_model. Inside a head a query is only d_k wide, and √d_k is the standard deviation of its dot products.",
                {"3: query": "query / self.n_heads**0.5"},
            ),
            # --- CausalSelfAttention: what comes out
            "output_projection_unused": (
                "You create `w_o`, but do not apply it: your output is the concatenated heads. The result of head 0 then stays in the first d_k features. "
                "With `w_o`, every head can write to every feature.",
                {"self.w_o(_)": "_"},
            ),
            "weights_returned_too": (
                "You return the weights as well. A block adds the result to x, so it expects a single tensor.",
                by_day_8(f"{SQUARE}.tril()") | {"return _": "return _, weights"},
            ),
            "empty_text_refused": (
                "You pass −1 as a size to `view`. For a tensor without entries, any size would fit, so PyTorch raises an error: your layer fails when there "
                "are no tokens. Pass all sizes, or split only the last axis.",
                {
                    "query.unflatten(-1, (_, -1))": "query.reshape(len(x), x.size(1), _, -1)",
                    "key.unflatten(-1, (_, -1))": "key.reshape(len(x), x.size(1), _, -1)",
                    "value.unflatten(-1, (_, -1))": "value.reshape(len(x), x.size(1), _, -1)",
                },
            ),
            "computed_in_float32": (
                "Your heads are float32 for any input, and `w_o` raises an error if its dtype differs. `attention` upcasts internally where necessary and "
                "returns the dtype that it received.",
                {"heads = ...": "heads = F.scaled_dot_product_attention(query.float(), key.float(), value.float(), dropout_p=p, is_causal=True)"},
            ),
            # --- CausalSelfAttention: dropout
            "output_dropped_too": (
                "You apply dropout to the weights, which is right, and to the output as well. The block applies the second dropout, so the output would be "
                "dropped twice.",
                {"return _": "return self.dropout(_)"},
            ),
            "weights_not_dropped": (
                "You store a dropout layer or its probability, but do not apply dropout to the weights. `attention` takes the dropout as its last argument.",
                {"p = _": "p = 0.0"},
            ),
            "drops_in_evaluation": (
                "You apply dropout in evaluation mode as well. A function such as `F.scaled_dot_product_attention(…, dropout_p)` does not know the module's "
                "mode, so pass it a probability of 0 in evaluation mode.",
                {"p = _": "p = self.dropout.p"},
            ),
            "dropout_by_default": (
                "If the caller passes no probability, you use a dropout of 0.1. Here the default is 0.",
                {"dropout=0.0": "dropout=0.1"},
            ),
        },
    ),
    *of(
        "GPT",
        {
            # --- GPT: the head
            "head_is_a_copy": (
                "Your head has its own matrix, or a copy of the token embedding. Even if the two are equal at first, they differ after the first training "
                "step. In GPT-2 the two are one parameter. A second matrix would add 39 million to its 124 million parameters.",
                {
                    "self.norm = _": "self.norm = _\n"
                    "self.head = nn.Linear(config.d_model, config.vocab, bias=False)\n"
                    "self.head.weight = nn.Parameter(self.embed.weight.detach().clone())",
                    "F.linear(x, ...)": "self.head(x)",
                },
            ),
            "head_with_a_bias": (
                "Your head has a bias. GPT-2's head has none: it is only the token embedding matrix.",
                {"self.norm = _": "self.norm = _\nself.bias = nn.Parameter(torch.zeros(config.vocab))", "F.linear(x, _)": "F.linear(x, _, self.bias)"},
            ),
            "head_in_the_state_dict": (
                "Your head is tied, but it also appears in the state dict under its own name. Weights that were saved without this name then fail to load. "
                "Use the embedding's matrix directly in `forward`.",
                {
                    "self.norm = _": "self.norm = _\n"
                    "self.lm_head = nn.Linear(config.d_model, config.vocab, bias=False)\n"
                    "self.lm_head.weight = self.embed.weight",
                    "F.linear(x, ...)": "self.lm_head(x)",
                },
            ),
            "head_detached": (
                "Your head uses the embedding's values, but no gradient flows back through the head. A token's vector then learns only where the token is an "
                "input: a token that never occurs never becomes less likely.",
                {"self.embed.weight": "self.embed.weight.detach()"},
            ),
            # --- GPT: what goes in
            "embedding_times_root_d_model": (
                "You multiply the embeddings by √d_model, as *Attention Is All You Need* does (§3.4). GPT does not: its token and position embeddings start "
                "equally small, and are simply added.",
                {"self.embed(tokens)": "self.embed(tokens) * math.sqrt(self.config.d_model)"},
            ),
            "no_positions": (
                "You create a position embedding, but never add its vectors. From the causal mask alone, a token can tell only indirectly how many tokens "
                "come before it, but not their order.",
                {"_ + self.positions(positions)": "_"},
            ),
            "positions_from_1": (
                "Your positions start at 1, so row 0 of the embedding is never used, and in a text as long as the context, the last token has no row. The "
                "first token is at position 0.",
                {"torch.arange(_, device=tokens.device)": "torch.arange(1, _ + 1, device=tokens.device)"},
            ),
            "whole_table_of_positions": (
                "You add the whole position embedding, which works only if the text is as long as the context. Use the first T rows.",
                {"self.positions(positions)": "self.positions.weight"},
            ),
            "sinusoids": (
                "Your positions are sines and cosines, as in *Attention Is All You Need*. GPT learns its positions, with an embedding that has a row for each "
                "position.",
                {
                    "self.positions = ...": "from implementation import PositionalEncoding\n"
                    "self.positions = PositionalEncoding(config.d_model, 0.0, config.context)",
                    "_ + self.positions(positions)": "self.positions(_)",
                },
            ),
            "token_0_is_padding": (
                "Your embedding treats token 0 as padding, so that its row gets no gradient where token 0 is an input. GPT-2 has no padding, and its token 0 "
                "is an ordinary token, the exclamation mark.",
                {"nn.Embedding(config.vocab, _)": "nn.Embedding(config.vocab, _, padding_idx=0)"},
            ),
            # --- GPT: the blocks and their norms
            "positions_kept_from_an_earlier_call": (
                "You keep the position vectors of the first call for each length. A training step changes the position embedding, but your stored vectors "
                "stay the same.",
                {"self.positions(positions)": "self.__dict__.setdefault('kept', {}).setdefault(tokens.size(1), self.positions(positions))"},
            ),
            "one_block_many_times": (
                "You use the same block N times: `[block] * n` repeats a reference and copies nothing. Each of the N blocks needs its own weights.",
                {"(_ for _ in ...)": "[_] * config.n_layers"},
            ),
            "blocks_in_a_plain_list": (
                "Your blocks are in a plain Python list, whose contents `nn.Module` ignores. They are missing from the state dict, and the optimizer does not "
                "train them.",
                {"self.blocks = _": "self.blocks = [*_]"},
            ),
            "d_ff_is_four_times_d_model": (
                "Your feed-forward networks are four times as wide as the model, whatever the config says. In GPT-2 the two widths agree; here `d_ff` is a "
                "separate field.",
                {"config.d_ff": "4 * config.d_model"},
            ),
            "no_final_norm": (
                "Your model has no final norm. In pre-norm each block adds to x without normalizing the sum, so the sum grows from block to block. GPT-2 "
                "normalizes it once, before the head.",
                {"self.norm = ...": "", "x = self.norm(x)": ""},
            ),
            "post_norm": (
                "Your blocks are post-norm, like those of the first GPT. GPT-2 normalizes the input of each sublayer, not the sum after it.",
                {"self.norm = _": "for one in self.blocks:\n    for connection in one.sublayer:\n        connection.pre = False\nself.norm = _"},
            ),
            "config_not_kept": (
                "You do not store the config. Code that generates text reads `config.context` from the model, to know how many tokens the model can take.",
                {"self.config = config": "self._config = config", "_ > self.config.context": "_ > self._config.context"},
            ),
            # --- GPT: what comes out
            "log_probabilities": (
                "You return log-probabilities, like the generator of day 14. Return the logits, without a softmax.",
                {"return _": "return _.log_softmax(dim=-1)"},
            ),
            "last_position_only": (
                "You return the logits at the last position only. Generation needs no others, but in training the model predicts a token at every position.",
                {"F.linear(x, _)": "F.linear(x[:, -1:], _)"},
            ),
            "logits_in_float32": (
                "Your logits are float32 whatever the dtype of the weights is. They should have the dtype of the weights. A loss that needs float32 can "
                "convert them.",
                {"return _": "return _.float()"},
            ),
            # --- GPT: dropout
            "embeddings_not_dropped": (
                "You apply no dropout to the sum of token and position embeddings. The config's dropout applies there, too, as well as to attention weights "
                "and sublayer outputs.",
                {"self.dropout(_)": "_"},
            ),
            "attention_without_dropout": (
                "Your attention weights are never dropped. Pass the config's dropout to `CausalSelfAttention`, whose own default is 0.",
                {"CausalSelfAttention(_, config.n_heads, config.dropout)": "CausalSelfAttention(_, config.n_heads)"},
            ),
            "embeddings_dropped_in_evaluation": (
                "You apply dropout to the embeddings in evaluation mode as well. `F.dropout` does not know the module's mode, so pass the mode on.",
                {"self.dropout(_)": "F.dropout(_, self.config.dropout)"},
            ),
            # --- GPT: initialization
            "starts_as_torch_starts_it": (
                "Your weights keep PyTorch's default initialization. GPT-2 initializes its embeddings from N(0, 0.02²), not N(0, 1). With N(0, 1) and a tied "
                "head, the model's first predictions are far too confident.",
                {"self.named_parameters()": "()"},
            ),
            "residuals_not_made_smaller": (
                "The matrices that write to the residual stream, `w_o` and `w_2`, are initialized with a standard deviation that is far too large, such as "
                "the 0.02 of all other matrices. The stream is a sum of 2 N such outputs, which would grow with the depth. GPT-2 divides the standard "
                "deviation by √(2 N).",
                {"std=0.02 / ...": "std=0.02"},
            ),
            "one_residual_per_block": (
                "The matrices that write to the residual stream, `w_o` and `w_2`, are initialized with a standard deviation that is somewhat too large. You "
                "probably count one output for each of the N blocks. There are two, those of attention and of the feed-forward network: divide by √(2 N).",
                {"2 * config.n_layers": "config.n_layers"},
            ),
            "biases_not_zero": (
                "Your matrices are initialized correctly, but your biases are not initialized to 0. PyTorch's own layers do not initialize their biases to 0 "
                "either.",
                {"nn.init.zeros_(parameter)": ""},
            ),
            "blocks_start_equal": (
                "All your blocks start with equal weights, as if the matrices had been initialized before the blocks were copied. Initialize every block "
                "separately.",
                {
                    "for name, parameter in self.named_parameters():\n    _": "for name, parameter in self.named_parameters():\n"
                    "    _\n"
                    "for one in self.blocks:\n"
                    "    one.load_state_dict(self.blocks[0].state_dict())"
                },
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "CausalSelfAttention",
        {
            "mask_stays_on_the_cpu": (
                "Your causal mask stays on the CPU, but the scores can be on a GPU. Create the mask with `device=x.device`, or move it with `.to(x.device)`.",
                by_day_8("torch.ones(1, x.size(1), x.size(1), dtype=torch.bool).tril()"),
            ),
        },
    ),
    *on_devices(
        "GPT",
        {
            "positions_made_on_the_cpu": (
                "You create the positions on the CPU, but look them up in a matrix that can be on a GPU. `torch.arange` takes `device=tokens.device`.",
                {"torch.arange(_, device=tokens.device)": "torch.arange(_)"},
            ),
        },
    ),
]
