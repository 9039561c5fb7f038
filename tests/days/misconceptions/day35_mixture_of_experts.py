"""Day 35: what goes wrong with experts: shares, what is counted, who computes for whom, who is dropped."""

from course.judging.misconceptions import of, on_devices

MISCONCEPTIONS = [
    *of(
        "TopKRouter",
        {
            "router_starts_narrower": (
                "Your router does not have the default initialization of `nn.Linear`. Here you should not initialize it yourself.",
                {"self.w_r = _": "self.w_r = _\nnn.init.normal_(self.w_r.weight, std=0.02)"},
            ),
            # --- the router: probabilities
            "softmax_over_tokens": (
                "Your softmax runs over the tokens, so tokens compete for an expert. Experts should compete for a token: each token's probabilities must sum "
                "to 1.",
                {"1: dim=-1": "dim=-2 if scores.dim() > 1 else -1"},
            ),
            "probabilities_of_the_chosen_only": (
                "You take the softmax of the k largest scores, and give all other experts a probability of 0. The weights are the same, but `probs` should "
                "contain the probabilities of all experts: only through them does an expert that was not chosen get a gradient.",
                {"probs = ...": "best = scores.topk(self.k, dim=-1)\nprobs = torch.zeros_like(scores).scatter(-1, best.indices, best.values.softmax(-1))"},
            ),
            "sigmoid_for_softmax": (
                "You apply a sigmoid to each score separately, as DeepSeek-V3 does. Here p(x) is a softmax: what one expert gains, the others lose.",
                {"scores.softmax(dim=-1)": "scores.sigmoid()"},
            ),
            # --- the router: weights
            "weights_not_renormalised": (
                "Your weights are the unchanged probabilities, which do not sum to 1. Switch does this; here, as in Mixtral, divide them by the sum of the "
                "chosen experts' probabilities.",
                {"weights = ...": "pass"},
            ),
            "softmax_twice": (
                "You take a second softmax, of the k largest *probabilities*, which makes the weights nearly equal. Take the softmax of the k largest scores, "
                "or divide the probabilities by their sum.",
                {"weights / ...": "weights.softmax(dim=-1)"},
            ),
            "weights_detached": (
                "Your numbers are right, but the weights have no gradient. Only through the weights does the router learn from the model's own loss, because "
                "the choice itself has no gradient.",
                {"weights.to": "weights.detach().to"},
            ),
            "probabilities_detached": (
                "Your numbers are right, but the probabilities have no gradient. Training then cannot reduce the balance loss.",
                {"probs.to": "probs.detach().to"},
            ),
            # --- the router: the choice
            "one_choice_squeezed": (
                "With k = 1, you remove the last axis. Keep it, with length 1, so that later code works for every k.",
                {"return _": "if self.k == 1:\n    weights, experts = weights.squeeze(-1), experts.squeeze(-1)\nreturn _"},
            ),
            "least_likely_first": (
                "You choose the right experts but list them from the least to the most likely, which is the default order of `sort` and `argsort`. The most "
                "likely expert should come first.",
                {"weights = _": "weights, experts = weights.flip(-1), experts.flip(-1)\nweights = _"},
            ),
            "router_with_bias": (
                "Your router has a bias, which would favor an expert whatever the token is. The router should have none, as in Switch and Mixtral.",
                {"bias=False": "", "scores = _": "scores = _ + self.w_r.bias.to(wide)"},
            ),
        },
    ),
    *of(
        "load_balancing_loss",
        {
            # --- the loss
            "first_choices_only": (
                "You count only the first choice of each token. All k choices cost an expert the same work.",
                {"wide = _": "wide = _\nexperts = experts[..., :1]"},
            ),
            "choices_counted_by_token": (
                "You divide the counts by the number of tokens, so that f sums to k, as in Hugging Face's function. Here f is the share of all choices, and "
                "there are k choices per token: your loss is k times too large.",
                {"experts.numel()": "experts.numel() // experts.size(-1)"},
            ),
            "not_times_the_number_of_experts": (
                "You leave out the factor N, or take a mean over the experts instead of a sum. With the factor, the loss of an even distribution is 1, for "
                "eight experts as well as for a hundred.",
                {"n_experts * _": "_"},
            ),
            "counted_up_to_the_last_chosen": (
                "You count only up to the highest expert number that was chosen, as `bincount` does without `minlength`. An expert that no token chose must "
                "have a count of 0.",
                {"minlength=n_experts": ""},
            ),
            "loss_detached": (
                "Your loss is right, but it has no gradient: you computed it from detached probabilities, so training cannot reduce it.",
                {"probs.to": "probs.detach().to"},
            ),
            "counted_in_halves": (
                "You convert the counts to the dtype of the probabilities before you divide. The largest float16 number is 65504, and a batch can have more "
                "tokens. Divide first, or count in float32.",
                {"counts.to(wide)": "counts.to(probs.dtype)"},
            ),
        },
    ),
    *of(
        "MixtureOfExperts",
        {
            "capacity_ignored": (
                "In your answer `capacity_factor` has no effect: every expert takes all tokens that chose it, as in Mixtral. If a capacity factor is given, "
                "an expert must take the first tokens and drop the rest.",
                {"self.capacity_factor is not None": "False"},
            ),
            "capacity_in_training_only": (
                "In evaluation mode you drop no tokens. The mode should not matter: a model trained with a capacity is also used with a capacity.",
                {"self.capacity_factor is not None": "self.capacity_factor is not None and self.training"},
            ),
            "experts_start_equal": (
                "All your experts start with equal weights, because you copied them after they were initialized. Only the router's choice would then make "
                "their gradients differ. Create each expert separately.",
                {
                    "self.experts = ...": "import copy\nexpert = SwiGLU(d_model, d_ff)\nself.experts = nn.ModuleList(copy.deepcopy(expert) for _ in range(n_experts))"
                },
            ),
            # --- the mixture: who computes for whom
            "every_expert_for_every_token": (
                "Your numbers are right, but every expert computes every token, and the results that were not chosen are multiplied by 0. That costs as much "
                "as choosing all experts. First select the tokens that chose an expert.",
                {"expert(...)": "expert(tokens)[rows]"},
            ),
            "one_token_at_a_time": (
                "Your numbers are right, but you call an expert once for each of its tokens. If you gather its tokens into one matrix, one call computes them "
                "all, many times faster.",
                {"expert(...)": "torch.stack([expert(tokens[row]) for row in rows]) if len(rows) else tokens[:0]"},
            ),
            "one_expert_many_times": (
                "Your experts are all the same network: `[network] * n` is a list with n references to one object. Create each expert with a separate call.",
                {"(_ for _ in ...)": "[_] * n_experts"},
            ),
            "weights_left_out": (
                "You add up the experts' outputs without their weights. The router would never learn from the model's loss.",
                {"result * ...": "result"},
            ),
            "probabilities_for_weights": (
                "You multiply by the probabilities, which do not sum to 1 over the chosen experts. Use the router's weights, which do.",
                {"weights.flatten().index_select(0, choices)": "self.probs.reshape(-1, len(self.experts))[rows, chosen[choices]]"},
            ),
            "first_choice_alone": (
                "Only a token's first choice computes its output. All k chosen experts should.",
                {"choices = choices[:capacity]": "choices = choices[choices % weights.size(-1) == 0][:capacity]"},
            ),
            "shortcut_inside": (
                "You add the token itself to the output. The residual connection belongs to the block around this layer, so the token would be added twice.",
                {"torch.zeros_like(tokens)": "tokens.clone()"},
            ),
            # --- the mixture: capacity
            "first_choices_first": (
                "Your experts first take the tokens whose first choice they are, and then the others, as in GShard. Here only the position decides: an early "
                "second choice comes before a late first choice.",
                {"choices = choices[:capacity]": "choices = choices[(choices % weights.size(-1)).argsort(stable=True)][:capacity]"},
            ),
            "likeliest_tokens_kept": (
                "Your full experts keep the tokens that have the highest weights for them. Later tokens can then displace earlier ones, but a decoder cannot "
                "know what comes later. The position must decide.",
                {"choices = choices[:capacity]": "choices = choices[weights.flatten()[choices].argsort(descending=True)][:capacity]"},
            ),
            "capacity_rounded_down": (
                "You round the capacity down. Round it up: otherwise, with few tokens, no expert takes any.",
                {"math.ceil": "int"},
            ),
            "capacity_without_k": (
                "You compute the capacity from the number of tokens. Each token makes k choices, so there are k times as many choices to distribute.",
                {"chosen.numel()": "len(tokens)"},
            ),
            "always_a_capacity": (
                "You drop tokens when no capacity factor is given, as if it were 1. Without a capacity factor, drop nothing.",
                {"capacity = None": "capacity = math.ceil(chosen.numel() / len(self.experts))"},
            ),
            "dropped_tokens_pass_as_they_are": (
                "A token that all its experts dropped leaves your layer unchanged. Its output should be 0: the residual connection around the layer already "
                "carries the token, which would otherwise be added twice.",
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
                "You store the probabilities detached. They are stored for a loss, which needs their gradient.",
                {"tokens = _": "self.probs = self.probs.detach()\ntokens = _"},
            ),
            "kept_flat": (
                "The tensors that you store for the loss have lost the shape of the tokens. `probs` should be `(…, n_experts)` and `chosen` should be `(…, "
                "k)`, with the leading axes of x.",
                {"output = _": "self.probs, self.chosen = (one.reshape(-1, one.size(-1)) for one in (self.probs, self.chosen))\noutput = _"},
            ),
            "probabilities_in_the_state_dict": (
                "You store the probabilities in a buffer, so they are saved with the model, and the saved state does not load into a new model. Use a plain "
                "attribute.",
                {"self.probs: Tensor | None = None": "self.register_buffer('probs', None)"},
            ),
            "viewed_for_reshaped": (
                "You flatten with `view`, which raises an error for a transposed tensor, because its memory is not contiguous. `reshape` copies where "
                "necessary.",
                {"x.reshape": "x.view"},
            ),
            "batch_and_time_only": (
                "You assume that x has three axes. It can also be a list of tokens, with two axes.",
                {"return ...": "b, t, _ = x.shape\nreturn output.reshape(b, t, -1)"},
            ),
        },
    ),
    # --- right on the CPU, and wrong on a GPU
    *on_devices(
        "load_balancing_loss",
        {
            "counts_made_on_the_cpu": (
                "You count the tokens of each expert in a tensor on the CPU, but the choices can be on a GPU. `bincount` counts on their device.",
                {"experts.flatten().bincount(minlength=n_experts)": "torch.zeros(n_experts).index_add(0, experts.flatten(), torch.ones(experts.numel()))"},
            ),
            "choices_index_a_tensor_on_the_cpu": (
                "You index a tensor on the CPU with choices that can be on a GPU. Create the tensor with `device=probs.device`, or use `F.one_hot`.",
                {"experts.flatten().bincount(minlength=n_experts)": "torch.eye(n_experts)[experts.flatten()].sum(dim=0)"},
            ),
        },
    ),
    *on_devices(
        "MixtureOfExperts",
        {
            "output_made_on_the_cpu": (
                "You collect the outputs of the experts in a tensor on the CPU. `torch.zeros_like(tokens)` creates it on the device of the tokens.",
                {"torch.zeros_like(tokens)": "torch.zeros(tokens.shape, dtype=tokens.dtype)"},
            ),
        },
    ),
]
