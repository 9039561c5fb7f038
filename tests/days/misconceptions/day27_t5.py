"""Day 27: what goes wrong with buckets, and where a table of biases takes the place of positions."""

from course.judging.misconceptions import Misconception

BUCKET, NAME = "relative_position_bucket", "T5"


def bucket(**other: str) -> str:
    """The buckets as published code computes them, with one part of it wrong."""
    part = {
        "half": "num_buckets // 2 if bidirectional else num_buckets",
        "distance": "relative_position.abs() if bidirectional else (-relative_position).clamp(min=0)",
        "later": "relative_position > 0",
        "first": "n * (LATER).long() if bidirectional else 0",
        "exact": "n // 2",
        "log": "torch.log(distance.double().clamp(min=1) / m) / math.log(max_distance / m)",
        "steps": "(n - m) * share",
        "whole": "torch.floor(steps + 1e-9).long()",
        "far": "(m + whole).clamp(max=n - 1)",
        "small": "distance < m",
        "result": "first + torch.where(small, distance, far)",
    } | other
    return f"""def relative_position_bucket(relative_position, bidirectional, num_buckets, max_distance):
    n = {part["half"]}
    first = {part["first"].replace("LATER", part["later"])}
    distance = {part["distance"]}
    distance = distance.long()
    m = {part["exact"]}
    share = {part["log"]}
    steps = {part["steps"]}
    whole = {part["whole"]}
    far = {part["far"]}
    small = {part["small"]}
    return {part["result"]}
"""


OWN_PAST = "bias = self._bias(self.decoder_bias, tgt.size(1), bidirectional=False)"
BOTH_SIDES = "bias = self._bias(self.encoder_bias, src.size(1), bidirectional=True)"
ENCODER = "rms_normed(Encoder(encoder_layer, config.n_layers), config.eps)"
DECODER = "rms_normed(Decoder(decoder_layer, config.n_layers), config.eps)"
ENCODER_PARTS = (
    'config.d_model, BiasedAttention(config), FeedForward(config), config.dropout, norm="pre"'
)
DECODER_PARTS = "FeedForward(config),\n            config.dropout,\n            norm="
ENCODED = "self.dropout(self.encoder(self.dropout(self.embed(src)), bias))"
LOOKED_UP = "x = self.dropout(self.embed(tgt))"
DECODED = "self.dropout(self.decoder(x, memory, src_bias, bias))"
FUTURE = "bias = torch.where(earlier, bias, -math.inf)"
SOURCE_BIAS = "src_bias = bias.new_zeros(1, 1, 1, memory.size(1))"
SOURCE_HIDDEN = 'src_bias = _hidden("src_mask", src_mask, tgt.size(0), src_bias)'
ENCODER_HIDDEN = 'bias = _hidden("src_mask", src_mask, src.size(0), bias)'
TARGET_HIDDEN = 'bias = _hidden("tgt_mask", tgt_mask, tgt.size(0), bias)'
LOGITS = "F.linear(states * self.config.d_model**-0.5, self.embed.weight)"
START_E = "nn.init.normal_(self.embed.weight)"
FAN = 'fan = module.in_features * (config.d_k if name.endswith("w_q") else 1)'
EACH = "for name, module in self.named_modules():"
DRAWN = "nn.init.normal_(module.weight, std=fan**-0.5)"
RELATIVE = "relative = position - position.unsqueeze(1)"

MISCONCEPTIONS = [
    # --- buckets: where they begin
    Misconception(
        "edges_rounded_away",
        BUCKET,
        "Your logarithms are rounded, in float32, before you take the whole number below. Where a bucket begins exactly at a whole distance, 3 "
        "may come out as 2.9999999, and that distance lands in the bucket below. Leave a margin, or compare with the edges.",
        source=bucket(
            log="torch.log(distance.clamp(min=1).float() / m) / math.log(max_distance / m)",
            steps="share * (n - m)",
            whole="steps.long()",
        ),
    ),
    Misconception(
        "max_exact_shared",
        BUCKET,
        "Your exact buckets end one too early: distance m − 1 shares the bucket of m, and a bucket stays empty. Every distance *below* m "
        "has its own.",
        source=bucket(small="distance < m - 1", whole="steps.long()"),
    ),
    Misconception(
        "one_bucket_skipped_at_max_exact",
        BUCKET,
        "Bucket m is never used: your long distances begin at m + 1. At distance m the logarithm is 0, and the bucket is m itself.",
        source=bucket(far="(m + 1 + whole).clamp(max=n - 1)"),
    ),
    Misconception(
        "last_bucket_begins_at_max_distance",
        BUCKET,
        "You spread the distances from m to D over n − m − 1 buckets, so that the last one begins at D. It begins earlier: n − m buckets "
        "lie between m and D, and what is beyond D shares the last of them.",
        source=bucket(steps="(n - m - 1) * share"),
    ),
    Misconception(
        "rounded_to_nearest",
        BUCKET,
        "You round to the nearest whole number. Then a bucket begins half a step too early; take the whole number below.",
        source=bucket(whole="torch.round(steps).long()"),
    ),
    Misconception(
        "rounded_up",
        BUCKET,
        "You round up, so each long distance lies one bucket too high, but for those that begin one. Take the whole number below.",
        source=bucket(whole="torch.ceil(steps - 1e-9).long()"),
    ),
    Misconception(
        "logarithm_of_the_distance_itself",
        BUCKET,
        "You take log(d) over log(D). The logarithmic part begins at m, not at 1: both distances are counted in units of m, so that "
        "the share goes from 0 at m to 1 at D.",
        source=bucket(log="torch.log(distance.double().clamp(min=1)) / math.log(max_distance)"),
    ),
    Misconception(
        "base_of_the_logarithm",
        BUCKET,
        "You take the logarithm of d / m to base 2, and do not divide by that of D / m. Then D has no say in where the buckets lie.",
        source=bucket(log="torch.log2(distance.double().clamp(min=1) / m)", steps="share"),
    ),
    Misconception(
        "spread_over_all_buckets",
        BUCKET,
        "You spread the long distances over n buckets. m of them are taken by the short ones; n − m are left.",
        source=bucket(steps="n * share"),
    ),
    Misconception(
        "spread_evenly",
        BUCKET,
        "Your long distances share buckets of equal width. Their width grows with distance: it is the logarithm that goes in equal steps.",
        source=bucket(log="(distance.double() - m) / (max_distance - m)"),
    ),
    Misconception(
        "not_clamped",
        BUCKET,
        "From D on your buckets go on being counted. In one direction they leave the table, in two they run into the other direction's "
        "half. All distances from D on share the last bucket.",
        source=bucket(far="m + whole"),
    ),
    Misconception(
        "clamped_to_one_beyond",
        BUCKET,
        "You clamp to n. Buckets are counted from 0: the last of n has the number n − 1.",
        source=bucket(far="(m + whole).clamp(max=n)"),
    ),
    # --- buckets: direction
    Misconception(
        "own_position_counted_as_later",
        BUCKET,
        "You count the query's own position among the later keys. Distance 0 is bucket 0; only keys strictly after the query have buckets "
        "from n on.",
        source=bucket(later="relative_position >= 0"),
    ),
    Misconception(
        "halves_swapped",
        BUCKET,
        "Your two halves are exchanged: earlier keys have the upper buckets. The relative position is key − query, so a *later* key is "
        "positive, and later keys have the upper half.",
        source=bucket(later="relative_position < 0"),
    ),
    Misconception(
        "not_halved",
        BUCKET,
        "In both directions you use all the buckets for each, and add none for the direction: a key before and one after the query share a "
        "bucket. Halve the number, and give later keys the upper half.",
        source=bucket(half="num_buckets", first="0"),
    ),
    Misconception(
        "direction_forgotten",
        BUCKET,
        "You halve the number of buckets, and then use only the lower half: keys before and after the query share it. Later keys have "
        "the upper half.",
        source=bucket(first="0"),
    ),
    Misconception(
        "exact_half_of_all_buckets",
        BUCKET,
        "You take the exact buckets to be a quarter of all in both cases, as they are where there are two directions. m is half of n, and n is all the buckets "
        "where there is one direction alone.",
        source=bucket(exact="num_buckets // 4"),
    ),
    Misconception(
        "future_by_its_distance",
        BUCKET,
        "In one direction you take the distance without its sign, so that keys after the query get the buckets of those as far before "
        "it. They count as distance 0.",
        source=bucket(distance="relative_position.abs()"),
    ),
    Misconception(
        "query_minus_key",
        BUCKET,
        "In one direction you read the relative position as query − key, and so put the whole past into bucket 0. It is key − query: the past is negative.",
        source=bucket(
            distance="relative_position.abs() if bidirectional else relative_position.clamp(min=0)"
        ),
    ),
    Misconception(
        "buckets_of_real_numbers",
        BUCKET,
        "Your buckets are real numbers. They are to be looked up in a table, which takes whole ones: int64.",
        source=bucket(result="(first + torch.where(small, distance, far)).float()"),
    ),
    Misconception(
        "buckets_as_narrow_as_the_input",
        BUCKET,
        "Your buckets have the integers' width of the positions that were given. They are to be int64, whatever comes in.",
        source=bucket(
            result="(first + torch.where(small, distance, far)).to(relative_position.dtype)"
        ),
    ),
    Misconception(
        "a_table_and_nothing_else",
        BUCKET,
        "You take it that positions come as a table of two axes. They may have any shape, and the buckets have the same.",
        source=bucket().replace("    n =", "    t_q, t_k = relative_position.shape\n    n =", 1),
    ),
    # --- T5: the bias
    Misconception(
        "bias_in_the_first_layer_only",
        NAME,
        "Only the first layer of your encoder adds the bias; the others see no order. Published weights *keep* the table in the "
        "first layer, but all layers of the stack use it.",
        {
            ENCODED: "self.dropout(self._in_turn(self.dropout(self.embed(src)), bias))",
            '    def decode(\n        self,\n        memory: Float[Tensor, "B S d_model"],\n': "    def _in_turn(self, x, bias):\n"
            "        for index, layer in enumerate(self.encoder.layers):\n"
            "            hidden = torch.where(bias == -math.inf, bias, 0.0)\n"
            "            x = layer(x, bias if index == 0 else hidden)\n"
            "        return self.encoder.norm(x)\n\n"
            '    def decode(\n        self,\n        memory: Float[Tensor, "B S d_model"],\n',
        },
    ),
    Misconception(
        "one_table_for_both_stacks",
        NAME,
        "Your two stacks have one table of biases between them. Each has its own: the encoder's is halved for two directions, the "
        "decoder's is not, so the same bucket means different distances.",
        {
            "self.decoder_bias = nn.Embedding(config.num_buckets, config.n_heads)": "self.decoder_bias = self.encoder_bias"
        },
    ),
    Misconception(
        "decoder_reads_the_encoders_table",
        NAME,
        "Your decoder looks its biases up in the encoder's table, and its own is never used. Look at the gradients: `decoder_bias` has none.",
        {OWN_PAST: OWN_PAST.replace("decoder_bias", "encoder_bias")},
    ),
    Misconception(
        "encoder_in_one_direction",
        NAME,
        "Your encoder sorts distances in one direction, so that all later tokens count as distance 0. It sees both sides, and "
        "has to tell them apart.",
        {BOTH_SIDES: BOTH_SIDES.replace("True", "False")},
    ),
    Misconception(
        "decoder_in_both_directions",
        NAME,
        "Your decoder halves its buckets for two directions. Later tokens are hidden there, so half the table is never used, and the past "
        "is told apart half as finely. Ask for one direction.",
        {OWN_PAST: OWN_PAST.replace("False", "True")},
    ),
    Misconception(
        "table_turned",
        NAME,
        "Your table of relative positions is query − key: rows and columns have changed places. Row i is query i, and what stands there is the position of the key "
        "less that of the query.",
        {RELATIVE: "relative = position.unsqueeze(1) - position"},
    ),
    Misconception(
        "bias_towards_the_source",
        NAME,
        "You add a bias by distance to the attention to the source, too. There no distance counts: word 5 of a translation need not "
        "stand near word 5 of the original. That attention has no table.",
        {
            SOURCE_BIAS: "position = torch.arange(max(tgt.size(1), memory.size(1)), device=tgt.device)\n"
            "        src_bias = self._bias(self.decoder_bias, position.numel(), bidirectional=False)\n"
            "        src_bias = src_bias[:, :, : tgt.size(1), : memory.size(1)]"
        },
    ),
    Misconception(
        "positions_added",
        NAME,
        "You add sinusoids to the tokens, as the paper of 2017 does. T5 adds nothing to them: order comes in by the bias alone.",
        {
            "return self.dropout(self.encoder(self.dropout(self.embed(src)), bias))": "from implementation import PositionalEncoding\n\n"
            "        dtype = self.embed.weight.dtype\n"
            "        added = PositionalEncoding(self.config.d_model, 0.0).pe[:, : src.size(1)].to(src.device, dtype)\n"
            "        return self.dropout(self.encoder(self.dropout(self.embed(src) + added), bias))"
        },
    ),
    # --- T5: what is hidden
    Misconception(
        "future_visible",
        NAME,
        "Your decoder sees later tokens wherever the mask does not forbid them. It must not, whatever the mask says; a mask of padding says "
        "nothing about the future.",
        {FUTURE: "bias = bias + 0.0"},
    ),
    Misconception(
        "causal_only_without_a_mask",
        NAME,
        "You hide later tokens only where no mask is given. A mask of padding, `(B, 1, T)`, does not hide them, so with it your decoder reads what it "
        "is to predict.",
        {FUTURE: FUTURE + " if tgt_mask is None else bias"},
    ),
    Misconception(
        "not_even_itself",
        NAME,
        "Your decoder hides the diagonal as well: a position must see itself. What stands there is the token before the one to predict.",
        {
            "earlier = subsequent_mask(tgt.size(1)).to(tgt.device)": "earlier = subsequent_mask(tgt.size(1)).to(tgt.device).tril(-1)"
        },
    ),
    Misconception(
        "targets_mask_ignored",
        NAME,
        "Your decoder ignores `tgt_mask`. It hides later tokens, and reads the padding before them.",
        {TARGET_HIDDEN: "bias = bias + 0.0"},
    ),
    Misconception(
        "sources_mask_ignored_by_the_encoder",
        NAME,
        "Your encoder ignores `src_mask`, and words take the padding for words. The decoder's attention to the source heeds it already; "
        "by then it is too late.",
        {ENCODER_HIDDEN: "bias = bias + 0.0"},
    ),
    Misconception(
        "sources_mask_ignored_by_the_decoder",
        NAME,
        "Your decoder ignores `src_mask` where it looks at the source, and reads what the encoder made of padding.",
        {SOURCE_HIDDEN: "src_bias = src_bias + 0.0"},
    ),
    Misconception(
        "a_large_number_for_infinity",
        NAME,
        "You hide keys by a large negative number in place of −∞. Where a query may see nothing at all, all keys are then hidden "
        "alike, and it attends to all of them: to padding, or to the future. `BiasedAttention` knows hidden keys by their −∞.",
        {
            FUTURE: FUTURE + "\n        bias = bias.clamp(min=-1e4)",
            SOURCE_HIDDEN: SOURCE_HIDDEN + "\n        src_bias = src_bias.clamp(min=-1e4)",
        },
    ),
    # --- T5: tokens in, scores out
    Misconception(
        "logits_not_scaled",
        NAME,
        "You do not scale the states before their product with E. E starts with deviation 1, √d_model times as large as an output matrix should be: divide by √d_model.",
        {LOGITS: "F.linear(states, self.embed.weight)"},
    ),
    Misconception(
        "logits_scaled_up",
        NAME,
        "You multiply by √d_model before the product with E, where you are to divide by it.",
        {LOGITS: "F.linear(states * self.config.d_model**0.5, self.embed.weight)"},
    ),
    Misconception(
        "logits_divided_by_the_width",
        NAME,
        "You divide by d_model before the product with E. Divide by its square root.",
        {LOGITS: "F.linear(states / self.config.d_model, self.embed.weight)"},
    ),
    Misconception(
        "states_scaled_in_decode",
        NAME,
        "You scale the states in `decode`. It returns them as they leave the decoder; the scale belongs to the scores, in `forward`.",
        {
            f"return {DECODED}": f"return {DECODED} * self.config.d_model**-0.5",
            LOGITS: "F.linear(states, self.embed.weight)",
        },
    ),
    Misconception(
        "head_is_a_copy",
        NAME,
        "Your output projection is a copy of the table, a parameter of its own: the first step of training moves the two apart. Use "
        "the table itself.",
        {
            START_E: START_E
            + "\n        self.head = nn.Linear(config.d_model, config.vocab, bias=False)\n"
            "        self.head.weight.data.copy_(self.embed.weight.data)",
            "for name, module in self.named_modules():\n            if isinstance(module, nn.Linear):": "for name, module in self.named_modules():\n"
            '            if isinstance(module, nn.Linear) and name != "head":',
            LOGITS: "self.head(states * self.config.d_model**-0.5)",
        },
    ),
    Misconception(
        "head_without_a_gradient",
        NAME,
        "You use the table as output projection by its numbers alone, so that no gradient reaches it from there. E learns from all its three places.",
        {LOGITS: LOGITS.replace("embed.weight", "embed.weight.detach()")},
    ),
    Misconception(
        "head_with_a_second_name",
        NAME,
        "You keep the tied head as a layer of its own. It shares E, and computes the same, but stands in the state dict under a second name, and published or "
        "others' weights do not load.",
        {
            START_E: "self.head = nn.Linear(config.d_model, config.vocab, bias=False)\n        "
            + START_E,
            DRAWN: DRAWN + "\n        self.head.weight = self.embed.weight",
        },
    ),
    Misconception(
        "softmax_at_the_end",
        NAME,
        "You return log-probabilities, as `Generator` does. `T5` returns the scores.",
        {LOGITS: LOGITS + ".log_softmax(dim=-1)"},
    ),
    Misconception(
        "embeddings_scaled",
        NAME,
        "You multiply the embeddings by √d_model, as on day 10. There the table starts small; here it starts with deviation 1, and tokens enter without a "
        "factor.",
        {
            ENCODED: ENCODED.replace(
                "self.embed(src)", "self.embed(src) * self.config.d_model**0.5"
            ),
            LOOKED_UP: LOOKED_UP.replace(
                "self.embed(tgt)", "self.embed(tgt) * self.config.d_model**0.5"
            ),
        },
    ),
    # --- T5: norms
    Misconception(
        "post_norm",
        NAME,
        "Your layers norm after each step, as the paper of 2017 does. T5 norms what goes into a step, and has a last norm at the end "
        "of each stack.",
        {
            ENCODER_PARTS: ENCODER_PARTS.replace("pre", "post"),
            DECODER_PARTS + '"pre"': DECODER_PARTS + '"post"',
        },
    ),
    Misconception(
        "final_norm_missing",
        NAME,
        "The last norm of your stacks is missing. In pre-norm the sum of all layers' outputs leaves a stack as large as it has grown, so it is normed once "
        "more.",
        {
            "# 3. Initial weights": "self.encoder.norm = self.decoder.norm = nn.Identity()\n        # 3. Initial weights"
        },
    ),
    Misconception(
        "norms_that_centre",
        NAME,
        "Your norms are the LayerNorms of day 11, which centre and shift. T5's do neither: give the stacks to `rms_normed`.",
        {
            ENCODER: "Encoder(encoder_layer, config.n_layers)",
            DECODER: "Decoder(decoder_layer, config.n_layers)",
        },
    ),
    Misconception(
        "eps_left_as_it_was",
        NAME,
        "Your norms do not have the config's ε.",
        {
            ENCODER: ENCODER.replace("config.eps", "1e-6"),
            DECODER: DECODER.replace("config.eps", "1e-6"),
        },
    ),
    # --- T5: dropout
    Misconception(
        "tokens_not_dropped",
        NAME,
        "What enters your stacks is not dropped in training: the tokens' vectors are, too.",
        {
            ENCODED: ENCODED.replace("self.dropout(self.embed(src))", "self.embed(src)"),
            LOOKED_UP: LOOKED_UP.replace("self.dropout(self.embed(tgt))", "self.embed(tgt)"),
        },
    ),
    Misconception(
        "states_not_dropped",
        NAME,
        "What leaves your stacks is not dropped in training: after the last norm of each comes dropout once more.",
        {
            ENCODED: "self.encoder(self.dropout(self.embed(src)), bias)",
            DECODED: "self.decoder(x, memory, src_bias, bias)",
        },
    ),
    Misconception(
        "shortcuts_not_dropped",
        NAME,
        "Your layers do not have the config's dropout on their way back to the shortcut.",
        {
            ENCODER_PARTS: ENCODER_PARTS.replace("config.dropout", "0.0"),
            DECODER_PARTS: DECODER_PARTS.replace("config.dropout", "0.0"),
        },
    ),
    Misconception(
        "dropout_in_evaluation",
        NAME,
        "You drop in evaluation mode, too. An `nn.Dropout` knows the mode that its module is in; the function in "
        "`torch.nn.functional` does not, unless you tell it.",
        {DECODED: "F.dropout(self.decoder(x, memory, src_bias, bias), self.config.dropout)"},
    ),
    # --- T5: the start
    Misconception(
        "queries_start_as_wide_as_keys",
        NAME,
        "Your queries start as wide as your keys. Nothing divides their scores by √d_k here, so that factor is in the initial weights of "
        "`w_q`.",
        {FAN: "fan = module.in_features"},
    ),
    Misconception(
        "embedding_starts_narrow",
        NAME,
        "Your E starts narrow, as it should where embeddings are multiplied by √d_model. Here they are not, and the logits are divided by it: E starts with deviation 1.",
        {START_E: START_E[:-1] + ", std=config.d_model**-0.5)"},
    ),
    Misconception(
        "biases_start_wide",
        NAME,
        "Your tables of biases start as `nn.Embedding` makes them, with deviation 1: every head would begin with strong opinions about distances.",
        {
            "nn.init.normal_(self.encoder_bias.weight, std=config.d_model**-0.5)": "nn.init.normal_(self.encoder_bias.weight)",
            "nn.init.normal_(self.decoder_bias.weight, std=config.d_model**-0.5)": "nn.init.normal_(self.decoder_bias.weight)",
        },
    ),
    Misconception(
        "linear_layers_as_torch_starts_them",
        NAME,
        "Your matrices start as torch makes them, too narrow by √3.",
        {DRAWN: "pass"},
    ),
    Misconception(
        "layers_start_equal",
        NAME,
        "All layers of a stack start with equal matrices, as if they had been drawn before the layers were copied. Draw when the stacks stand.",
        {
            DRAWN: DRAWN + "\n        for stack in (self.encoder, self.decoder):\n"
            "            for layer in stack.layers[1:]:\n"
            "                layer.load_state_dict(stack.layers[0].state_dict())"
        },
    ),
]
