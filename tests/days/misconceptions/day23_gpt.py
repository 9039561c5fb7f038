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
                "You have a projection each for query, key and value, as on day 9. All three are made from the same tokens here, so one product makes them: "
                "`w_qkv`, three times as wide.",
                {
                    "self.w_qkv = ...": "self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, d_model) for _ in range(3))",
                    "self.w_qkv(x).chunk(3, dim=-1)": "self.w_q(x), self.w_k(x), self.w_v(x)",
                },
            ),
            "weights_kept_from_an_earlier_call": (
                "You keep the weights of `w_qkv` as they were at the first call. A training step changes them: use the layer itself each time.",
                {"self.w_qkv(x)": "F.linear(x, self.__dict__.setdefault('kept', self.w_qkv.weight + 0), self.w_qkv.bias)"},
            ),
            "no_biases": (
                "Your projections have no biases. LLaMA leaves them out; GPT-2 has one in each.",
                {
                    "nn.Linear(d_model, 3 * d_model)": "nn.Linear(d_model, 3 * d_model, bias=False)",
                    "nn.Linear(d_model, d_model)": "nn.Linear(d_model, d_model, bias=False)",
                },
            ),
            "mask_in_the_state_dict": (
                "Your mask is a buffer that is saved with the weights. It can be created at any time, and in a state dict it ties the weights to one length. A "
                "buffer that is not persistent, or none, does.",
                {
                    "self.w_o = _": "self.w_o = _\nself.register_buffer('mask', torch.ones(1, 64, 64, dtype=torch.bool).tril())",
                    **by_day_8("self.mask[:, : x.size(1), : x.size(1)]"),
                },
            ),
            # --- CausalSelfAttention: what is whose in w_qkv
            "keys_come_first": (
                "You take the first third of `w_qkv` for the keys and the second for the queries. You would learn as well, but published weights lie the other way "
                "round: query, key, value.",
                {"query, key, value = _": "key, query, value = _"},
            ),
            "each_head_has_its_three": (
                "You give each head a stretch of `w_qkv` with its query, key and value in it. GPT-NeoX lays its weights out like that; GPT-2's first third holds "
                "the queries of all heads, the second the keys, the last the values. First cut in three, then into heads.",
                {"_.chunk(3, dim=-1)": "(one.flatten(-2) for one in _.unflatten(-1, (self.n_heads, -1)).chunk(3, dim=-1))"},
            ),
            # --- CausalSelfAttention: heads
            "one_wide_head": (
                "You attend without splitting into heads: that is one head of width d_model, whatever n_heads is.",
                {
                    "query.unflatten(-1, ...)": "query.unflatten(-1, (1, -1))",
                    "key.unflatten(-1, ...)": "key.unflatten(-1, (1, -1))",
                    "value.unflatten(-1, ...)": "value.unflatten(-1, (1, -1))",
                },
            ),
            "heads_by_a_view_alone": (
                "You get the shape (B, h, T, d_k) by a view alone, and go back by another. A view keeps the numbers in their order: each of your heads holds all "
                "features of a few tokens. Cut the last axis in two, then move the heads forward.",
                {
                    "query = ...": "query = query.reshape(len(x), self.n_heads, x.size(1), -1)",
                    "key.unflatten(-1, (_, -1)).transpose(1, 2)": "key.reshape(len(x), _, x.size(1), -1)",
                    "value = ...": "value = value.reshape(len(x), self.n_heads, x.size(1), -1)",
                    "self.w_o(...)": "self.w_o(heads.reshape(x.shape))",
                },
            ),
            "joined_by_a_view_alone": (
                "You join the heads by a view or reshape of (B, h, T, d_k). It keeps the numbers in their order, head by head, so a row of your result holds "
                "several tokens of one head. Bring each token's pieces together first.",
                {"self.w_o(...)": "self.w_o(heads.reshape(x.shape))"},
            ),
            # --- CausalSelfAttention: what may be seen
            "future_in_sight": (
                "Your tokens see the later ones: nothing is masked. In training the loss would fall to almost nothing, because the next token can be read off, and "
                "what the model then writes would be nonsense.",
                by_day_8("None"),
            ),
            "sees_one_ahead": (
                "Your mask is off by one: each token sees the one right after it, which is the one that it has to predict.",
                by_day_8(f"{SQUARE}.tril(1)"),
            ),
            "does_not_see_itself": (
                "Your mask is off by one: no token sees itself, and the first sees nothing at all. The model predicts the *next* token, so it may "
                "read the current one.",
                by_day_8(f"{SQUARE}.tril(-1)"),
            ),
            "true_hides": (
                "Your mask is True where a key must be hidden, as `nn.MultiheadAttention` has it. `attention` and `F.scaled_dot_product_attention` take True "
                "for *may be attended to*.",
                by_day_8(f"{SQUARE}.triu(1)"),
            ),
            "hidden_scores_are_zero": (
                "You multiply the scores by the mask, so a hidden score is 0. That is no low score: its exponential is 1, and the future is seen as well as "
                "anything of middling interest.",
                {"heads = ...": f"{SCORES}heads = self.dropout((scores * mask).softmax(dim=-1)) @ value"},
            ),
            "hidden_score_not_low_enough": (
                "You give hidden keys a score that is low, but not lower than any other: in a trained model scores of this size occur, and then hidden "
                "keys get weight. Minus infinity, or the lowest number of the dtype, is safe.",
                {"heads = ...": f"{SCORES}scores = scores.masked_fill(~mask, -1e4)\nheads = self.dropout(scores.softmax(dim=-1)) @ value"},
            ),
            "masked_after_the_softmax": (
                "You set weights to 0 after the softmax. The weights no longer sum to 1, and the future still counts in the denominator: mask the "
                "scores, before the softmax.",
                {"heads = ...": f"{SCORES}weights = scores.softmax(dim=-1).masked_fill(~mask, 0.0)\nheads = self.dropout(weights) @ value"},
            ),
            "mask_of_the_first_call": (
                "You keep the mask of the first call, and a longer text finds it too small. Make it as large as the text that came, or larger and cut it.",
                {"self.w_o = _": "self.w_o = _\nself.mask = None"} | by_day_8(f"self.mask = {SQUARE}.tril() if self.mask is None else self.mask"),
            ),
            "not_scaled": (
                "Your scores are not divided by √d_k. Attention is what it was on day 8, scale included; `attention` is imported.",
                {"3: query": "query * query.size(-1) ** 0.5"},
            ),
            "scaled_by_d_model": (
                "Your scores are divided by √d_model. Inside a head a query is only d_k wide, and √d_k is the standard deviation of its dot products.",
                {"3: query": "query / self.n_heads**0.5"},
            ),
            # --- CausalSelfAttention: what comes out
            "output_projection_unused": (
                "You have `w_o`, but your output is the heads laid side by side, without it. Then what head 0 has found stays in the first d_k features; w_o lets "
                "all heads write everywhere.",
                {"self.w_o(_)": "_"},
            ),
            "weights_returned_too": (
                "You return the weights as well. A block adds what it gets to x, and expects one tensor.",
                by_day_8(f"{SQUARE}.tril()") | {"return _": "return _, weights"},
            ),
            "empty_text_refused": (
                "You let a view guess a size by -1. Of a tensor without entries any guess would do, so torch refuses: with no tokens your layer raises an error. "
                "Say all sizes, or use what cuts a single axis.",
                {
                    "query.unflatten(-1, (_, -1))": "query.reshape(len(x), x.size(1), _, -1)",
                    "key.unflatten(-1, (_, -1))": "key.reshape(len(x), x.size(1), _, -1)",
                    "value.unflatten(-1, (_, -1))": "value.reshape(len(x), x.size(1), _, -1)",
                },
            ),
            "computed_in_float32": (
                "Your heads are float32 for any input, and `w_o` raises an error if its dtype differs. `attention` upcasts inside where it has to, and gives "
                "back the dtype that it got.",
                {"heads = ...": "heads = F.scaled_dot_product_attention(query.float(), key.float(), value.float(), dropout_p=p, is_causal=True)"},
            ),
            # --- CausalSelfAttention: dropout
            "output_dropped_too": (
                "You drop weights, as you should, and features of the output as well. The block applies the second dropout; here it would be applied twice.",
                {"return _": "return self.dropout(_)"},
            ),
            "weights_not_dropped": (
                "You have a dropout, or its probability, and no weight is ever dropped. `attention` takes the dropout as its last argument.",
                {"p = _": "p = 0.0"},
            ),
            "drops_in_evaluation": (
                "You drop in evaluation mode as well. A function such as `F.scaled_dot_product_attention(…, dropout_p)` does not know the module's mode: pass "
                "the mode on.",
                {"p = _": "p = self.dropout.p"},
            ),
            "dropout_by_default": (
                "Where the caller names no probability, you drop a tenth. The default is 0 here.",
                {"dropout=0.0": "dropout=0.1"},
            ),
        },
    ),
    *of(
        "GPT",
        {
            # --- GPT: the head
            "head_is_a_copy": (
                "Your head is a matrix of its own, or a copy of the table of tokens: even if the two start equal, after the first step of training they differ. In "
                "GPT-2 it is the one parameter in both places; of its 124 million a second matrix would add 39.",
                {
                    "self.norm = _": "self.norm = _\n"
                    "self.head = nn.Linear(config.d_model, config.vocab, bias=False)\n"
                    "self.head.weight = nn.Parameter(self.embed.weight.detach().clone())",
                    "F.linear(x, ...)": "self.head(x)",
                },
            ),
            "head_with_a_bias": (
                "Your head has a bias. GPT-2's has none: it is the table of tokens, and nothing besides.",
                {"self.norm = _": "self.norm = _\nself.bias = nn.Parameter(torch.zeros(config.vocab))", "F.linear(x, _)": "F.linear(x, _, self.bias)"},
            ),
            "head_in_the_state_dict": (
                "Your head is tied, and is in the state dict a second time under its own name. Weights that come without that name then do not load, key "
                "by key. Multiply by the table's matrix where you need it.",
                {
                    "self.norm = _": "self.norm = _\n"
                    "self.lm_head = nn.Linear(config.d_model, config.vocab, bias=False)\n"
                    "self.lm_head.weight = self.embed.weight",
                    "F.linear(x, ...)": "self.lm_head(x)",
                },
            ),
            "head_detached": (
                "Your head uses the table's values, but sends no gradient back to it. So a token learns only where it is read: what is never read is never made "
                "less likely.",
                {"self.embed.weight": "self.embed.weight.detach()"},
            ),
            # --- GPT: what goes in
            "embedding_times_root_d_model": (
                "You multiply the embeddings by √d_model, as the paper of 2017 has it (§3.4). GPT does not: its table and its positions start equally small, and "
                "are simply added.",
                {"self.embed(tokens)": "self.embed(tokens) * math.sqrt(self.config.d_model)"},
            ),
            "no_positions": (
                "You have a table of positions, but nothing is added from it. The mask alone tells a token how many came before it only indirectly; their order it "
                "does not tell.",
                {"_ + self.positions(positions)": "_"},
            ),
            "positions_from_1": (
                "Your positions count from 1, so row 0 of the embedding is never used, and a text as long as the context has no row for its last token. The first "
                "token is at position 0.",
                {"torch.arange(_, device=tokens.device)": "torch.arange(1, _ + 1, device=tokens.device)"},
            ),
            "whole_table_of_positions": (
                "You add the whole table of positions, which fits a text only where it is as long as the context. Take the first T rows.",
                {"self.positions(positions)": "self.positions.weight"},
            ),
            "sinusoids": (
                "Your positions are sines and cosines, as in the paper of 2017. GPT learns them: a table with a row for each position, as for each token.",
                {
                    "self.positions = ...": "from implementation import PositionalEncoding\n"
                    "self.positions = PositionalEncoding(config.d_model, 0.0, config.context)",
                    "_ + self.positions(positions)": "self.positions(_)",
                },
            ),
            "token_0_is_padding": (
                "Your table takes token 0 for padding, and where it is read it learns nothing. In GPT-2 there is no padding, and token 0 is an exclamation mark "
                "like any other.",
                {"nn.Embedding(config.vocab, _)": "nn.Embedding(config.vocab, _, padding_idx=0)"},
            ),
            # --- GPT: the blocks and their norms
            "positions_kept_from_an_earlier_call": (
                "You keep the position vectors of the first call of each length. A training step changes their table, and the kept ones stay what they were.",
                {"self.positions(positions)": "self.__dict__.setdefault('kept', {}).setdefault(tokens.size(1), self.positions(positions))"},
            ),
            "one_block_many_times": (
                "You go through one and the same block N times: `[block] * n` repeats a reference, it copies nothing. Each of the N has weights of its own.",
                {"(_ for _ in ...)": "[_] * config.n_layers"},
            ),
            "blocks_in_a_plain_list": (
                "Your blocks are in a plain Python list, where `nn.Module` does not see them: they are in no state dict, and no optimizer trains them.",
                {"self.blocks = _": "self.blocks = [*_]"},
            ),
            "d_ff_is_four_times_d_model": (
                "Your networks are four times as wide as the model, whatever the config says. In GPT-2 the two agree; here `d_ff` is a field of its own.",
                {"config.d_ff": "4 * config.d_model"},
            ),
            "no_final_norm": (
                "You have no final norm. In pre-norm each block adds to x without a norm, so the sum grows from block to block; GPT-2 normalizes it once, before "
                "the head.",
                {"self.norm = ...": "", "x = self.norm(x)": ""},
            ),
            "post_norm": (
                "Your blocks are in post-norm, as in the paper of 2017 and in the first GPT. GPT-2 norms what goes into a sublayer, not the sum that comes after "
                "it.",
                {"self.norm = _": "for one in self.blocks:\n    for connection in one.sublayer:\n        connection.pre = False\nself.norm = _"},
            ),
            "config_not_kept": (
                "You do not keep the config. What generates text asks the model for `config.context`, to know how much it can read.",
                {"self.config = config": "self._config = config", "_ > self.config.context": "_ > self._config.context"},
            ),
            # --- GPT: what comes out
            "log_probabilities": (
                "You return log-probabilities, as the generator of day 14 does. Logits are asked for, as the product leaves them.",
                {"return _": "return _.log_softmax(dim=-1)"},
            ),
            "last_position_only": (
                "You return the scores at the last position alone. That is all that writing needs, but in training every position has something to predict.",
                {"F.linear(x, _)": "F.linear(x[:, -1:], _)"},
            ),
            "logits_in_float32": (
                "Your logits are float32 whatever the weights are. A loss may want them so, and can widen them; they have the weights' dtype here.",
                {"return _": "return _.float()"},
            ),
            # --- GPT: dropout
            "embeddings_not_dropped": (
                "Nothing is dropped from the sum of embedding and position. The config's dropout applies there, too, as to weights and sublayer outputs.",
                {"self.dropout(_)": "_"},
            ),
            "attention_without_dropout": (
                "No attention weight is ever dropped in your model. The config's dropout has to reach `CausalSelfAttention`, whose own default is 0.",
                {"CausalSelfAttention(_, config.n_heads, config.dropout)": "CausalSelfAttention(_, config.n_heads)"},
            ),
            "embeddings_dropped_in_evaluation": (
                "You drop from the embeddings in evaluation mode as well. `F.dropout` does not know the module's mode: pass the mode on.",
                {"self.dropout(_)": "F.dropout(_, self.config.dropout)"},
            ),
            # --- GPT: initialization
            "starts_as_torch_starts_it": (
                "Your weights are initialized as torch's own layers are. GPT-2's are not: its embeddings are initialized from N(0, 0.02²), not N(0, 1), where "
                "a tied head gives the first guesses a confidence that takes long to unlearn.",
                {"self.named_parameters()": "()"},
            ),
            "residuals_not_made_smaller": (
                "The matrices that write to the residual stream, `w_o` and `w_2`, start far too wide, such as with the 0.02 of all other matrices. There are "
                "2 N such outputs, and their sum would grow with the depth: GPT-2 makes them smaller by √(2 N).",
                {"std=0.02 / ...": "std=0.02"},
            ),
            "one_residual_per_block": (
                "The matrices that write to the residual stream, `w_o` and `w_2`, start somewhat too wide, as they do where one output is counted for each "
                "block. There are two, attention's and the feed-forward network's: the root is of 2 N.",
                {"2 * config.n_layers": "config.n_layers"},
            ),
            "biases_not_zero": (
                "Your matrices start as they should, but your biases do not start at 0; torch's own do not.",
                {"nn.init.zeros_(parameter)": ""},
            ),
            "blocks_start_equal": (
                "Your blocks start as copies of one another, as they do where the matrices are drawn before the copying. Draw those of every block for itself.",
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
                "Your causal mask stays on the CPU, and the scores may be on a GPU. Make it with `device=x.device`, or move it with `.to(x.device)`.",
                by_day_8("torch.ones(1, x.size(1), x.size(1), dtype=torch.bool).tril()"),
            ),
        },
    ),
    *on_devices(
        "GPT",
        {
            "positions_made_on_the_cpu": (
                "You count the positions on the CPU, and look them up in a matrix that may be on a GPU. `torch.arange` takes `device=tokens.device`.",
                {"torch.arange(_, device=tokens.device)": "torch.arange(_)"},
            ),
        },
    ),
]
