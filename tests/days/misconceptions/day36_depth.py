"""Day 36: what goes wrong where two parts read the same, and where a router chooses."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "ParallelBlock",
        {
            "torchs_own_norm": (
                "Your norm is torch's. It computes the same, but calls its parameters `weight` and `bias`: here it is day 11's, and weights find their places by name.",
                {"LayerNorm(d_model)": "nn.LayerNorm(d_model)"},
            ),
            # --- ParallelBlock: who reads what
            "network_waits_for_attention": (
                "Your network reads the sum of the block's input and what attention found. That is the serial block of day 23 with one norm for both; here the "
                "network reads the same as attention does, and does not wait.",
                {"self.feed_forward(normed)": "self.feed_forward(self.norm(x + attended))"},
            ),
            "network_reads_attention": (
                "Your network reads what attention gave. Side by side means that both read the normalized input.",
                {"self.feed_forward(normed)": "self.feed_forward(attended)"},
            ),
            "network_reads_what_is_not_normed": (
                "Attention reads the normalized tokens, and your network reads the input itself. The one norm is for both.",
                {"self.feed_forward(normed)": "self.feed_forward(x)"},
            ),
            "two_norms": (
                "You have a norm for attention and another one for the network. GPT-NeoX does it like that; here, as in GPT-J and PaLM, there is one norm for "
                "both, and only then can their projections become one product.",
                {"self.norm = _": "self.norm = _\nself.norm_2 = _", "self.feed_forward(normed)": "self.feed_forward(self.norm_2(x))"},
            ),
            "no_gradient_into_the_norm_from_the_network": (
                "Your outputs are right, but what your network reads is detached: the norm and all blocks before would learn from attention alone.",
                {"self.feed_forward(normed)": "self.feed_forward(normed.detach())"},
            ),
            # --- ParallelBlock: the sum
            "normed_shortcut": (
                "You add the two outputs to the *normalized* tokens. The residual is the block's input, unchanged; only what the parts read is normalized.",
                {"x + attended": "normed + attended"},
            ),
            "no_shortcut": (
                "You add the two outputs and leave out the block's input.",
                {"x + attended": "attended"},
            ),
            "normed_after_the_sum": (
                "You norm the sum, as in the post-norm of day 11. The norm comes first here, and nothing norms the sum.",
                {"self.norm(x)": "x", "return _": "return self.norm(_)"},
            ),
            "token_by_token": (
                "You send the tokens through the network one after the other, and stack what comes out. It is slow, and of no tokens nothing can be stacked: the "
                "network takes them all at once.",
                {
                    "thought = ...": "import torch\n"
                    "thought = torch.stack([self.feed_forward(one) for one in normed.unbind(1)], dim=1)\n"
                    "thought = self.dropout(thought)"
                },
            ),
            # --- ParallelBlock: its parts
            "always_four_times_as_wide": (
                "Your network's hidden layer is 4 · d_model wide, whatever d_ff is.",
                {"FeedForward(d_model, d_ff)": "FeedForward(d_model, 4 * d_model)"},
            ),
            # --- ParallelBlock: dropout
            "weights_not_dropped": (
                "You drop what the two parts give, and no attention weight: `CausalSelfAttention` has a dropout of its own, which has to be given p.",
                {"self.self_attn = ...": "self.self_attn = CausalSelfAttention(d_model, n_heads)"},
            ),
            "shortcut_dropped": (
                "You drop the whole sum, the block's input included. The residual is never dropped.",
                {"attended = self.dropout(_)": "attended = _", "thought = self.dropout(_)": "thought = _", "return _": "return self.dropout(_)"},
            ),
            "dropped_together": (
                "Attention's output and the network's are dropped in the same places, as when their sum is dropped. Each is dropped by itself.",
                {
                    "attended = self.dropout(_)": "attended = _",
                    "thought = self.dropout(_)": "thought = _",
                    "x + attended + thought": "x + self.dropout(attended + thought)",
                },
            ),
            "dropout_by_default": (
                "Your block drops one in ten though no dropout was asked for: its default is 0.0.",
                {"nn.Dropout(dropout)": "nn.Dropout(dropout or 0.1)"},
            ),
        },
    ),
    *of(
        "MixtureOfDepths",
        {
            "sigmoid_and_the_whole_output": (
                "You multiply the block's whole output by the sigmoid of the score, and add that to the token. The block has its own residual connections, so the token is there twice; and r is the score itself. Only the gain is weighted, by r.",
                {"gain = ...": "gain = weights.sigmoid().unsqueeze(-1) * self.block(chosen)"},
            ),
            "choice_kept": (
                "You keep the places of the first call and use them again for texts of the same size. Each call chooses among its own tokens.",
                {"places = _": "places = _\nkept = self.__dict__.setdefault('kept', {})\nplaces = kept.setdefault(places.shape, places)"},
            ),
            "router_starts_at_zero": (
                "Your router starts at 0, so all tokens score the same. It starts as torch starts it.",
                {"self.router = _": "self.router = _\nnn.init.zeros_(self.router.weight)"},
            ),
            # --- MixtureOfDepths: who is chosen
            "weights_in_another_order": (
                "You put the places back in order, and left the weights in the order of their size. Each token then gets another one's weight. Sort both alike, or "
                "look the weights up by their places.",
                {"scores.gather(1, places)": "scores.topk(k, dim=1).values"},
            ),
            "order_of_the_scores": (
                "Your chosen tokens come in the order of their scores, the highest first. The block inside takes that for their order in time: a token then looks "
                "at later ones. Bring them back in the order of their positions.",
                {"_.sort(dim=1).values": "_"},
            ),
            "one_too_few_by_rounding": (
                "0.29 of 100 tokens are 29, and you take 28: in floats the product is 28.999999999999996. Allow for that before you round down.",
                {"_ + 1e-9": "_"},
            ),
            "rounded_to_the_nearest": (
                "You round capacity · T to the nearest whole number. A capacity is not to be exceeded: it is rounded down.",
                {"math.floor(_ + 1e-9)": "round(_)"},
            ),
            "rounded_up": (
                "You round capacity · T up. A capacity is not to be exceeded: it is rounded down, and only never below 1.",
                {"max(1, ...)": "math.ceil(self.capacity * t - 1e-9)"},
            ),
            "nobody_in_a_short_text": (
                "In a text so short that its share is less than one token you choose none. At least one goes through the block, as for the first token that a "
                "model writes.",
                {"min(t, max(1, _))": "_"},
            ),
            "more_on_a_tie": (
                "You choose all tokens that score as much as the k-th or more. Where several score the same, those are more than k: take exactly k.",
                {
                    "places = ...": "import torch\n"
                    "border = scores.topk(k, dim=1).values[:, -1:]\n"
                    "places = torch.stack([row.nonzero().flatten() for row in scores >= border])"
                },
            ),
            "one_choice_for_all_rows": (
                "You let one row of the batch choose for all. Each row chooses for itself.",
                {"_.values": "_.values[:1].expand(len(x), k)"},
            ),
            # --- MixtureOfDepths: what the block sees
            "block_sees_all": (
                "You run the block on all tokens, and then throw most of it away. Nothing is saved that way, and the result differs: chosen tokens would attend to those that skip the layer.",
                {"self.block(chosen) - chosen": "(self.block(x) - x).gather(1, index)"},
            ),
            "weighted_before_the_block": (
                "You multiply the tokens by their weights before the block. A block with a norm in front hardly notices; multiply what they *gain*.",
                {"gain = _ * ...": "gain = self.block(_ * chosen) - _ * chosen"},
            ),
            # --- MixtureOfDepths: what is added
            "not_weighted": (
                "You add what the block gave without the router's weight. The choice itself has no gradient, so your router would never learn anything.",
                {"weights.unsqueeze(-1) * _": "_"},
            ),
            "weights_detached": (
                "Your outputs are right, but the weights are cut off from the router, which would never learn: its gradient comes through them.",
                {"return _, places": "return _.detach(), places"},
            ),
            "output_in_place_of_the_token": (
                "You put the block's output, times r, where the token was. With r near 0 the token would be lost. The token stays, and what it gained, times r, is "
                "added.",
                {"_ - chosen": "_", "x.scatter_add": "x.scatter"},
            ),
            "others_become_zero": (
                "Tokens that pass by come out as 0 from your layer. They come out as they went in.",
                {"x.scatter_add(1, index, gain)": "torch.zeros_like(x).scatter_add(1, index, chosen + gain)"},
            ),
            "sigmoid_of_the_weights": (
                "You put the scores through a sigmoid, as several implementations do. Here, as in the paper, r is the projection itself, of either sign.",
                {"return _, places": "return _.sigmoid(), places"},
            ),
            "softmax_over_the_tokens": (
                "You put the scores through a softmax over the tokens, as a router over experts does. Here r is the projection itself, of either sign.",
                {"scores.gather": "scores.softmax(dim=1).gather"},
            ),
            "negative_weights_cut_off": (
                "You cut negative weights off at 0. r is the projection itself, of either sign.",
                {"return _, places": "return _.relu(), places"},
            ),
            # --- MixtureOfDepths: the router, shapes, dtypes
            "router_with_bias": (
                "Your router has a bias. It changes no choice, and is not there in the paper: r = wᵀx.",
                {"bias=False": ""},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "MixtureOfDepths",
        {
            "sum_made_on_the_cpu": (
                "You add the chosen tokens' gain into a tensor on the CPU. Add it to `x`, or to what `torch.zeros_like(x)` makes.",
                {"x.scatter_add(1, index, gain)": "x + gain.new_zeros(x.shape, device='cpu').scatter_add(1, index, gain)"},
            ),
        },
    ),
]
