"""Day 36: what goes wrong where two parts read the same, and where a router chooses."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "ParallelBlock",
        {
            "torchs_own_norm": (
                "Your norm is PyTorch's. Its result is the same, but its parameters are called `weight` and `bias`. Use the norm of day 11, because weights "
                "are loaded by name.",
                {"LayerNorm(d_model)": "nn.LayerNorm(d_model)"},
            ),
            # --- ParallelBlock: who reads what
            "network_waits_for_attention": (
                "Your feed-forward network receives the sum of the block's input and the output of attention. That is the serial block of day 23, with one "
                "norm for both. Here the network receives the same input as attention.",
                {"self.feed_forward(normed)": "self.feed_forward(self.norm(x + attended))"},
            ),
            "network_reads_attention": (
                "Your feed-forward network receives the output of attention. In a parallel block, both receive the normalized input.",
                {"self.feed_forward(normed)": "self.feed_forward(attended)"},
            ),
            "network_reads_what_is_not_normed": (
                "Attention receives the normalized tokens, but your feed-forward network receives the input without normalization. The one norm is for both.",
                {"self.feed_forward(normed)": "self.feed_forward(x)"},
            ),
            "two_norms": (
                "Your block has one norm for attention and another for the feed-forward network, as in GPT-NeoX. Here, as in GPT-J and PaLM, both share one "
                "norm; only then can their projections become one product.",
                {"self.norm = _": "self.norm = _\nself.norm_2 = _", "self.feed_forward(normed)": "self.feed_forward(self.norm_2(x))"},
            ),
            "no_gradient_into_the_norm_from_the_network": (
                "Your outputs are right, but the input of your feed-forward network is detached: the norm and all earlier blocks would learn only from "
                "attention.",
                {"self.feed_forward(normed)": "self.feed_forward(normed.detach())"},
            ),
            # --- ParallelBlock: the sum
            "normed_shortcut": (
                "You add the two outputs to the *normalized* tokens. The residual connection carries the unchanged input of the block; only attention and the "
                "network receive normalized tokens.",
                {"x + attended": "normed + attended"},
            ),
            "no_shortcut": (
                "You add the two outputs but leave out the block's input.",
                {"x + attended": "attended"},
            ),
            "normed_after_the_sum": (
                "You normalize the sum, as in the post-norm of day 11. Here the norm comes first, and nothing normalizes the sum.",
                {"self.norm(x)": "x", "return _": "return self.norm(_)"},
            ),
            "token_by_token": (
                "You pass the tokens through the network one after the other, and stack the results. This is slow, and without tokens there is nothing to "
                "stack. Pass all tokens at once.",
                {
                    "thought = ...": "import torch\n"
                    "thought = torch.stack([self.feed_forward(one) for one in normed.unbind(1)], dim=1)\n"
                    "thought = self.dropout(thought)"
                },
            ),
            # --- ParallelBlock: its parts
            "always_four_times_as_wide": (
                "The hidden layer of your feed-forward network is 4 · d_model wide, whatever d_ff is.",
                {"FeedForward(d_model, d_ff)": "FeedForward(d_model, 4 * d_model)"},
            ),
            # --- ParallelBlock: dropout
            "weights_not_dropped": (
                "You apply dropout to the outputs of attention and the network, but not to the attention weights. `CausalSelfAttention` has its own dropout "
                "argument: pass it on.",
                {"self.self_attn = ...": "self.self_attn = CausalSelfAttention(d_model, n_heads)"},
            ),
            "shortcut_dropped": (
                "You apply dropout to the whole sum, including the block's input. The residual connection must never be dropped.",
                {"attended = self.dropout(_)": "attended = _", "thought = self.dropout(_)": "thought = _", "return _": "return self.dropout(_)"},
            ),
            "dropped_together": (
                "Your dropout removes the same features from the outputs of attention and the network, for instance because you apply it to their sum. Apply "
                "dropout to each separately.",
                {
                    "attended = self.dropout(_)": "attended = _",
                    "thought = self.dropout(_)": "thought = _",
                    "x + attended + thought": "x + self.dropout(attended + thought)",
                },
            ),
            "dropout_by_default": (
                "Your block applies a dropout of 0.1 by default. The default should be 0.0.",
                {"nn.Dropout(dropout)": "nn.Dropout(dropout or 0.1)"},
            ),
        },
    ),
    *of(
        "MixtureOfDepths",
        {
            "sigmoid_and_the_whole_output": (
                "You multiply the block's whole output by the sigmoid of the score, and add that to the token. The block already has residual connections, so "
                "the token is added twice. Only the block's change to the token should be weighted, by r, the score itself.",
                {"gain = ...": "gain = weights.sigmoid().unsqueeze(-1) * self.block(chosen)"},
            ),
            "choice_kept": (
                "You store the chosen positions of the first call and use them again for texts of the same size. Each call must choose among its own tokens.",
                {"places = _": "places = _\nkept = self.__dict__.setdefault('kept', {})\nplaces = kept.setdefault(places.shape, places)"},
            ),
            "router_starts_at_zero": (
                "Your router is initialized to 0, so all tokens have the same score. Keep PyTorch's default initialization.",
                {"self.router = _": "self.router = _\nnn.init.zeros_(self.router.weight)"},
            ),
            # --- MixtureOfDepths: who is chosen
            "weights_in_another_order": (
                "You sort the positions by time, but leave the weights sorted by size, so each token gets another token's weight. Sort both in the same way, "
                "or look up the weights by position.",
                {"scores.gather(1, places)": "scores.topk(k, dim=1).values"},
            ),
            "order_of_the_scores": (
                "Your chosen tokens are in the order of their scores, the highest first. The block treats this order as their order in time, so a token "
                "attends to later ones. Sort them by position.",
                {"_.sort(dim=1).values": "_"},
            ),
            "one_too_few_by_rounding": (
                "A share of 0.29 of 100 tokens is 29, but you take 28: in floating point the product is 28.999999999999996. Allow for this error before you "
                "round down.",
                {"_ + 1e-9": "_"},
            ),
            "rounded_to_the_nearest": (
                "You round capacity · T to the nearest whole number. The capacity must not be exceeded, so round down.",
                {"math.floor(_ + 1e-9)": "round(_)"},
            ),
            "rounded_up": (
                "You round capacity · T up. The capacity must not be exceeded, so round down, but never below 1.",
                {"max(1, ...)": "math.ceil(self.capacity * t - 1e-9)"},
            ),
            "nobody_in_a_short_text": (
                "If a text is so short that its share is less than one token, you choose no tokens. At least one token must go through the block, for "
                "instance the first token that a model generates.",
                {"min(t, max(1, _))": "_"},
            ),
            "more_on_a_tie": (
                "You choose all tokens whose score is at least the k-th largest. If several tokens have this score, you choose more than k. Choose exactly k.",
                {
                    "places = ...": "import torch\n"
                    "border = scores.topk(k, dim=1).values[:, -1:]\n"
                    "places = torch.stack([row.nonzero().flatten() for row in scores >= border])"
                },
            ),
            "one_choice_for_all_rows": (
                "You let one row of the batch choose for all rows. Each row should choose its own tokens.",
                {"_.values": "_.values[:1].expand(len(x), k)"},
            ),
            # --- MixtureOfDepths: what the block sees
            "block_sees_all": (
                "You run the block on all tokens and discard most of the result. That saves nothing, and the result differs: chosen tokens attend to tokens "
                "that should skip the block.",
                {"self.block(chosen) - chosen": "(self.block(x) - x).gather(1, index)"},
            ),
            "weighted_before_the_block": (
                "You multiply the tokens by their weights before the block. The norm inside the block removes most of this factor. Multiply what the block "
                "adds to them instead.",
                {"gain = _ * ...": "gain = self.block(_ * chosen) - _ * chosen"},
            ),
            # --- MixtureOfDepths: what is added
            "not_weighted": (
                "You add the block's result without the router's weight. The choice itself has no gradient, so your router would never learn anything.",
                {"weights.unsqueeze(-1) * _": "_"},
            ),
            "weights_detached": (
                "Your outputs are right, but the weights are detached from the router. The router gets its gradient only through them, so it would never "
                "learn.",
                {"return _, places": "return _.detach(), places"},
            ),
            "output_in_place_of_the_token": (
                "You replace the token by r times the block's output. With r near 0, the token would be lost. Keep the token, and add r times what the block "
                "adds to it.",
                {"_ - chosen": "_", "x.scatter_add": "x.scatter"},
            ),
            "others_become_zero": (
                "Tokens that skip the block leave your layer as 0. They should leave it unchanged.",
                {"x.scatter_add(1, index, gain)": "torch.zeros_like(x).scatter_add(1, index, chosen + gain)"},
            ),
            "sigmoid_of_the_weights": (
                "You apply a sigmoid to the scores, as several implementations do. Here, as in the paper, r is the projection itself, of either sign.",
                {"return _, places": "return _.sigmoid(), places"},
            ),
            "softmax_over_the_tokens": (
                "You apply a softmax over the tokens to the scores, as a router over experts would. Here r is the projection itself, of either sign.",
                {"scores.gather": "scores.softmax(dim=1).gather"},
            ),
            "negative_weights_cut_off": (
                "You replace negative weights by 0. r is the projection itself, of either sign.",
                {"return _, places": "return _.relu(), places"},
            ),
            # --- MixtureOfDepths: the router, shapes, dtypes
            "router_with_bias": (
                "Your router has a bias. It changes no choice, and the paper has none: r = wᵀx.",
                {"bias=False": ""},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "MixtureOfDepths",
        {
            "sum_made_on_the_cpu": (
                "You add the chosen tokens' changes to a tensor on the CPU. Add them to `x`, or to a tensor from `torch.zeros_like(x)`.",
                {"x.scatter_add(1, index, gain)": "x + gain.new_zeros(x.shape, device='cpu').scatter_add(1, index, gain)"},
            ),
        },
    ),
]
