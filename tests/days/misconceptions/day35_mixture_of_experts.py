"""Day 35: what goes wrong with experts: shares, what is counted, who computes for whom, who is dropped."""

from course.judging.misconceptions import Misconception

ROUTER, LOSS, MIXTURE = "TopKRouter", "load_balancing_loss", "MixtureOfExperts"

# The router's lines
LINEAR = "self.w_r = nn.Linear(d_model, n_experts, bias=False)"
SCORES = "scores = x.to(wide) @ self.w_r.weight.to(wide).T  # (…, n_experts)"
SOFTMAX = "probs = scores.softmax(dim=-1)  # (…, n_experts)"
LARGEST = "weights, experts = probs.topk(self.k, dim=-1)  # (…, k)"
SHARES = "weights = weights / weights.sum(dim=-1, keepdim=True)  # (…, k)"
ROUTED = "return weights.to(x.dtype), experts, probs.to(x.dtype)"

# The loss's
COUNTS = "counts = experts.flatten().bincount(minlength=n_experts)  # (n_experts,)"
F_SHARE = "f = counts.to(wide) / experts.numel()  # (n_experts,)"
P_MEAN = "p = probs.to(wide).reshape(-1, n_experts).mean(dim=0)  # (n_experts,)"
TOTAL = "(n_experts * (f * p).sum())"

# The mixture's
LIST = "self.experts = nn.ModuleList(SwiGLU(d_model, d_ff) for _ in range(n_experts))"
NOT_YET = "self.probs: Tensor | None = None"
ROUTE = "weights, self.chosen, self.probs = self.router(x)"
FLAT = "tokens = x.reshape(-1, x.size(-1))"
NONE = "capacity = None"
ROOM = "capacity = math.ceil(self.capacity_factor * chosen.numel() / len(self.experts))"
ZEROS = "output = torch.zeros_like(tokens)"
WHO = "rows, places = (chosen == number).nonzero(as_tuple=True)"
FIT = "rows, places = rows[:capacity], places[:capacity]"
RESULT = "result = expert(tokens.index_select(0, rows))"
ADD = "output.index_add_(0, rows, result * weights[rows, places].unsqueeze(-1))"
BACK = "return output.reshape(x.shape)"

MISCONCEPTIONS = [
    # --- the router: probabilities
    Misconception(
        "softmax_over_tokens",
        ROUTER,
        "Your softmax runs over the tokens, so that they compete for an expert. Experts compete for a token: each token's probabilities sum to 1.",
        {SOFTMAX: "probs = scores.softmax(dim=-2 if scores.dim() > 1 else -1)"},
    ),
    Misconception(
        "probabilities_of_the_chosen_only",
        ROUTER,
        "You take the softmax of the k largest scores, and give all other experts a probability of 0. For the weights that makes no difference. But `probs` are those of all experts: an "
        "expert that is not chosen learns by them to become likelier.",
        {
            SOFTMAX: "best = scores.topk(self.k, dim=-1)\n"
            "        probs = torch.zeros_like(scores).scatter(-1, best.indices, best.values.softmax(-1))"
        },
    ),
    Misconception(
        "sigmoid_for_softmax",
        ROUTER,
        "You squash each score by itself, with a sigmoid. (DeepSeek-V3 does.) Here p(x) is a softmax: what one expert gains the others lose.",
        {SOFTMAX: "probs = scores.sigmoid()"},
    ),
    # --- the router: weights
    Misconception(
        "weights_not_renormalised",
        ROUTER,
        "Your weights are the probabilities as they are, and do not sum to 1. That is Switch's way; here, as in Mixtral, they are divided by what the chosen experts have between them.",
        {SHARES: "pass"},
    ),
    Misconception(
        "softmax_twice",
        ROUTER,
        "You take a second softmax, of the k largest *probabilities*. It makes them nearly equal. Either take the softmax of the k largest scores, or divide the probabilities by their sum.",
        {SHARES: "weights = weights.softmax(dim=-1)"},
    ),
    Misconception(
        "weights_shared_among_tokens",
        ROUTER,
        "You divide by the sum over all tokens, so the weights get smaller the more tokens there are. Each token's own k weights sum to 1.",
        {SHARES: "weights = weights / weights.sum()"},
    ),
    Misconception(
        "divided_by_the_largest",
        ROUTER,
        "You divide by the largest weight, so that the first choice counts 1 and the others less. They are to sum to 1.",
        {SHARES: "weights = weights / weights[..., :1]"},
    ),
    Misconception(
        "weights_detached",
        ROUTER,
        "Your numbers are right, and the weights carry no gradient. They are all by which the router learns from the model's own loss: the choice itself has no slope.",
        {ROUTED: "return weights.detach().to(x.dtype), experts, probs.to(x.dtype)"},
    ),
    Misconception(
        "probabilities_detached",
        ROUTER,
        "Your numbers are right, and the probabilities carry no gradient. The balance loss would then be a number that nobody can make smaller.",
        {ROUTED: "return weights.to(x.dtype), experts, probs.detach().to(x.dtype)"},
    ),
    # --- the router: the choice
    Misconception(
        "experts_sorted_by_number",
        ROUTER,
        "You sort the chosen experts by their numbers, and leave the weights in the order of size: so experts get each other's weights. Both are in the order of size.",
        {
            ROUTED: "experts = experts.sort(dim=-1).values\n"
            "        return weights.to(x.dtype), experts, probs.to(x.dtype)"
        },
    ),
    Misconception(
        "least_likely_first",
        ROUTER,
        "You have chosen the right experts and list them from the least likely to the likeliest. (`sort` and `argsort` begin with the smallest.) The likeliest comes first.",
        {
            LARGEST: f"{LARGEST.split('  #')[0]}\n        weights, experts = weights.flip(-1), experts.flip(-1)"
        },
    ),
    Misconception(
        "smallest_chosen",
        ROUTER,
        "You choose the k *least* likely experts. (`argsort` begins with the smallest.)",
        {LARGEST: "weights, experts = probs.topk(self.k, dim=-1, largest=False)"},
    ),
    Misconception(
        "experts_as_marks",
        ROUTER,
        "You return a mark for each of all experts, 1 where it was chosen. `experts` holds the numbers of the k chosen ones, `(…, k)`.",
        {
            ROUTED: "marks = torch.zeros_like(probs, dtype=torch.long).scatter(-1, experts, 1)\n"
            "        return weights.to(x.dtype), marks, probs.to(x.dtype)"
        },
    ),
    Misconception(
        "one_choice_squeezed",
        ROUTER,
        "With k = 1 you drop the last axis. It stays, with length 1: what comes after does not have to care what k is.",
        {
            ROUTED: "if self.k == 1:\n"
            "            weights, experts = weights.squeeze(-1), experts.squeeze(-1)\n"
            "        return weights.to(x.dtype), experts, probs.to(x.dtype)"
        },
    ),
    Misconception(
        "probabilities_before_experts",
        ROUTER,
        "You return weights, probabilities, experts. The order is weights, experts, probabilities.",
        {ROUTED: "return weights.to(x.dtype), probs.to(x.dtype), experts"},
    ),
    Misconception(
        "router_with_bias",
        ROUTER,
        "Your router has a bias: an expert would be liked or disliked whatever the token is. It has none, in Switch as in Mixtral.",
        {
            LINEAR: "self.w_r = nn.Linear(d_model, n_experts)",
            SCORES: "scores = x.to(wide) @ self.w_r.weight.to(wide).T + self.w_r.bias.to(wide)",
        },
    ),
    Misconception(
        "routed_in_float32",
        ROUTER,
        "Weights and probabilities come out as float32 whatever came in. Computing them in float32 is right; they go back to the dtype of x.",
        {ROUTED: "return weights.float(), experts, probs.float()"},
    ),
    # --- the loss
    Misconception(
        "choices_counted_by_token",
        LOSS,
        "You divide the counts by the number of tokens, so that f sums to k. (So does Hugging Face.) Here it is a share of all choices, which are k times as many; your loss is k times too large.",
        {F_SHARE: "f = counts.to(wide) / (experts.numel() // experts.size(-1))"},
    ),
    Misconception(
        "first_choices_only",
        LOSS,
        "You count the first choice of each token only. All k of them cost an expert the same work.",
        {
            COUNTS: "experts = experts[..., :1]\n"
            "    counts = experts.flatten().bincount(minlength=n_experts)"
        },
    ),
    Misconception(
        "choices_counted_by_their_probability",
        LOSS,
        "In place of the counts you take the mean probabilities a second time, so the loss does not see who was chosen. f is counted from `experts`.",
        {F_SHARE: "f = probs.to(wide).reshape(-1, n_experts).mean(dim=0)"},
    ),
    Misconception(
        "counts_in_both_places",
        LOSS,
        "You take the shares of the choices twice. A count has no slope, so the router would learn nothing from this loss: one of the two is the mean probability.",
        {P_MEAN: "p = f"},
    ),
    Misconception(
        "not_times_the_number_of_experts",
        LOSS,
        "You leave out the factor N, or take a mean over the experts where there is a sum. The factor makes the loss of an even spread 1, with eight experts as with a hundred.",
        {TOTAL: "((f * p).sum())"},
    ),
    Misconception(
        "alpha_included",
        LOSS,
        "You multiply by 0.01. α is the caller's affair.",
        {TOTAL: "(0.01 * n_experts * (f * p).sum())"},
    ),
    Misconception(
        "coefficient_of_variation",
        LOSS,
        "Yours is the squared coefficient of variation of the probabilities, the loss of Shazeer's mixture of 2017. It is 0 where all is even, and it does not look at the choices.",
        {TOTAL: "(p.var() / p.mean() ** 2)"},
    ),
    Misconception(
        "probabilities_summed",
        LOSS,
        "You add the probabilities up where P is their mean, so the loss grows with the number of tokens.",
        {P_MEAN: "p = probs.to(wide).reshape(-1, n_experts).sum(dim=0)"},
    ),
    Misconception(
        "batch_left_apart",
        LOSS,
        "You average over the first axis alone. Where tokens are in a batch of sequences the second axis is left, and is added up. All tokens count as one list.",
        {P_MEAN: "p = probs.to(wide).mean(dim=0) if probs.dim() > 1 else probs.to(wide)"},
    ),
    Misconception(
        "counted_up_to_the_last_chosen",
        LOSS,
        "You count only as far as the highest number that was chosen (`bincount` without a `minlength` does). An expert that nobody chose counts 0, and has its place.",
        {COUNTS: "counts = experts.flatten().bincount()"},
    ),
    Misconception(
        "loss_detached",
        LOSS,
        "Your loss is right and has no gradient: it was computed from detached probabilities, so nobody can make it smaller.",
        {P_MEAN: "p = probs.detach().to(wide).reshape(-1, n_experts).mean(dim=0)"},
    ),
    Misconception(
        "loss_in_float32",
        LOSS,
        "The loss comes out as float32 whatever came in. Computing it in float32 is right; it goes back to the dtype of the probabilities.",
        {
            "return (n_experts * (f * p).sum()).to(probs.dtype)": "return (n_experts * (f * p).sum()).float()"
        },
    ),
    Misconception(
        "counted_in_halves",
        LOSS,
        "You turn the counts into the dtype of the probabilities before you divide. float16 ends at 65504, and a batch has more tokens than that. Divide first, or count in float32.",
        {F_SHARE: "f = counts.to(probs.dtype) / experts.numel()"},
    ),
    # --- the mixture: who computes for whom
    Misconception(
        "every_expert_for_every_token",
        MIXTURE,
        "Your numbers are right, but every expert computes for every token, and what was not chosen is then multiplied by 0. That costs as much as if all had been chosen. Gather an expert's tokens first.",
        {
            RESULT: "result = expert(tokens)[rows]",
        },
    ),
    Misconception(
        "experts_asked_before_dropping",
        MIXTURE,
        "You ask an expert about all tokens that chose it, and then drop what is beyond its capacity. The work is done by then; capacity is there to bound it.",
        {
            FIT: "everyone = rows\n            rows, places = rows[:capacity], places[:capacity]",
            RESULT: "result = expert(tokens.index_select(0, everyone))[:capacity]",
        },
    ),
    Misconception(
        "one_token_at_a_time",
        MIXTURE,
        "Your numbers are right, but you call an expert once for each of its tokens. Gathered into one matrix they are one product, and many times faster.",
        {
            RESULT: "result = torch.stack([expert(tokens[row]) for row in rows]) if len(rows) else tokens[:0]"
        },
    ),
    Misconception(
        "one_expert_many_times",
        MIXTURE,
        "Your experts are all one and the same network: `[network] * n` is a list of n names for it. Each is made anew.",
        {LIST: "self.experts = nn.ModuleList([SwiGLU(d_model, d_ff)] * n_experts)"},
    ),
    Misconception(
        "weights_left_out",
        MIXTURE,
        "You add up the experts' outputs without their weights. The router would never learn from the model's loss.",
        {ADD: "output.index_add_(0, rows, result)"},
    ),
    Misconception(
        "weight_of_the_first_choice",
        MIXTURE,
        "All experts of a token get the weight of its first choice. An expert may be somebody's first choice and somebody else's second.",
        {ADD: "output.index_add_(0, rows, result * weights[rows, 0].unsqueeze(-1))"},
    ),
    Misconception(
        "probabilities_for_weights",
        MIXTURE,
        "You multiply by the probabilities, which do not sum to 1 over the chosen experts. The router's weights do.",
        {
            ADD: "output.index_add_(0, rows, result * self.probs.reshape(-1, len(self.experts))[rows, number].unsqueeze(-1))"
        },
    ),
    Misconception(
        "token_weighted_before_its_expert",
        MIXTURE,
        "You multiply the token by the weight, before its expert sees it. What is multiplied is what the expert says: it is no linear network.",
        {
            RESULT: "result = expert(tokens[rows] * weights[rows, places].unsqueeze(-1))",
            ADD: "output.index_add_(0, rows, result)",
        },
    ),
    Misconception(
        "first_choice_alone",
        MIXTURE,
        "Only a token's first choice computes for it. All k of them do.",
        {WHO: "rows, places = (chosen[:, :1] == number).nonzero(as_tuple=True)"},
    ),
    Misconception(
        "last_expert_wins",
        MIXTURE,
        "Each expert writes over what the ones before it have said about a token. They are added up.",
        {ADD: "output = output.index_copy(0, rows, result * weights[rows, places].unsqueeze(-1))"},
    ),
    Misconception(
        "shortcut_inside",
        MIXTURE,
        "You add the token itself to the output. The shortcut is around the layer, not in it: a block adds it, and would then have it twice.",
        {ZEROS: "output = tokens.clone()"},
    ),
    Misconception(
        "weights_detached_in_the_mixture",
        MIXTURE,
        "Your numbers are right, but the weights are detached before the outputs are multiplied by them, so the model's loss teaches the router nothing.",
        {ADD: "output.index_add_(0, rows, result * weights[rows, places].detach().unsqueeze(-1))"},
    ),
    # --- the mixture: capacity
    Misconception(
        "first_choices_first",
        MIXTURE,
        "An expert of yours takes those first whose first choice it is, and then the others. (So do GShard and its followers.) Here position alone counts: an early second choice goes before a late first choice.",
        {WHO: "places, rows = (chosen.T == number).nonzero(as_tuple=True)"},
    ),
    Misconception(
        "likeliest_tokens_kept",
        MIXTURE,
        "A full expert of yours keeps the tokens that want it most. That sounds better, but it lets later tokens push out earlier ones, and a decoder cannot know what is later. Position decides.",
        {
            FIT: "order = weights[rows, places].argsort(descending=True)\n"
            "            rows, places = rows[order][:capacity], places[order][:capacity]"
        },
    ),
    Misconception(
        "last_tokens_kept",
        MIXTURE,
        "A full expert of yours keeps the last tokens that chose it. The first ones stay.",
        {
            FIT: "if capacity is not None:\n                rows, places = rows[-capacity:], places[-capacity:]"
        },
    ),
    Misconception(
        "sequences_side_by_side",
        MIXTURE,
        "You line the tokens up time by time: the first token of every sequence, then the second of every sequence. The first sequence comes first, whole.",
        {
            FIT: "if x.dim() == 3:\n"
            "                order = (rows % x.size(1) * x.size(0) + rows // x.size(1)).argsort()\n"
            "                rows, places = rows[order], places[order]\n"
            "            rows, places = rows[:capacity], places[:capacity]"
        },
    ),
    Misconception(
        "capacity_rounded_down",
        MIXTURE,
        "You round the capacity down. It is rounded up: otherwise, with few tokens, no expert takes any.",
        {ROOM: "capacity = int(self.capacity_factor * chosen.numel() / len(self.experts))"},
    ),
    Misconception(
        "capacity_rounded_down_and_one_more",
        MIXTURE,
        "You round the capacity down and add 1. Where it is a whole number that is one too many.",
        {ROOM: "capacity = int(self.capacity_factor * chosen.numel() / len(self.experts)) + 1"},
    ),
    Misconception(
        "capacity_rounded_choice_by_choice",
        MIXTURE,
        "You compute the capacity for one choice, round it up, and multiply by k. Multiply first, and round once.",
        {
            ROOM: "capacity = weights.size(-1) * math.ceil(self.capacity_factor * len(tokens) / len(self.experts))"
        },
    ),
    Misconception(
        "capacity_without_k",
        MIXTURE,
        "You compute the capacity from the number of tokens. Each of them makes k choices, and so there is k times as much to be shared out.",
        {ROOM: "capacity = math.ceil(self.capacity_factor * len(tokens) / len(self.experts))"},
    ),
    Misconception(
        "capacity_of_one_sequence",
        MIXTURE,
        "You compute the capacity from the tokens of one sequence, and apply it to all. It counts the tokens of the whole call.",
        {
            ROOM: "length = x.size(-2) if x.dim() > 1 else 1\n"
            "            capacity = math.ceil(self.capacity_factor * length * weights.size(-1) / len(self.experts))"
        },
    ),
    Misconception(
        "always_a_capacity",
        MIXTURE,
        "You drop tokens where no capacity factor was given, as if it were 1. Without one nothing is dropped.",
        {NONE: "capacity = math.ceil(chosen.numel() / len(self.experts))"},
    ),
    Misconception(
        "dropped_tokens_pass_as_they_are",
        MIXTURE,
        "A token that was dropped everywhere comes out of your layer as it came in. It gets 0: the shortcut around the layer already carries it, and would then carry it twice.",
        {
            ZEROS: "output = torch.zeros_like(tokens)\n        helped = torch.zeros(len(tokens), 1, device=x.device)",
            ADD: f"{ADD}\n            helped[rows] = 1.0",
            BACK: "return torch.where(helped > 0, output, tokens).reshape(x.shape)",
        },
    ),
    Misconception(
        "remaining_weights_renormalised",
        MIXTURE,
        "Where one of a token's experts is full you give its weight to the others, so that they sum to 1 again. The other weights stay as they were.",
        {
            ZEROS: "output = torch.zeros_like(tokens)\n        left = torch.zeros_like(tokens[:, :1])",
            ADD: f"{ADD}\n            left = left.index_add(0, rows, weights[rows, places].unsqueeze(-1))",
            BACK: "return (output / left.masked_fill(left == 0, 1.0)).reshape(x.shape)",
        },
    ),
    Misconception(
        "dropped_choices_forgotten",
        MIXTURE,
        "In `chosen` you mark the choices that were dropped. It holds what the router chose: the balance loss has to see the very choices for which there was no room.",
        {
            FIT: "dropped = rows[len(rows) if capacity is None else capacity :]\n"
            "            self.chosen = self.chosen.clone()\n"
            "            self.chosen.view(-1, weights.size(-1))[dropped] = -1\n"
            "            rows, places = rows[:capacity], places[:capacity]",
        },
    ),
    # --- the mixture: what is kept, shapes, dtypes
    Misconception(
        "probabilities_kept_without_gradient",
        MIXTURE,
        "You keep the probabilities detached. They are kept for a loss, and a loss needs their gradient.",
        {ROUTE: f"{ROUTE}\n        self.probs = self.probs.detach()"},
    ),
    Misconception(
        "probabilities_of_the_first_call",
        MIXTURE,
        "You keep what the router said at the first call. It is to be that of the last one.",
        {
            ROUTE: "before = self.probs, self.chosen\n"
            f"        {ROUTE}\n"
            "        weights, now = weights, self.chosen\n"
            "        if before[0] is not None:\n"
            "            self.probs, self.chosen = before",
            "for one in (weights, self.chosen)": "for one in (weights, now)",
        },
    ),
    Misconception(
        "kept_flat",
        MIXTURE,
        "What you keep for the loss has lost the shape of the tokens: `probs` is `(…, n_experts)`, `chosen` `(…, k)`, with the dimensions that x has.",
        {
            ZEROS: "self.probs, self.chosen = (one.reshape(-1, one.size(-1)) for one in (self.probs, self.chosen))\n"
            "        output = torch.zeros_like(tokens)"
        },
    ),
    Misconception(
        "probabilities_in_the_state_dict",
        MIXTURE,
        "You keep the probabilities in a buffer, so they are saved with the model, and a model that has seen another batch does not load. A plain attribute does.",
        {NOT_YET: 'self.register_buffer("probs", None)'},
    ),
    Misconception(
        "sequences_lost",
        MIXTURE,
        "Your output is a list of tokens. It has the shape of x.",
        {BACK: "return output"},
    ),
    Misconception(
        "viewed_for_reshaped",
        MIXTURE,
        "You flatten by `view`, which refuses tokens that lie in memory in another order, such as transposed ones. `reshape` copies where it must.",
        {FLAT: "tokens = x.view(-1, x.size(-1))"},
    ),
    Misconception(
        "batch_and_time_only",
        MIXTURE,
        "You take for granted that x has three axes. A list of tokens is welcome, too.",
        {BACK: "b, t, _ = x.shape\n        return output.reshape(b, t, -1)"},
    ),
    Misconception(
        "output_in_float32",
        MIXTURE,
        "Your output is float32 whatever came in: that is the dtype of `torch.zeros`. It has the dtype of x.",
        {
            ZEROS: "output = torch.zeros(tokens.shape, device=x.device)",
            ADD: "output = output.index_add(0, rows, (result * weights[rows, places].unsqueeze(-1)).float())",
        },
    ),
]
