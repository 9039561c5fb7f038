"""Day 35: what goes wrong with experts: shares, what is counted, who computes for whom, who is dropped."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "TopKRouter",
        {
            "router_starts_narrower": (
                "Your router does not start as `nn.Linear` starts. Nothing is initialized by hand here.",
                {"self.w_r = _": "self.w_r = _\nnn.init.normal_(self.w_r.weight, std=0.02)"},
            ),
            # --- the router: probabilities
            "softmax_over_tokens": (
                "Your softmax runs over the tokens, so that they compete for an expert. Experts compete for a token: each token's probabilities sum to 1.",
                {"1: dim=-1": "dim=-2 if scores.dim() > 1 else -1"},
            ),
            "probabilities_of_the_chosen_only": (
                "You take the softmax of the k largest scores, and give all other experts a probability of 0. For the weights that makes no difference. But "
                "`probs` are those of all experts: an expert that is not chosen learns by them to become likelier.",
                {"probs = ...": "best = scores.topk(self.k, dim=-1)\nprobs = torch.zeros_like(scores).scatter(-1, best.indices, best.values.softmax(-1))"},
            ),
            "sigmoid_for_softmax": (
                "You squash each score by itself, with a sigmoid. (DeepSeek-V3 does.) Here p(x) is a softmax: what one expert gains the others lose.",
                {"scores.softmax(dim=-1)": "scores.sigmoid()"},
            ),
            # --- the router: weights
            "weights_not_renormalized": (
                "Your weights are the probabilities as they are, and do not sum to 1. That is Switch's way; here, as in Mixtral, they are divided by what the "
                "chosen experts have between them.",
                {"weights = ...": "pass"},
            ),
            "softmax_twice": (
                "You take a second softmax, of the k largest *probabilities*. It makes them nearly equal. Either take the softmax of the k largest scores, or "
                "divide the probabilities by their sum.",
                {"weights / ...": "weights.softmax(dim=-1)"},
            ),
            "weights_detached": (
                "Your numbers are right, and the weights carry no gradient. They are all by which the router learns from the model's own loss: the choice itself "
                "has no slope.",
                {"weights.to": "weights.detach().to"},
            ),
            "probabilities_detached": (
                "Your numbers are right, and the probabilities carry no gradient. The balance loss would then be a number that no gradient can reduce.",
                {"probs.to": "probs.detach().to"},
            ),
            # --- the router: the choice
            "one_choice_squeezed": (
                "With k = 1 you drop the last axis. It stays, with length 1: what comes after does not have to care what k is.",
                {"return _": "if self.k == 1:\n    weights, experts = weights.squeeze(-1), experts.squeeze(-1)\nreturn _"},
            ),
            "least_likely_first": (
                "You have chosen the right experts and list them from the least to the most likely. (`sort` and `argsort` begin with the smallest.) The most "
                "likely comes first.",
                {"weights = _": "weights, experts = weights.flip(-1), experts.flip(-1)\nweights = _"},
            ),
            "router_with_bias": (
                "Your router has a bias: an expert would be liked or disliked whatever the token is. It has none, in Switch as in Mixtral.",
                {"bias=False": "", "scores = _": "scores = _ + self.w_r.bias.to(wide)"},
            ),
        },
    ),
    *of(
        "load_balancing_loss",
        {
            # --- the loss
            "first_choices_only": (
                "You count the first choice of each token only. All k of them cost an expert the same work.",
                {"wide = _": "wide = _\nexperts = experts[..., :1]"},
            ),
            "choices_counted_by_token": (
                "You divide the counts by the number of tokens, so that f sums to k, as Hugging Face's function does. Here f is a share of all choices, which "
                "are k times as many: your loss is k times too large.",
                {"experts.numel()": "experts.numel() // experts.size(-1)"},
            ),
            "not_times_the_number_of_experts": (
                "You leave out the factor N, or take a mean over the experts where there is a sum. The factor makes the loss of an even spread 1, with eight "
                "experts as with a hundred.",
                {"n_experts * _": "_"},
            ),
            "counted_up_to_the_last_chosen": (
                "You count only as far as the highest number that was chosen (`bincount` without a `minlength` does). An expert that no token chose counts 0, and keeps its place.",
                {"minlength=n_experts": ""},
            ),
            "loss_detached": (
                "Your loss is right, but it has no gradient: it was computed from detached probabilities, so training cannot reduce it.",
                {"probs.to": "probs.detach().to"},
            ),
            "counted_in_halves": (
                "You turn the counts into the dtype of the probabilities before you divide. float16 ends at 65504, and a batch has more tokens than that. Divide "
                "first, or count in float32.",
                {"counts.to(wide)": "counts.to(probs.dtype)"},
            ),
        },
    ),
    *of(
        "MixtureOfExperts",
        {
            "capacity_ignored": (
                "`capacity_factor` changes nothing: every expert takes all tokens that chose it, as in Mixtral. Where a capacity is given, an expert takes the first ones and drops the rest.",
                {"self.capacity_factor is not None": "False"},
            ),
            "capacity_in_training_only": (
                "In evaluation mode you drop nothing. The mode does not matter here: what was trained with a capacity is used with it.",
                {"self.capacity_factor is not None": "self.capacity_factor is not None and self.training"},
            ),
            "experts_start_equal": (
                "All your experts start with the same weights: they were copied after they had been drawn. They would get different gradients only by the router's choice. Make each by itself.",
                {
                    "self.experts = ...": "import copy\nexpert = SwiGLU(d_model, d_ff)\nself.experts = nn.ModuleList(copy.deepcopy(expert) for _ in range(n_experts))"
                },
            ),
            # --- the mixture: who computes for whom
            "every_expert_for_every_token": (
                "Your numbers are right, but every expert computes for every token, and what was not chosen is then multiplied by 0. That costs as much as if all "
                "had been chosen. Gather an expert's tokens first.",
                {"expert(...)": "expert(tokens)[rows]"},
            ),
            "one_token_at_a_time": (
                "Your numbers are right, but you call an expert once for each of its tokens. Gathered into one matrix they are one product, and many times faster.",
                {"expert(...)": "torch.stack([expert(tokens[row]) for row in rows]) if len(rows) else tokens[:0]"},
            ),
            "one_expert_many_times": (
                "Your experts are all one and the same network: `[network] * n` is a list of n names for it. Each call must create its own.",
                {"(_ for _ in ...)": "[_] * n_experts"},
            ),
            "weights_left_out": (
                "You add up the experts' outputs without their weights. The router would never learn from the model's loss.",
                {"result * ...": "result"},
            ),
            "probabilities_for_weights": (
                "You multiply by the probabilities, which do not sum to 1 over the chosen experts. The router's weights do.",
                {"weights.flatten().index_select(0, choices)": "self.probs.reshape(-1, len(self.experts))[rows, chosen[choices]]"},
            ),
            "first_choice_alone": (
                "Only a token's first choice computes for it. All k of them do.",
                {"choices = choices[:capacity]": "choices = choices[choices % weights.size(-1) == 0][:capacity]"},
            ),
            "shortcut_inside": (
                "You add the token itself to the output. The residual connection is around the layer, not in it: a block adds it, and would then have it twice.",
                {"torch.zeros_like(tokens)": "tokens.clone()"},
            ),
            # --- the mixture: capacity
            "first_choices_first": (
                "An expert of yours takes those first whose first choice it is, and then the others. (So do GShard and its followers.) Here position alone counts: "
                "an early second choice goes before a late first choice.",
                {"choices = choices[:capacity]": "choices = choices[(choices % weights.size(-1)).argsort(stable=True)][:capacity]"},
            ),
            "likeliest_tokens_kept": (
                "A full expert of yours keeps the tokens that want it most. That sounds better, but it lets later tokens push out earlier ones, and a decoder "
                "cannot know what is later. Position decides.",
                {"choices = choices[:capacity]": "choices = choices[weights.flatten()[choices].argsort(descending=True)][:capacity]"},
            ),
            "capacity_rounded_down": (
                "You round the capacity down. It is rounded up: otherwise, with few tokens, no expert takes any.",
                {"math.ceil": "int"},
            ),
            "capacity_without_k": (
                "You compute the capacity from the number of tokens. Each of them makes k choices, and so there is k times as much to be shared out.",
                {"chosen.numel()": "len(tokens)"},
            ),
            "always_a_capacity": (
                "You drop tokens where no capacity factor was given, as if it were 1. Without one nothing is dropped.",
                {"capacity = None": "capacity = math.ceil(chosen.numel() / len(self.experts))"},
            ),
            "dropped_tokens_pass_as_they_are": (
                "A token that was dropped everywhere comes out of your layer as it came in. It gets 0: the residual connection around the layer already carries the token, which would then be there twice.",
                {
                    "for expert, choices in zip(self.experts, order.tensor_split(starts), strict=True):\n    _": "helped = torch.zeros(len(tokens), 1, device=x.device)\n"
                    "for expert, choices in zip(self.experts, order.tensor_split(starts), strict=True):\n"
                    "    _\n"
                    "    helped[rows] = 1.0",
                    "output.reshape": "torch.where(helped > 0, output, tokens).reshape",
                },
            ),
            # --- the mixture: what is kept, shapes, dtypes
            "probabilities_kept_without_gradient": (
                "You keep the probabilities detached. They are kept for a loss, and a loss needs their gradient.",
                {"tokens = _": "self.probs = self.probs.detach()\ntokens = _"},
            ),
            "kept_flat": (
                "What you keep for the loss has lost the shape of the tokens: `probs` is `(…, n_experts)`, `chosen` `(…, k)`, with the dimensions that x has.",
                {"output = _": "self.probs, self.chosen = (one.reshape(-1, one.size(-1)) for one in (self.probs, self.chosen))\noutput = _"},
            ),
            "probabilities_in_the_state_dict": (
                "You keep the probabilities in a buffer, so they are saved with the model, and a model that has seen another batch does not load. A plain "
                "attribute does.",
                {"self.probs: Tensor | None = None": "self.register_buffer('probs', None)"},
            ),
            "viewed_for_reshaped": (
                "You flatten by `view`, which refuses tensors that are not contiguous, such as transposed ones. `reshape` copies where it must.",
                {"x.reshape": "x.view"},
            ),
            "batch_and_time_only": (
                "You take for granted that x has three axes. A list of tokens is welcome, too.",
                {"return ...": "b, t, _ = x.shape\nreturn output.reshape(b, t, -1)"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "load_balancing_loss",
        {
            "counts_made_on_the_cpu": (
                "You count the tokens of each expert in a tensor on the CPU, and the choices may be on a GPU. `bincount` counts where they are.",
                {"experts.flatten().bincount(minlength=n_experts)": "torch.zeros(n_experts).index_add(0, experts.flatten(), torch.ones(experts.numel()))"},
            ),
            "choices_index_a_tensor_on_the_cpu": (
                "You index a tensor on the CPU by the choices, which may be on a GPU. Make it where they are: with `device=probs.device`, or by `F.one_hot`.",
                {"experts.flatten().bincount(minlength=n_experts)": "torch.eye(n_experts)[experts.flatten()].sum(dim=0)"},
            ),
        },
    ),
    *on_devices(
        "MixtureOfExperts",
        {
            "output_made_on_the_cpu": (
                "You collect what the experts return in a tensor on the CPU. `torch.zeros_like(tokens)` makes it where the tokens are.",
                {"torch.zeros_like(tokens)": "torch.zeros(tokens.shape, dtype=tokens.dtype)"},
            ),
        },
    ),
]
