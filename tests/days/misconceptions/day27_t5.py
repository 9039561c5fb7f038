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
            "last_bucket_begins_at_max_distance": (
                "You divide the distances from m to D among n − m − 1 buckets, so that the last bucket starts at D. It should start earlier: n − m buckets "
                "are between m and D, and distances beyond D share the last of these.",
                bucket(steps="(n - m - 1) * share"),
            ),
            "rounded_up": (
                "You round up, so each long distance gets a bucket one too high, except distances at which a bucket starts. Round down instead.",
                bucket(whole="torch.ceil(steps - 1e-9).long()"),
            ),
            "logarithm_of_the_distance_itself": (
                "You divide log(d) by log(D). The logarithmic part starts at m, not at 1: measure both distances in units of m, so that the ratio goes from 0 "
                "at m to 1 at D.",
                bucket(log="torch.log(distance.double().clamp(min=1)) / math.log(max_distance)"),
            ),
            "not_clamped": (
                "For distances beyond D, your bucket numbers keep increasing. In one direction they exceed the number of embedding rows; in two directions "
                "they reach the other direction's half. All distances from D on should share the last bucket.",
                bucket(far="m + whole"),
            ),
            # --- buckets: direction
            "own_position_counted_as_later": (
                "You count the query's own position among the later keys. Distance 0 is bucket 0; only keys strictly after the query have buckets from n on.",
                bucket(later="relative_position >= 0"),
            ),
            "not_halved": (
                "With two directions, you use all buckets for each direction, so a key before the query and a key after it share a bucket. Halve the number "
                "of buckets, and give later keys the upper half.",
                bucket(half="num_buckets", first="0"),
            ),
            "exact_half_of_all_buckets": (
                "You always make a quarter of all buckets exact, which is right only with two directions. m is half of n, and with one direction n is the "
                "number of all buckets.",
                bucket(exact="num_buckets // 4"),
            ),
            "future_by_its_distance": (
                "With one direction, you ignore the sign of the distance, so a key after the query gets the bucket of a key equally far before it. Keys after "
                "the query should count as distance 0.",
                bucket(distance="relative_position.abs()"),
            ),
            "query_minus_key": (
                "With one direction, you read the relative position as query − key, so the whole past is in bucket 0. It is key − query: past positions are "
                "negative.",
                bucket(distance="relative_position.abs() if bidirectional else relative_position.clamp(min=0)"),
            ),
            "buckets_of_real_numbers": (
                "Your buckets are floating-point numbers. They index an embedding, which requires integers: return int64.",
                bucket(result="(first + torch.where(small, distance, far)).float()"),
            ),
            "buckets_as_narrow_as_the_input": (
                "Your buckets have the integer dtype of the given positions. They must be int64 for any input dtype.",
                bucket(result="(first + torch.where(small, distance, far)).to(relative_position.dtype)"),
            ),
            "a_table_and_nothing_else": (
                "You assume that the positions have exactly two axes. They can have any shape, and the buckets should have the same shape.",
                bucket().replace("    n =", "    t_q, t_k = relative_position.shape\n    n =", 1),
            ),
        },
    ),
    *of(
        "T5",
        {
            # --- T5: the bias
            "bias_in_the_first_layer_only": (
                "Only the first layer of your encoder adds the bias, so the other layers get no position information. Published weights *store* the bias "
                "table in the first layer, but all layers of the stack use it.",
                {
                    "return self.dropout(self.encoder(_, bias))": "x = _\n"
                    "for index, layer in enumerate(self.encoder.layers):\n"
                    "    hidden = torch.where(bias == -math.inf, bias, 0.0)\n"
                    "    x = layer(x, bias if index == 0 else hidden)\n"
                    "return self.dropout(self.encoder.norm(x))"
                },
            ),
            "one_table_for_both_stacks": (
                "Your two stacks share one bias table. Each stack needs its own: the encoder's buckets are halved for two directions and the decoder's are "
                "not, so the same bucket means different distances.",
                {"self.decoder_bias = ...": "self.decoder_bias = self.encoder_bias"},
            ),
            "encoder_in_one_direction": (
                "Your encoder computes buckets for one direction, so all later tokens count as distance 0. The encoder attends to both sides and must "
                "distinguish them.",
                {"bidirectional=True": "bidirectional=False"},
            ),
            "decoder_in_both_directions": (
                "Your decoder halves its buckets for two directions. Later tokens are hidden there, so half of the buckets are never used, and the past has "
                "only half the resolution. Use one direction.",
                {"bidirectional=False": "bidirectional=True"},
            ),
            # --- T5: what is hidden
            "future_visible": (
                "Your decoder attends to later tokens wherever the mask does not hide them. It must be causal whatever the mask is: a padding mask does not "
                "hide the future.",
                {"torch.where(earlier, bias, -math.inf)": "bias + 0.0"},
            ),
            "mask_with_a_row_for_each_query_as_it_is": (
                "If the mask has a row for each query, you hide only what it hides; you add the causal mask only to a padding mask. Published code does so, "
                "too, and leaves the rest to the caller. Here no position may attend to a later position, whatever the mask is.",
                {
                    "torch.where(earlier, bias, -math.inf)": "torch.where(earlier, bias, -math.inf) if tgt_mask is None or tgt_mask.size(1) < tgt.size(1) else bias"
                },
            ),
            "causal_only_without_a_mask": (
                "You hide later tokens only if no mask is passed. A padding mask, `(B, 1, T)`, does not hide them, so with such a mask your decoder sees the "
                "tokens that it must predict.",
                {"torch.where(earlier, bias, -math.inf)": "torch.where(earlier, bias, -math.inf) if tgt_mask is None else bias"},
            ),
            "causal_only_beside_a_mask": (
                "You hide later tokens only if a mask is passed. Without a mask, your decoder sees the tokens that it must predict. It must be causal "
                "whatever the mask is.",
                {"torch.where(earlier, bias, -math.inf)": "bias + 0.0 if tgt_mask is None else torch.where(earlier, bias, -math.inf)"},
            ),
            "masks_inverted": (
                "Your masks hide what they should show: True means *may be attended to*, but you put −∞ where the mask is True. Put it where the mask is "
                "False.",
                {
                    "_hidden('src_mask', src_mask, src.size(0), bias)": "_hidden('src_mask', None if src_mask is None else ~src_mask, src.size(0), bias)",
                    "_hidden('tgt_mask', tgt_mask, tgt.size(0), bias)": "_hidden('tgt_mask', None if tgt_mask is None else ~tgt_mask, tgt.size(0), bias)",
                    "_hidden('src_mask', src_mask, tgt.size(0), src_bias)": "_hidden('src_mask', None if src_mask is None else ~src_mask, tgt.size(0), src_bias)",
                },
            ),
            "targets_mask_ignored": (
                "Your decoder ignores `tgt_mask`. It hides later tokens, but attends to padding before them.",
                {"_hidden('tgt_mask', tgt_mask, tgt.size(0), bias)": "bias + 0.0"},
            ),
            "sources_mask_ignored_by_the_encoder": (
                "Your encoder ignores `src_mask`, so it treats padding as words. Your decoder applies this mask in its cross-attention, but by then the "
                "padding has changed the encoder's output.",
                {"_hidden('src_mask', src_mask, src.size(0), bias)": "bias + 0.0"},
            ),
            "sources_mask_ignored_by_the_decoder": (
                "In cross-attention your decoder ignores `src_mask`, so it attends to the encoder's output at padding.",
                {"_hidden('src_mask', src_mask, tgt.size(0), src_bias)": "src_bias + 0.0"},
            ),
            # --- T5: tokens in, scores out
            "logits_not_scaled": (
                "You do not scale the states before you multiply them by E. E is initialized with a standard deviation of 1, which is √d_model times too "
                "large for an output matrix: divide the states by √d_model.",
                {"states * ...": "states"},
            ),
            "padding_index": (
                "Your embedding treats token 0 as padding, so its row gets no gradient where token 0 is an input. The loss ignores padding; the embedding "
                "should have no padding index.",
                {"nn.Embedding(config.vocab, _)": "nn.Embedding(config.vocab, _, padding_idx=0)"},
            ),
            # --- T5: norms
            "post_norm": (
                "Your layers normalize after each sublayer, as *Attention Is All You Need* does. T5 normalizes the input of each sublayer, and has a final "
                "norm at the end of each stack.",
                {
                    "encoder_layer = ...": "encoder_layer = EncoderLayer(config.d_model, BiasedAttention(config), FeedForward(config), config.dropout, norm='post')",
                    "decoder_layer = ...": "decoder_layer = DecoderLayer(config.d_model, BiasedAttention(config), BiasedAttention(config), FeedForward(config), config.dropout, norm='post')",
                },
            ),
            "final_norm_missing": (
                "The final norm of your stacks is missing. In pre-norm nothing normalizes the sum of the layers' outputs inside a stack, so it must be "
                "normalized once at the end.",
                {"self.decoder = _": "self.decoder = _\nself.encoder.norm = self.decoder.norm = nn.Identity()"},
            ),
            # --- T5: dropout
            "tokens_not_dropped": (
                "You apply no dropout to the token embeddings. Dropout applies to the input of each stack, too.",
                {"self.dropout(self.embed(src))": "self.embed(src)", "x = self.dropout(_)": "x = _"},
            ),
            # --- T5: initialization
            "queries_start_as_wide_as_keys": (
                "Your `w_q` is initialized with a standard deviation that is too large, such as that of the keys. Nothing divides the scores by √d_k here, so "
                "this factor must be part of the initialization of `w_q`.",
                {"3: _ * ...": "_"},
            ),
            "embedding_starts_narrow": (
                "Your E is initialized with a standard deviation that is too small, as if the embeddings were multiplied by √d_model. Here they are not; "
                "instead the logits are divided by √d_model. Initialize E with a standard deviation of 1.",
                {"nn.init.normal_(_)": "nn.init.normal_(_, std=config.d_model**-0.5)"},
            ),
            "linear_layers_as_torch_starts_them": (
                "Your matrices keep PyTorch's default initialization, whose standard deviation is too small by a factor of √3.",
                {"nn.init.normal_(module.weight, std=fan**-0.5)": "pass"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "relative_position_bucket",
        {
            "edges_made_on_the_cpu": (
                "You look up the distances among bucket limits that are on the CPU. `torch.tensor` takes `device=relative_position.device`.",
                {"torch.tensor(begins, device=distance.device)": "torch.tensor(begins)"},
            ),
        },
    ),
    *on_devices(
        "T5",
        {
            "positions_made_on_the_cpu": (
                "You create the positions on the CPU, so the buckets are on the CPU, too, but the bias table can be on a GPU. `torch.arange` takes a `device`.",
                {"torch.arange(_, device=table.weight.device)": "torch.arange(_)"},
            ),
            "mask_stays_on_the_cpu": (
                "`subsequent_mask` creates its mask on the CPU, but you apply it to a bias that can be on a GPU. Move the mask to the device of the bias.",
                {"_.to(tgt.device)": "_"},
            ),
        },
    ),
]
