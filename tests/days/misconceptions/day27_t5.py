"""Day 27: what goes wrong with buckets, and where a table of biases takes the place of positions."""

from course.judging.misconceptions import of, on_devices


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


MISCONCEPTIONS = [
    *of(
        "relative_position_bucket",
        {
            # --- buckets: where they begin
            "edges_rounded_away": (
                "Your logarithms are rounded, in float32, before you take the whole number below. Where a bucket begins exactly at a whole distance, 3 may come "
                "out as 2.9999999, and that distance lands in the bucket below. Leave a margin, or compare with the edges.",
                bucket(
                    log="torch.log(distance.clamp(min=1).float() / m) / math.log(max_distance / m)",
                    steps="share * (n - m)",
                    whole="steps.long()",
                ),
            ),
            "max_exact_shared": (
                "Your exact buckets end one too early: distance m − 1 shares the bucket of m, and a bucket stays empty. Every distance *below* m has its own.",
                bucket(small="distance < m - 1", whole="steps.long()"),
            ),
            "one_bucket_skipped_at_max_exact": (
                "Bucket m is never used: your long distances begin at m + 1. At distance m the logarithm is 0, and the bucket is m itself.",
                bucket(far="(m + 1 + whole).clamp(max=n - 1)"),
            ),
            "last_bucket_begins_at_max_distance": (
                "You spread the distances from m to D over n − m − 1 buckets, so that the last one begins at D. It begins earlier: n − m buckets lie between m and "
                "D, and what is beyond D shares the last of them.",
                bucket(steps="(n - m - 1) * share"),
            ),
            "rounded_to_nearest": (
                "You round to the nearest whole number. Then a bucket begins half a step too early; take the whole number below.",
                bucket(whole="torch.round(steps).long()"),
            ),
            "rounded_up": (
                "You round up, so each long distance lies one bucket too high, but for those that begin one. Take the whole number below.",
                bucket(whole="torch.ceil(steps - 1e-9).long()"),
            ),
            "logarithm_of_the_distance_itself": (
                "You take log(d) over log(D). The logarithmic part begins at m, not at 1: both distances are counted in units of m, so that the share goes from 0 "
                "at m to 1 at D.",
                bucket(log="torch.log(distance.double().clamp(min=1)) / math.log(max_distance)"),
            ),
            "base_of_the_logarithm": (
                "You take the logarithm of d / m to base 2, and do not divide by that of D / m. Then D has no say in where the buckets lie.",
                bucket(log="torch.log2(distance.double().clamp(min=1) / m)", steps="share"),
            ),
            "spread_over_all_buckets": (
                "You spread the long distances over n buckets. m of them are taken by the short ones; n − m are left.",
                bucket(steps="n * share"),
            ),
            "spread_evenly": (
                "Your long distances share buckets of equal width. Their width grows with distance: it is the logarithm that goes in equal steps.",
                bucket(log="(distance.double() - m) / (max_distance - m)"),
            ),
            "not_clamped": (
                "From D on, your buckets keep increasing. In one direction they leave the embedding, in two they run into the other direction's half. All distances "
                "from D on share the last bucket.",
                bucket(far="m + whole"),
            ),
            "clamped_to_one_beyond": (
                "You clamp to n. Buckets are counted from 0: the last of n has the number n − 1.",
                bucket(far="(m + whole).clamp(max=n)"),
            ),
            # --- buckets: direction
            "own_position_counted_as_later": (
                "You count the query's own position among the later keys. Distance 0 is bucket 0; only keys strictly after the query have buckets from n on.",
                bucket(later="relative_position >= 0"),
            ),
            "halves_swapped": (
                "Your two halves are exchanged: earlier keys have the upper buckets. The relative position is key − query, so a *later* key is positive, and later "
                "keys have the upper half.",
                bucket(later="relative_position < 0"),
            ),
            "not_halved": (
                "In both directions you use all the buckets for each, and add none for the direction: a key before and one after the query share a bucket. Halve "
                "the number, and give later keys the upper half.",
                bucket(half="num_buckets", first="0"),
            ),
            "direction_forgotten": (
                "You halve the number of buckets, and then use only the lower half: keys before and after the query share it. Later keys have the upper half.",
                bucket(first="0"),
            ),
            "exact_half_of_all_buckets": (
                "You take the exact buckets to be a quarter of all in both cases, as they are where there are two directions. m is half of n, and n is all the "
                "buckets where there is one direction alone.",
                bucket(exact="num_buckets // 4"),
            ),
            "future_by_its_distance": (
                "In one direction you take the distance without its sign, so that keys after the query get the buckets of those as far before it. They count as "
                "distance 0.",
                bucket(distance="relative_position.abs()"),
            ),
            "query_minus_key": (
                "In one direction you read the relative position as query − key, and so put the whole past into bucket 0. It is key − query: the past is negative.",
                bucket(distance="relative_position.abs() if bidirectional else relative_position.clamp(min=0)"),
            ),
            "buckets_of_real_numbers": (
                "Your buckets are floating-point numbers. They index an embedding, which takes integers: int64.",
                bucket(result="(first + torch.where(small, distance, far)).float()"),
            ),
            "buckets_as_narrow_as_the_input": (
                "Your buckets have the integer dtype of the given positions. They must be int64 for any input dtype.",
                bucket(result="(first + torch.where(small, distance, far)).to(relative_position.dtype)"),
            ),
            "a_table_and_nothing_else": (
                "You take it that positions come as a table of two axes. They may have any shape, and the buckets have the same.",
                bucket().replace("    n =", "    t_q, t_k = relative_position.shape\n    n =", 1),
            ),
        },
    ),
    *of(
        "T5",
        {
            # --- T5: the bias
            "bias_in_the_first_layer_only": (
                "Only the first layer of your encoder adds the bias; the others see no order. Published weights *keep* the table in the first layer, but all "
                "layers of the stack use it.",
                {
                    "return self.dropout(self.encoder(_, bias))": "x = _\n"
                    "for index, layer in enumerate(self.encoder.layers):\n"
                    "    hidden = torch.where(bias == -math.inf, bias, 0.0)\n"
                    "    x = layer(x, bias if index == 0 else hidden)\n"
                    "return self.dropout(self.encoder.norm(x))"
                },
            ),
            "bias_kept_from_an_earlier_call": (
                "You keep the biases of the first call of each length. A training step changes their table, and the kept ones stay what they were. Only the "
                "buckets can be kept.",
                {
                    "self._bias(self.encoder_bias, _, bidirectional=True)": "self.__dict__.setdefault('kept', {}).setdefault((_, True), self._bias(self.encoder_bias, _, bidirectional=True))",
                    "self._bias(self.decoder_bias, _, bidirectional=False)": "self.__dict__.setdefault('kept', {}).setdefault((_, False), self._bias(self.decoder_bias, _, bidirectional=False))",
                },
            ),
            "one_table_for_both_stacks": (
                "Your two stacks have one table of biases between them. Each has its own: the encoder's is halved for two directions, the decoder's is not, so the "
                "same bucket means different distances.",
                {"self.decoder_bias = ...": "self.decoder_bias = self.encoder_bias"},
            ),
            "decoder_reads_the_encoders_table": (
                "Your decoder looks its biases up in the encoder's table, and its own is never used. Look at the gradients: `decoder_bias` has none.",
                {"1: self.decoder_bias": "self.encoder_bias"},
            ),
            "encoder_in_one_direction": (
                "Your encoder sorts distances in one direction, so that all later tokens count as distance 0. It sees both sides, and has to tell them apart.",
                {"bidirectional=True": "bidirectional=False"},
            ),
            "decoder_in_both_directions": (
                "Your decoder halves its buckets for two directions. Later tokens are hidden there, so half the buckets are never used, and the past is resolved "
                "half as finely. Ask for one direction.",
                {"bidirectional=False": "bidirectional=True"},
            ),
            "table_turned": (
                "Your matrix of relative positions is query − key: rows and columns are exchanged. Row i is query i, and its entries are the position of "
                "the key less that of the query.",
                {"position - _": "_ - position"},
            ),
            "bias_towards_the_source": (
                "You add a bias by distance to the attention to the source, too. There no distance counts: word 5 of a translation need not stand near word 5 of "
                "the original. That attention has no table.",
                {
                    "src_bias = bias.new_zeros(1, 1, 1, _)": "position = torch.arange(max(tgt.size(1), _), device=tgt.device)\n"
                    "src_bias = self._bias(self.decoder_bias, position.numel(), bidirectional=False)\n"
                    "src_bias = src_bias[:, :, : tgt.size(1), : _]"
                },
            ),
            "positions_added": (
                "You add sinusoids to the tokens, as the paper of 2017 does. T5 adds nothing to them: order comes in by the bias alone.",
                {
                    "encode(): return ...": "from implementation import PositionalEncoding\n"
                    "dtype = self.embed.weight.dtype\n"
                    "added = PositionalEncoding(self.config.d_model, 0.0).pe[:, : src.size(1)].to(src.device, dtype)\n"
                    "return self.dropout(self.encoder(self.dropout(self.embed(src) + added), bias))"
                },
            ),
            # --- T5: what is hidden
            "future_visible": (
                "Your decoder sees later tokens wherever the mask does not forbid them. It must not, whatever the mask says; a mask of padding says nothing about "
                "the future.",
                {"torch.where(earlier, bias, -math.inf)": "bias + 0.0"},
            ),
            "mask_with_a_row_for_each_query_as_it_is": (
                "You take a mask with a row for each query as it is, and hide the future only beside a mask of padding. Published code does so, and leaves that to "
                "the caller. Here no position sees a later one, whatever the mask says.",
                {
                    "torch.where(earlier, bias, -math.inf)": "torch.where(earlier, bias, -math.inf) if tgt_mask is None or tgt_mask.size(1) < tgt.size(1) else bias"
                },
            ),
            "causal_only_without_a_mask": (
                "You hide later tokens only where no mask is given. A mask of padding, `(B, 1, T)`, does not hide them, so with it your decoder reads what it is "
                "to predict.",
                {"torch.where(earlier, bias, -math.inf)": "torch.where(earlier, bias, -math.inf) if tgt_mask is None else bias"},
            ),
            "not_even_itself": (
                "Your decoder hides the diagonal as well: a position must see itself. Its token is the one before the token to predict.",
                {"earlier = _": "earlier = _.tril(-1)"},
            ),
            "masks_inverted": (
                "Your masks hide what they allow: True is what *may* be attended to, and you put −∞ where the mask is True. Put it where the mask is False.",
                {
                    "_hidden('src_mask', src_mask, src.size(0), bias)": "_hidden('src_mask', None if src_mask is None else ~src_mask, src.size(0), bias)",
                    "_hidden('tgt_mask', tgt_mask, tgt.size(0), bias)": "_hidden('tgt_mask', None if tgt_mask is None else ~tgt_mask, tgt.size(0), bias)",
                    "_hidden('src_mask', src_mask, tgt.size(0), src_bias)": "_hidden('src_mask', None if src_mask is None else ~src_mask, tgt.size(0), src_bias)",
                },
            ),
            "targets_mask_ignored": (
                "Your decoder ignores `tgt_mask`. It hides later tokens, and reads the padding before them.",
                {"_hidden('tgt_mask', tgt_mask, tgt.size(0), bias)": "bias + 0.0"},
            ),
            "sources_mask_ignored_by_the_encoder": (
                "Your encoder ignores `src_mask`, and words take the padding for words. The decoder's attention to the source heeds it already; by then it is too "
                "late.",
                {"_hidden('src_mask', src_mask, src.size(0), bias)": "bias + 0.0"},
            ),
            "sources_mask_ignored_by_the_decoder": (
                "Your decoder ignores `src_mask` where it looks at the source, and reads what the encoder made of padding.",
                {"_hidden('src_mask', src_mask, tgt.size(0), src_bias)": "src_bias + 0.0"},
            ),
            "minus_1e9_for_infinity": (
                "You hide keys by −1e9 in place of −∞. Where a query may see nothing at all, all keys are then hidden alike, and it attends to all of them; and in "
                "float16 there is no −1e9. `BiasedAttention` recognizes hidden keys by their −∞.",
                {
                    "_hidden('src_mask', src_mask, src.size(0), bias)": "bias if src_mask is None else bias.masked_fill(~src_mask.unsqueeze(1), -1e9)",
                    "_hidden('tgt_mask', tgt_mask, tgt.size(0), bias)": "bias if tgt_mask is None else bias.masked_fill(~tgt_mask.unsqueeze(1), -1e9)",
                    "torch.where(earlier, bias, -math.inf)": "bias.masked_fill(~earlier.unsqueeze(1), -1e9)",
                    "_hidden('src_mask', src_mask, tgt.size(0), src_bias)": "src_bias if src_mask is None else src_bias.masked_fill(~src_mask.unsqueeze(1), -1e9)",
                },
            ),
            "lowest_number_for_infinity": (
                "You hide keys by the lowest number of the dtype in place of −∞. Where a query may see nothing at all, all keys are then hidden alike, and it "
                "attends to all of them: to padding, or to the future. `BiasedAttention` recognizes hidden keys by their −∞.",
                {
                    "_hidden('src_mask', src_mask, src.size(0), bias)": "bias if src_mask is None else bias.masked_fill(~src_mask.unsqueeze(1), torch.finfo(bias.dtype).min)",
                    "_hidden('tgt_mask', tgt_mask, tgt.size(0), bias)": "bias if tgt_mask is None else bias.masked_fill(~tgt_mask.unsqueeze(1), torch.finfo(bias.dtype).min)",
                    "torch.where(earlier, bias, -math.inf)": "bias.masked_fill(~earlier.unsqueeze(1), torch.finfo(bias.dtype).min)",
                    "_hidden('src_mask', src_mask, tgt.size(0), src_bias)": "src_bias if src_mask is None else src_bias.masked_fill(~src_mask.unsqueeze(1), torch.finfo(src_bias.dtype).min)",
                },
            ),
            "a_large_number_for_infinity": (
                "You hide keys by a large negative number in place of −∞. Where a query may see nothing at all, all keys are then hidden alike, and it attends to "
                "all of them: to padding, or to the future. `BiasedAttention` knows hidden keys by their −∞.",
                {
                    "bias = torch.where(earlier, bias, -math.inf)": "bias = torch.where(earlier, bias, -math.inf)\nbias = bias.clamp(min=-1e4)",
                    "x = _": "src_bias = src_bias.clamp(min=-1e4)\nx = _",
                },
            ),
            # --- T5: tokens in, scores out
            "logits_not_scaled": (
                "You do not scale the states before their product with E. E is initialized with standard deviation 1, √d_model times as large as an output matrix should be: divide "
                "by √d_model.",
                {"states * ...": "states"},
            ),
            "logits_scaled_up": (
                "You multiply by √d_model before the product with E, where you are to divide by it.",
                {"states * _**-0.5": "states * _**0.5"},
            ),
            "logits_divided_by_the_width": (
                "You divide by d_model before the product with E. Divide by its square root.",
                {"states * _**-0.5": "states / _"},
            ),
            "states_scaled_in_decode": (
                "You scale the states in `decode`. It returns them as they leave the decoder; the scale belongs to the scores, in `forward`.",
                {"3: return _": "return _ * self.config.d_model**-0.5", "states * ...": "states"},
            ),
            "head_is_a_copy": (
                "Your output projection is a copy of the table, a parameter of its own: the first step of training moves the two apart. Use the table itself.",
                {
                    "nn.init.normal_(...)": "nn.init.normal_(self.embed.weight)\n"
                    "self.head = nn.Linear(config.d_model, config.vocab, bias=False)\n"
                    "self.head.weight.data.copy_(self.embed.weight.data)",
                    "isinstance(module, nn.Linear)": "isinstance(module, nn.Linear) and name != 'head'",
                    "F.linear(_, ...)": "self.head(_)",
                },
            ),
            "head_without_a_gradient": (
                "You use the table as output projection by its numbers alone, so that no gradient reaches it from there. E learns from all its three places.",
                {"2: self.embed.weight": "self.embed.weight.detach()"},
            ),
            "head_with_a_second_name": (
                "You keep the tied head as a layer of its own. It shares E, and computes the same, but is in the state dict under a second name, and published "
                "or others' weights do not load.",
                {
                    "self.decoder = _": "self.decoder = _\nself.head = nn.Linear(config.d_model, config.vocab, bias=False)",
                    "for name, module in self.named_modules():\n    _": "for name, module in self.named_modules():\n"
                    "    _\n"
                    "self.head.weight = self.embed.weight",
                },
            ),
            "softmax_at_the_end": (
                "You return log-probabilities, as `Generator` does. `T5` returns the scores.",
                {"forward(): return _": "return _.log_softmax(dim=-1)"},
            ),
            "padding_index": (
                "Your table takes token 0 for padding: where it is read, it learns nothing. The loss leaves padding out; the table has no padding index.",
                {"nn.Embedding(config.vocab, _)": "nn.Embedding(config.vocab, _, padding_idx=0)"},
            ),
            "embeddings_scaled": (
                "You multiply the embeddings by √d_model, as on day 10. There the embedding is initialized small; here its standard deviation is 1, and tokens enter without a "
                "factor.",
                {"self.embed(src)": "self.embed(src) * self.config.d_model**0.5", "self.embed(tgt)": "self.embed(tgt) * self.config.d_model**0.5"},
            ),
            # --- T5: norms
            "post_norm": (
                "Your layers norm after each step, as the paper of 2017 does. T5 norms what goes into a step, and has a last norm at the end of each stack.",
                {
                    "encoder_layer = ...": "encoder_layer = EncoderLayer(config.d_model, BiasedAttention(config), FeedForward(config), config.dropout, norm='post')",
                    "decoder_layer = ...": "decoder_layer = DecoderLayer(config.d_model, BiasedAttention(config), BiasedAttention(config), FeedForward(config), config.dropout, norm='post')",
                },
            ),
            "final_norm_missing": (
                "The last norm of your stacks is missing. In pre-norm the sum of all layers' outputs leaves a stack as large as it has grown, so it is normalized "
                "again.",
                {"self.decoder = _": "self.decoder = _\nself.encoder.norm = self.decoder.norm = nn.Identity()"},
            ),
            "norms_that_centre": (
                "Your norms are the LayerNorms of day 11, which center and shift. T5's do neither: give the stacks to `rms_normed`.",
                {"self.encoder = rms_normed(_, config.eps)": "self.encoder = _", "self.decoder = rms_normed(_, config.eps)": "self.decoder = _"},
            ),
            "eps_left_as_it_was": (
                "Your norms do not have the config's ε.",
                {
                    "self.encoder = rms_normed(_, config.eps)": "self.encoder = rms_normed(_, 1e-6)",
                    "self.decoder = rms_normed(_, config.eps)": "self.decoder = rms_normed(_, 1e-6)",
                },
            ),
            # --- T5: dropout
            "tokens_not_dropped": (
                "What enters your stacks is not dropped in training: the tokens' vectors are, too.",
                {"self.dropout(self.embed(src))": "self.embed(src)", "x = self.dropout(_)": "x = _"},
            ),
            "states_not_dropped": (
                "What leaves your stacks is not dropped in training: after the last norm of each comes dropout once more.",
                {"2: return self.dropout(_)": "return _", "3: return self.dropout(_)": "return _"},
            ),
            "shortcuts_not_dropped": (
                "Your layers do not have the config's dropout on their outputs, before the residual connection.",
                {
                    "encoder_layer = ...": "encoder_layer = EncoderLayer(config.d_model, BiasedAttention(config), FeedForward(config), 0.0, norm='pre')",
                    "decoder_layer = ...": "decoder_layer = DecoderLayer(config.d_model, BiasedAttention(config), BiasedAttention(config), FeedForward(config), 0.0, norm='pre')",
                },
            ),
            "dropout_in_evaluation": (
                "You drop in evaluation mode, too. An `nn.Dropout` knows the mode that its module is in; the function in `torch.nn.functional` does not, unless "
                "you tell it.",
                {"3: return self.dropout(_)": "return F.dropout(_, self.config.dropout)"},
            ),
            # --- T5: initialization
            "queries_start_as_wide_as_keys": (
                "Your queries start too wide, such as with the width of your keys. Nothing divides their scores by √d_k here, so that factor is in the "
                "initial weights of `w_q`.",
                {"3: _ * ...": "_"},
            ),
            "embedding_starts_narrow": (
                "Your E starts narrow, as it should where embeddings are multiplied by √d_model. Here they are not, and the logits are divided by it: E "
                "starts with a standard deviation of 1.",
                {"nn.init.normal_(_)": "nn.init.normal_(_, std=config.d_model**-0.5)"},
            ),
            "biases_start_wide": (
                "Your tables of biases start too wide, as `nn.Embedding` makes them: every head would begin with strong opinions about distances.",
                {
                    "nn.init.normal_(self.encoder_bias.weight, std=...)": "nn.init.normal_(self.encoder_bias.weight)",
                    "nn.init.normal_(self.decoder_bias.weight, std=...)": "nn.init.normal_(self.decoder_bias.weight)",
                },
            ),
            "linear_layers_as_torch_starts_them": (
                "Your matrices start too narrow, as torch's own layers do: by √3.",
                {"nn.init.normal_(module.weight, std=fan**-0.5)": "pass"},
            ),
            "layers_start_equal": (
                "All layers of a stack start with equal matrices, as if they had been drawn before the layers were copied. Draw when the stacks stand.",
                {
                    "for name, module in self.named_modules():\n    _": "for name, module in self.named_modules():\n"
                    "    _\n"
                    "for stack in (self.encoder, self.decoder):\n"
                    "    for layer in stack.layers[1:]:\n"
                    "        layer.load_state_dict(stack.layers[0].state_dict())"
                },
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "relative_position_bucket",
        {
            "edges_made_on_the_cpu": (
                "You look the distances up among edges that are on the CPU. `torch.tensor` takes `device=relative_position.device`.",
                {"torch.tensor(begins, device=distance.device)": "torch.tensor(begins)"},
            ),
        },
    ),
    *on_devices(
        "T5",
        {
            "positions_made_on_the_cpu": (
                "You count the positions on the CPU, so the buckets are there as well, and the bias table may be on a GPU. `torch.arange` takes a `device`.",
                {"torch.arange(_, device=table.weight.device)": "torch.arange(_)"},
            ),
            "mask_stays_on_the_cpu": (
                "`subsequent_mask` makes its mask on the CPU, and you apply it to a bias that may be on a GPU. Move it there.",
                {"_.to(tgt.device)": "_"},
            ),
        },
    ),
]
