"""Day 23: what goes wrong with one projection for three, with the past, and with what GPT-2 changed."""

from course.judging.misconceptions import Misconception

ATTENTION, MODEL = "CausalSelfAttention", "GPT"

# --- the lines that are changed
QKV = "self.w_qkv = nn.Linear(d_model, 3 * d_model)"
W_O = "self.w_o = nn.Linear(d_model, d_model)"
DROP = "self.dropout = nn.Dropout(dropout)"
CHUNK = "query, key, value = self.w_qkv(x).chunk(3, dim=-1)"
SPLIT = ".unflatten(-1, (self.n_heads, -1)).transpose(1, 2)"
Q, K, V = (f"{name} = {name}{SPLIT}" for name in ("query", "key", "value"))
MASK = "mask = subsequent_mask(x.size(1)).to(x.device)"
CALL = "attention(query, key, value, mask, self.dropout)"
HEADS = f"heads, _ = {CALL}"
JOIN = "heads.transpose(1, 2).flatten(-2)"
MIX = f"return self.w_o({JOIN})"

EMBED = "self.embed = nn.Embedding(config.vocab, config.d_model)"
POSITIONS = "self.positions = nn.Embedding(config.context, config.d_model)"
DROP_SUM = "self.dropout = nn.Dropout(config.dropout)"
INNER = "CausalSelfAttention(config.d_model, config.n_heads, config.dropout)"
NETWORK = "FeedForward(config.d_model, config.d_ff)"
OF_BLOCK = "            config.dropout,\n        )"
CLONES = "self.blocks = clones(block, config.n_layers)"
NORM = "self.norm = LayerNorm(config.d_model)"
SMALLER = "std=0.02 / math.sqrt(2 * config.n_layers)"
TWENTY = "std=0.02)"
ZEROS = "nn.init.zeros_(parameter)"
RANGE = "torch.arange(tokens.size(1), device=tokens.device)"
SUM = "x = self.dropout(self.embed(tokens) + self.positions(positions))"
THROUGH = "x = block(x)"
FINAL = "x = self.norm(x)"
HEAD = "return F.linear(x, self.embed.weight)"


def everywhere(old: str, new: str) -> dict[str, str]:
    """The same change in the lines of query, key and value."""
    return {line: line.replace(old, new) for line in (Q, K, V)}


def written_out(fill: str, softmax: str = "scores.softmax(dim=-1)") -> dict[str, str]:
    """Attention written out on the spot, with what stands for a hidden score, and the softmax."""
    return {
        HEADS: "scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))\n"
        f"        scores = {fill}\n"
        f"        heads = self.dropout({softmax}) @ value"
    }


def masked(mask: str) -> dict[str, str]:
    """Another mask."""
    return {MASK: f"mask = {mask}"}


ONES = "torch.ones(1, x.size(1), x.size(1), dtype=torch.bool, device=x.device)"

MISCONCEPTIONS = [
    # --- CausalSelfAttention: what there is to learn
    Misconception(
        "three_projections",
        ATTENTION,
        "You have a projection each for query, key and value, as on day 9. All three are made from the same tokens here, so one product makes them: "
        "`w_qkv`, three times as wide.",
        {
            QKV: "self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, d_model) for _ in range(3))",
            CHUNK: "query, key, value = self.w_q(x), self.w_k(x), self.w_v(x)",
        },
    ),
    Misconception(
        "no_biases",
        ATTENTION,
        "Your projections have no biases. LLaMA leaves them out; GPT-2 has one in each.",
        {
            QKV: QKV.replace("3 * d_model)", "3 * d_model, bias=False)"),
            W_O: W_O.replace("d_model)", "d_model, bias=False)"),
        },
    ),
    Misconception(
        "no_bias_in_qkv",
        ATTENTION,
        "Your `w_qkv` has no bias. Some models leave it out there; GPT-2 has it.",
        {QKV: QKV.replace("3 * d_model)", "3 * d_model, bias=False)")},
    ),
    Misconception(
        "mask_in_the_state_dict",
        ATTENTION,
        "Your mask is a buffer that is saved with the weights. It can be made anew at any time, and in a state dict it ties the weights to one "
        "length. A buffer that is not persistent, or none, does.",
        {
            W_O: f'{W_O}\n        self.register_buffer("mask", subsequent_mask(64))',
            **masked("self.mask[:, : x.size(1), : x.size(1)]"),
        },
    ),
    # --- CausalSelfAttention: what is whose in w_qkv
    Misconception(
        "keys_come_first",
        ATTENTION,
        "You take the first third of `w_qkv` for the keys and the second for the queries. You would learn as well, but published weights lie the "
        "other way round: query, key, value.",
        {CHUNK: CHUNK.replace("query, key", "key, query")},
    ),
    Misconception(
        "values_come_first",
        ATTENTION,
        "You take the first third of `w_qkv` for the values. You would learn as well, but published weights lie otherwise: query, key, value.",
        {CHUNK: CHUNK.replace("query, key, value", "value, query, key")},
    ),
    Misconception(
        "each_head_has_its_three",
        ATTENTION,
        "You give each head a stretch of `w_qkv` with its query, key and value in it. GPT-NeoX lays its weights out like that; GPT-2's first third holds "
        "the queries of all heads, the second the keys, the last the values. First cut in three, then into heads.",
        {
            CHUNK: "query, key, value = (\n            one.flatten(-2)\n            "
            "for one in self.w_qkv(x).unflatten(-1, (self.n_heads, -1)).chunk(3, dim=-1)\n        )"
        },
    ),
    Misconception(
        "three_by_turns",
        ATTENTION,
        "You take every third output of `w_qkv` for the query, the next for the key, the next for the value. The three lie side by side, d_model "
        "features each.",
        {CHUNK: "query, key, value = self.w_qkv(x).unflatten(-1, (-1, 3)).unbind(dim=-1)"},
    ),
    # --- CausalSelfAttention: heads
    Misconception(
        "one_wide_head",
        ATTENTION,
        "You attend without splitting into heads: that is one head of width d_model, whatever n_heads is.",
        everywhere("(self.n_heads, -1)", "(1, -1)"),
    ),
    Misconception(
        "heads_by_a_view_alone",
        ATTENTION,
        "You get the shape (B, h, T, d_k) by a view alone, and go back by another. A view keeps the numbers in their order: each of your heads holds all "
        "features of a few tokens. Cut the last axis in two, then move the heads forward.",
        everywhere(SPLIT, ".reshape(len(x), self.n_heads, x.size(1), -1)")
        | {JOIN: "heads.reshape(x.shape)"},
    ),
    Misconception(
        "joined_by_a_view_alone",
        ATTENTION,
        "You join the heads by a view or reshape of (B, h, T, d_k). It keeps the numbers in their order, head by head, so a row of your result "
        "holds several tokens of one head. Bring each token's pieces together first.",
        {JOIN: "heads.reshape(x.shape)"},
    ),
    Misconception(
        "heads_take_turns",
        ATTENTION,
        "Your heads take every h-th feature: head 0 features 0, h, 2h … A head owns neighbours, i·d_k to (i+1)·d_k − 1. So the axis of the heads comes "
        "before that of their features.",
        everywhere(SPLIT, ".unflatten(-1, (-1, self.n_heads)).permute(0, 3, 1, 2)")
        | {JOIN: "heads.permute(0, 2, 3, 1).flatten(-2)"},
    ),
    Misconception(
        "h_and_d_k_swapped",
        ATTENTION,
        "You have d_k heads of width h: the two have changed places where the last axis is cut. n_heads is the number of heads.",
        everywhere("(self.n_heads, -1)", "(-1, self.n_heads)"),
    ),
    Misconception(
        "heads_attend_to_heads",
        ATTENTION,
        "Your heads were cut, but not moved forward: attention works on the last two axes, and with (B, T, h, d_k) these are heads and features. So "
        "the heads of one token attend to each other, and tokens never meet.",
        everywhere(".transpose(1, 2)", "")
        | {JOIN: "heads.flatten(-2)"}
        | masked("subsequent_mask(self.n_heads).to(x.device)"),
    ),
    Misconception(
        "time_comes_first",
        ATTENTION,
        "You take the first axis for time and the second for the batch, as `nn.MultiheadAttention` does unless it is told `batch_first`. Here the "
        "batch comes first; your texts attend to each other.",
        everywhere(".transpose(1, 2)", ".permute(1, 2, 0, 3)")
        | {JOIN: "heads.permute(2, 0, 1, 3).flatten(-2)"}
        | masked("subsequent_mask(x.size(0)).to(x.device)"),
    ),
    # --- CausalSelfAttention: what may be seen
    Misconception(
        "future_in_sight",
        ATTENTION,
        "Your tokens see the later ones: nothing is masked. In training the loss would fall to almost nothing, because the next token can be read off, and "
        "what the model then writes would be nonsense.",
        masked("None"),
    ),
    Misconception(
        "sees_one_ahead",
        ATTENTION,
        "Your mask is off by one: each token sees the one right after it, which is the one that it has to predict.",
        masked(f"{ONES}.tril(1)"),
    ),
    Misconception(
        "does_not_see_itself",
        ATTENTION,
        "Your mask is off by one: no token sees itself, and the first sees nothing at all. What is to be predicted is the *next* token, so the one that "
        "stands there may be read.",
        masked(f"{ONES}.tril(-1)"),
    ),
    Misconception(
        "past_hidden",
        ATTENTION,
        "Your mask is the other triangle: each token sees itself and what comes after it, and nothing of the past.",
        masked(f"{ONES}.triu()"),
    ),
    Misconception(
        "true_hides",
        ATTENTION,
        "Your mask is True where something is to be hidden, as `nn.MultiheadAttention` has it. `attention` and `F.scaled_dot_product_attention` take True "
        "for *may be attended to*.",
        masked(f"{ONES}.triu(1)"),
    ),
    Misconception(
        "hidden_scores_are_zero",
        ATTENTION,
        "You multiply the scores by the mask, so a hidden score is 0. That is no low score: its exponential is 1, and the future is seen as well as anything "
        "of middling interest.",
        written_out("scores * mask"),
    ),
    Misconception(
        "hidden_score_not_low_enough",
        ATTENTION,
        "You give hidden keys a score that is low, but not lower than any other: in a trained model scores of this size occur, and beside them what "
        "is hidden is seen. Minus infinity, or the lowest number that there is, is safe.",
        written_out("scores.masked_fill(~mask, -1e4)"),
    ),
    Misconception(
        "masked_after_the_softmax",
        ATTENTION,
        "You set weights to 0 after the softmax. What is left no longer sums to 1, and the future still counts in the sum under the fraction: "
        "mask the scores, before the softmax.",
        written_out("scores", "scores.softmax(dim=-1).masked_fill(~mask, 0.0)"),
    ),
    Misconception(
        "softmax_over_queries",
        ATTENTION,
        "Your softmax runs over the queries: each key shares itself out among those who ask. Each query's weights over the keys sum to 1.",
        written_out("scores.masked_fill(~mask, -math.inf)", "scores.softmax(dim=-2)"),
    ),
    Misconception(
        "mask_of_the_first_call",
        ATTENTION,
        "You keep the mask of the first call, and a longer text finds it too small. Make it as large as the text that came, or larger and cut it.",
        {
            W_O: f"{W_O}\n        self.mask = None",
            **masked(
                "self.mask = subsequent_mask(x.size(1)).to(x.device) if self.mask is None else self.mask"
            ),
        },
    ),
    Misconception(
        "not_scaled",
        ATTENTION,
        "Your scores are not divided by √d_k. Attention is what it was on day 8, scale included; `attention` is imported.",
        {CALL: CALL.replace("(query,", "(query * query.size(-1) ** 0.5,")},
    ),
    Misconception(
        "scaled_by_d_model",
        ATTENTION,
        "Your scores are divided by √d_model. Inside a head a query is only d_k wide, and √d_k is the deviation of its dot products.",
        {CALL: CALL.replace("(query,", "(query / self.n_heads**0.5,")},
    ),
    Misconception(
        "scaled_twice",
        ATTENTION,
        "Your scores are divided by √d_k twice. `attention` and `F.scaled_dot_product_attention` do it by themselves.",
        {CALL: CALL.replace("(query,", "(query / query.size(-1) ** 0.5,")},
    ),
    # --- CausalSelfAttention: what comes out
    Misconception(
        "output_projection_unused",
        ATTENTION,
        "You have `w_o`, but your output is the heads laid side by side, without it. Then what head 0 has found stays in the first d_k features; w_o lets "
        "all heads write everywhere.",
        {MIX: f"return {JOIN}"},
    ),
    Misconception(
        "shortcut_inside",
        ATTENTION,
        "You add x to the result. The shortcut comes with the block; added here, it would be there twice.",
        {MIX: MIX.replace("return ", "return x + ")},
    ),
    Misconception(
        "weights_returned_too",
        ATTENTION,
        "You return the weights as well. A block adds what it gets to x, and expects one tensor.",
        {HEADS: HEADS.replace("_", "weights"), MIX: f"{MIX}, weights"},
    ),
    Misconception(
        "empty_text_refused",
        ATTENTION,
        "You let a view guess a size by -1. Of a tensor without entries any guess would do, so torch refuses: with no tokens your layer raises an error. "
        "Say all sizes, or use what cuts a single axis.",
        everywhere(SPLIT, ".reshape(len(x), x.size(1), self.n_heads, -1).transpose(1, 2)"),
    ),
    Misconception(
        "computed_in_float32",
        ATTENTION,
        "Your heads are float32 whatever came in, and where `w_o` has another dtype it refuses them. `attention` widens inside where it has to, and gives "
        "back the dtype that it got.",
        {CALL: CALL.replace("query, key, value", "query.float(), key.float(), value.float()")},
    ),
    Misconception(
        "heads_detached",
        ATTENTION,
        "Your output is right, but `w_qkv` gets no gradient: the heads were detached, or made under `no_grad`. Only `w_o` could ever learn.",
        {JOIN: JOIN.replace("heads", "heads.detach()")},
    ),
    # --- CausalSelfAttention: dropout
    Misconception(
        "output_dropped_too",
        ATTENTION,
        "You drop weights, as you should, and features of the output as well. The second dropout is the block's, on its shortcut; here it would drop "
        "twice.",
        {MIX: MIX.replace("return self.w_o(", "return self.dropout(self.w_o(") + ")"},
    ),
    Misconception(
        "output_dropped_instead",
        ATTENTION,
        "You drop features of the output instead of weights. That dropout exists, but it is the block's; here it is the weights that are dropped.",
        {
            CALL: CALL.replace(", self.dropout", ""),
            MIX: MIX.replace("return self.w_o(", "return self.dropout(self.w_o(") + ")",
        },
    ),
    Misconception(
        "weights_not_dropped",
        ATTENTION,
        "You have a dropout, or its probability, and no weight is ever dropped. `attention` takes the dropout as its last argument.",
        {CALL: CALL.replace(", self.dropout", "")},
    ),
    Misconception(
        "drops_in_evaluation",
        ATTENTION,
        "You drop in evaluation mode as well. A function such as `F.scaled_dot_product_attention(…, dropout_p)` does not know the module's mode unless it "
        "is told.",
        {CALL: CALL.replace("self.dropout", "lambda w: F.dropout(w, self.dropout.p)")},
    ),
    Misconception(
        "dropout_by_default",
        ATTENTION,
        "Where the caller names no probability, you drop a tenth. The default is 0 here.",
        {"dropout: float = 0.0": "dropout: float = 0.1"},
    ),
    Misconception(
        "dropout_p_not_passed",
        ATTENTION,
        "Your dropout has torch's own default, one half, whatever the caller asks for. The probability is an argument: pass it on.",
        {DROP: "self.dropout = nn.Dropout()"},
    ),
    # --- GPT: the head
    Misconception(
        "head_is_a_copy",
        MODEL,
        "Your head is a matrix of its own, or a copy of the table of tokens: even if the two start equal, after the first step of training they differ. In GPT-2 it is the one "
        "parameter in both places; of its 124 million a second matrix would add 39.",
        {
            NORM: f"{NORM}\n        self.head = nn.Linear(config.d_model, config.vocab, bias=False)\n"
            "        self.head.weight = nn.Parameter(self.embed.weight.detach().clone())",
            HEAD: "return self.head(x)",
        },
    ),
    Misconception(
        "head_shares_the_memory_only",
        MODEL,
        "Your head is a second parameter that lies in the same memory as the table of tokens. Their values agree for now, but each has a gradient of its own, an "
        "optimiser would step twice, and moved to a GPU they part. Assign the parameter itself, not its data.",
        {
            NORM: f"{NORM}\n        self.head = nn.Linear(config.d_model, config.vocab, bias=False)\n"
            "        self.head.weight.data = self.embed.weight.data",
            HEAD: "return self.head(x)",
        },
    ),
    Misconception(
        "head_with_a_bias",
        MODEL,
        "Your head has a bias. GPT-2's has none: it is the table of tokens, and nothing besides.",
        {
            NORM: f"{NORM}\n        self.bias = nn.Parameter(torch.zeros(config.vocab))",
            HEAD: "return F.linear(x, self.embed.weight, self.bias)",
        },
    ),
    Misconception(
        "head_in_the_state_dict",
        MODEL,
        "Your head is tied, and stands in the state dict a second time under a name of its own. Weights that come without that name then do not load, "
        "key by key. Multiply by the table's matrix where you need it.",
        {
            NORM: f"{NORM}\n        self.lm_head = nn.Linear(config.d_model, config.vocab, bias=False)\n"
            "        self.lm_head.weight = self.embed.weight",
            HEAD: "return self.lm_head(x)",
        },
    ),
    Misconception(
        "head_detached",
        MODEL,
        "Your head uses the table's values, but sends no gradient back to it. So a token learns only where it is read: what is never read is never "
        "made less likely.",
        {HEAD: "return F.linear(x, self.embed.weight.detach())"},
    ),
    Misconception(
        "head_of_the_first_call",
        MODEL,
        "Your head keeps the table of tokens as it was at the first call. Training changes the table at each step; ask the parameter each time.",
        {
            NORM: f"{NORM}\n        self.head = None",
            HEAD: "self.head = self.embed.weight.clone() if self.head is None else self.head\n"
            "        return F.linear(x, self.head)",
        },
    ),
    # --- GPT: what goes in
    Misconception(
        "embedding_times_root_d_model",
        MODEL,
        "You multiply the embeddings by √d_model, as the paper of 2017 has it (§3.4). GPT does not: its table and its positions start equally small, and "
        "are simply added.",
        {
            SUM: SUM.replace(
                "self.embed(tokens)", "self.embed(tokens) * math.sqrt(self.config.d_model)"
            )
        },
    ),
    Misconception(
        "sum_times_root_d_model",
        MODEL,
        "You multiply the sum of embedding and position by √d_model. In the paper of 2017 the embedding alone has such a factor (§3.4); in GPT nothing has.",
        {
            SUM: "x = self.dropout((self.embed(tokens) + self.positions(positions)) * math.sqrt(self.config.d_model))"
        },
    ),
    Misconception(
        "no_positions",
        MODEL,
        "You have a table of positions, but nothing is added from it. The mask alone tells a token how many came before it only indirectly; their order it "
        "does not tell.",
        {SUM: "x = self.dropout(self.embed(tokens))"},
    ),
    Misconception(
        "positions_from_1",
        MODEL,
        "Your positions count from 1, so that row 0 of the table is never used, and a text as long as the context has no row for its last token. The first "
        "token stands at position 0.",
        {RANGE: "torch.arange(1, tokens.size(1) + 1, device=tokens.device)"},
    ),
    Misconception(
        "positions_from_the_end",
        MODEL,
        "Your positions count down, so that the last token stands at 0. Then each new token would move all those before it: the first stands at 0.",
        {RANGE: f"{RANGE}.flip(0)"},
    ),
    Misconception(
        "last_rows_of_the_table",
        MODEL,
        "You take the last rows of the table of positions. A text that is shorter than the context stands at its beginning: the first token at position 0.",
        {RANGE: f"{RANGE} + self.config.context - tokens.size(1)"},
    ),
    Misconception(
        "positions_by_token",
        MODEL,
        "You look up the positions by the tokens' ids. A position is where a token stands: 0, 1, 2 …, whatever it is.",
        {RANGE: "tokens % self.config.context"},
    ),
    Misconception(
        "whole_table_of_positions",
        MODEL,
        "You add the whole table of positions, which fits a text only where it is as long as the context. Take the first T rows.",
        {SUM: SUM.replace("self.positions(positions)", "self.positions.weight")},
    ),
    Misconception(
        "sinusoids",
        MODEL,
        "Your positions are sines and cosines, as in the paper of 2017. GPT learns them: a table with a row for each position, as for each token.",
        {
            POSITIONS: "from implementation import PositionalEncoding\n        "
            "self.positions = PositionalEncoding(config.d_model, 0.0, config.context)",
            SUM: "x = self.dropout(self.positions(self.embed(tokens)))",
        },
    ),
    Misconception(
        "token_0_is_padding",
        MODEL,
        "Your table takes token 0 for padding, and where it is read it learns nothing. In GPT-2 there is no padding, and token 0 is an exclamation mark like any other.",
        {EMBED: EMBED.replace("d_model)", "d_model, padding_idx=0)")},
    ),
    # --- GPT: the blocks and their norms
    Misconception(
        "one_block_many_times",
        MODEL,
        "You go through one and the same block N times: `[block] * n` repeats a reference, it copies nothing. Each of the N has weights of its own.",
        {CLONES: "self.blocks = nn.ModuleList([block] * config.n_layers)"},
    ),
    Misconception(
        "blocks_in_a_plain_list",
        MODEL,
        "Your blocks lie in a plain Python list, where `nn.Module` does not see them: they are in no state dict, and no optimiser will ever train them.",
        {CLONES: "self.blocks = [*clones(block, config.n_layers)]"},
    ),
    Misconception(
        "d_ff_is_four_times_d_model",
        MODEL,
        "Your networks are four times as wide as the model, whatever the config says. In GPT-2 the two agree; here `d_ff` is a field of its own.",
        {NETWORK: "FeedForward(config.d_model, 4 * config.d_model)"},
    ),
    Misconception(
        "no_final_norm",
        MODEL,
        "You have no final norm. In pre-norm each block adds to x and nothing norms the sum, which grows from block to block; GPT-2 norms it once, before the head.",
        {NORM: "", FINAL: ""},
    ),
    Misconception(
        "final_norm_unused",
        MODEL,
        "You have the final norm, but what goes to the head has not been through it. In pre-norm each block adds to x and nothing norms the sum.",
        {FINAL: ""},
    ),
    Misconception(
        "norm_first",
        MODEL,
        "Your norm comes before the blocks and not after them. There is none on the embeddings in GPT-2: it norms what the last block leaves, before the head.",
        {
            "for block in self.blocks:": "x = self.norm(x)\n        for block in self.blocks:",
            f"{FINAL}  # (B, T, d_model)": "",
        },
    ),
    Misconception(
        "normed_after_each_block",
        MODEL,
        "You put the final norm after every block. The shortcut is to reach from the embeddings to the last block untouched: it is normed once, at the end.",
        {THROUGH: "x = self.norm(block(x))", f"{FINAL}  # (B, T, d_model)": ""},
    ),
    Misconception(
        "post_norm",
        MODEL,
        "Your blocks are in post-norm, as in the paper of 2017 and in the first GPT. GPT-2 norms what goes into a sublayer, not the sum that comes "
        "after it.",
        {
            CLONES: f"{CLONES}\n        for one in self.blocks:\n            for connection in one.sublayer:\n"
            "                connection.pre = False"
        },
    ),
    Misconception(
        "post_norm_and_no_final",
        MODEL,
        "Your blocks are in post-norm and there is no final norm, as in the paper of 2017 and in the first GPT. GPT-2 norms what goes into a sublayer, and the "
        "sum once, at the end.",
        {
            CLONES: f"{CLONES}\n        for one in self.blocks:\n            for connection in one.sublayer:\n"
            "                connection.pre = False",
            NORM: "",
            FINAL: "",
        },
    ),
    Misconception(
        "blocks_from_last_to_first",
        MODEL,
        "You go through the blocks from the last to the first. The first in the list comes first.",
        {"for block in self.blocks:": "for block in reversed(self.blocks):"},
    ),
    Misconception(
        "config_not_kept",
        MODEL,
        "You do not keep the config. What generates text asks the model for `config.context`, to know how much it can read.",
        {
            "self.config = config": "self._config = config",
            "self.config.context:": "self._config.context:",
        },
    ),
    # --- GPT: what comes out
    Misconception(
        "probabilities",
        MODEL,
        "You return probabilities. Logits are asked for: the loss takes its own softmax, and sampling wants to divide by a temperature first.",
        {HEAD: "return F.linear(x, self.embed.weight).softmax(dim=-1)"},
    ),
    Misconception(
        "log_probabilities",
        MODEL,
        "You return log-probabilities, as the generator of day 14 does. Logits are asked for, as the product leaves them.",
        {HEAD: "return F.linear(x, self.embed.weight).log_softmax(dim=-1)"},
    ),
    Misconception(
        "last_position_only",
        MODEL,
        "You return the scores at the last position alone. That is all that writing needs, but in training every position has something to predict.",
        {HEAD: "return F.linear(x[:, -1:], self.embed.weight)"},
    ),
    Misconception(
        "logits_scaled_down",
        MODEL,
        "You multiply the states by 1/√d_model before the head. T5 does so where it ties its tables; GPT-2 does not: its table starts small instead.",
        {HEAD: "return F.linear(x / math.sqrt(x.size(-1)), self.embed.weight)"},
    ),
    Misconception(
        "logits_in_float32",
        MODEL,
        "Your logits are float32 whatever the weights are. A loss may want them so, and can widen them; they have the weights' dtype here.",
        {HEAD: "return F.linear(x, self.embed.weight).float()"},
    ),
    # --- GPT: dropout
    Misconception(
        "embeddings_not_dropped",
        MODEL,
        "Nothing is dropped from the sum of embedding and position. The config's dropout is meant for it, too, as for weights and shortcuts.",
        {SUM: "x = self.embed(tokens) + self.positions(positions)"},
    ),
    Misconception(
        "tokens_dropped_positions_not",
        MODEL,
        "You drop features of the embeddings before the positions are added. It is the sum that is dropped from.",
        {SUM: "x = self.dropout(self.embed(tokens)) + self.positions(positions)"},
    ),
    Misconception(
        "attention_without_dropout",
        MODEL,
        "Your attention is made without the config's dropout, and its own default is 0: no weight is ever dropped.",
        {INNER: INNER.replace(", config.dropout", "")},
    ),
    Misconception(
        "block_without_dropout",
        MODEL,
        "Your blocks are made with a dropout of 0: what their sublayers say is never dropped. The config's probability is for them, too.",
        {OF_BLOCK: OF_BLOCK.replace("config.dropout", "0.0")},
    ),
    Misconception(
        "states_dropped_before_the_head",
        MODEL,
        "You drop once more, between the final norm and the head. GPT-2 drops at the embeddings, at the weights and at the sublayers' outputs, and nowhere else.",
        {HEAD: "return F.linear(self.dropout(x), self.embed.weight)"},
    ),
    Misconception(
        "a_tenth_whatever_the_config_says",
        MODEL,
        "From the sum of embedding and position you drop a tenth, whatever the config says; with a dropout of 0, too. The probability is a field of it.",
        {DROP_SUM: "self.dropout = nn.Dropout(0.1)"},
    ),
    Misconception(
        "embeddings_dropped_in_evaluation",
        MODEL,
        "You drop from the embeddings in evaluation mode as well. `F.dropout` does not know the module's mode unless it is told.",
        {SUM: SUM.replace("self.dropout(", "F.dropout(")[:-1] + ", self.config.dropout)"},
    ),
    # --- GPT: the start
    Misconception(
        "starts_as_torch_starts_it",
        MODEL,
        "You leave the weights as torch makes them. Its tables start at N(0, 1), fifty times as wide as GPT-2's, and a tied head then gives the first "
        "guesses a confidence that takes long to unlearn.",
        {"in self.named_parameters():": "in ():"},
    ),
    Misconception(
        "tables_start_at_1",
        MODEL,
        "Your tables start as torch makes them, at N(0, 1), fifty times as wide as they should. Tied to the head, the table of tokens then gives logits as wide as √d_model: "
        "a model that knows nothing and is sure of it.",
        {"elif parameter.dim() == 2:": 'elif parameter.dim() == 2 and "blocks" in name:'},
    ),
    Misconception(
        "residuals_not_made_smaller",
        MODEL,
        "What writes into the shortcut starts as wide as everything else, 0.02. There are 2 N such outputs, and their sum would grow with the depth: GPT-2 starts "
        "those matrices smaller by √(2 N).",
        {SMALLER: "std=0.02"},
    ),
    Misconception(
        "one_residual_per_block",
        MODEL,
        "You count one output into the shortcut for each block. There are two, attention's and the network's: the root is of 2 N.",
        {SMALLER: "std=0.02 / math.sqrt(config.n_layers)"},
    ),
    Misconception(
        "divided_without_the_root",
        MODEL,
        "You divide the start of what writes into the shortcut by 2 N. Independent outputs add up by their variances, not their deviations: √(2 N).",
        {SMALLER: "std=0.02 / (2 * config.n_layers)"},
    ),
    Misconception(
        "network_not_made_smaller",
        MODEL,
        "Of the two matrices of a block that write into the shortcut only attention's starts smaller. The network's `w_2` does so as well.",
        {'("w_o.weight", "w_2.weight")': '"w_o.weight"'},
    ),
    Misconception(
        "attention_not_made_smaller",
        MODEL,
        "Of the two matrices of a block that write into the shortcut only the network's starts smaller. Attention's `w_o` does so as well.",
        {'("w_o.weight", "w_2.weight")': '"w_2.weight"'},
    ),
    Misconception(
        "variance_for_deviation",
        MODEL,
        "Your matrices start with a deviation of 0.0004: you gave the variance, 0.02², to what takes the deviation.",
        {SMALLER: "std=0.02**2 / (2 * config.n_layers)", TWENTY: "std=0.02**2)"},
    ),
    Misconception(
        "biases_not_zero",
        MODEL,
        "Your matrices start as they should, and the biases as torch makes them, at random. GPT-2's start at 0.",
        {ZEROS: "pass"},
    ),
    Misconception(
        "blocks_start_equal",
        MODEL,
        "Your blocks start as copies of one another: the matrices are drawn before the copying. Draw those of every block for itself.",
        {
            ZEROS: f"{ZEROS}\n        for one in self.blocks:\n            "
            "one.load_state_dict(self.blocks[0].state_dict())"
        },
    ),
]
