"""Day 33: what goes wrong with tiles: the running softmax, borders, gradients, memory, dtypes."""

from course.judging.misconceptions import Misconception

NAME = "flash_attention"

WIDE = "wide = torch.promote_types(query.dtype, torch.float32)"
SCALE = "scale = 1 / math.sqrt(query.size(-1))"
STOP = "slice(start, min(start + block, length)) for start in range(0, length, block)"
SEEN = "seen = min(rows.stop + t_k - t_q, t_k) if causal else t_k"
LAST = "last = rows.start + t_k - t_q"
CROSSES = "if causal and columns.stop - 1 > last:"
LATER = (
    "later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)\n"
    "            scores.masked_fill_(later.triu(last - columns.start + 1), -math.inf)"
)
BORDER = "later.triu(last - columns.start + 1)"
LOWEST = "torch.finfo(wide).min"
HIGHER = "higher = torch.maximum(highest, scores.amax(dim=-1, keepdim=True))"
SHRINK = "shrink = highest.sub_(higher).exp_()"
WEIGHTS = "weights = scores.sub_(highest).exp_()"
TOTAL = "total.mul_(shrink).add_(weights.sum(dim=-1, keepdim=True))"
MIXED = "mixed.mul_(shrink).baddbmm_(weights, v)"
OUTPUT = "output[:, rows] = mixed / total.clamp(min=1)"
LOG_SUM = "log_sum[:, rows] = torch.where(total > 0, highest + total.log(), math.inf)"
RETURN_FORWARD = "return output, log_sum\n"
BEGIN_BACKWARD = "grad_query, grad_key, grad_value = (\n"
ALONG = "along = (grad * output[:, rows]).sum(dim=-1, keepdim=True)"
AGAIN = "weights = scores.sub_(log_sum[:, rows]).exp_()"
GRAD_VALUE = "grad_value[:, columns].baddbmm_(weights.mT, grad)"
GRAD_SCORES = "grad_scores = (grad @ v.mT).sub_(along).mul_(weights)"
GRAD_QUERY = "grad_query[:, rows].baddbmm_(grad_scores, k)"
GRAD_KEY = "grad_key[:, columns].baddbmm_(grad_scores.mT, q)"
LAST_SCALE = "(grad_query * scale).to(query.dtype)"
FLAT = "flat = (one.unsqueeze(0).flatten(0, -3) for one in (query, key, value))"
CALL = "by_hand(forward, backward, *flat)"
RESULT = "return output.view(*batch, t_q, value.size(-1))"

# The queries of a block, in the forward pass: the line stands in the backward pass as well.
ASKED = "lowest that there is. Not −∞: −∞ − (−∞) is NaN.\n            q = query[:, rows].to(wide) * scale"

# Day 8's attention of two-dimensional batches, from earlier on.
WHOLE = (
    "scores = (query.to(wide) @ key.to(wide).mT) * scale\n"
    "{indent}if causal:\n"
    "{indent}    past = torch.ones(t_q, t_k, dtype=torch.bool, device=query.device).tril(t_k - t_q)\n"
    "{indent}    scores = scores.masked_fill(~past, torch.finfo(wide).min)\n"
    "{indent}weights = scores.softmax(dim=-1)\n"
    "{indent}weights = weights.masked_fill(~past, 0.0) if causal else weights\n"
)

MISCONCEPTIONS = [
    # --- memory: right numbers, and too many of them
    Misconception(
        "recorded_by_autograd",
        NAME,
        "Your tiles are right, and every one of them is kept for the backward pass, by autograd or by you: together they are the matrix that you meant to avoid. Between the passes only the inputs, "
        "the output and a number a query may be kept. So autograd must not look in, and the backward pass computes the tiles again.",
        {HIGHER: f"{HIGHER}.detach()", CALL: "forward(*flat)[0]"},
    ),
    Misconception(
        "backward_by_the_matrix",
        NAME,
        "Your forward pass goes by tiles; your backward pass computes all weights at once, T_q × T_k of them. There it is the most memory that is needed in training, so it goes by tiles, too.",
        {
            BEGIN_BACKWARD: "q, k, v = query, key.to(wide), value.to(wide)\n        "
            + WHOLE.format(indent="        ")
            + "        grad = grad_output.to(wide)\n"
            "        along = (grad * output).sum(dim=-1, keepdim=True)\n"
            "        grad_scores = weights * (grad @ v.mT - along) * scale\n"
            "        return (\n"
            "            (grad_scores @ k).to(query.dtype),\n"
            "            (grad_scores.mT @ query.to(wide)).to(query.dtype),\n"
            "            (weights.mT @ grad).to(query.dtype),\n"
            "        )\n"
            f"        {BEGIN_BACKWARD}"
        },
    ),
    Misconception(
        "the_whole_matrix",
        NAME,
        "Your output is right, and it comes from a matrix of T_q × T_k weights. That is day 8's attention. Here a tile of scores is used and forgotten before the next one is made.",
        {
            CALL: "(lambda query, key, value: attend(query, key, value))(*flat)",
            FLAT: "def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:\n        "
            + WHOLE.format(indent="        ")
            + "        return (weights @ value.to(wide)).to(value.dtype)\n\n"
            f"    {FLAT}",
        },
    ),
    Misconception(
        "mask_of_all",
        NAME,
        "Your scores go by tiles, but your mask is made for all queries and keys at once, T_q × T_k. Make the part that a tile needs from the places of its rows and columns; most tiles need none.",
        {
            LATER: "later = ~torch.ones(t_q, t_k, dtype=torch.bool, device=scores.device).tril(t_k - t_q)\n"
            "            scores.masked_fill_(later[rows, columns], -math.inf)",
        },
    ),
    # --- the running softmax
    Misconception(
        "total_not_scaled_down",
        NAME,
        "When a higher score comes you scale the mixture down, but not the total that it will be divided by. Both were summed under the old maximum.",
        {TOTAL: "total.add_(weights.sum(dim=-1, keepdim=True))"},
    ),
    Misconception(
        "mixture_not_scaled_down",
        NAME,
        "When a higher score comes you scale the total down, but not the values mixed so far. Both were summed under the old maximum.",
        {MIXED: "mixed.baddbmm_(weights, v)"},
    ),
    Misconception(
        "nothing_scaled_down",
        NAME,
        "Each tile has a maximum of its own, and you add what was computed under one to what was computed under another. Before a tile is added, what is there must be brought "
        "to the new maximum.",
        {
            TOTAL: "total.add_(weights.sum(dim=-1, keepdim=True))",
            MIXED: "mixed.baddbmm_(weights, v)",
        },
    ),
    Misconception(
        "scaled_up",
        NAME,
        "What was summed under the old maximum you scale up, by exp(new − old). Everything is to be smaller under a higher maximum: exp(old − new).",
        {SHRINK: "shrink = (higher - highest).clamp(max=80).exp_()"},
    ),
    Misconception(
        "tile_maximum_only",
        NAME,
        "You go on with the maximum of the newest tile, also where an earlier tile had a higher one. Then what is there is scaled *up*, by the exponential of the difference, "
        "and overflows. The maximum is that of all keys so far.",
        {HIGHER: "higher = scores.amax(dim=-1, keepdim=True)"},
    ),
    Misconception(
        "maximum_of_the_first_tile",
        NAME,
        "You keep the maximum of the first tile. A much higher score in a later one overflows.",
        {
            HIGHER: "higher = highest.where(highest > torch.finfo(wide).min / 2, scores.amax(-1, True))"
        },
    ),
    Misconception(
        "no_maximum",
        NAME,
        "You take the exponential of the scores as they are. Beyond 88 it is infinite in float32, and below −103 it is 0. Subtract the highest score so far.",
        {HIGHER: "higher = torch.zeros_like(highest)"},
    ),
    Misconception(
        "maximum_begins_at_0",
        NAME,
        "Your highest score begins at 0. Where all scores lie far below that, each exponential is 0, and so is the total. Begin at the lowest number that there is.",
        {LOWEST: "0.0"},
    ),
    Misconception(
        "softmax_of_each_tile",
        NAME,
        "You take a softmax within each tile, and the mean over the tiles. A tile of weak keys then counts as much as one of strong keys. The weights of all tiles share one total.",
        {
            WEIGHTS: "weights = scores.softmax(dim=-1)",
            TOTAL: "total.add_((weights.sum(dim=-1, keepdim=True) > 0).to(wide))",
            MIXED: "mixed.baddbmm_(weights, v)",
        },
    ),
    Misconception(
        "divided_in_each_tile",
        NAME,
        "You divide the mixture by the total after every tile, and go on adding to it as if you had not. Divide once, after the last tile.",
        {MIXED: "mixed.mul_(shrink).baddbmm_(weights, v).div_(total.clamp(min=1))"},
    ),
    Misconception(
        "not_divided",
        NAME,
        "You never divide by the total: what you return is a sum, no mean.",
        {OUTPUT: "output[:, rows] = mixed"},
    ),
    Misconception(
        "last_tile_alone",
        NAME,
        "Each tile of keys takes the place of what the tiles before it gave. Their results are to be added up.",
        {
            TOTAL: "total.copy_(weights.sum(dim=-1, keepdim=True))",
            MIXED: "mixed.zero_().baddbmm_(weights, v)",
        },
    ),
    # --- scores
    Misconception(
        "not_scaled",
        NAME,
        "Your scores are not divided by √d_k.",
        {SCALE: "scale = 1.0"},
    ),
    Misconception(
        "scaled_by_d_k",
        NAME,
        "Your scores are divided by d_k. It is its square root, once.",
        {SCALE: "scale = 1 / query.size(-1)"},
    ),
    Misconception(
        "scaled_by_value_width",
        NAME,
        "Your scores are divided by √d_v, the width of the values. They are dot products of queries and keys: it is √d_k.",
        {SCALE: "scale = 1 / math.sqrt(value.size(-1))"},
    ),
    Misconception(
        "scaled_by_block",
        NAME,
        "Your scores are divided by the root of the block's size. How the keys are cut into tiles must not show in the result: it is √d_k.",
        {SCALE: "scale = 1 / math.sqrt(block)"},
    ),
    # --- borders
    Misconception(
        "rest_left_out",
        NAME,
        "What is left over when a length is divided by the block is never looked at: the last few keys count nothing, and the last queries get nothing. The last tile is smaller.",
        {
            STOP: "slice(start, start + block) for start in range(0, length - block + 1, block)",
            "output = value.new_empty(": "output = value.new_zeros(",
            "log_sum = query.new_empty(": "log_sum = query.new_zeros(",
        },
    ),
    Misconception(
        "one_block_of_keys",
        NAME,
        "Each block of queries meets the keys of one block only, its own. That is local attention; here every query meets every key that it may see.",
        {
            "return blocks(max(seen, 0))": "return [one for one in blocks(max(seen, 0)) if one.start == rows.start]"
        },
    ),
    Misconception(
        "causal_ignored",
        NAME,
        "`causal` is taken, and hides nothing.",
        {SEEN: "seen = t_k", CROSSES: "if False:"},
    ),
    Misconception(
        "causal_by_whole_tiles",
        NAME,
        "You leave out the tiles that lie wholly in the future. In the tiles that the diagonal crosses, there are later keys to be hidden one by one.",
        {CROSSES: "if False:"},
    ),
    Misconception(
        "aligned_to_the_first_key",
        NAME,
        "Your first query belongs to the first key. Where there are more keys than queries, the queries are the last of the positions: query i sees keys up to T_k − T_q + i.",
        {
            SEEN: "seen = min(rows.stop, t_k) if causal else t_k",
            LAST: "last = rows.start",
        },
    ),
    Misconception(
        "border_of_the_tile",
        NAME,
        "In each tile that is not wholly visible you hide what lies above the tile's own diagonal. The border runs where query and key are the same *position*, and that is the tile's diagonal only if "
        "queries and keys begin at the same place, and their blocks too.",
        {BORDER: "later.triu(1)"},
    ),
    Misconception(
        "oneself_hidden",
        NAME,
        "A query does not see the key of its own position. Its own key is no later than it.",
        {
            CROSSES: "if causal and columns.stop - 1 >= last:",
            BORDER: "later.triu(last - columns.start)",
        },
    ),
    Misconception(
        "next_key_visible",
        NAME,
        "Each query sees one key that is later. Your border is one place too far to the right.",
        {
            SEEN: "seen = min(rows.stop + 1 + t_k - t_q, t_k) if causal else t_k",
            BORDER: "later.triu(last - columns.start + 2)",
        },
    ),
    Misconception(
        "tiles_left_out_too_early",
        NAME,
        "You leave out every tile that lies beyond what a block's *first* query sees. The last query of the block sees further: leave out what lies beyond that.",
        {SEEN: "seen = min(rows.start + 1 + t_k - t_q, t_k) if causal else t_k"},
    ),
    Misconception(
        "hidden_scores_0",
        NAME,
        "Later keys get a score of 0, and exp(0) = 1 is no small weight. −∞ makes it 0.",
        {"-math.inf)": "0.0)"},
    ),
    # --- gradients
    Misconception(
        "no_gradient",
        NAME,
        "Your output is right, and no gradient reaches the inputs: it was computed where autograd does not look, and has no derivative of its own.",
        {CALL: "forward(*flat)[0].detach()"},
    ),
    Misconception(
        "mean_not_subtracted",
        NAME,
        "In the gradient of the scores you multiply by the weights, and stop there. The softmax couples its weights: from each entry of dO Vᵀ the mean D of its query is subtracted first.",
        {GRAD_SCORES: "grad_scores = (grad @ v.mT).mul_(weights)"},
    ),
    Misconception(
        "mean_of_a_tile",
        NAME,
        "The mean that you subtract in the softmax's gradient is that of one tile. It runs over all keys: and the output knows it, as the sum of dO · O.",
        {
            GRAD_SCORES: "grad_scores = grad @ v.mT\n"
            "                along = (grad_scores * weights).sum(dim=-1, keepdim=True)\n"
            "                grad_scores = grad_scores.sub_(along).mul_(weights)",
        },
    ),
    Misconception(
        "along_by_value",
        NAME,
        "You sum dO over its features, without the output beside it. D is the sum of dO · O.",
        {ALONG: "along = grad.sum(dim=-1, keepdim=True)"},
    ),
    Misconception(
        "softmax_of_a_tile_backward",
        NAME,
        "In the backward pass you take the softmax within each tile. Its total belongs to that tile; the weights are exp(S − L), with the L that the forward pass kept for all keys.",
        {AGAIN: "weights = scores.softmax(dim=-1).nan_to_num()"},
    ),
    Misconception(
        "maximum_not_in_log_sum",
        NAME,
        "The number that you keep for each query is log ℓ, without the maximum under which ℓ was summed. L = m + log ℓ.",
        {LOG_SUM: LOG_SUM.replace("highest + total.log()", "total.log()")},
    ),
    Misconception(
        "total_not_in_log_sum",
        NAME,
        "You keep the highest score of each query, and weights in the backward pass are exp(S − m): nothing divides them by their total. L = m + log ℓ.",
        {LOG_SUM: LOG_SUM.replace("highest + total.log()", "highest")},
    ),
    Misconception(
        "log_forgotten",
        NAME,
        "You keep m + ℓ. It is m + log ℓ, so that exp(S − L) is exp(S − m) / ℓ.",
        {LOG_SUM: LOG_SUM.replace("total.log()", "total")},
    ),
    Misconception(
        "query_gradient_not_scaled",
        NAME,
        "The gradient of the query lacks the factor 1/√d_k.",
        {LAST_SCALE: "grad_query.to(query.dtype)"},
    ),
    Misconception(
        "key_gradient_not_scaled",
        NAME,
        "The gradient of the key lacks the factor 1/√d_k.",
        {GRAD_KEY: "grad_key[:, columns].baddbmm_(grad_scores.mT, q / scale)"},
    ),
    Misconception(
        "key_gradient_scaled_twice",
        NAME,
        "The gradient of the key has the factor 1/√d_k twice. If your queries are scaled already, it is in them.",
        {GRAD_KEY: "grad_key[:, columns].baddbmm_(grad_scores.mT, q * scale)"},
    ),
    Misconception(
        "key_gradient_overwritten",
        NAME,
        "The gradients of keys and values are those of the last block of queries. Every block adds its part.",
        {
            GRAD_VALUE: "grad_value[:, columns] = weights.mT @ grad",
            GRAD_KEY: "grad_key[:, columns] = grad_scores.mT @ q",
        },
    ),
    Misconception(
        "query_gradient_overwritten",
        NAME,
        "The gradient of a query is that of the last block of keys. Every block adds its part.",
        {GRAD_QUERY: "grad_query[:, rows] = grad_scores @ k"},
    ),
    Misconception(
        "backward_not_causal",
        NAME,
        "Your forward pass hides later keys, your backward pass does not: weights that were 0 come back to life.",
        {
            "# 8. The tile again, and its weights at once: their sum is known by now.\n"
            "                scores = tile(q, k, rows, columns)": "scores = q @ k.mT",
            AGAIN: "weights = scores.sub_(log_sum[:, rows]).clamp_(max=80).exp_()",
        },
    ),
    Misconception(
        "kept_outside",
        NAME,
        "You keep L where the next call overwrites it. Two layers call, and only then comes the first backward pass: each call needs what it kept itself.",
        {
            RETURN_FORWARD: "flash_attention.kept = log_sum\n        return output, log_sum\n",
            BEGIN_BACKWARD: f"log_sum = flash_attention.kept\n        {BEGIN_BACKWARD}",
        },
    ),
    # --- what goes in and out
    Misconception(
        "log_sum_returned",
        NAME,
        "You return L beside the output. Wanted is the output alone; L is between you and your backward pass.",
        {RESULT: f"{RESULT}, output"},
    ),
    Misconception(
        "four_axes_expected",
        NAME,
        "Your answer works for (B, h, T, d) alone. There may be any number of leading dimensions, none included.",
        {FLAT: f"_, _, t_q, _ = query.shape\n    {FLAT}"},
    ),
    Misconception(
        "joined_by_view",
        NAME,
        "You make one batch dimension by `view`. Heads come out of a transposition and lie in memory in another order: `view` refuses them, `reshape` and `flatten` copy where they must.",
        {
            FLAT: "flat = (one.view(math.prod(batch), *one.shape[-2:]) for one in (query, key, value))"
        },
    ),
    Misconception(
        "query_changed",
        NAME,
        "You scale the query in place, and its owner's tensor with it. Multiply into a new one.",
        {ASKED: f"{ASKED[: -len(' * scale')]}.mul_(scale)"},
    ),
    # --- queries without keys
    Misconception(
        "nan_without_keys",
        NAME,
        "A query that may attend to nothing gives NaN: its highest score is −∞, and −∞ − (−∞) is no number.",
        {LOWEST: "-math.inf"},
    ),
    Misconception(
        "zero_by_zero",
        NAME,
        "A query that may attend to nothing has a total of 0, and 0 / 0 is NaN. Its output is to be 0.",
        {OUTPUT: "output[:, rows] = mixed / total"},
    ),
    Misconception(
        "gradients_without_keys",
        NAME,
        "Your output is right, but where a query may attend to nothing your backward pass makes NaN: its log-sum-exp is −∞, and exp(−∞ − (−∞)) is no number.",
        {LOG_SUM: "log_sum[:, rows] = torch.where(total > 0, highest + total.log(), -math.inf)"},
    ),
    Misconception(
        "maximum_of_no_keys",
        NAME,
        "Where there are no keys at all, you ask for the maximum of an empty tile, and torch has none.",
        {"return blocks(max(seen, 0))": "return blocks(max(seen, 0)) or [slice(0, 0)]"},
    ),
    # --- dtypes
    Misconception(
        "not_widened",
        NAME,
        "Halves are computed in half precision. Dot products overflow in float16 beyond 65504, and scores near 70 are rounded to half a unit in bfloat16: widen each tile to float32.",
        {WIDE: "wide = query.dtype"},
    ),
    Misconception(
        "summed_in_halves",
        NAME,
        "Your scores are computed in float32, and what is summed over the tiles is in half precision. In bfloat16 256 + 1 is 256: a sum over many tiles stops growing.",
        {
            TOTAL: f"{TOTAL}\n                total.copy_(total.to(query.dtype))",
            MIXED: "mixed.mul_(shrink).baddbmm_(weights, v)\n                mixed.copy_(mixed.to(query.dtype))",
        },
    ),
    Misconception(
        "log_sum_in_halves",
        NAME,
        "Your output is right, but you keep L in half precision. Near 70 a bfloat16 has neighbours half a unit away, and all weights of the query are off by the exponential of that in the backward "
        "pass. One number a query can be float32.",
        {"t_q, 1, dtype=wide)": "t_q, 1)"},
    ),
    Misconception(
        "scores_narrowed",
        NAME,
        "Your scores are rounded to half precision before the exponential. Near 70 a bfloat16 has neighbours half a unit away, and exp turns half a unit into a factor of 1.6.",
        {"scores = q @ k.mT": "scores = (q @ k.mT).to(query.dtype).to(wide)"},
    ),
    Misconception(
        "always_float32",
        NAME,
        "You compute in float32 whatever comes in. Halves need that; float64 loses half of its digits.",
        {WIDE: "wide = torch.float32"},
    ),
    Misconception(
        "result_in_float32",
        NAME,
        "Your output is float32 where the inputs are halves. Sum in float32, and give back the dtype that came in.",
        {
            "output = value.new_empty(len(query), t_q, value.size(-1))": "output = value.new_empty(len(query), t_q, value.size(-1), dtype=wide)"
        },
    ),
]
