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
                "You spread the distances from m to D over n − m − 1 buckets, so that the last one begins at D. It begins earlier: n − m buckets lie between m and "
                "D, and what is beyond D shares the last of them.",
                bucket(steps="(n - m - 1) * share"),
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
            "not_clamped": (
                "From D on, your buckets keep increasing. In one direction they leave the embedding, in two they run into the other direction's half. All distances "
                "from D on share the last bucket.",
                bucket(far="m + whole"),
            ),
            # --- buckets: direction
            "own_position_counted_as_later": (
                "You count the query's own position among the later keys. Distance 0 is bucket 0; only keys strictly after the query have buckets from n on.",
                bucket(later="relative_position >= 0"),
            ),
            "not_halved": (
                "In both directions you use all the buckets for each, and add none for the direction: a key before and one after the query share a bucket. Halve "
                "the number, and give later keys the upper half.",
                bucket(half="num_buckets", first="0"),
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
            "one_table_for_both_stacks": (
                "Your two stacks have one table of biases between them. Each has its own: the encoder's is halved for two directions, the decoder's is not, so the "
                "same bucket means different distances.",
                {"self.decoder_bias = ...": "self.decoder_bias = self.encoder_bias"},
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
            "causal_only_beside_a_mask": (
                "You hide later tokens only where a mask is given. Without one, your decoder reads the tokens that it has to predict. It is causal whatever the "
                "mask is.",
                {"torch.where(earlier, bias, -math.inf)": "bias + 0.0 if tgt_mask is None else torch.where(earlier, bias, -math.inf)"},
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
            # --- T5: tokens in, scores out
            "logits_not_scaled": (
                "You do not scale the states before their product with E. E is initialized with standard deviation 1, √d_model times as large as an output matrix should be: divide "
                "by √d_model.",
                {"states * ...": "states"},
            ),
            "padding_index": (
                "Your table takes token 0 for padding: where it is read, it learns nothing. The loss leaves padding out; the table has no padding index.",
                {"nn.Embedding(config.vocab, _)": "nn.Embedding(config.vocab, _, padding_idx=0)"},
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
            # --- T5: dropout
            "tokens_not_dropped": (
                "What enters your stacks is not dropped in training: the tokens' vectors are, too.",
                {"self.dropout(self.embed(src))": "self.embed(src)", "x = self.dropout(_)": "x = _"},
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
            "linear_layers_as_torch_starts_them": (
                "Your matrices start too narrow, as torch's own layers do: by √3.",
                {"nn.init.normal_(module.weight, std=fan**-0.5)": "pass"},
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
