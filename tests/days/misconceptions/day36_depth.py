"""Day 36: what goes wrong where two parts read the same, and where a router chooses."""

from course.judging.misconceptions import Misconception

BLOCK, DEPTHS = "ParallelBlock", "MixtureOfDepths"

# --- the lines of the block
NORM = "self.norm = LayerNorm(d_model)"
ATTENTION = "self.self_attn = CausalSelfAttention(d_model, n_heads, dropout)"
NETWORK = "self.feed_forward = FeedForward(d_model, d_ff)"
DROP = "self.dropout = nn.Dropout(dropout)"
NORMED = "normed = self.norm(x)"
LOOK = "attended = self.dropout(self.self_attn(normed))"
THINK = "thought = self.dropout(self.feed_forward(normed))"
SUM = "return x + attended + thought"

# --- the lines of mixture of depths
ROUTER = "self.router = nn.Linear(d_model, 1, bias=False)"
CAPACITY = "self.capacity = capacity"
CHOOSE = "weights, places = self.choose(x)"
TAKE = "chosen = x.gather(1, index)"
GAIN = "gain = weights.unsqueeze(-1) * (self.block(chosen) - chosen)"
BACK = "return x.scatter_add(1, index, gain)"
SCORES = "scores = self.router(x).squeeze(-1)"
COUNT = "k = min(t, max(1, math.floor(self.capacity * t + 1e-9)))"
PLACES = "places = scores.topk(k, dim=1).indices.sort(dim=1).values"
CHOSEN = "return scores.gather(1, places), places"

MISCONCEPTIONS = [
    # --- ParallelBlock: who reads what
    Misconception(
        "network_waits_for_attention",
        BLOCK,
        "Your network reads the sum of the block's input and what attention found. That is the serial block of day 23 with one norm for both; here the network "
        "reads the same as attention does, and does not wait.",
        {THINK: THINK.replace("(normed)", "(self.norm(x + attended))")},
    ),
    Misconception(
        "network_reads_attention",
        BLOCK,
        "Your network reads what attention gave. Side by side means that both read the normed input.",
        {THINK: THINK.replace("(normed)", "(attended)")},
    ),
    Misconception(
        "network_reads_what_is_not_normed",
        BLOCK,
        "Attention reads the normed tokens, and your network reads them as they came. The one norm is for both.",
        {THINK: THINK.replace("(normed)", "(x)")},
    ),
    Misconception(
        "attention_reads_what_is_not_normed",
        BLOCK,
        "Your network reads the normed tokens, and attention reads them as they came. The one norm is for both.",
        {LOOK: LOOK.replace("(normed)", "(x)")},
    ),
    Misconception(
        "nothing_normed",
        BLOCK,
        "Both parts read the tokens as they came. A pre-norm block norms what its parts read, and leaves the shortcut alone.",
        {NORMED: "normed = x"},
    ),
    Misconception(
        "two_norms",
        BLOCK,
        "You have a norm for attention and another one for the network. GPT-NeoX does it like that; here, as in GPT-J and PaLM, there is one norm for both, and only then can their "
        "projections become one product.",
        {
            NORM: f"{NORM}\n        self.norm_2 = LayerNorm(d_model)",
            THINK: THINK.replace("(normed)", "(self.norm_2(x))"),
        },
    ),
    Misconception(
        "no_gradient_into_the_norm_from_the_network",
        BLOCK,
        "Your outputs are right, but what your network reads is detached: the norm and all blocks before would learn from attention alone.",
        {THINK: THINK.replace("(normed)", "(normed.detach())")},
    ),
    # --- ParallelBlock: the sum
    Misconception(
        "normed_shortcut",
        BLOCK,
        "You add the two outputs to the *normed* tokens. The shortcut carries the block's input as it came; only what the parts read is normed.",
        {SUM: "return normed + attended + thought"},
    ),
    Misconception(
        "two_shortcuts",
        BLOCK,
        "You give each part a shortcut of its own and add the two, so the block's input is there twice. It is added once.",
        {SUM: "return (x + attended) + (x + thought)"},
    ),
    Misconception(
        "no_shortcut",
        BLOCK,
        "You add the two outputs and leave out the block's input.",
        {SUM: "return attended + thought"},
    ),
    Misconception(
        "mean_of_the_two",
        BLOCK,
        "You add the mean of the two outputs. They are added in full, as in the serial block.",
        {SUM: "return x + (attended + thought) / 2"},
    ),
    Misconception(
        "normed_after_the_sum",
        BLOCK,
        "You norm the sum, as in the post-norm of day 11. The norm comes first here, and nothing norms the sum.",
        {NORMED: "normed = x", SUM: "return self.norm(x + attended + thought)"},
    ),
    Misconception(
        "added_into_the_input",
        BLOCK,
        "You add to the block's input in place, and the caller finds it changed.",
        {
            SUM: "return x.add_(attended + thought) if not x.requires_grad else x + attended + thought"
        },
    ),
    Misconception(
        "token_by_token",
        BLOCK,
        "You send the tokens through the network one after the other, and stack what comes out. It is slow, and of no tokens nothing can be stacked: the network takes them all at once.",
        {
            THINK: "import torch\n\n"
            "        thought = torch.stack([self.feed_forward(one) for one in normed.unbind(1)], dim=1)\n"
            "        thought = self.dropout(thought)"
        },
    ),
    # --- ParallelBlock: its parts
    Misconception(
        "attention_of_day_9",
        BLOCK,
        "You use the attention of day 9 without a mask: its weights have other names, and its tokens see the future. Day 23's is causal by itself.",
        {
            ATTENTION: "from implementation import MultiHeadedAttention\n"
            "        self.self_attn = MultiHeadedAttention(n_heads, d_model, dropout)",
            LOOK: LOOK.replace("(normed)", "(normed, normed, normed)"),
        },
    ),
    Misconception(
        "network_of_day_10",
        BLOCK,
        "Your network cuts off below 0, as the paper's of day 10 does. Day 23's has a GELU.",
        {
            NETWORK: "from implementation import PositionwiseFeedForward\n"
            "        self.feed_forward = PositionwiseFeedForward(d_model, d_ff, 0.0)"
        },
    ),
    Misconception(
        "always_four_times_as_wide",
        BLOCK,
        "Your network's hidden layer is 4 · d_model wide, whatever d_ff is.",
        {NETWORK: "self.feed_forward = FeedForward(d_model, 4 * d_model)"},
    ),
    Misconception(
        "no_biases",
        BLOCK,
        "You took the biases out of attention. GPT-J's attention has none, and PaLM has none anywhere; this block is made of day 23's parts as they are, with biases.",
        {
            ATTENTION: f"{ATTENTION}\n"
            "        self.self_attn.w_qkv = nn.Linear(d_model, 3 * d_model, bias=False)\n"
            "        self.self_attn.w_o = nn.Linear(d_model, d_model, bias=False)"
        },
    ),
    # --- ParallelBlock: dropout
    Misconception(
        "weights_not_dropped",
        BLOCK,
        "You drop what the two parts give, and no attention weight: `CausalSelfAttention` has a dropout of its own, which has to be given p.",
        {ATTENTION: ATTENTION.replace(", dropout)", ")")},
    ),
    Misconception(
        "attention_not_dropped",
        BLOCK,
        "You do not drop attention's output. `CausalSelfAttention` drops weights only; its output is the block's business.",
        {LOOK: "attended = self.self_attn(normed)"},
    ),
    Misconception(
        "network_not_dropped",
        BLOCK,
        "You drop attention's output, and not the network's.",
        {THINK: "thought = self.feed_forward(normed)"},
    ),
    Misconception(
        "shortcut_dropped",
        BLOCK,
        "You drop the whole sum, the block's input included. What comes along the shortcut is never dropped.",
        {
            LOOK: "attended = self.self_attn(normed)",
            THINK: "thought = self.feed_forward(normed)",
            SUM: "return self.dropout(x + attended + thought)",
        },
    ),
    Misconception(
        "dropped_together",
        BLOCK,
        "You add the two outputs first and then drop features of their sum: both are dropped in the same places. Each is dropped by itself.",
        {
            LOOK: "attended = self.self_attn(normed)",
            THINK: "thought = self.feed_forward(normed)",
            SUM: "return x + self.dropout(attended + thought)",
        },
    ),
    Misconception(
        "dropout_by_default",
        BLOCK,
        "Your block drops one in ten where nobody asked for dropout: its default is 0.0.",
        {DROP: "self.dropout = nn.Dropout(dropout or 0.1)"},
    ),
    # --- MixtureOfDepths: who is chosen
    Misconception(
        "weights_in_another_order",
        DEPTHS,
        "You put the places back in order, and left the weights in the order of their size. Each token then gets another one's weight. Sort both alike, or look the weights up "
        "by their places.",
        {CHOSEN: "return scores.topk(k, dim=1).values, places"},
    ),
    Misconception(
        "order_of_the_scores",
        DEPTHS,
        "Your chosen tokens come in the order of their scores, the highest first. The block inside takes that for their order in time: a token then looks at later ones. Bring "
        "them back in the order of their positions.",
        {PLACES: PLACES.replace(".sort(dim=1).values", "")},
    ),
    Misconception(
        "one_too_few_by_rounding",
        DEPTHS,
        "0.29 of 100 tokens are 29, and you take 28: in floats the product is 28.999999999999996. Allow for that before you round down.",
        {COUNT: COUNT.replace(" + 1e-9", "")},
    ),
    Misconception(
        "rounded_to_the_nearest",
        DEPTHS,
        "You round capacity · T to the nearest whole number. A capacity is not to be exceeded: it is rounded down.",
        {COUNT: "k = min(t, max(1, round(self.capacity * t)))"},
    ),
    Misconception(
        "rounded_up",
        DEPTHS,
        "You round capacity · T up. A capacity is not to be exceeded: it is rounded down, and only never below 1.",
        {COUNT: "k = min(t, math.ceil(self.capacity * t - 1e-9))"},
    ),
    Misconception(
        "nobody_in_a_short_text",
        DEPTHS,
        "In a text so short that its share is less than one token you choose none. At least one goes through the block, as for the first token that a model writes.",
        {COUNT: "k = math.floor(self.capacity * t + 1e-9)"},
    ),
    Misconception(
        "one_of_none",
        DEPTHS,
        "You ask for one token where there is none. A text of length 0 comes out as it is.",
        {COUNT: "k = max(1, math.floor(self.capacity * t + 1e-9))"},
    ),
    Misconception(
        "number_of_the_first_call",
        DEPTHS,
        "You work out once how many tokens are chosen, and keep the number. The capacity is a share: another length gives another number.",
        {
            CAPACITY: f"{CAPACITY}\n        self.k = None",
            COUNT: f"{COUNT}\n        k = self.k = min(t, self.k or k)",
        },
    ),
    Misconception(
        "more_on_a_tie",
        DEPTHS,
        "You choose all tokens that score as much as the k-th or more. Where several score the same, those are more than k: take exactly k.",
        {
            PLACES: "import torch\n\n        border = scores.topk(k, dim=1).values[:, -1:]\n"
            "        places = torch.stack([row.nonzero().flatten() for row in scores >= border])"
        },
    ),
    Misconception(
        "smallest_scores",
        DEPTHS,
        "You choose the tokens with the smallest scores. The router's largest go through the block.",
        {PLACES: PLACES.replace("topk(k, dim=1)", "topk(k, dim=1, largest=False)")},
    ),
    Misconception(
        "largest_in_size",
        DEPTHS,
        "You choose by the size of the score, whatever its sign. A large negative one is the lowest of all.",
        {PLACES: PLACES.replace("scores.topk", "scores.abs().topk")},
    ),
    Misconception(
        "the_first_tokens",
        DEPTHS,
        "You take the first k tokens, whatever they score.",
        {
            PLACES: "import torch\n\n"
            "        places = torch.arange(k, device=x.device).expand(len(x), k)"
        },
    ),
    Misconception(
        "one_choice_for_all_rows",
        DEPTHS,
        "You let one row of the batch choose for all. Each row chooses for itself.",
        {PLACES: f"{PLACES}[:1].expand(len(x), k)"},
    ),
    Misconception(
        "tokens_compete_across_rows",
        DEPTHS,
        "You compare a token's score with the mean over the batch, so that rows have a say in each other's choice. Each row chooses by its own scores alone.",
        {PLACES: PLACES.replace("scores.topk", "(scores + scores.mean(dim=0)).topk")},
    ),
    # --- MixtureOfDepths: what the block sees
    Misconception(
        "block_sees_all",
        DEPTHS,
        "You run the block on all tokens, and then throw most of it away. Nothing is saved that way, and the result is another one: chosen tokens would attend to those that pass by.",
        {GAIN: "gain = weights.unsqueeze(-1) * (self.block(x) - x).gather(1, index)"},
    ),
    Misconception(
        "weighted_before_the_block",
        DEPTHS,
        "You multiply the tokens by their weights before the block. A block with a norm in front hardly notices; what they *gain* is to be multiplied.",
        {
            GAIN: "gain = self.block(weights.unsqueeze(-1) * chosen) - weights.unsqueeze(-1) * chosen",
        },
    ),
    # --- MixtureOfDepths: what is added
    Misconception(
        "not_weighted",
        DEPTHS,
        "You add what the block gave without the router's weight. The choice itself has no gradient, so your router would never learn anything.",
        {GAIN: "gain = self.block(chosen) - chosen"},
    ),
    Misconception(
        "weights_detached",
        DEPTHS,
        "Your outputs are right, but the weights are cut off from the router, which would never learn: its gradient comes through them.",
        {CHOSEN: "return scores.gather(1, places).detach(), places"},
    ),
    Misconception(
        "input_counted_twice",
        DEPTHS,
        "You add the block's whole output, times r, to the token. The block has its own shortcuts, so its output contains the token: that would be there once more, times r. Only what it gained is weighted.",
        {GAIN: "gain = weights.unsqueeze(-1) * self.block(chosen)"},
    ),
    Misconception(
        "output_in_place_of_the_token",
        DEPTHS,
        "You put the block's output, times r, where the token was. With r near 0 the token would be lost. The token stays, and what it gained, times r, is added.",
        {
            GAIN: "gain = weights.unsqueeze(-1) * self.block(chosen)",
            BACK: "return x.scatter(1, index, gain)",
        },
    ),
    Misconception(
        "only_the_gain_is_left",
        DEPTHS,
        "Where tokens were chosen, your output holds what they gained, and not the token to which it belongs.",
        {BACK: "return x.scatter(1, index, gain)"},
    ),
    Misconception(
        "others_become_zero",
        DEPTHS,
        "Tokens that pass by come out as 0 from your layer. They come out as they went in.",
        {BACK: "return torch.zeros_like(x).scatter_add(1, index, chosen + gain)"},
    ),
    Misconception(
        "others_weighted_too",
        DEPTHS,
        "You multiply the tokens that pass by with their scores as well. They come out as they went in.",
        {
            BACK: "return (x * self.router(x)).scatter(1, index, chosen + gain)",
        },
    ),
    Misconception(
        "sigmoid_of_the_weights",
        DEPTHS,
        "You put the scores through a sigmoid, as several implementations do. Here, as in the paper, r is the projection itself, of either sign.",
        {CHOSEN: "return scores.gather(1, places).sigmoid(), places"},
    ),
    Misconception(
        "softmax_over_the_tokens",
        DEPTHS,
        "You put the scores through a softmax over the tokens, as a router over experts does. Here r is the projection itself, of either sign.",
        {CHOSEN: "return scores.softmax(dim=1).gather(1, places), places"},
    ),
    Misconception(
        "negative_weights_cut_off",
        DEPTHS,
        "You cut negative weights off at 0. r is the projection itself, of either sign.",
        {CHOSEN: "return scores.gather(1, places).relu(), places"},
    ),
    Misconception(
        "all_pass_unweighted",
        DEPTHS,
        "With a capacity of 1 you call the bare block. All tokens are chosen then, and their gains are weighted all the same.",
        {CHOOSE: f"if self.capacity == 1:\n            return self.block(x)\n        {CHOOSE}"},
    ),
    # --- MixtureOfDepths: the router, shapes, dtypes
    Misconception(
        "router_with_bias",
        DEPTHS,
        "Your router has a bias. It changes no choice, and is not there in the paper: r = wᵀx.",
        {ROUTER: "self.router = nn.Linear(d_model, 1)"},
    ),
    Misconception(
        "scores_in_the_state_dict",
        DEPTHS,
        "You keep the scores in a buffer, which is saved with the weights, and has the shape of the last batch.",
        {
            CAPACITY: f'{CAPACITY}\n        self.register_buffer("scores", torch.zeros(1, 1))',
            SCORES: f"{SCORES}\n        self.scores = scores.detach()",
        },
    ),
    Misconception(
        "every_one_squeezed",
        DEPTHS,
        "You squeeze every axis of length 1, and not only the last: a batch of one, or a text of one token, loses its axis.",
        {SCORES: "scores = self.router(x).squeeze()"},
    ),
    Misconception(
        "weights_in_float32",
        DEPTHS,
        "Your weights are float32 whatever came in, and so is what you add. Module and tokens have one dtype, and so has the result.",
        {CHOSEN: "return scores.gather(1, places).float(), places"},
    ),
]
